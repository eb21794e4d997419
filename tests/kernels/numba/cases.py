"""Tiny inputs for every op, odd on purpose: dead memory is NaN, lengths are odd, rows are padded, groups differ."""

from __future__ import annotations

from typing import Any

import numpy as np

from cuda_kernels.registry import OPS

Arguments = tuple[Any, ...]


def ints(*values: int) -> Any:
    return np.array(values, np.int32)


def attention(
    rng: np.random.Generator, lengths: tuple[int, ...], counts: tuple[int, ...], group: int = 2, dim: int = 8,
    window: int | None = None, pads: tuple[int, ...] | None = None, dtype: Any = np.float32,
) -> Arguments:  # fmt: skip
    """Row b has lengths[b] live columns after its lead pad and counts[b] queries at their end; the rest is NaN."""
    groups, rows = 2, len(lengths)
    lead = np.array(pads if pads is not None else rng.integers(0, 70, rows), np.int32)
    end = (lead + np.array(lengths)).astype(np.int32)
    columns = int(end.max()) + 3
    row = rng.permutation(rows + 1)[:rows].astype(np.int32)
    k, v = (np.full((rows + 1, groups, columns, dim), np.nan, dtype) for _ in range(2))
    for b in range(rows):
        oldest = max(0, int(lead[b]))
        for cache in (k, v):
            cache[row[b], :, oldest : end[b]] = rng.standard_normal((groups, end[b] - oldest, dim))
    cu = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    q = rng.standard_normal((int(cu[-1]), group * groups, dim)).astype(dtype)
    return q, k, v, cu, row, end, lead, window, dim**-0.5


def rope(rng: np.random.Generator, dtype: Any = np.float32, dim: int = 12) -> Arguments:
    """Four tokens, the second of them padding; the first and the last column are written. Caches are NaN."""
    tokens, heads, groups = 4, 6, 2
    q, k, v = (rng.standard_normal((tokens, n, dim)).astype(dtype) for n in (heads, groups, groups))
    angle = rng.random((tokens, dim // 2)) * 6
    caches = (np.full((3, groups, 5, dim), np.nan, dtype) for _ in range(2))
    turn = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    return q, k, v, *turn, *caches, ints(0, -1, 2, 0), ints(4, 0, 1, 0)


def sampling(rng: np.random.Generator, rows: int = 8, vocabulary: int = 45) -> Arguments:
    """Ties in every row; settings drawn so that each filter is on and off."""
    logits = (rng.standard_normal((rows, vocabulary)) * 2).astype(np.float32)
    logits[:, ::3] = np.round(logits[:, ::3])
    pick = lambda values, kind: rng.choice(values, rows).astype(kind)  # noqa: E731
    return (
        logits, pick([0.0, 0.5, 1.0, 1.5], np.float32), pick([0, 1, 3, 20, 45], np.int32),
        pick([1.0, 0.9, 0.5], np.float32), pick([0.0, 0.1], np.float32), rng.random(rows),
    )  # fmt: skip


def case(op: str, rng: np.random.Generator, dtype: Any = np.float32) -> Arguments:
    """Arguments of one op. Raises KeyError for an op that has none, so a new op cannot go untested."""
    draw = lambda *shape: rng.standard_normal(shape).astype(dtype)  # noqa: E731
    cache = draw(3, 2, 13, 4)
    makers: dict[str, Any] = {
        "embed": lambda: (ints(3, 0, 6, 3), draw(7, 37)),
        "rms_norm": lambda: (draw(3, 37), draw(37), 1e-5, draw(3, 37)),
        "qk_norm": lambda: (draw(3, 2, 12), draw(12), 1e-6),
        "linear": lambda: (draw(5, 21), draw(18, 21), draw(18), draw(5, 18), draw(5, 18)),
        "rope_and_append": lambda: rope(rng, dtype),
        "attention_decode_ragged": lambda: attention(rng, (70, 5, 1), (1, 2, 1), dtype=dtype),
        "attention_prefill": lambda: attention(rng, (70, 5, 1), (3, 5, 1), dtype=dtype),
        "lm_head": lambda: (draw(2, 21), draw(19, 21)),
        "sample": lambda: sampling(rng),
        "kv_align": lambda: (cache, ints(0, 1), ints(0, 5), cache, ints(0, 2), ints(3, 2), ints(9, 7)),
        "kv_strip": lambda: (cache, 1, 2, 9),
        "kv_gather": lambda: (cache, 1, 2, 3, 3),
        "kv_scatter": lambda: (draw(3, 2, 3, 4), cache, 1, 2),
    }
    arguments: Arguments = makers[op]()
    return arguments


def copied(arguments: Arguments) -> Arguments:
    """Fresh arrays; one array passed twice stays one array."""
    fresh = {id(a): a.copy() for a in arguments if isinstance(a, np.ndarray)}
    return tuple(fresh.get(id(a), a) for a in arguments)


assert set(OPS) == {op for op in OPS if case(op, np.random.default_rng(0))}
