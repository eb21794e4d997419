"""Every op in the stepper against its spec: exact where nothing is summed, else within a bound on float32 sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import attention, case, copied, ints, rope, sampling

from cuda_kernels.attention_decode_ragged.numba_kernel import slots_for
from cuda_kernels.numba_tools.attention import SEGMENT
from cuda_kernels.registry import OPS, get

EPS = float(np.finfo(np.float32).eps)
EXACT = {"embed", "sample", "kv_align", "kv_strip", "kv_gather", "kv_scatter"}
# The kernels sum at most 128 terms of size 1, in another order than NumPy: each partial sum rounds by eps / 2 of its
# size, at most sqrt(128) for random signs. Two sides, then a few roundings more after the sum.
TOLERANCE = 2 * 128 * EPS


def run_both(op: str, arguments: Any, **more: Any) -> tuple[list[Any], list[Any]]:
    """(spec, numba): the result and all array arguments, after the call."""
    sides = []
    for telling in ("spec", "numba"):
        mine = copied(arguments)
        out = get(op, telling)(*mine, **more)
        sides.append([out] * (out is not None) + [a for a in mine if isinstance(a, np.ndarray)])
    return sides[0], sides[1]


def compare(op: str, arguments: Any, exact: bool = False, **more: Any) -> None:
    """NaN must stand where it stood: dead memory is neither read into a result nor written."""
    for a, b in zip(*run_both(op, arguments, **more), strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        if exact or op in EXACT or a.dtype.kind == "i":
            np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_allclose(b, a, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)


def test_prefill_walks_the_segments_that_its_query_sees_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another would add nothing and take its time. First in this file: a walk without end is stopped here."""
    walked = set()

    def fold(*arguments: Any) -> tuple[np.float32, np.float32]:
        walked.add(int(arguments[6]))
        assert walked <= {1, 2}
        return np.float32(-np.inf), np.float32(0.0)

    monkeypatch.setattr("cuda_kernels.attention_prefill.numba_kernel.fold_segment", fold)
    get("attention_prefill", "numba")(*attention(np.random.default_rng(6), (530,), (1,), group=1, dim=4, window=264))
    assert walked == {1, 2}


@pytest.mark.kills(
    "numba-residual/not-stored", "numba-tile-edge/last-value", "numba-silu/swapped", "numba-silu/sigmoid",
    "numba-turn/backwards", "numba-gather-blocks/first-again", "numba-scatter-place/row-zero", "numba-argmax-ties/any",
)  # fmt: skip
@pytest.mark.parametrize("op", OPS)
def test_op_is_its_spec(op: str) -> None:
    compare(op, case(op, np.random.default_rng(3)))


@pytest.mark.parametrize("op", [op for op in OPS if op not in ("sample", "linear", "lm_head")])
def test_float16_rounds_where_the_spec_rounds(op: str) -> None:
    """Half precision in, half precision out: one unit in the last place, where float32 sums differ near a tie."""
    arguments = case(op, np.random.default_rng(4), np.float16)
    for a, b in zip(*run_both(op, arguments), strict=True):
        assert a.dtype == b.dtype
        one_place = 0.0 if op in EXACT or a.dtype.kind == "i" else 2.0**-10
        np.testing.assert_allclose(b.astype(np.float32), a.astype(np.float32), rtol=one_place, atol=one_place / 8)


@pytest.mark.kills("numba-norm-eps/outside")
def test_a_row_of_zeros_is_not_divided_by_zero() -> None:
    x = np.zeros((2, 33), np.float32)
    out = get("rms_norm", "numba")(x, np.ones(33, np.float32), 1e-4)
    assert (out == 0).all()
    small = np.full((1, 33), 1e-4, np.float32)
    compare("rms_norm", (small, np.ones(33, np.float32), 1e-4))


def test_a_residual_may_be_a_single_element() -> None:
    x = np.full((1, 1), 3.0, np.float32)
    get("rms_norm", "numba")(x, np.ones(1, np.float32), 1e-5, np.ones((1, 1), np.float32))
    assert x.item() == 4


@pytest.mark.kills("numba-token-range/unchecked")
@pytest.mark.parametrize("token", [-1, 7])
def test_a_token_outside_the_table_gives_nan(token: int) -> None:
    """The table is wider than it is long, so that its width is no bound on tokens."""
    out = get("embed", "numba")(ints(2, token), np.ones((7, 9), np.float32))
    assert (out[0] == 1).all()
    assert np.isnan(out[1]).all()


@pytest.mark.kills("numba-padding-row/written", "numba-padding-row/column-unchecked")
@pytest.mark.parametrize(("row", "column"), [(-1, 0), (1, 5), (3, 0), (1, -1)])
def test_rope_writes_nothing_outside_the_caches(row: int, column: int) -> None:
    arguments = list(rope(np.random.default_rng(0)))
    arguments[7], arguments[8] = ints(*[row] * 4), ints(*[column] * 4)
    get("rope_and_append", "numba")(*arguments)
    assert np.isnan(arguments[5]).all()
    assert np.isnan(arguments[6]).all()


ATTENTION = ("attention_prefill", "attention_decode_ragged")


@pytest.mark.case("huggingface/transformers#39408")
@pytest.mark.kills(
    "numba-dead-prefix/off-by-one", "numba-dead-prefix/removed", "numba-window/one-too-wide", "numba-rescale/removed"
)
@pytest.mark.parametrize("op", ATTENTION)
@pytest.mark.parametrize("window", [None, 1, 9, 64])
def test_attention_reads_what_is_visible(op: str, window: int | None) -> None:
    compare(op, attention(np.random.default_rng(5), (71, 9, 1), (2, 3, 1), window=window))


@pytest.mark.kills("numba-first-segment/skips-one", "numba-merge/unscaled", "numba-merge-all/first-only")
@pytest.mark.parametrize("op", ATTENTION)
def test_attention_over_several_segments(op: str) -> None:
    compare(op, attention(np.random.default_rng(6), (530, 257), (1, 1), group=1, dim=4))


@pytest.mark.parametrize("op", ATTENTION)
def test_a_window_may_leave_whole_segments_out(op: str) -> None:
    """The query at position 529 sees 266 .. 529: its first segment is the row's second."""
    compare(op, attention(np.random.default_rng(6), (530,), (1,), group=1, dim=4, window=264))


@pytest.mark.case("onnx/onnx#7274")
@pytest.mark.kills("numba-grouped-heads/tiled", "numba-decode-heads/tiled")
@pytest.mark.parametrize("op", ATTENTION)
@pytest.mark.parametrize("group", range(1, 9))
def test_every_group_size(op: str, group: int) -> None:
    compare(op, attention(np.random.default_rng(group), (5, 3), (2, 1), group=group, dim=4))


@pytest.mark.parametrize("op", ATTENTION)
@pytest.mark.parametrize("dim", [4, 20, 64, 80, 100, 256])
def test_every_head_dim(op: str, dim: int) -> None:
    compare(op, attention(np.random.default_rng(dim), (7,), (1,), group=1, dim=dim))


@pytest.mark.kills("numba-slots/tight")
def test_a_ring_may_start_inside_a_segment() -> None:
    """40 live columns at positions 250 .. 289: two segments, though 40 columns would fit one."""
    compare("attention_decode_ragged", attention(np.random.default_rng(7), (290,), (1,), pads=(-250,)))


@pytest.mark.parametrize(("columns", "window"), [(1, None), (2, None), (257, None), (258, None), (900, 1), (900, 258)])
def test_there_is_a_slot_for_every_segment_that_a_run_can_touch_and_no_more(columns: int, window: int | None) -> None:
    """One slot too many is memory, and a block per token and head that finds nothing."""
    length = min(columns, window or columns)
    touched = [(first + length - 1) // SEGMENT - first // SEGMENT + 1 for first in range(SEGMENT)]
    assert slots_for(columns, window) == max(touched)


@pytest.mark.case("flashinfer-ai/flashinfer#4484")
@pytest.mark.kills("numba-sees-nothing/divides")
@pytest.mark.parametrize("op", ATTENTION)
def test_padding_and_blind_queries_give_zeros(op: str) -> None:
    q, k, v, cu, row, end, lead, window, scale = attention(np.random.default_rng(8), (5, 3), (1, 1), pads=(4, 2))
    row[0], lead[1] = -1, end[1]  # padding; and a row whose pad swallows its only query
    out = get(op, "numba")(q, k, v, cu, row, end, lead, window, scale)
    assert (out == 0).all()
    compare(op, (q, k, v, cu, row, end, lead, window, scale))


@pytest.mark.parametrize("op", ATTENTION)
def test_no_lead_pad_is_pad_zero(op: str) -> None:
    arguments = attention(np.random.default_rng(9), (6, 4), (2, 1), pads=(0, 0))
    compare(op, (*arguments[:6], None, *arguments[7:]))


@pytest.mark.case("kekzl/imp#1314")
@pytest.mark.parametrize("op", ATTENTION)
def test_attention_does_not_depend_on_company_or_lead_pad(op: str) -> None:
    """The same row alone and between others, at other lead pads: the same bits."""
    rng = np.random.default_rng(10)
    q, k, v = (rng.standard_normal(s).astype(np.float32) for s in ((1, 4, 8), (2, 70, 8), (2, 70, 8)))
    seen = set()
    for rows, pad in ((1, 0), (3, 1), (2, 63), (3, 65)):
        arguments = list(attention(rng, (70,) * rows, (1,) * rows, pads=(pad,) * rows))
        arguments[0][rows - 1], mine = q[0], arguments[4][rows - 1]
        arguments[1][mine, :, pad : pad + 70], arguments[2][mine, :, pad : pad + 70] = k, v
        seen.add(get(op, "numba")(*arguments)[rows - 1].tobytes())
    assert len(seen) == 1


@pytest.mark.kills("numba-topk-ties/all", "numba-topp-crossing/dropped")
@pytest.mark.parametrize("seed", range(4))
def test_sampled_tokens_are_the_spec_s(seed: int) -> None:
    compare("sample", sampling(np.random.default_rng(seed), rows=12))


@pytest.mark.kills("numba-draw-side/left")
def test_a_target_on_a_boundary_belongs_to_the_next_token() -> None:
    """64 equal logits have exactly one unit of mass each: at k / 64 token k begins. A thread owns two of them."""
    rows = 5
    ones, off = np.ones(rows, np.float32), np.zeros(rows, np.float32)
    starts = np.array([0, 1, 2, 31, 63]) / 64
    tokens = get("sample", "numba")(np.zeros((rows, 64), np.float32), ones, ints(*[0] * rows), ones, off, starts)
    assert tokens.tolist() == [0, 1, 2, 31, 63]


@pytest.mark.kills("numba-min-p-alone/needs-top-p")
def test_min_p_works_without_top_p() -> None:
    one = np.ones(1, np.float32)
    logits = np.array([[-1.0, 0.0, -1.0]], np.float32)
    least = np.array([0.5], np.float32)
    assert get("sample", "numba")(logits, one, ints(0), one, least, np.array([0.99])).tolist() == [1]


def test_a_token_on_the_limit_of_min_p_stays() -> None:
    """exp32(-ln 2) comes out a few roundings below 0.5; a limit counts as reached within SLACK of it."""
    one = np.ones(1, np.float32)
    logits = np.array([[-0.6931475, 0.0]], np.float32)
    assert np.exp(logits[0, 0]) < 0.5
    assert get("sample", "numba")(logits, one, ints(0), one, one / 2, np.zeros(1)).tolist() == [0]


@pytest.mark.case("numba/numba#8708")
@pytest.mark.kills("numba-finite-logits/nan-only", "numba-finite-logits/removed")
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("heat", [0.0, 1.0])
def test_logits_that_are_not_finite_are_not_a_token(bad: float, heat: float) -> None:
    logits = np.zeros((2, 40), np.float32)
    logits[0] = np.where(np.arange(40) == 33, bad, logits[0]) if bad != -np.inf else bad
    settings = np.full(2, heat, np.float32), ints(3, 3), np.ones(2, np.float32), np.zeros(2, np.float32), np.zeros(2)
    tokens = get("sample", "numba")(logits, *settings)
    assert tokens.tolist() == [-1, 0]


def test_a_long_vocabulary_takes_several_rounds_of_the_threads() -> None:
    compare("sample", sampling(np.random.default_rng(1), rows=2, vocabulary=300))


@pytest.mark.kills("numba-shift-order/always-forward", "numba-shift-order/always-backward")
@pytest.mark.parametrize("shift", [-7, -1, 1, 7])
def test_a_run_may_overlap_itself_in_several_chunks(shift: int) -> None:
    cache = np.random.default_rng(0).standard_normal((1, 1, 90, 8)).astype(np.float32)
    move = ints(0), ints(10), cache, ints(0), ints(10 + shift), ints(70)
    compare("kv_align", (cache, *move))


@pytest.mark.kills("numba-strip-tail/removed")
@pytest.mark.parametrize("stop", [0, 1, 12])
def test_a_strip_of_any_length(stop: int) -> None:
    compare("kv_strip", (np.random.default_rng(0).standard_normal((2, 3, 12, 4)).astype(np.float32), 1, 0, stop))


@pytest.mark.case("Dao-AILab/flash-attention#1786")
@pytest.mark.kills("numba-empty-grid/launched")
def test_an_empty_step_launches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*launch: Any) -> None:
        raise AssertionError(f"launched with a grid of {launch[1]}")

    monkeypatch.setattr("cuda_kernels.numba_tools.stepper.step", refuse)
    nothing = np.zeros((0, 12), np.float32)
    assert get("embed", "numba")(ints(), np.ones((3, 12), np.float32)).shape == (0, 12)
    assert get("rms_norm", "numba")(nothing, np.ones(12, np.float32), 1e-6).shape == (0, 12)
    assert get("linear", "numba")(nothing, np.ones((5, 12), np.float32)).shape == (0, 5)
    cache, empty = np.zeros((1, 2, 9, 4), np.float32), np.zeros((0, 2, 4), np.float32)
    assert get("attention_decode_ragged", "numba")(empty, cache, cache, ints(0), ints(), ints()).shape == (0, 2, 4)
    assert get("kv_strip", "numba")(cache, 0, 3, 3).shape == (2, 0, 4)
    get("kv_align", "numba")(cache, *[ints()] * 2, cache, *[ints()] * 3)
