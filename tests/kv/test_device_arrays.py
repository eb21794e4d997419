"""Buffers may live on a device: only the ops, the array module and plain slices may touch them, never NumPy itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from kvfake import OPS, code, same, spec, write

from teachkv.kv import CacheView, IncrementalBatchCache, LayerView, RebuildBatchCache


class DeviceArray(np.ndarray):
    """As strict as a device array: no NumPy function takes it, and it takes no host array."""

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        raise TypeError(f"numpy.{function.__name__} was called on a device array")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        raise TypeError(f"numpy.{ufunc.__name__} was called on a device array")

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(value, np.ndarray) and not isinstance(value, DeviceArray):
            raise TypeError("a host array was assigned to a device array")
        super().__setitem__(index, value)


def host(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, DeviceArray) else value


def on_device(function: Any) -> Any:
    """The same function on device arrays."""

    def call(*args: Any, **kwargs: Any) -> Any:
        lists = [[host(one) for one in arg] if isinstance(arg, list) else host(arg) for arg in args]
        shared = args and isinstance(args[0], DeviceArray) and any(other is args[0] for other in args[1:])
        if shared:
            lists = [lists[0] if arg is args[0] else value for arg, value in zip(args, lists, strict=True)]
        result = function(*lists, **kwargs)
        return result.view(DeviceArray) if isinstance(result, np.ndarray) else result

    return call


XP = SimpleNamespace(**{name: on_device(getattr(np, name)) for name in ("zeros", "full", "array", "asarray", "stack")})
DEVICE: Any = SimpleNamespace(
    xp=XP, **{name: on_device(getattr(OPS, name)) for name in ("kv_align", "kv_strip", "kv_gather", "kv_scatter")}
)


def run_part(cache: Any, kind: str, ids: list[int], counts: list[int], kept: list[int] | None = None) -> None:
    view = getattr(cache, f"open_{kind}")(ids, counts)
    assert all(isinstance(layer.k, DeviceArray) for layer in view.layers)
    layers = tuple(LayerView(host(layer.k), host(layer.v), layer.geometry) for layer in view.layers)
    write(CacheView(layers, view.positions, view.epoch), ids, counts, cache.spec.rings)
    cache.close(view, kept)


@pytest.mark.parametrize("rings", [(None, None), (None, 4)], ids=["full", "ring"])
@pytest.mark.parametrize("kind", [RebuildBatchCache, IncrementalBatchCache])
def test_nothing_but_ops_and_slices_touches_the_buffers(kind: Any, rings: tuple[int | None, ...]) -> None:
    """Prompts in chunks, ragged decode where rings allow it, unequal commits, truncation, blocks, recompute."""
    cache = kind(spec(rings=rings, maximum=600), DEVICE, poison=True)
    ragged = rings == (None, None)
    lengths = {1: 3, 2: 7, 3: 510} if ragged else {1: 6, 2: 6, 3: 6}
    for request_id, length in lengths.items():
        cache.add(request_id)
        run_part(cache, "prefill", [request_id], [length - 2])
    run_part(cache, "prefill", [1, 2, 3], [2, 2, 2])
    for _ in range(8):
        run_part(cache, "decode", [1, 2, 3], [1, 1, 1])
    if ragged:
        run_part(cache, "decode", [1, 2, 3], [3, 3, 3], kept=[1, 3, 2])
        run_part(cache, "decode", [1, 3], [1, 1])
        cache.truncate(2, 10)
        run_part(cache, "decode", [2, 3], [1, 1])
        rows = cache.live_rows(2)
        cache.drop(2)
        cache.add(2)
        cache.load_blocks(2, [[(layer.k[:, :4], layer.v[:, :4]) for layer in rows.layers]])
        assert cache.length(2) == 4
    cache.trim()
    cache.invalidate()
    run_part(cache, "decode", [1], [1])
    for request_id in (1, 2, 3):
        for layer, held in enumerate(cache.live_rows(request_id).layers):
            same(host(held.k), code(request_id, layer, np.arange(held.first, cache.length(request_id))))
