"""Every raw op but attention and the products, on the host build, cell by cell against its spec."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cuda_kernels.registry import get
from tests.kernels.raw.cases import DTYPES, assert_close, bits, draw, rng

dtypes = pytest.mark.parametrize("dtype", list(DTYPES))


@dtypes
@pytest.mark.parametrize("width", [1, 48, 577])
def test_rms_norm_adds_the_residual_in_place_and_normalises(dtype: str, width: int) -> None:
    source = rng()
    x, weight, residual = draw(source, dtype, 3, width), draw(source, dtype, width), draw(source, dtype, 3, width)
    ours, theirs = x.copy(), x.copy()
    out = get("rms_norm", "raw")(ours, weight, 1e-6, residual)
    expected = get("rms_norm", "spec")(theirs, weight, 1e-6, residual)
    assert (bits(ours) == bits(theirs)).all()
    assert_close(out, expected, dtype)


@dtypes
@pytest.mark.parametrize("head_dim", [4, 20, 132, 256])
def test_qk_norm(dtype: str, head_dim: int) -> None:
    x, weight = draw(rng(), dtype, 3, 3, head_dim), draw(rng(), dtype, head_dim)
    assert_close(get("qk_norm", "raw")(x, weight, 1e-6), get("qk_norm", "spec")(x, weight, 1e-6), dtype)


@dtypes
@pytest.mark.parametrize("width", [7, 48])
def test_embed_copies_rows_bit_for_bit(dtype: str, width: int) -> None:
    table, tokens = draw(rng(), dtype, 6, width), np.asarray([5, 0, 3, 3], np.int32)
    assert (bits(get("embed", "raw")(tokens, table)) == bits(table[tokens])).all()


@dtypes
def test_rope_and_append_against_the_spec_and_nothing_else_is_written(dtype: str) -> None:
    source, head_dim = rng(), 20
    q, k, v = (draw(source, dtype, 4, n, head_dim) for n in (3, 1, 1))
    angles = source.random((4, head_dim // 2)) * 6
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    row, column = np.asarray([2, -1, 0, 2], np.int32), np.asarray([6, 0, 1, 5], np.int32)
    results = []
    for telling in ("raw", "spec"):
        turned, caches = q.copy(), [np.full((3, 1, 7, head_dim), np.nan, q.dtype) for _ in range(2)]
        get("rope_and_append", telling)(turned, k, v, cos, sin, *caches, row, column)
        results.append((turned, *caches))
    for ours, theirs in zip(*results, strict=True):
        assert (np.isnan(ours.astype(np.float32)) == np.isnan(theirs.astype(np.float32))).all()
        assert_close(np.nan_to_num(ours.astype(np.float32)), np.nan_to_num(theirs.astype(np.float32)), dtype)


MOVES = {
    "right over itself": ([0], [2], [0], [5], [40]),
    "left over itself": ([1], [9], [1], [3], [40]),
    "long": ([0], [0], [0], [3], [120]),
    "join and compact": ([0, 1, 2], [3, 0, 7], [3, 1, 0], [0, 5, 60], [30, 20, 33]),
    "nothing": ([0], [2], [1], [3], [0]),
}


@dtypes
@pytest.mark.parametrize("name", list(MOVES))
@pytest.mark.parametrize("head_dim", [20, 64])
def test_kv_align_in_one_buffer(dtype: str, name: str, head_dim: int) -> None:
    if name == "long" and head_dim == 20:
        pytest.skip("one chunk; the long run is for several")
    a, b, c, d, n = (np.asarray(m, np.int32) for m in MOVES[name])
    ours = draw(rng(), dtype, 4, 2, 128, head_dim)
    theirs = ours.copy()
    get("kv_align", "raw")(ours, a, b, ours, c, d, n)
    get("kv_align", "spec")(theirs, a, b, theirs, c, d, n)
    assert (bits(ours) == bits(theirs)).all()


@dtypes
@pytest.mark.parametrize("head_dim", [20, 64])
def test_strip_gather_scatter(dtype: str, head_dim: int) -> None:
    cache = draw(rng(), dtype, 3, 2, 40, head_dim)
    calls: tuple[tuple[str, tuple[Any, ...]], ...] = (
        ("kv_strip", (cache, 2, 7, 31)), ("kv_strip", (cache, 0, 5, 5)), ("kv_gather", (cache, 1, 3, 4, 8))
    )  # fmt: skip
    for op, arguments in calls:
        assert (bits(get(op, "raw")(*arguments)) == bits(get(op, "spec")(*arguments))).all(), op
    blocks, other = draw(rng(), dtype, 4, 2, 8, head_dim), cache.copy()
    get("kv_scatter", "raw")(blocks, cache, 1, 5)
    get("kv_scatter", "spec")(blocks, other, 1, 5)
    assert (bits(cache) == bits(other)).all()
    outside = (
        ("kv_strip", (cache, 3, 0, 1)),
        ("kv_gather", (cache, 0, 20, 3, 8)),
        ("kv_scatter", (blocks, cache, 0, 20)),
    )
    for op, arguments in outside:
        with pytest.raises(ValueError, match="leave a buffer"):
            get(op, "raw")(*arguments)


@pytest.mark.parametrize("vocabulary", [1, 33, 700, 1030, 2052])
def test_sample_draws_the_token_of_the_spec(vocabulary: int) -> None:
    source, rows = rng(), 40
    logits = (source.standard_normal((rows, vocabulary)) * source.choice([0.1, 3, 30], (rows, 1))).astype(np.float32)
    logits[:, : vocabulary // 3] = np.round(logits[:, : vocabulary // 3])  # ties
    logits[0], logits[1, 0], logits[2, 0] = -np.inf, np.inf, np.nan
    settings = (
        source.choice([0.0, 0.3, 1.0, 1.7], rows).astype(np.float32),
        source.choice([0, 1, 5, 50, vocabulary], rows).astype(np.int32),
        source.choice([1.0, 0.95, 0.5], rows).astype(np.float32),
        source.choice([0.0, 0.05], rows).astype(np.float32),
        source.random(rows),
    )
    ours, theirs = (get("sample", telling)(logits, *settings) for telling in ("raw", "spec"))
    assert ours.tolist() == theirs.tolist()
    assert ours[:3].tolist() == [-1, -1, -1]
