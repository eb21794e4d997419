"""Launches of both attention ops: one rule, two grids."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from cuda_kernels.raw import loader
from cuda_kernels.raw.arrays import FLOAT32, dtype_code, empty, integers, no_bias, same, zeroed_counters
from cuda_kernels.raw.limits import SHARED_LIMIT, Size
from cuda_kernels.raw.loader import Launch, Place, place_of, remembered
from cuda_kernels.raw.shapes import GROUP_LIMIT, ceil_div, check_head_dim, padded

LOG2_E = 1.4426950408889634
SEGMENT = 256  # positions, as kSegment in common/softmax.cuh
MMA_ARCH = 80


class Call(NamedTuple):
    """The arguments of an attention op; geometry is (cu_seqlens, row, end, lead_pad)."""

    q: Any
    k_cache: Any
    v_cache: Any
    geometry: tuple[Any, Any, Any, Any]
    window: int | None
    scale: float


class Sizes(NamedTuple):
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
    arch = place_of(q).arch
    return dtype_code(q) != 0 and head_dim % 8 == 0 and arch >= MMA_ARCH and fits(head_dim, arch)


def decode_shared(head_dim: int, segments: int) -> int:
    """Bytes of shared memory of the decode kernel: per warp 16 rows of a piece and 64 of V; 4 warps a segment."""
    return 4 * segments * (16 * (head_dim + 4) * 4 + 64 * pitch_v(head_dim) * 2) + 16


def decode_segments(head_dim: int, arch: int) -> int:
    """Segments per block: 2 where two such blocks fit on a multiprocessor, else 1. Never changes bits."""
    return 2 if head_dim <= 64 and 2 * decode_shared(head_dim, 2) <= SHARED_LIMIT[arch] * 1024 else 1


@lru_cache(maxsize=64)
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
    launch = _simple(op, place_of(call.q), dtype_code(call.q), len(call.q), sizes, call.window or 0, call.scale)
    launch(call.q, call.k_cache, call.v_cache, out, *call.geometry)
    return out


@remembered
def _simple(op: str, place: Place, dtype: int, tokens: int, sizes: Sizes, window: int, scale: float) -> Launch:
    defines = {"TKV_DTYPE": dtype, "TKV_D": sizes.head_dim, "TKV_PATH": 0}
    loaded = loader.kernel(f"{op}/raw_kernel.cu", f"{op}_simple", place, defines)
    shared = padded(sizes.head_dim * 4) + 64 * 4
    scalars = (*sizes.counts, window, scale * LOG2_E)
    return loaded.launch((tokens * sizes.heads, 1, 1), (32, 1, 1), scalars, shared=shared)


def prefill(call: Call, sizes: Sizes) -> Any:
    """64 (token, head) rows per block, K and V through shared memory."""
    out = empty(call.q, call.q.shape)
    launch = _prefill(place_of(call.q), dtype_code(call.q), len(call.q), sizes, call.window or 0, call.scale)
    launch(call.q, call.k_cache, call.v_cache, out, *call.geometry)
    return out


@remembered
def _prefill(place: Place, dtype: int, tokens: int, sizes: Sizes, window: int, scale: float) -> Launch:
    chosen = prefill_shared(sizes.head_dim, place.arch)
    assert chosen is not None, "uses_mma was asked"
    stages, shared = chosen
    defines = {"TKV_DTYPE": dtype, "TKV_D": sizes.head_dim, "TKV_PATH": 1, "TKV_STAGES": stages}
    defines["TKV_BLOCKS"] = 2 if sizes.head_dim <= 128 else 1
    loaded = loader.kernel("attention_prefill/raw_kernel.cu", "attention_prefill", place, defines)
    tiles = tokens * (sizes.heads // sizes.groups) // 64 + sizes.batch if tokens else 0
    scalars = (*sizes.counts, window, scale * LOG2_E)
    return loaded.launch((tiles * sizes.groups, 1, 1), (128, 1, 1), scalars, shared=shared)


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
    q, place, tokens = call.q, place_of(call.q), len(call.q)
    out, slots = empty(q, q.shape), slots_for(call, sizes)
    segments = decode_segments(sizes.head_dim, place.arch)
    split = slots > segments
    pieces = empty(q, (slots, tokens, sizes.heads, sizes.head_dim + 4), FLOAT32) if split else None
    counters = zeroed_counters(q, sizes.batch * sizes.groups) if split else None
    grid = (sizes.batch * sizes.groups if tokens else 0, ceil_div(slots, segments), 1)
    launch = _decode(place, dtype_code(q), tokens, grid, segments, sizes, call.window or 0, call.scale)
    launch(q, call.k_cache, call.v_cache, out, pieces, counters, *call.geometry)
    return out


@remembered
def _decode(
    place: Place, dtype: int, tokens: int, grid: Size, segments: int, sizes: Sizes, window: int, scale: float
) -> Launch:
    defines = {"TKV_DTYPE": dtype, "TKV_D": sizes.head_dim, "TKV_PATH": 1, "TKV_SEGMENTS": segments}
    defines["TKV_BLOCKS"] = 2 if sizes.head_dim <= 128 else 1
    loaded = loader.kernel("attention_decode_ragged/raw_kernel.cu", "attention_decode_ragged", place, defines)
    scalars, shared = (*sizes.counts, window, scale * LOG2_E, tokens), decode_shared(sizes.head_dim, segments)
    return loaded.launch(grid, (128 * segments, 1, 1), scalars, shared=shared, early=True)


def pitch_v(head_dim: int) -> int:
    """Elements between rows of V in shared memory, as kPitchV in common/attention_block.cuh."""
    return (head_dim + 55) // 64 * 64 + 8
