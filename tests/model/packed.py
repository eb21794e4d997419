"""Rows of a KV buffer placed by hand, so that a test decides row, lead pad and company. Shares no code with teachkv.kv.

Everything that no token was written to is NaN.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuda_kernels.registry import make_ops
from teachkv.attention import Kind
from teachkv.checkpoint import load_model
from teachkv.kv.view import CacheView, Geometry, LayerView
from teachkv.model import Model
from teachkv.placing import Part

F32 = NDArray[np.float32]
OPS = make_ops("reference")


def load(folder: Path) -> Model:
    loaded = load_model(folder)
    return Model(loaded.config, loaded.weights, OPS)


def ints(values: Any) -> NDArray[np.int32]:
    return np.asarray(values, dtype=np.int32)


class Bench:
    """A model with `rows` buffer rows of `columns`; pads[row] and lengths[row] say where each row's live run lies."""

    def __init__(self, model: Model, rows: int, columns: int, pads: Mapping[int, int] | None = None) -> None:
        self.model = model
        config = model.config
        shape = (rows, config.num_kv_heads, columns, config.head_dim)
        self.layers = [(np.full(shape, np.nan, np.float32), np.full(shape, np.nan, np.float32)) for _ in config.windows]
        self.pads = dict.fromkeys(range(rows), 0) | dict(pads or {})
        self.lengths = dict.fromkeys(range(rows), 0)

    def part(self, work: Mapping[int, Sequence[int]], kind: Kind, **more: Any) -> Part:
        """The part that appends work[row] to each row, in the order of the mapping."""
        rows = list(work)
        counts = [len(work[row]) for row in rows]
        starts = [self.pads[row] + self.lengths[row] for row in rows]
        column = [s + i for s, n in zip(starts, counts, strict=True) for i in range(n)]
        position = [self.lengths[row] + i for row, n in zip(rows, counts, strict=True) for i in range(n)]
        pads = ints([self.pads[row] for row in rows]) if any(self.pads[row] for row in rows) else None
        end = ints([s + n for s, n in zip(starts, counts, strict=True)])
        where = Geometry(ints(rows), pads, end, ints(column))
        view = CacheView(tuple(LayerView(k, v, where) for k, v in self.layers), ints(position), 0)
        for row, n in zip(rows, counts, strict=True):
            self.lengths[row] += n
        return Part(kind, ints(np.cumsum([0, *counts])), view, **more)

    def step(self, work: Mapping[int, Sequence[int]], kind: Kind | None = None, **more: Any) -> dict[int, F32]:
        """Run one step; logits [n, V] of every new token, by row."""
        kind = kind or ("decode" if all(len(ids) == 1 for ids in work.values()) else "prefill")
        return self.steps([(work, kind)], **more)[0]

    def steps(self, works: Sequence[tuple[Mapping[int, Sequence[int]], Kind]], **more: Any) -> list[dict[int, F32]]:
        """Several parts through one forward pass; logits by part and row."""
        parts = [self.part(work, kind, **more) for work, kind in works]
        tokens = ints([t for work, _ in works for ids in work.values() for t in ids])
        logits = self.model.forward(tokens, parts, ints(np.arange(len(tokens))))
        found, at = [], 0
        for work, _ in works:
            by_row = {}
            for row, ids in work.items():
                by_row[row], at = logits[at : at + len(ids)], at + len(ids)
            found.append(by_row)
        return found


def whole(model: Model, ids: Sequence[int], **more: Any) -> F32:
    """Logits [T, V] of one prompt in one prefill, alone in a buffer of its own."""
    return Bench(model, 1, len(ids)).step({0: ids}, "prefill", **more)[0]
