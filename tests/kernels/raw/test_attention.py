"""Raw attention on the host build: against the spec, and bit for bit against itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cuda_kernels.errors import KernelUnavailable
from tests.kernels.raw.cases import DTYPES, Ragged, assert_close, bits, ragged, rng

OPS = ("attention_decode_ragged", "attention_prefill")
LENGTHS = {"lengths": [70, 1, 300, 65], "counts": [2, 1, 1, 3], "pads": [3, 0, 65, -9]}
SHORT = {"lengths": [9, 1, 66], "counts": [2, 1, 3], "pads": [3, 0, -9]}


def check(call: Ragged, dtype: str) -> None:
    expected = call.run(OPS[0], "spec")
    outs = [call.run(op) for op in OPS]
    for out in outs:
        assert_close(out, expected, dtype)
    assert (bits(outs[0]) == bits(outs[1])).all(), "prefill and decode differ"


@pytest.mark.case("Dao-AILab/flash-attention#1745")
@pytest.mark.parametrize("dtype", list(DTYPES))
@pytest.mark.parametrize("window", [None, 10])
def test_ragged_rows_with_poisoned_prefixes_rings_and_windows(dtype: str, window: int | None) -> None:
    check(ragged(dtype, 4, 2, 24, **LENGTHS, window=window), dtype)


@pytest.mark.parametrize("head_dim", [4, 20, 64, 80, 96, 128, 256])
def test_head_dims(head_dim: int) -> None:
    check(ragged("bfloat16", 2, 1, head_dim, **SHORT), "bfloat16")


@pytest.mark.case("onnx/onnx#7274")
@pytest.mark.parametrize("group", range(1, 9))
def test_group_sizes(group: int) -> None:
    check(ragged("float16", 2 * group, 2, 24, **SHORT), "float16")


def test_several_tiles_of_queries_and_three_segments() -> None:
    check(ragged("float16", 3, 1, 24, [600, 40], [30, 40], [20, 1]), "float16")


@pytest.mark.case("flashinfer-ai/flashinfer#4484")
def test_padding_rows_give_zeros_and_read_nothing() -> None:
    call = ragged("float16", 2, 1, 24, **SHORT)
    call.row[1] = -1
    call.k[:], call.v[:] = (np.where(np.isfinite(c.astype(np.float32)), c, np.float16(1)) for c in (call.k, call.v))
    for op in OPS:
        assert (call.run(op)[2] == 0).all()
    check(call, "float16")


@pytest.mark.case("huggingface/transformers#22861")
@pytest.mark.parametrize("dtype", list(DTYPES))
def test_a_row_keeps_its_bits_whatever_shares_its_batch(dtype: str) -> None:
    """One row of 330 columns: alone, in a batch, at many lead pads, in another cache row and a larger cache."""
    alone = ragged(dtype, 2, 1, 24, [330], [1], [0])
    seen = {bits(alone.run(op)).tobytes() for op in OPS}
    for pad in (0, 1, 37, 63, 64, 70):
        batch = ragged(dtype, 2, 1, 24, [12, 330, 90], [1, 1, 1], [5, pad, 0])
        batch = place(alone, batch, 1, pad)
        seen |= {bits(batch.run(op)[1]).tobytes() for op in OPS}
    assert len(seen) == 1


def place(alone: Ragged, batch: Ragged, at: int, pad: int) -> Ragged:
    """`alone`'s row as row `at` of `batch`, whose lead pad there is `pad`."""
    length, row = int(alone.end[0]), batch.row[at]
    batch.q[at] = alone.q[0]
    for mine, other in ((alone.k, batch.k), (alone.v, batch.v)):
        other[row, :, pad : pad + length] = mine[0, :, :length]
    return batch


def test_the_path_before_sm_80_is_the_simple_one_and_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEACHKV_HOST_ARCH", "75")
    check(ragged("float16", 4, 2, 24, **SHORT), "float16")


def test_an_empty_step_gives_an_empty_answer() -> None:
    call = ragged("float16", 2, 1, 24, **SHORT)
    none: Any = np.zeros(0, np.int32)
    empty = replace(call, q=call.q[:0], cu=np.zeros(1, np.int32), row=none, end=none, pad=none)
    for op in OPS:
        assert empty.run(op).shape == (0, 2, 24)


def test_what_a_kernel_would_misread_is_refused() -> None:
    call = ragged("float16", 2, 1, 24, **SHORT)
    for op in OPS:
        with pytest.raises(ValueError, match="multiples of 4"):
            replace(call, q=call.q[..., :6]).run(op)
        with pytest.raises(TypeError, match="k_cache"):
            replace(call, k=call.k.astype(np.float32)).run(op)
        with pytest.raises(TypeError, match="end"):
            replace(call, end=call.end.astype(np.int64)).run(op)
        with pytest.raises(ValueError, match="groups of 1"):
            replace(call, q=np.repeat(call.q, 5, axis=1)).run(op)
        with pytest.raises(ValueError, match="contiguous"):
            replace(call, k=call.k[..., ::-1]).run(op)


def test_a_bias_is_refused_not_dropped() -> None:
    from cuda_kernels.registry import get

    call = ragged("float16", 2, 1, 24, **SHORT)
    bias = rng().random((3, 1, 3, 80), np.float32)
    for op in OPS:
        with pytest.raises(KernelUnavailable, match="bias"):
            get(op, "raw")(call.q, call.k, call.v, call.cu, call.row, call.end, call.pad, None, 1.0, bias)
