"""A model that writes recognisable integers, and reads back all that its geometry lets attention see."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from cuda_kernels.kv_align.spec import kv_align
from cuda_kernels.kv_gather.spec import kv_gather
from cuda_kernels.kv_scatter.spec import kv_scatter
from cuda_kernels.kv_strip.spec import kv_strip
from teachkv.kv import BatchCache, CacheSpec, CacheView, LiveRows

OPS: Any = SimpleNamespace(xp=np, kv_align=kv_align, kv_strip=kv_strip, kv_gather=kv_gather, kv_scatter=kv_scatter)
HEADS, DIM = 2, 2


def spec(layers: int = 2, maximum: int = 64, rings: tuple[int | None, ...] | None = None) -> CacheSpec:
    """float64, so that every code below is exact."""
    return CacheSpec(HEADS, DIM, maximum, (None,) * layers if rings is None else rings, np.float64)


def code(request_id: int, layer: int, positions: Any) -> np.ndarray:
    """[G, n, D]: what position p of a request holds in a layer; no two agree."""
    base = (request_id * 100.0 + layer) * 100_000.0 + np.asarray(positions, dtype=np.float64)
    heads = np.arange(HEADS)[:, None, None] * 0.25
    dims = np.arange(DIM)[None, None, :] * 0.0625
    codes: np.ndarray = base[None, :, None] + heads + dims
    return codes


def same(found: Any, expected: np.ndarray) -> None:
    """Bit for bit; NaN is never the same. (np.testing's version costs fifty times as much on arrays this small.)"""
    assert found.shape == expected.shape
    assert (found == expected).all(), f"{found.ravel()[:8]} where {expected.ravel()[:8]} is due"


def write(
    view: CacheView, ids: Sequence[int], counts: Sequence[int], rings: Sequence[int | None], *, look: bool = True
) -> None:
    """Fill the view's new columns as the model would, then `look` at every column that its queries may see."""
    first = np.cumsum(counts) - counts
    for layer, layer_view in enumerate(view.layers):
        geometry = layer_view.geometry
        for b, request_id in enumerate(ids):
            tokens = slice(first[b], first[b] + counts[b])
            positions, columns = view.positions[tokens], geometry.column[tokens]
            assert columns.tolist() == list(range(geometry.end[b] - counts[b], geometry.end[b]))
            row, written = geometry.row[b], code(request_id, layer, positions)
            layer_view.k[row][:, columns], layer_view.v[row][:, columns] = written, -written
            for position, column in zip(positions, columns, strict=True) if look else ():
                check_visible(layer_view, b, request_id, layer, int(position), int(column), rings[layer])


def check_visible(
    view: Any, b: int, request_id: int, layer: int, position: int, column: int, window: int | None
) -> None:
    """The query at `column` sees exactly the keys of its own request, min(position + 1, w) of them."""
    pad = 0 if view.geometry.lead_pad is None else int(view.geometry.lead_pad[b])
    assert column - pad == position
    start = max(pad, 0, column + 1 - window if window else 0)
    visible = np.arange(start, column + 1)
    assert len(visible) == min(position + 1, window or position + 1)
    row = view.geometry.row[b]
    same(view.k[row][:, visible], code(request_id, layer, visible - pad))
    same(view.v[row][:, visible], -code(request_id, layer, visible - pad))


def prefill(cache: Any, ids: Sequence[int], counts: Sequence[int]) -> None:
    view = cache.open_prefill(ids, counts)
    write(view, ids, counts, cache.spec.rings)
    cache.close(view)


def decode(
    cache: Any, ids: Sequence[int], counts: Sequence[int] | None = None, kept: Sequence[int] | None = None
) -> CacheView:
    view: CacheView = cache.open_decode(ids, counts)
    write(view, ids, counts or [1] * len(ids), cache.spec.rings)
    cache.close(view, kept)
    return view


def started(cache: Any, lengths: dict[int, int]) -> Any:
    """The cache after one prompt of each length, each in a part of its own."""
    for request_id, length in lengths.items():
        cache.add(request_id)
        prefill(cache, [request_id], [length])
    return cache


def check_live(cache: BatchCache, request_id: int, length: int, rings: Sequence[int | None]) -> None:
    """The live rows of a request are its codes, all of them and nothing else."""
    rows: LiveRows = cache.live_rows(request_id)
    assert rows.length == cache.length(request_id) == length
    for layer, (held, ring) in enumerate(zip(rows.layers, rings, strict=True)):
        assert held.first == max(0, length - ring) if ring else held.first == 0
        expected = code(request_id, layer, np.arange(held.first, length))
        same(held.k, expected)
        same(held.v, -expected)
        assert held.k.base is None or held.k.base.size == held.k.size
