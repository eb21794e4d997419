"""attention_decode_ragged: attention of decoding rows: one query token each, or a few under speculation."""

from __future__ import annotations

from cuda_kernels.common.attention_spec import attention
from cuda_kernels.common.types import F32, Array, IntArray


def attention_decode_ragged(
    q: Array,
    k_cache: Array,
    v_cache: Array,
    cu_seqlens: IntArray,
    row: IntArray,
    end: IntArray,
    lead_pad: IntArray | None = None,
    window: int | None = None,
    scale: float = 1.0,
    bias: F32 | None = None,
) -> Array:
    """q [T, H, D], caches [R, G, C, D], cu_seqlens [B+1], row [B], end [B], lead_pad [B] -> [T, H, D].

    The meaning, and the order of every sum, is told once for both forms in `common/attention_spec.py`.
    """
    return attention(q, k_cache, v_cache, cu_seqlens, row, end, lead_pad, window, scale, bias)
