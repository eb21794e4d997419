"""Live rows whose content says which tokens they were computed from, and checks of a cache's inside."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from teachkv.prefix import PrefixCache, Tags
from teachkv.prefix.block import Block
from teachkv.prefix.keys import NO_TAGS

Float = npt.NDArray[np.float32]
HEADS, DIM, LAYERS = 2, 3, 2
POSITION_BYTES = 2 * LAYERS * HEADS * DIM * 4


@dataclass
class Layer:
    k: Float
    v: Float
    first: int = 0


@dataclass
class Rows:
    layers: list[Layer]


def mark(tokens: Sequence[int], position: int, tags: Tags) -> int:
    """A number below 65536, exact in float32, that depends on every token up to `position`, as a real K row does."""
    return zlib.crc32(repr((list(tokens[: position + 1]), tags)).encode()) & 0xFFFF


def content(tokens: Sequence[int], start: int, stop: int, layer: int, side: int, tags: Tags = NO_TAGS) -> Float:
    """What rows start..stop-1 of a layer's k (side 0) or v (side 1) must hold, [G, stop-start, D]."""
    out = np.empty((HEADS, stop - start, DIM), np.float32)
    for position in range(start, stop):
        out[:, position - start, :] = mark(tokens, position, tags) + 0.25 * layer + 0.125 * side
    return out


def live(tokens: Sequence[int], coverage: int, tags: Tags = NO_TAGS, *, dead: int = 0, slack: int = 0) -> Rows:
    """The first `coverage` rows of `tokens`; `dead` and `slack` add NaN columns before and behind."""
    layers = []
    for number in range(LAYERS):
        sides = []
        for side in (0, 1):
            buffer = np.full((HEADS, dead + coverage + slack, DIM), np.nan, np.float32)
            buffer[:, dead : dead + coverage] = content(tokens, 0, coverage, number, side, tags)
            sides.append(buffer)
        layers.append(Layer(*sides))
    return Rows(layers)


def store(cache: PrefixCache, tokens: Sequence[int], tags: Tags = NO_TAGS, coverage: int | None = None) -> int:
    """Publish as at the end of a request: the last token has no row, unless `coverage` says otherwise."""
    covered = len(tokens) - 1 if coverage is None else coverage
    return cache.publish(tokens, covered, lambda: live(tokens, covered, tags), tags)


def hit_length(cache: PrefixCache, tokens: Sequence[int], tags: Tags = NO_TAGS) -> int:
    """What a request for `tokens` would find; its rows are compared with those computed cold."""
    hit = cache.match(tokens, tags)
    for index, block in enumerate(hit.blocks):
        start = index * cache.block_tokens
        for layer, pair in enumerate(block.layers):
            for side in (0, 1):
                wanted = content(tokens, start, start + cache.block_tokens, layer, side, tags)
                np.testing.assert_array_equal(pair[side], wanted)
        assert len(block.layers) == LAYERS
    cache.release(hit)
    return hit.length


def stored_blocks(cache: PrefixCache) -> list[Block]:
    return [block for bucket in cache._store._index.values() for block in bucket]


def path_to(block: Block) -> tuple[int, ...]:
    """All tokens from the root to the end of `block`."""
    return (path_to(block.parent) if block.parent else ()) + block.tokens


def check_inside(cache: PrefixCache) -> None:
    """Every promise about the inside at once: accounts, index, order, pins."""
    blocks, keep = stored_blocks(cache), cache._store
    assert keep.blocks == len(blocks)
    assert keep.bytes_used == sum(side.nbytes for b in blocks for pair in b.layers for side in pair)
    assert keep.pins == sum(b.pins for b in blocks)
    assert keep.stored - keep.evicted == len(blocks)
    assert {b for b in blocks if b.pins == 0} == set(keep._idle)
    alive, place = set(blocks), {block: n for n, block in enumerate(keep._idle)}
    for key, bucket in keep._index.items():
        assert bucket
        for block in bucket:
            assert block.key == key == cache._chain_key(block.root, block.parent, block.tokens)
            assert block.layers
            assert len({(b.root, b.parent, b.tokens) for b in bucket}) == len(bucket)
            if block.parent is not None:
                assert block.parent in alive
                assert block.parent.pins >= block.pins
                if block.parent.pins == 0:
                    assert place[block] < place[block.parent]
