"""Dispatch: from a mask to the kernel that honours it, or a refusal."""

from __future__ import annotations

from typing import Literal

from cuda_kernels.registry import Ops
from teachkv.errors import UnsupportedMask
from teachkv.kv.view import Array, IntArray, LayerView
from teachkv.masks import CausalByKernel, ExplicitBias, Mask, NoMask

Kind = Literal["decode", "prefill"]


def mask_must_be_applied_as_bias(mask: Mask) -> bool:
    """True if only adding the mask to the scores honours it: no lead pad and window say the same."""
    return isinstance(mask, ExplicitBias)


def attend(ops: Ops, kind: Kind, q: Array, layer: LayerView, cu_seqlens: IntArray, mask: Mask, scale: float) -> Array:
    """q [T, H, D] over one layer's K and V [R, G, C, D], cu_seqlens [B+1] -> [T, H, D].

    The dead prefix reaches the kernel through the mask alone: a masker that loses it gives wrong answers at once, not
    only on some paths. Raises UnsupportedMask for a bias where the backend takes none.
    """
    kernel = ops.attention_decode_ragged if kind == "decode" else ops.attention_prefill
    where = layer.geometry
    if mask_must_be_applied_as_bias(mask):
        assert isinstance(mask, ExplicitBias)
        if not ops.takes_bias:
            raise UnsupportedMask(f"backend {ops.backend!r} takes no attention bias; use the reference backend for it")
        # guard[dispatch]: the parent's fast path had no mask argument, and the mask was dropped there
        # mutant[dispatch/drops-bias]:
        #   - return kernel(q, layer.k, layer.v, cu_seqlens, where.row, where.end, scale=scale, bias=mask.array)
        #   + return kernel(q, layer.k, layer.v, cu_seqlens, where.row, where.end, scale=scale)
        return kernel(q, layer.k, layer.v, cu_seqlens, where.row, where.end, scale=scale, bias=mask.array)
    if isinstance(mask, CausalByKernel):
        pad, window = mask.lead_pad, mask.window
        return kernel(q, layer.k, layer.v, cu_seqlens, where.row, where.end, pad, window, scale)
    if isinstance(mask, NoMask):
        return kernel(q, layer.k, layer.v, cu_seqlens, where.row, where.end, scale=scale)
    raise UnsupportedMask(f"no kernel honours a mask of type {type(mask).__name__}")
