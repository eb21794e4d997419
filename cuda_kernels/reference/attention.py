"""attention_prefill and attention_decode_ragged in NumPy, fast enough for real models, in the spec's order of sums.

The two are one function: a query's result does not depend on how many come with it. Which form computes it is decided
by the count of tokens of its row, and both forms give the same bits, which `stable_forms` tests at load.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cuda_kernels.common.attention_spec import attention
from cuda_kernels.common.types import F32, Array, IntArray
from cuda_kernels.reference.attention_forms import Forms, stable_forms
from cuda_kernels.reference.attention_single import Portion, attend_portion, portions_of
from cuda_kernels.reference.attention_tiles import Chunk, Tile, attend_tile, tiles_of
from cuda_kernels.reference.blas_threads import single
from cuda_kernels.reference.spans import Queries, queries_of
from cuda_kernels.reference.threads import share

FEW = 8  # rows with fewer tokens go query by query


class Plan(NamedTuple):
    """Who is computed how, for one geometry: queries one by one, and rows of many in tiles, the dearest first."""

    portions: list[Portion]
    chunks: list[Chunk]
    tiles: list[Tile]


class Attention:
    """The callable behind both ops. Keeps the layout of the last few geometries: 30 layers ask for the same one."""

    def __init__(self) -> None:
        self._plans: dict[tuple[object, ...], Plan] = {}

    def __call__(
        self,
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
        """q [T, H, D], caches [R, G, C, D], cu_seqlens [B+1], row, end, lead_pad [B] -> [T, H, D]; see the spec."""
        if bias is not None:
            return attention(q, k_cache, v_cache, cu_seqlens, row, end, lead_pad, window, scale, bias)
        heads, groups, dim = q.shape[1], k_cache.shape[1], q.shape[2]
        forms = stable_forms(heads // groups, dim)
        plan = self._plan(cu_seqlens, row, end, lead_pad, window, (heads // groups, forms))
        out = np.zeros(q.shape, np.float32)
        # guard[head-order]: query head h reads KV head h // (H / G), so the KV head is the outer axis
        # mutant[head-order/inner]:
        #   - scaled = np.asarray(q, np.float32).reshape(-1, groups, heads // groups, dim) * np.float32(scale)
        #   + scaled = np.asarray(q, np.float32).reshape(-1, heads // groups, groups, dim).swapaxes(1, 2) * scale
        scaled = np.asarray(q, np.float32).reshape(-1, groups, heads // groups, dim) * np.float32(scale)
        grouped = out.reshape(scaled.shape)

        def single_queries(portion: Portion) -> None:
            token = portion.queries.token
            grouped[token] = attend_portion(scaled[token], k_cache, v_cache, portion, forms)

        share(plan.portions, single_queries)
        if plan.tiles:
            attend_chunks(scaled, k_cache, v_cache, plan, forms, grouped)
        return out.astype(q.dtype, copy=False)

    def _plan(
        self,
        cu_seqlens: IntArray,
        row: IntArray,
        end: IntArray,
        lead_pad: IntArray | None,
        window: int | None,
        cut: tuple[int, Forms],  # query heads per KV head
    ) -> Plan:
        """Layout for one geometry, found by content: arrays may be reused by their owner for the next step."""
        pads = b"" if lead_pad is None else lead_pad.tobytes()
        key = (cu_seqlens.tobytes(), row.tobytes(), end.tobytes(), pads, lead_pad is None, window, cut)
        if key not in self._plans:
            if len(self._plans) >= 4:
                self._plans.clear()
            g, forms = cut
            single, chunks = split(queries_of(cu_seqlens, row, end, lead_pad, window), cu_seqlens, forms.step)
            tiles = [tile for number, chunk in enumerate(chunks) for tile in tiles_of(chunk, number, g, forms)]
            tiles.sort(key=lambda tile: tile.begin - tile.stop)
            self._plans[key] = Plan(portions_of(single), chunks, tiles)
        return self._plans[key]


def split(queries: Queries, cu_seqlens: IntArray, step: int) -> tuple[Queries, list[Chunk]]:
    """Rows with many tokens become chunks, all others single queries. Without stable tiles all are single."""
    owner = np.searchsorted(cu_seqlens, queries.token, side="right") - 1
    many = (np.diff(cu_seqlens)[owner] >= FEW) & (step > 1)
    chunks = [Chunk(queries.pick(np.flatnonzero(many & (owner == b)))) for b in np.unique(owner[many])]
    return queries.pick(np.flatnonzero(~many)), chunks


def attend_chunks(q: F32, k_cache: Array, v_cache: Array, plan: Plan, forms: Forms, out: F32) -> None:
    """All queries of rows with many, tile by tile over the threads: q [T, G, g, D] into out [T, G, g, D]."""
    keys, values = ([chunk.aligned(cache) for chunk in plan.chunks] for cache in (k_cache, v_cache))

    def one(work: tuple[Tile, int]) -> None:
        tile, group = work
        k, v = keys[tile.chunk][group], values[tile.chunk][group]
        out[tile.token, group] = attend_tile(q[tile.token, group], k, v, tile, forms)

    with single().hold():
        share([(tile, group) for tile in plan.tiles for group in range(q.shape[1])], one)
