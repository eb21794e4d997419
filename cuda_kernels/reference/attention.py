"""attention_prefill and attention_decode_ragged in NumPy, fast enough for real models, in the spec's order of sums.

The two are one function: a query's result does not depend on how many come with it. Which form computes it is decided
by the count of tokens of its row, and both forms give the same bits, which `stable_forms` tests at load.
"""

from __future__ import annotations

import numpy as np

from cuda_kernels.common.attention_spec import attention
from cuda_kernels.common.types import F32, Array, IntArray
from cuda_kernels.reference.attention_forms import Forms, stable_forms
from cuda_kernels.reference.attention_single import Portion, attend_portion, portions_of
from cuda_kernels.reference.attention_tiles import Chunk, attend_tile, tokens_at_once
from cuda_kernels.reference.blas_threads import single
from cuda_kernels.reference.spans import Queries, queries_of
from cuda_kernels.reference.threads import spread

FEW = 8  # rows with fewer tokens go query by query


class Attention:
    """The callable behind both ops. Keeps the layout of the last few geometries: 30 layers ask for the same one."""

    def __init__(self) -> None:
        self._plans: dict[tuple[object, ...], tuple[list[Portion], list[Chunk]]] = {}

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
        lanes = forms.lanes
        portions, chunks = self._plan(cu_seqlens, row, end, lead_pad, window, (groups, lanes, forms.step))
        out = np.zeros(q.shape, np.float32)
        # guard[head-order]: query head h reads KV head h // (H / G), so the KV head is the outer axis
        # mutant[head-order/inner]:
        #   - scaled = np.asarray(q, np.float32).reshape(-1, groups, heads // groups, dim) * np.float32(scale)
        #   + scaled = np.asarray(q, np.float32).reshape(-1, heads // groups, groups, dim).swapaxes(1, 2) * scale
        scaled = np.asarray(q, np.float32).reshape(-1, groups, heads // groups, dim) * np.float32(scale)
        grouped = out.reshape(scaled.shape)

        def single_queries(begin: int, stop: int) -> None:
            for portion in portions[begin:stop]:
                some = scaled[portion.queries.token]
                if lanes > some.shape[2]:
                    zeros = np.zeros((len(some), groups, lanes - some.shape[2], dim), np.float32)
                    some = np.concatenate([some, zeros], axis=2)
                mixed = attend_portion(some, k_cache, v_cache, portion, forms.multiply)
                grouped[portion.queries.token] = mixed[:, :, : scaled.shape[2]]

        spread(len(portions), single_queries)
        for chunk in chunks:
            attend_chunk(scaled, k_cache, v_cache, chunk, forms, grouped)
        return out.astype(q.dtype, copy=False)

    def _plan(
        self,
        cu_seqlens: IntArray,
        row: IntArray,
        end: IntArray,
        lead_pad: IntArray | None,
        window: int | None,
        cut: tuple[int, int, int],  # KV heads, lanes, tokens of a tile
    ) -> tuple[list[Portion], list[Chunk]]:
        """Layout for one geometry, found by content: arrays may be reused by their owner for the next step."""
        pads = b"" if lead_pad is None else lead_pad.tobytes()
        key = (cu_seqlens.tobytes(), row.tobytes(), end.tobytes(), pads, lead_pad is None, window, cut)
        if key not in self._plans:
            if len(self._plans) >= 4:
                self._plans.clear()
            single, chunks = split(queries_of(cu_seqlens, row, end, lead_pad, window), cu_seqlens, cut[2])
            self._plans[key] = (portions_of(single, *cut[:2]), chunks)
        return self._plans[key]


def split(queries: Queries, cu_seqlens: IntArray, step: int) -> tuple[Queries, list[Chunk]]:
    """Rows with many tokens become chunks, all others single queries. Without stable tiles all are single."""
    owner = np.searchsorted(cu_seqlens, queries.token, side="right") - 1
    many = (np.diff(cu_seqlens)[owner] >= FEW) & (step > 1)
    chunks = [Chunk(queries.pick(np.flatnonzero(many & (owner == b)))) for b in np.unique(owner[many])]
    return queries.pick(np.flatnonzero(~many)), chunks


def attend_chunk(q: F32, k_cache: Array, v_cache: Array, chunk: Chunk, forms: Forms, out: F32) -> None:
    """All queries of one row, tile by tile over the threads, into out [T, G, g, D]."""
    queries, start = chunk.queries, chunk.start
    keys, values = chunk.aligned(k_cache), chunk.aligned(v_cache)
    size = tokens_at_once(q.shape[1] * q.shape[2], keys.shape[1], forms)

    def some(begin: int, stop: int) -> None:
        for i in range(begin * size, min(stop * size, len(queries.token)), size):
            cut = slice(i, i + size)
            first, last = queries.first[cut], queries.last[cut]
            out[queries.token[cut]] = attend_tile(q[queries.token[cut]], keys, values, first, last, start, forms)

    with single().hold():
        spread(-(-len(queries.token) // size), some)
