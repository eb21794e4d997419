"""KV rows held by hand: a batch cache without an engine, so that a check can put any request at any place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from teachkv.kv.view import CacheView, Geometry, LayerView
from teachkv.model import Model
from teachkv.placing import Part

NAN = {2: 0x7FC0, 4: 0x7FC00000}  # by bytes; the first is one in float16 and in bfloat16


def ints(values: Any) -> Any:
    return np.asarray(values, np.int32)


class Shelf:
    """K and V [L, R, G, C, D] of L layers, where the model computes. Everything that nobody wrote is NaN."""

    def __init__(self, model: Model, rows: int, columns: int) -> None:
        config, xp = model.config, model.ops.xp
        shape = (config.num_layers, rows, config.num_kv_heads, columns, config.head_dim)
        self.keys, self.values = (xp.empty(shape, model.weights.embed.dtype) for _ in range(2))
        self.bring, self.align = xp.asarray, model.ops.kv_align
        self.layers = list(zip(self.keys, self.values, strict=True))
        self.poison()

    def poison(self) -> None:
        for array in (self.keys, self.values):
            size = array.dtype.itemsize
            array.view(f"u{size}").fill(NAN[size])

    def part(self, kind: Any, rows: Any, pads: Any, starts: Any, counts: Any) -> Part:
        """Row i takes counts[i] new tokens after the starts[i] that it holds, behind pads[i] dead columns."""
        rows, pads, starts, counts = map(ints, (rows, pads, starts, counts))
        positions = np.concatenate([np.arange(s, s + n) for s, n in zip(starts, counts, strict=True)])
        column = ints(positions + np.repeat(pads, counts))
        geometry = Geometry(rows, pads, ints(pads + starts + counts), column)
        view = CacheView(tuple(LayerView(k, v, geometry) for k, v in self.layers), ints(positions), 0)
        return Part(kind, ints(np.concatenate([[0], np.cumsum(counts)])), view)

    def take(self, other: Shelf, theirs: Any, mine: Any, pads: Any, lengths: Any) -> None:
        """Copy the first lengths[i] columns of other's row theirs[i] to row mine[i], behind pads[i] dead columns."""
        moves = [self.bring(ints(a)) for a in (theirs, np.zeros(len(theirs)), mine, pads, lengths)]
        for ours, them in zip(self.layers, other.layers, strict=True):
            for dst, src in zip(ours, them, strict=True):
                self.align(src, moves[0], moves[1], dst, moves[2], moves[3], moves[4])


def run(model: Model, part: Part, tokens: Sequence[int], logits_at: Any) -> Any:
    """Logits [M, V] of one part, as 32-bit integers, in memory of their own."""
    return model.forward(ints(tokens), [part], ints(logits_at)).view(np.uint32).copy()


def last_tokens(counts: Any) -> Any:
    """The flat index of each row's last token."""
    return ints(np.cumsum(counts) - 1)
