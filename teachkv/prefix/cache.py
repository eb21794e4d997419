"""The prefix cache: a strong hash finds a block, its parent and its tokens decide.

tokens      a b c d | e f g h | i j        block_tokens = 4, coverage = 9: the last token has no row yet
blocks      root -> [a b c d] -> [e f g h]
a hit for   a b c d   e f g h              is one block: one token is always left to compute
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from teachkv.errors import OptionError, PrefixCacheError
from teachkv.prefix.block import Block, Hit, LiveRows, ReadRows, bytes_between, cut, keeps_all, require_live
from teachkv.prefix.keys import NO_TAGS, Tags, chain_bytes, digest, root_key
from teachkv.prefix.store import BlockStore


@dataclass(frozen=True, slots=True)
class PrefixStats:
    """What the cache holds now, and counts since it was made. `compared` counts blocks whose tokens were looked at."""

    blocks: int
    bytes_used: int
    pins: int
    lookups: int
    asked_tokens: int
    hit_tokens: int
    stored_blocks: int
    evicted_blocks: int
    compared: int


def check_options(block_tokens: int, byte_budget: int) -> None:
    """Raises OptionError for a block of no tokens or a negative budget."""
    if block_tokens < 1 or byte_budget < 0:
        raise OptionError(f"prefix cache: block_tokens {block_tokens} must be >= 1, byte_budget {byte_budget} >= 0")


def check_coverage(coverage: int, tokens: int) -> None:
    """Raises PrefixCacheError for rows of tokens that are not there."""
    if not 0 <= coverage <= tokens:
        raise PrefixCacheError(f"prefix cache: coverage {coverage} of {tokens} tokens cannot be; nothing is stored")


class PrefixCache:
    """Keys and values of prompt beginnings, in full blocks, never more than `byte_budget` bytes of them.

    block_tokens  positions per block
    byte_budget   most bytes of K and V held, on whatever device they lie
    fingerprint   names the model (keys.model_fingerprint)
    digest        finds blocks; correctness does not rest on it
    """

    def __init__(
        self, block_tokens: int, byte_budget: int, fingerprint: bytes, *, digest: Callable[[bytes], bytes] = digest
    ) -> None:
        check_options(block_tokens, byte_budget)
        self.block_tokens, self.fingerprint = block_tokens, fingerprint
        self._digest = digest
        self._store = BlockStore(byte_budget)
        self._open: set[Hit[Block]] = set()
        self._lookups = self._asked = self._hit = 0

    @property
    def version(self) -> int:
        """Changes whenever blocks come or go; while it stands still a look-up need not be repeated."""
        return self._store.stored + self._store.evicted

    def match(self, tokens: Sequence[int], tags: Tags = NO_TAGS) -> Hit[Block]:
        """The longest stored beginning of `tokens` in full blocks, at most len(tokens) - 1 positions; pinned."""
        # guard[prefix-leaves-one]: a prompt that is found whole leaves no row to take the next token's logits from
        # origin: nano-vllm#144, mistral.rs#1376
        # mutant[prefix-leaves-one/removed]:
        #   - most = max(len(tokens) - 1, 0) // self.block_tokens
        #   + most = len(tokens) // self.block_tokens
        # mutant[prefix-leaves-one/one-too-many]:
        #   - most = max(len(tokens) - 1, 0) // self.block_tokens
        #   + most = max(len(tokens) - 2, 0) // self.block_tokens
        most = max(len(tokens) - 1, 0) // self.block_tokens
        path = self._walk(tokens, tags, most)
        self._store.pin(path)
        hit = Hit(len(path) * self.block_tokens, tuple(path))
        if path:
            self._open.add(hit)
        self._lookups += 1
        self._asked += len(tokens)
        self._hit += hit.length
        return hit

    def release(self, hit: Hit[Block]) -> None:
        """Give a hit back, once; its blocks become the warmest. Raises PrefixCacheError for one that is not held."""
        if not hit.blocks:
            return
        # guard[prefix-release-once]: a second release would take another request's pin
        # origin: mini-sglang#52, sglang#33783
        # mutant[prefix-release-once/removed]:
        #   - if hit not in self._open:
        #   + if False:
        if hit not in self._open:
            raise PrefixCacheError(f"prefix cache: a hit of {hit.length} tokens was released that is not held")
        self._open.discard(hit)
        self._store.unpin(hit.blocks)

    def publish(
        self,
        tokens: Sequence[int],
        coverage: int,
        read_rows: ReadRows,
        tags: Tags = NO_TAGS,
        *,
        limit: int | None = None,
    ) -> int:
        """Store the full blocks of the first `coverage` tokens; returns how many are new.

        coverage  positions that were computed; `read_rows` must show exactly these
        limit     most positions to store of them (rotations beyond a length may not be shared); None = all
        Call it after the rows were computed. `read_rows` is asked only if something is new; what it raises goes
        through, and GeometryError is raised if its rows are not the live ones. Nothing is stored in either case.
        Fewer blocks are stored when the budget is full of pinned ones, and none when a ring has dropped positions.
        """
        check_coverage(coverage, len(tokens))
        # guard[prefix-coverage]: the last token drawn was never computed, so there is no row to store for it
        # origin: mistral.rs before its clamp to the shortest layer
        # mutant[prefix-coverage/counts-tokens]:
        #   - full = coverage // self.block_tokens
        #   + full = len(tokens) // self.block_tokens
        full = coverage // self.block_tokens
        # guard[prefix-limit]: keys rotated by one prompt's own length are wrong for every other prompt
        # mutant[prefix-limit/ignored]:
        #   - if limit is not None:
        #   -     full = min(full, limit // self.block_tokens)
        #   + pass
        if limit is not None:
            full = min(full, limit // self.block_tokens)
        path = self._walk(tokens, tags, full)
        known = len(path)
        if known == full:
            self._store.touch(path)
            return 0
        # guard[prefix-strip]: a dead prefix or slack stored as content outlives its request and answers every later one
        # origin: the seed document (64 rows stored where 60 are real), mlx-examples#977
        # mutant[prefix-strip/removed]:
        #   - rows = require_live(read_rows(), coverage)
        #   + rows = read_rows()
        rows = require_live(read_rows(), coverage)
        # guard[prefix-ring]: a window that has dropped positions cannot give them back to a later request
        # origin: llama.rn#396
        # mutant[prefix-ring/removed]:
        #   - if not keeps_all(rows):
        #   + if False:
        if not keeps_all(rows):
            return 0
        self._store.pin(path)
        try:
            self._grow(path, tokens, tags, full, rows)
        finally:
            self._store.unpin(path)
        return len(path) - known

    def set_budget(self, byte_budget: int) -> None:
        """Change the budget and evict down to it; held blocks stay until they are released."""
        check_options(self.block_tokens, byte_budget)
        self._store.byte_budget = byte_budget
        self._store.make_room(0)

    def clear(self) -> None:
        """Evict everything that no hit holds."""
        self._store.clear()

    def stats(self) -> PrefixStats:
        store = self._store
        return PrefixStats(
            blocks=store.blocks,
            bytes_used=store.bytes_used,
            pins=store.pins,
            lookups=self._lookups,
            asked_tokens=self._asked,
            hit_tokens=self._hit,
            stored_blocks=store.stored,
            evicted_blocks=store.evicted,
            compared=store.compared,
        )

    def _walk(self, tokens: Sequence[int], tags: Tags, most: int) -> list[Block]:
        """The leading stored blocks of `tokens`, at most `most`."""
        path: list[Block] = []
        root = root_key(self.fingerprint, tags)
        for start in range(0, most * self.block_tokens, self.block_tokens):
            chunk = tuple(tokens[start : start + self.block_tokens])
            parent = path[-1] if path else None
            block = self._store.find(root, parent, self._chain_key(root, parent, chunk), chunk)
            # guard[prefix-hole]: a block behind a missing one belongs to other positions
            # origin: llm-d-inference-sim#705
            # mutant[prefix-hole/skipped]:
            #   - if block is None:
            #   -     break
            #   + if block is None:
            #   +     continue
            if block is None:
                break
            path.append(block)
        return path

    def _grow(self, path: list[Block], tokens: Sequence[int], tags: Tags, full: int, rows: LiveRows) -> None:
        """Append new blocks to `path`, pinned like the rest of it, until it has `full` of them or nothing more fits."""
        root = root_key(self.fingerprint, tags)
        for start in range(len(path) * self.block_tokens, full * self.block_tokens, self.block_tokens):
            stop = start + self.block_tokens
            nbytes = bytes_between(rows, start, stop)
            if not self._store.make_room(nbytes):
                return
            chunk = tuple(tokens[start:stop])
            parent = path[-1] if path else None
            key = self._chain_key(root, parent, chunk)
            # guard[prefix-after-rows]: a block that can be found before its rows are there answers with nothing
            # origin: vllm#29387
            # mutant[prefix-after-rows/registers-first]:
            #   - block = Block(root, parent, key, chunk, cut(rows, start, stop), nbytes, pins=1)
            #   - self._store.add(block)
            #   + self._store.add(block := Block(root, parent, key, chunk, (), nbytes, pins=1))
            #   + block.layers = cut(rows, start, stop)
            block = Block(root, parent, key, chunk, cut(rows, start, stop), nbytes, pins=1)
            self._store.add(block)
            path.append(block)

    def _chain_key(self, root: bytes, parent: Block | None, chunk: tuple[int, ...]) -> bytes:
        return self._digest(chain_bytes(self._digest(root) if parent is None else parent.key, chunk))
