"""Launches attention_decode_ragged/raw_kernel.cu."""

from __future__ import annotations

from cuda_kernels.common.types import F32, Array, IntArray
from cuda_kernels.raw.attention import Call, checked, decode, simple, uses_mma


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
    """q [T, H, D], caches [R, G, C, D], cu_seqlens [B+1], row, end, lead_pad [B] -> [T, H, D]. A bias is refused."""
    call = Call(q, k_cache, v_cache, (cu_seqlens, row, end, lead_pad), window, scale)
    sizes = checked(call, bias)
    mma = uses_mma(q, sizes.head_dim)
    out: Array = decode(call, sizes) if mma else simple("attention_decode_ragged", call, sizes)
    return out
