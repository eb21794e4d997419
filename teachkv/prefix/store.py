"""Where blocks live: an index that finds them, pins that hold them, and the order in which they go.

Blocks that no hit holds stand in one order, coldest first. A path is put back deepest block first, so a child always
stands before its parent. A pinned block's ancestors are pinned too. So the coldest idle block is always a leaf.

    path   root -> A -> B -> C        put back as   ... C, B, A (warmest)
"""

from collections import OrderedDict
from collections.abc import Sequence

from teachkv.prefix.block import Block


class BlockStore:
    """Blocks by key, at most `byte_budget` bytes of them. Counts are plain attributes; only this class changes them."""

    def __init__(self, byte_budget: int) -> None:
        self.byte_budget = byte_budget
        self.blocks = self.bytes_used = self.pins = 0
        self.stored = self.evicted = self.compared = 0
        self._index: dict[bytes, list[Block]] = {}
        self._idle: OrderedDict[Block, None] = OrderedDict()

    def find(self, root: bytes, parent: Block | None, key: bytes, tokens: tuple[int, ...]) -> Block | None:
        """The block of `tokens` that follows `parent`, None if there is none."""
        for block in self._index.get(key, ()):
            self.compared += 1
            # guard[prefix-compare]: a hash only finds; deciding by it would serve another prompt's rows on a collision
            # origin: vllm#12621
            # mutant[prefix-compare/hash-decides]:
            #   - if block.parent is parent and block.tokens == tokens and block.root == root:
            #   + if True:
            # mutant[prefix-compare/tokens-only]:
            #   - if block.parent is parent and block.tokens == tokens and block.root == root:
            #   + if block.tokens == tokens:
            if block.parent is parent and block.tokens == tokens and block.root == root:
                return block
        return None

    def add(self, block: Block) -> None:
        """Make a block findable. It comes pinned by whoever stores it, and room was made for it before."""
        self._index.setdefault(block.key, []).append(block)
        self.blocks += 1
        self.stored += 1
        self.pins += block.pins
        self.bytes_used += block.nbytes

    def pin(self, path: Sequence[Block]) -> None:
        """Hold every block of a path from the root, each once more."""
        # guard[prefix-pin]: an unheld block may be evicted while its rows are being copied
        # origin: mini-sglang#52
        # mutant[prefix-pin/starts-at-the-parent]:
        #   - for block in path:
        #   + for block in path[:-1]:
        for block in path:
            if block.pins == 0:
                del self._idle[block]
            block.pins += 1
        self.pins += len(path)

    def unpin(self, path: Sequence[Block]) -> None:
        """Let go of a path; what nobody holds any more becomes the warmest, the root last."""
        # guard[prefix-leaves-first]: evicting a parent would leave children that no walk from the root can reach
        # mutant[prefix-leaves-first/root-first]:
        #   - for block in reversed(path):
        #   + for block in path:
        for block in reversed(path):
            block.pins -= 1
            if block.pins == 0:
                self._idle[block] = None
        self.pins -= len(path)

    def touch(self, path: Sequence[Block]) -> None:
        """Mark a path as just used."""
        # guard[prefix-recency]: what is used often must not be evicted for being old
        # origin: mlx-lm#1495
        # mutant[prefix-recency/removed]:
        #   - self.pin(path)
        #   - self.unpin(path)
        #   + pass
        self.pin(path)
        self.unpin(path)

    def make_room(self, nbytes: int) -> bool:
        """Evict the coldest until `nbytes` more fit; False if pinned blocks or the budget itself stand in the way."""
        # guard[prefix-budget]: a cache that only counts one device, or counts blocks, grows without bound
        # origin: mistral.rs: on a CPU the limit limited nothing
        # mutant[prefix-budget/removed]:
        #   - while self.bytes_used + nbytes > self.byte_budget:
        #   + while False:
        # mutant[prefix-budget/forgets-the-newcomer]:
        #   - while self.bytes_used + nbytes > self.byte_budget:
        #   + while self.bytes_used > self.byte_budget:
        while self.bytes_used + nbytes > self.byte_budget:
            if not self._idle:
                return False
            self._evict_coldest()
        return True

    def clear(self) -> None:
        """Evict every block that nobody holds."""
        while self._idle:
            self._evict_coldest()

    def _evict_coldest(self) -> None:
        block, _ = self._idle.popitem(last=False)
        bucket = self._index[block.key]
        # guard[prefix-unindex]: an index entry that outlives its block leads to whatever lies there next
        # origin: nano-vllm#163
        # mutant[prefix-unindex/removed]:
        #   - bucket.remove(block)
        #   + pass
        bucket.remove(block)
        if not bucket:
            del self._index[block.key]
        # Whoever still holds the block by mistake finds no rows, instead of rows that nobody accounts for.
        block.layers = ()
        self.blocks -= 1
        self.evicted += 1
        self.bytes_used -= block.nbytes
