"""Attention, spec and fast NumPy form alike, against a dense float64 matrix."""

from collections.abc import Callable
from itertools import product
from typing import Any

import dense
import numpy as np
import pytest
from dense import cu, ints

from cuda_kernels.reference import attention_single
from cuda_kernels.reference.attention import Attention
from cuda_kernels.reference.attention_forms import Forms, candidates, is_stable, stable_forms, straight
from cuda_kernels.reference.attention_single import portions_of
from cuda_kernels.reference.attention_tiles import caps_of
from cuda_kernels.reference.softmax import sum_last
from cuda_kernels.reference.spans import queries_of
from cuda_kernels.registry import get
from tests.kernels.host_threads import three_threads

SPEC = get("attention_prefill", "spec")
FORMS: dict[str, Callable[..., Any]] = {"spec": SPEC, "fast": Attention()}
both = pytest.mark.parametrize("form", FORMS)


def arrays(seed: int, tokens: int, heads: int, groups: int, dim: int, rows: int, columns: int) -> Any:
    random = np.random.default_rng(seed)
    q = random.standard_normal((tokens, heads, dim), dtype=np.float32)
    k, v = (random.standard_normal((rows, groups, columns, dim), dtype=np.float32) for _ in "kv")
    return q, k, v


@pytest.mark.case("Dao-AILab/flash-attention#1778")
@both
@pytest.mark.kills("bottom-right/top-left", "empty-query/removed", "window-width/one-too-wide")
@pytest.mark.parametrize("window", [None, 1, 3])
def test_every_query_and_key_count_is_aligned_at_the_bottom_right(form: str, window: int | None) -> None:
    """flash-attention#1778: q queries over k keys, for all q and k in 0..9, also q > k; no key means zeros."""
    for queries in range(10):
        for keys in range(10):
            q, k, v = arrays(queries * 10 + keys, queries, 4, 2, 8, 1, 16)
            k[:, :, keys:], v[:, :, keys:] = np.nan, np.nan
            got = FORMS[form](q, k, v, cu([queries]), ints([0]), ints([keys]), None, window, 0.5)
            want = dense.attention(q, k, v, [queries], [0], [keys], None, window, 0.5)
            np.testing.assert_allclose(got, want, atol=2e-6)
            assert not got[: max(0, queries - keys)].any()


@both
@pytest.mark.kills("head-order/inner", "dead-keys/zero-scores")
@pytest.mark.parametrize(("heads", "groups", "dim"), [(4, 2, 8), (9, 3, 64), (4, 4, 16), (7, 1, 12), (2, 2, 256)])
@pytest.mark.parametrize("window", [None, 1, 5, 64, 65, 100, 300])
def test_ragged_rows_over_blocks_and_segments(form: str, heads: int, groups: int, dim: int, window: int | None) -> None:
    """Rows of 1, 13, 40 and 2 queries behind lead pads of 0, 5, 70 and -3, everything dead NaN, one row padding."""
    counts, rows, ends, pads = [1, 13, 40, 2, 3], [3, 0, 5, 1, -1], [600, 300, 110, 500, 9], [0, 5, 70, -3, 0]
    q, k, v = arrays(1, sum(counts), heads, groups, dim, 6, 640)
    for row, end, pad in zip(rows[:4], ends, pads, strict=False):
        for cache in (k, v):
            cache[row, :, : max(pad, 0)], cache[row, :, end:] = np.nan, np.nan
    k[[2, 4]], v[[2, 4]] = np.nan, np.nan
    got = FORMS[form](q, k, v, cu(counts), ints(rows), ints(ends), ints(pads), window, dim**-0.5)
    want = dense.attention(q, k, v, counts, rows, ends, pads, window, dim**-0.5)
    np.testing.assert_allclose(got, want, atol=5e-6)
    assert not got[-3:].any()


@pytest.mark.case("onnx/onnx#7274")
@both
@pytest.mark.kills("grouped-heads/tiled")
def test_grouped_heads_repeat_their_kv_head(form: str) -> None:
    """onnx#7274: four query heads on two KV heads holding the constants 1 and 2: heads read 1, 1, 2, 2."""
    q, k, v = arrays(0, 12, 4, 2, 8, 1, 12)
    v[:, 0], v[:, 1] = 1, 2
    got = FORMS[form](q, k, v, cu([12]), ints([0]), ints([12]))
    np.testing.assert_allclose(got, np.broadcast_to(np.array([1, 1, 2, 2])[:, None], got.shape), rtol=1e-6)


@pytest.mark.case("Dao-AILab/flash-attention#1745")
@both
@pytest.mark.parametrize("fill", [np.nan, np.inf, 1e30])
@pytest.mark.parametrize("target", ["k", "v", "both"])
@pytest.mark.kills("dead-values/multiplied")
def test_what_a_query_does_not_see_is_not_read(form: str, fill: float, target: str) -> None:
    """flash-attention#1745. The window begins inside a block, the row ends inside one, the prefix is dead."""
    counts, rows, ends, pads = [1, 9], [1, 0], [150, 170], [7, 33]
    q, k, v = arrays(3, 10, 4, 2, 8, 2, 192)
    clean = FORMS[form](q, k, v, cu(counts), ints(rows), ints(ends), ints(pads), 90, 0.3)
    for b, row in enumerate(rows):
        first = max(pads[b], ends[b] - counts[b] + 1 - 90)
        for name, cache in (("k", k), ("v", v)):
            if target in (name, "both"):
                cache[row, :, :first], cache[row, :, ends[b] :] = fill, fill
    again = FORMS[form](q, k, v, cu(counts), ints(rows), ints(ends), ints(pads), 90, 0.3)
    assert np.isfinite(clean).all()
    assert again.tobytes() == clean.tobytes()


@pytest.mark.case("flashinfer-ai/flashinfer#4484", "microsoft/onnxruntime#28904")
@both
def test_rows_without_keys_give_zeros_whatever_the_cache_holds(form: str) -> None:
    """flashinfer#4484 and onnxruntime#28904: neither leftovers nor the mean of V."""
    q, k, v = arrays(0, 2, 2, 1, 8, 2, 3)
    k[0], v[0] = np.nan, np.nan
    got = FORMS[form](q, k, v, cu([1, 1]), ints([0, 1]), ints([0, 3]))
    assert not got[0].any()
    assert np.isfinite(got[1]).all()
    assert got[1].any()


@both
def test_a_bias_is_added_in_place_of_causality_and_minus_infinity_hides(form: str) -> None:
    q, k, v = arrays(0, 3, 2, 1, 8, 1, 5)
    v[0, 0, 1] = np.nan
    bias = np.zeros((1, 1, 3, 5), np.float32)
    bias[..., 1] = -np.inf
    bias[0, 0, :, 2] = 0.7
    got = FORMS[form](q, k, v, cu([3]), ints([0]), ints([5]), bias=bias)
    for i in range(3):
        seen = [0, 2, 3, 4]
        s = k[0, 0, seen].astype(np.float64) @ q[i].T + bias[0, 0, i, seen][:, None]
        p = np.exp(s - s.max(0))
        np.testing.assert_allclose(got[i], (p / p.sum(0)).T @ v[0, 0, seen], atol=2e-6)


@pytest.mark.case(
    "pytorch/pytorch#103749", "unslothai/unsloth#9848", "flashinfer-ai/flashinfer#4484", "microsoft/onnxruntime#28904"
)
@both
@pytest.mark.kills("fully-masked/finite-fill")
def test_a_query_whose_keys_are_all_hidden_gives_zeros(form: str) -> None:
    q, k, v = arrays(0, 2, 2, 1, 8, 1, 5)
    bias = np.zeros((1, 1, 2, 5), np.float32)
    bias[0, 0, 1] = -np.inf
    got = FORMS[form](q, k, v, cu([2]), ints([0]), ints([5]), bias=bias)
    assert got[0].any()
    assert not got[1].any()


def test_the_spec_folds_blocks_at_positions() -> None:
    """Bit for bit what a scalar loop gives that folds 64 positions at a time and merges every four blocks."""
    q, k, v = arrays(5, 1, 1, 1, 4, 1, 700)
    pad, end = 21, 690
    got = SPEC(q, k, v, cu([1]), ints([0]), ints([end]), ints([pad]), None, 0.5)[0, 0]
    f = np.float32
    total = (f(-np.inf), f(0), np.zeros(4, f))
    for segment in range(pad, end, 256):
        part = (f(-np.inf), f(0), np.zeros(4, f))
        for block in range(segment, min(segment + 256, end), 64):
            live = slice(block, min(block + 64, end))
            s = (q[0] @ k[0, 0, live].T)[0] * f(0.5)
            m = max(part[0], s.max())
            p = np.exp(s - m)
            old = np.exp(part[0] - m)
            part = (m, part[1] * old + p.sum(), part[2] * old + (p[None] @ v[0, 0, live])[0])
        m = max(total[0], part[0])
        a, b = np.exp(total[0] - m), np.exp(part[0] - m)
        total = (m, total[1] * a + part[1] * b, total[2] * a + part[2] * b)
    assert got.tobytes() == (total[2] / total[1]).tobytes()


@pytest.mark.case("kekzl/imp#1314")
@both
@pytest.mark.kills("position-blocks/columns")
@pytest.mark.parametrize("window", [None, 100])
def test_no_bit_depends_on_lead_pad_row_chunk_or_company(form: str, window: int | None) -> None:
    length, dim = 330, 8
    q, k, v = arrays(9, length, 4, 2, dim, 1, length)
    call = FORMS[form]
    want = call(q, k, v, cu([length]), ints([0]), ints([length]), None, window, 0.4)
    for pad in (1, 13, 63, 64, 70, 257):
        wide_k, wide_v = (np.full((3, 2, length + pad + 5, dim), np.nan, np.float32) for _ in "kv")
        wide_k[2, :, pad : pad + length], wide_v[2, :, pad : pad + length] = k[0], v[0]
        one = call(q[-1:], wide_k, wide_v, cu([1]), ints([2]), ints([pad + length]), ints([pad]), window, 0.4)
        assert one.tobytes() == want[-1:].tobytes(), pad
    for size in (1, 3, 7, 8, 9, 50, 100):
        for start in (0, 5, 64, 200, length - size):
            chunk = call(q[start : start + size], k, v, cu([size]), ints([0]), ints([start + size]), None, window, 0.4)
            assert chunk.tobytes() == want[start : start + size].tobytes(), (start, size)


@pytest.mark.parametrize("window", [None, 7, 300])
def test_a_ring_gives_the_bits_of_the_full_row(window: int | None) -> None:
    """A ring's column 0 holds position -lead_pad: older positions are gone, the blocks stay where they were."""
    q, k, v = arrays(2, 9, 4, 2, 8, 1, 400)
    kept = 400 if window is None else window + 8
    full = FORMS["fast"](q, k, v, cu([9]), ints([0]), ints([400]), None, window, 0.4)
    gone = 400 - kept
    ring = [np.ascontiguousarray(cache[:, :, gone:]) for cache in (k, v)]
    got = FORMS["fast"](q, *ring, cu([9]), ints([0]), ints([kept]), ints([-gone]), window, 0.4)
    assert got.tobytes() == full.tobytes()


def test_long_rows_are_computed_in_bounded_portions() -> None:
    """A chunk at the end of 9,000 columns equals its queries one by one."""
    q, k, v = arrays(4, 70, 8, 1, 16, 1, 9000)
    call = FORMS["fast"]
    got = call(q, k, v, cu([70]), ints([0]), ints([9000]), None, None, 0.25)
    for i in (0, 7, 8, 63, 64, 69):
        one = call(q[i : i + 1], k, v, cu([1]), ints([0]), ints([8931 + i]), None, None, 0.25)
        assert one.tobytes() == got[i : i + 1].tobytes()


def test_many_decoders_are_computed_in_bounded_portions() -> None:
    """64 rows of very different length go in portions of equal work; each has the bits it has alone."""
    random = np.random.default_rng(0)
    ends = random.integers(1, 3000, 64).tolist()
    q, k, v = arrays(4, 64, 8, 1, 8, 64, 3000)
    call = FORMS["fast"]
    got = call(q, k, v, cu([1] * 64), ints(range(64)), ints(ends), None, None, 0.25)
    np.testing.assert_allclose(
        got, SPEC(q, k, v, cu([1] * 64), ints(range(64)), ints(ends), None, None, 0.25), atol=5e-6
    )
    for b in range(0, 64, 5):
        one = call(q[b : b + 1], k, v, cu([1]), ints([b]), ints([ends[b]]), None, None, 0.25)
        assert one.tobytes() == got[b : b + 1].tobytes()


@pytest.mark.case("ml-explore/mlx-lm#1699")
def test_a_layout_is_kept_by_content_not_by_identity() -> None:
    """The owner of `end` may count on in place: the next step must not see the last step's columns."""
    q, k, v = arrays(4, 1, 2, 1, 8, 1, 20)
    call = Attention()
    end = ints([5])
    call(q, k, v, cu([1]), ints([0]), end)
    end[0] = 20
    assert call(q, k, v, cu([1]), ints([0]), end).tobytes() == alone(q, k, v, 20)


def alone(q: Any, k: Any, v: Any, end: int) -> bytes:
    return Attention()(q, k, v, cu([1]), ints([0]), ints([end])).tobytes()


def test_tiles_that_are_not_stable_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no tile has the bits of single queries, prefill goes query by query and says the same."""
    q, k, v = arrays(4, 40, 4, 2, 8, 1, 40)
    tiles = Attention()(q, k, v, cu([40]), ints([0]), ints([40]))
    monkeypatch.setattr("cuda_kernels.reference.attention.stable_forms", lambda group, dim: Forms(group, 1, straight))
    single = Attention()(q, k, v, cu([40]), ints([0]), ints([40]))
    np.testing.assert_allclose(single, tiles, atol=2e-6)
    assert stable_forms(2, 8).lanes >= 2


@pytest.mark.parametrize("window", [None, 70])
@pytest.mark.parametrize("rows", [[0, 1, 2, 3, 4, 5], [2, 3, 4, 0, 1, 5], [5, 4, 3, 2, 1, 0]])
def test_a_row_has_the_bits_it_has_alone_wherever_it_lies(rows: list[int], window: int | None) -> None:
    """Six decoders, five of one length in successive or other rows: each has the bits it has alone."""
    ends, pads = [150, 150, 150, 150, 90, 150], [3, 3, 3, 0, 3, 3]
    q, k, v = arrays(6, 6, 4, 2, 8, 6, 160)
    call = FORMS["fast"]
    got = call(q, k, v, cu([1] * 6), ints(rows), ints(ends), ints(pads), window, 0.4)
    for b in range(6):
        one = call(q[b : b + 1], k, v, cu([1]), ints([rows[b]]), ints([ends[b]]), ints([pads[b]]), window, 0.4)
        assert one.tobytes() == got[b : b + 1].tobytes(), b
    np.testing.assert_allclose(
        got, SPEC(q, k, v, cu([1] * 6), ints(rows), ints(ends), ints(pads), window, 0.4), atol=2e-6
    )


@pytest.mark.parametrize("ends", [[256, 257, 256, 257], [256, 256, 300, 300, 512, 513], [40, 64, 65, 63]])
def test_queries_that_see_as_many_whole_blocks_need_not_have_as_many_segments(ends: list[int]) -> None:
    """Rows from column 0 that end at or just behind a segment: alike in whole blocks, not in what follows."""
    rows = len(ends)
    q, k, v = arrays(7, rows, 4, 2, 8, rows, 640)
    got = FORMS["fast"](q, k, v, cu([1] * rows), ints(range(rows)), ints(ends), None, None, 0.4)
    for b in range(rows):
        one = FORMS["fast"](q[b : b + 1], k, v, cu([1]), ints([b]), ints([ends[b]]), None, None, 0.4)
        assert one.tobytes() == got[b : b + 1].tobytes(), b
    want = SPEC(q, k, v, cu([1] * rows), ints(range(rows)), ints(ends), None, None, 0.4)
    np.testing.assert_allclose(got, want, atol=2e-6)


def test_portions_hold_every_query_once_and_share_the_work() -> None:
    ends = np.linspace(10, 4000, 40).round().astype(np.int32)
    queries = queries_of(cu([1] * 40), ints(range(40)), ints(ends), None, None)
    with three_threads():
        portions = portions_of(queries)
        alone = portions_of(queries.pick(np.arange(1)))
    assert [int(t) for portion in portions for t in portion.queries.token] == list(range(40))
    assert len(alone) == 1
    assert len(portions) >= 3
    work = [len(portion.place) for portion in portions]
    assert sum(work) == int(queries.blocks.sum())
    assert max(work) - min(work) <= 2 * 64


def test_a_long_query_is_taken_from_the_cache_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much is taken at once: one block, seven or all."""
    q, k, v = arrays(8, 2, 4, 2, 16, 2, 1400)
    results = set()
    for at_once in (1, 7 * 2 * 64 * 16, 1 << 30):
        monkeypatch.setattr(attention_single, "AT_ONCE", at_once)
        results.add(FORMS["fast"](q, k, v, cu([1, 1]), ints([1, 0]), ints([1400, 1030])).tobytes())
    assert len(results) == 1


def test_caches_of_half_the_width_are_read_in_float32() -> None:
    q, k, v = arrays(8, 14, 4, 2, 16, 1, 90)
    k, v = k.astype(np.float16), v.astype(np.float16)
    wide = k.astype(np.float32), v.astype(np.float32)
    for count in (14, 1):
        got, want = (FORMS["fast"](q[:count], *caches, cu([count]), ints([0]), ints([90])) for caches in ((k, v), wide))
        assert got.tobytes() == want.tobytes()


def test_a_sum_has_the_same_bits_however_the_numbers_lie_in_memory() -> None:
    x = np.random.default_rng(0).standard_normal((3, 4, 5, 64), dtype=np.float32)
    along_rows = np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
    framed = np.zeros((3, 4, 64, 24), np.float32)
    framed[..., 8:13] = x.swapaxes(-1, -2)
    want = sum_last(x)
    np.testing.assert_allclose(want, x.sum(axis=-1, dtype=np.float64), atol=1e-5)
    for other in (along_rows, framed[..., 8:13].swapaxes(-1, -2), x[:, ::-1][:, ::-1]):
        assert sum_last(other).tobytes() == want.tobytes()
    assert sum_last(x[2, 3, 4]).tobytes() == want[2, 3, 4].tobytes()


@pytest.mark.parametrize("forms", list(candidates(3, 64)), ids=lambda f: f"{f.multiply.__name__}-{f.lanes}-{f.step}")
def test_every_form_of_the_products_gives_attention(forms: Forms, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are not stable here are still right; those that are have the bits of single queries."""
    counts, ends, pads = [70, 1, 9], [300, 75, 9], [11, 0, 0]
    q, k, v = arrays(12, 80, 6, 2, 64, 3, 310)
    monkeypatch.setattr("cuda_kernels.reference.attention.stable_forms", lambda group, dim: forms)
    given = (k, v, cu(counts), ints([2, 0, 1]), ints(ends), ints(pads), 200, 0.1)
    got = Attention()(q, *given)
    np.testing.assert_allclose(got, SPEC(q, *given), atol=5e-6)
    if is_stable(forms, 3, 64):
        for i in (0, 1, 50, 69):
            one = Attention()(q[i : i + 1], k, v, cu([1]), ints([2]), ints([231 + i]), ints([11]), 200, 0.1)
            assert one.tobytes() == got[i : i + 1].tobytes()


@pytest.mark.kills("whole-blocks/behind", "whole-blocks/before")
def test_only_blocks_that_every_query_of_a_tile_sees_whole_need_no_cap() -> None:
    """Five queries that begin and end around the edges of a block: its first or last position is out of sight of one
    of them, or of none, and only then does it need no cap."""
    positions = np.arange(3 * 64)
    needed = set()
    for start, back in product(range(123, 131), range(60, 70)):
        last = np.arange(start, start + 5)
        caps = caps_of(last - back, last, range(3), 5, 2)
        seen = ((positions >= last[:, None] - back) & (positions <= last[:, None])).reshape(5, 3, 64)
        cut = [block for block in range(3) if not seen[:, block].all()]
        assert list(caps) == cut
        for block in cut:
            assert np.array_equal(caps[block] > 0, seen[:, block].T.repeat(2, axis=1)[None])
        needed.add(tuple(cut))
    assert needed == {(0, 1, 2), (0, 2)}
    last = np.arange(128, 133)
    assert list(caps_of(last * 0, last, range(3), 5, 2)) == [2]
    last = np.arange(124, 129)
    padded = caps_of(last, last, range(1, 3), 4, 1)
    assert padded[1].shape == (2, 64, 4)
    assert (padded[2][1] == padded[2][1, :, :1]).all()
