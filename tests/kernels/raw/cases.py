"""Inputs and oracles of the raw kernel tests: tiny, random, poisoned."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from cuda_kernels.raw import source as text_source
from cuda_kernels.registry import get

DTYPES = {"float32": np.dtype(np.float32), "float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
LIMIT = {"float32": 2e-6, "float16": 1.2e-3, "bfloat16": 1e-2}


def rng() -> np.random.Generator:
    return np.random.default_rng(1234)


def draw(source: np.random.Generator, dtype: str, *shape: int) -> Any:
    return source.standard_normal(shape, np.float32).astype(DTYPES[dtype])


def bits(array: Any) -> Any:
    return np.ascontiguousarray(array).view(np.uint16 if array.dtype.itemsize == 2 else np.uint32)


def assert_close(out: Any, reference: Any, dtype: str) -> None:
    """||out - ref|| / ||ref|| within the dtype's limit; NaN never passes."""
    a, b = np.asarray(out, np.float64), np.asarray(reference, np.float64)
    error = np.linalg.norm(a - b) / max(float(np.linalg.norm(b)), 1e-30)
    assert error <= LIMIT[dtype], f"relative error {error}"


@contextmanager
def forgotten() -> Iterator[None]:
    """For tests that change what launches are made of: none is remembered from before, none from inside later."""
    text_source.override("none.cu", None)
    try:
        yield
    finally:
        text_source.override("none.cu", None)


@dataclass
class Ragged:
    """One attention call: rows of different lengths behind poisoned dead prefixes."""

    q: Any
    k: Any
    v: Any
    cu: Any
    row: Any
    end: Any
    pad: Any
    window: int | None = None
    scale: float = 0.3

    def run(self, op: str, telling: str = "raw") -> Any:
        return get(op, telling)(
            self.q, self.k, self.v, self.cu, self.row, self.end, self.pad, self.window, self.scale
        )  # fmt: skip


def ragged(
    dtype: str,
    heads: int,
    groups: int,
    head_dim: int,
    lengths: list[int],
    counts: list[int],
    pads: list[int],
    **more: Any,
) -> Ragged:
    """Row i: pads[i] dead columns (negative: a ring), lengths[i] live ones, counts[i] queries; slack is NaN."""
    source, batch = rng(), len(lengths)
    dead = [max(pad, 0) for pad in pads]
    end = np.asarray([a + b for a, b in zip(dead, lengths, strict=True)], np.int32)
    columns = int(end.max()) + 5
    row = source.permutation(batch).astype(np.int32)
    k, v = (draw(source, dtype, batch, groups, columns, head_dim) for _ in range(2))
    for b in range(batch):
        for cache in (k, v):
            cache[row[b], :, : dead[b]] = np.nan
            cache[row[b], :, end[b] :] = np.nan
    cu = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    q = draw(source, dtype, int(cu[-1]), heads, head_dim)
    return Ragged(q, k, v, cu, row, end, np.asarray(pads, np.int32), **more)
