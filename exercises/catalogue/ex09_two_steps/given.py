"""True at the first step only

The pad of a row is where its first real column lies. It stays what it was while a batch grows: pads are counted
from the left. Once it was computed from a length that grows with each step. At the first step both are the same
number, and one step is what the test did.

Your task: a test that looks long enough.
"""

from types import SimpleNamespace

import numpy as np

from cuda_kernels.kv_align.spec import kv_align
from cuda_kernels.kv_gather.spec import kv_gather
from cuda_kernels.kv_scatter.spec import kv_scatter
from cuda_kernels.kv_strip.spec import kv_strip
from teachkv.kv import CacheSpec, RebuildBatchCache

OPS = SimpleNamespace(xp=np, kv_align=kv_align, kv_strip=kv_strip, kv_gather=kv_gather, kv_scatter=kv_scatter)


def started(lengths, windows=(None, None)):
    """A cache with a sequence of each length: {id: length}. A layer with a window keeps that many positions only."""
    cache = RebuildBatchCache(CacheSpec(2, 2, 64, windows, np.float64), OPS, poison=True)
    for number, length in lengths.items():
        cache.add(number)
        write(cache, cache.open_prefill([number], [length]))
    return cache


def write(cache, view):
    """What a model would do with an open view: fill the new columns of every layer, then close it."""
    for layer in view.layers:
        where = layer.geometry
        layer.k[where.row[:, None], :, where.column.reshape(len(where.row), -1)] = 1.0
        layer.v[where.row[:, None], :, where.column.reshape(len(where.row), -1)] = 1.0
    cache.close(view)


def test_the_pad_stays_true():
    cache = started({1: 6, 2: 3})
    view = cache.open_decode([1, 2])
    assert view.layers[0].geometry.lead_pad.tolist() == [0, 3]
    write(cache, view)
