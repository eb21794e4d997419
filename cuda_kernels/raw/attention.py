"""Launches of both attention ops: one rule, two grids."""

from __future__ import annotations

from typing import Any

from cuda_kernels.raw import loader
from cuda_kernels.raw.arrays import dtype_code, empty, integers, no_bias, same
from cuda_kernels.raw.shapes import GROUP_LIMIT, check_head_dim, padded

LOG2_E = 1.4426950408889634


def checked(
    q: Any, k_cache: Any, v_cache: Any, cu_seqlens: Any, row: Any, end: Any, lead_pad: Any, window: int | None, bias: Any
) -> tuple[int, int, int, int, int]:
    """B, H, G, C, D, after refusing what a kernel would misread."""
    no_bias(bias)
    count, heads, head_dim = q.shape
    rows, groups, columns, _ = k_cache.shape
    check_head_dim(head_dim)
    same("k_cache", k_cache, (rows, groups, columns, head_dim), q.dtype)
    same("v_cache", v_cache, (rows, groups, columns, head_dim), q.dtype)
    if heads % groups != 0 or heads // groups > GROUP_LIMIT:
        raise ValueError(f"{heads} query heads over {groups} KV heads: raw attention takes groups of 1..{GROUP_LIMIT}")
    if window is not None and window < 1:
        raise ValueError(f"window {window}: a query sees at least itself")
    batch = len(row)
    integers("row", row, batch)
    integers("end", end, batch)
    integers("cu_seqlens", cu_seqlens, batch + 1)
    if lead_pad is not None:
        integers("lead_pad", lead_pad, batch)
    return batch, heads, groups, columns, head_dim


def simple(
    op: str, q: Any, k_cache: Any, v_cache: Any, cu_seqlens: Any, row: Any, end: Any, lead_pad: Any, window: int | None,
    scale: float, sizes: tuple[int, int, int, int, int],
) -> Any:  # fmt: skip
    """One warp per (token, head), plain multiply-adds."""
    batch, heads, groups, columns, head_dim = sizes
    out = empty(q, q.shape)
    defines = {"TKV_DTYPE": dtype_code(q), "TKV_D": head_dim}
    kernel = loader.kernel(f"{op}/raw_kernel.cu", f"{op}_simple", q, defines)
    arguments = (
        q, k_cache, v_cache, out, cu_seqlens, row, end, lead_pad, batch, heads, groups, columns, window or 0, scale * LOG2_E
    )  # fmt: skip
    kernel((q.shape[0] * heads, 1, 1), (32, 1, 1), arguments, shared=padded(head_dim * 4) + 64 * 4)
    return out
