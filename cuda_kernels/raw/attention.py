"""Launches of both attention ops: one rule, two grids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cuda_kernels.raw import loader
from cuda_kernels.raw.arrays import dtype_code, empty, integers, no_bias, same, zeroed_counters
from cuda_kernels.raw.limits import SHARED_LIMIT
from cuda_kernels.raw.shapes import GROUP_LIMIT, ceil_div, check_head_dim, padded

LOG2_E = 1.4426950408889634
SEGMENT = 256  # positions, as kSegment in common/softmax.cuh
MMA_ARCH = 80


@dataclass(frozen=True)
class Call:
    """The arguments of an attention op; geometry is (cu_seqlens, row, end, lead_pad)."""

    q: Any
    k_cache: Any
    v_cache: Any
    geometry: tuple[Any, Any, Any, Any]
    window: int | None
    scale: float


@dataclass(frozen=True)
class Sizes:
    """B rows, H query heads, G KV heads, C columns, D head dim."""

    batch: int
    heads: int
    groups: int
    columns: int
    head_dim: int

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """B, H, G, C, as the kernels take them."""
        return self.batch, self.heads, self.groups, self.columns


def checked(call: Call, bias: Any) -> Sizes:
    """The sizes, after refusing what a kernel would misread. Raises ValueError, TypeError or KernelUnavailable."""
    no_bias(bias)
    _, heads, head_dim = call.q.shape
    rows, groups, columns, _ = call.k_cache.shape
    check_head_dim(head_dim)
    same("k_cache", call.k_cache, (rows, groups, columns, head_dim), call.q.dtype)
    same("v_cache", call.v_cache, (rows, groups, columns, head_dim), call.q.dtype)
    if heads % groups != 0 or heads // groups > GROUP_LIMIT:
        raise ValueError(f"{heads} query heads over {groups} KV heads: raw attention takes groups of 1..{GROUP_LIMIT}")
    if call.window is not None and call.window < 1:
        raise ValueError(f"window {call.window}: a query sees at least itself")
    cu_seqlens, row, end, lead_pad = call.geometry
    batch = len(row)
    integers("row", row, batch)
    integers("end", end, batch)
    integers("cu_seqlens", cu_seqlens, batch + 1)
    if lead_pad is not None:
        integers("lead_pad", lead_pad, batch)
    return Sizes(batch, heads, groups, columns, head_dim)


def uses_mma(q: Any, head_dim: int) -> bool:
    """Do both ops run on the tensor cores? Chosen by dtype, head dim and architecture, so that they agree on it."""
    arch = loader.arch_of(q)
    return dtype_code(q) != 0 and head_dim % 8 == 0 and arch >= MMA_ARCH and fits(head_dim, arch)


def decode_shared(head_dim: int, segments: int) -> int:
    """Bytes of shared memory of the decode kernel: per warp 16 rows of a piece and 64 of V; 4 warps a segment."""
    return 4 * segments * (16 * (head_dim + 4) * 4 + 64 * pitch_v(head_dim) * 2) + 16


def decode_segments(head_dim: int, arch: int) -> int:
    """Segments per block: 2 where two such blocks fit on a multiprocessor, else 1. Never changes bits."""
    return 2 if head_dim <= 64 and 2 * decode_shared(head_dim, 2) <= SHARED_LIMIT[arch] * 1024 else 1


def fits(head_dim: int, arch: int) -> bool:
    """Do both tensor-core kernels find their shared memory on this architecture?"""
    return prefill_shared(head_dim, arch) is not None and decode_shared(head_dim, 1) <= SHARED_LIMIT[arch] * 1024


def prefill_shared(head_dim: int, arch: int) -> tuple[int, int] | None:
    """(stages, bytes of shared memory) of prefill: two stages of K and V where they fit, else one, else None."""
    stage = 64 * ((head_dim + 31) // 64 * 64 + 32 + pitch_v(head_dim)) * 2
    sums = ceil_div(head_dim, 64) * 32 * 128 * 4
    for stages in (2, 1):
        if stages * stage + sums <= SHARED_LIMIT[arch] * 1024:
            return stages, stages * stage + sums
    return None


def simple(op: str, call: Call, sizes: Sizes) -> Any:
    """One warp per (token, head), plain multiply-adds."""
    out = empty(call.q, call.q.shape)
    defines = {"TKV_DTYPE": dtype_code(call.q), "TKV_D": sizes.head_dim, "TKV_PATH": 0}
    kernel = loader.kernel(f"{op}/raw_kernel.cu", f"{op}_simple", call.q, defines)
    shared = padded(sizes.head_dim * 4) + 64 * 4
    arguments = (
        call.q,
        call.k_cache,
        call.v_cache,
        out,
        *call.geometry,
        *sizes.counts,
        call.window or 0,
        call.scale * LOG2_E,
    )
    kernel((call.q.shape[0] * sizes.heads, 1, 1), (32, 1, 1), arguments, shared=shared)
    return out


def prefill(call: Call, sizes: Sizes) -> Any:
    """64 (token, head) rows per block, K and V through shared memory."""
    chosen = prefill_shared(sizes.head_dim, loader.arch_of(call.q))
    assert chosen is not None, "uses_mma was asked"
    stages, shared = chosen
    out, tokens = empty(call.q, call.q.shape), call.q.shape[0]
    blocks = 2 if sizes.head_dim <= 128 else 1
    defines = {
        "TKV_DTYPE": dtype_code(call.q),
        "TKV_D": sizes.head_dim,
        "TKV_PATH": 1,
        "TKV_STAGES": stages,
        "TKV_BLOCKS": blocks,
    }
    kernel = loader.kernel("attention_prefill/raw_kernel.cu", "attention_prefill", call.q, defines)
    tiles = tokens * (sizes.heads // sizes.groups) // 64 + sizes.batch if tokens else 0
    arguments = (
        call.q,
        call.k_cache,
        call.v_cache,
        out,
        *call.geometry,
        *sizes.counts,
        call.window or 0,
        call.scale * LOG2_E,
    )
    kernel((tiles * sizes.groups, 1, 1), (128, 1, 1), arguments, shared=shared)
    return out


def slots_for(call: Call, sizes: Sizes) -> int:
    """How many segments one row can have: bounded by the cache's columns and the window, known on the host."""
    # Without a lead pad positions are columns; a ring (negative lead pad) may start anywhere in a segment.
    by_columns = (
        ceil_div(sizes.columns, SEGMENT) if call.geometry[3] is None else ceil_div(sizes.columns - 1, SEGMENT) + 1
    )
    if call.window is None:
        return by_columns
    return min(by_columns, ceil_div(call.window + call.q.shape[0] - 1, SEGMENT) + 1)


def decode(call: Call, sizes: Sizes) -> Any:
    """One block per row, KV head and one or two segments; the last block of a row joins what several blocks found."""
    out, tokens = empty(call.q, call.q.shape), call.q.shape[0]
    slots, segments = slots_for(call, sizes), decode_segments(sizes.head_dim, loader.arch_of(call.q))
    rows, split = sizes.batch * sizes.groups, slots > segments
    pieces = empty(call.q, (slots, tokens, sizes.heads, sizes.head_dim + 4), "float32") if split else None
    counters = zeroed_counters(call.q, rows) if split else None
    defines = {"TKV_DTYPE": dtype_code(call.q), "TKV_D": sizes.head_dim, "TKV_PATH": 1, "TKV_SEGMENTS": segments}
    defines["TKV_BLOCKS"] = 2 if sizes.head_dim <= 128 else 1
    kernel = loader.kernel("attention_decode_ragged/raw_kernel.cu", "attention_decode_ragged", call.q, defines)
    scalars = (*sizes.counts, call.window or 0, call.scale * LOG2_E, tokens)
    arguments = (call.q, call.k_cache, call.v_cache, out, pieces, counters, *call.geometry, *scalars)
    grid = (rows if tokens else 0, ceil_div(slots, segments), 1)
    kernel(grid, (128 * segments, 1, 1), arguments, shared=decode_shared(sizes.head_dim, segments), early=True)
    return out


def pitch_v(head_dim: int) -> int:
    """Elements between rows of V in shared memory, as kPitchV in common/attention_block.cuh."""
    return (head_dim + 55) // 64 * 64 + 8
