"""A kernel mask and its explicit twin give the same attention, on a ragged batch whose dead columns are NaN."""

import numpy as np
import pytest

from cuda_kernels.attention_decode_ragged.spec import attention_decode_ragged
from teachkv.kv.view import Geometry
from teachkv.masks import CausalByKernel, Masker

ENDS, PADS = np.array([8, 8, 8], dtype=np.int32), np.array([0, 3, 6], dtype=np.int32)


@pytest.mark.case("huggingface/transformers#39408")
@pytest.mark.parametrize("window", [None, 1, 3, 8])
@pytest.mark.parametrize("count", [1, 2])
def test_kernel_mask_and_bias_agree_bit_for_bit(window: int | None, count: int) -> None:
    rng = np.random.default_rng(1)
    k, v = (rng.normal(size=(3, 2, 12, 4)).astype(np.float32) for _ in "kv")
    for row in range(3):
        k[row, :, : PADS[row]] = v[row, :, : PADS[row]] = np.nan
    k[:, :, 8:] = v[:, :, 8:] = np.nan
    q = rng.normal(size=(3 * count, 4, 4)).astype(np.float32)
    cu_seqlens = np.arange(4, dtype=np.int32) * count
    columns = np.concatenate([np.arange(end - count, end) for end in ENDS]).astype(np.int32)
    geometry = Geometry(np.arange(3, dtype=np.int32), PADS, ENDS, columns)
    mask = Masker.sliding_window_causal(geometry, cu_seqlens, window)
    assert isinstance(mask, CausalByKernel)
    bias = Masker.as_bias(mask, geometry, cu_seqlens).array
    common = (q, k, v, cu_seqlens, geometry.row, ENDS)
    by_kernel = attention_decode_ragged(*common, mask.lead_pad, mask.window, 0.5, None)
    by_bias = attention_decode_ragged(*common, PADS, None, 0.5, bias)
    assert np.isfinite(by_kernel).all()
    np.testing.assert_array_equal(by_kernel, by_bias)
    assert len({row.tobytes() for row in by_kernel}) == 3 * count
