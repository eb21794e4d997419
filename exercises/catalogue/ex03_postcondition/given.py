"""The last check before the batch

Rows of unequal length share a batch only after they were padded in front to one length. A layer that keeps a window
cannot be padded. If such rows got into one batch all the same, they would share an append column: the shorter row
would write over columns that are not its own and attend to rows that nobody computed. No error, only other text.

The last line before a batch is built counts once more and raises `PlanRefused`.

Your task: write a test that goes red when that line is gone.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from cuda_kernels.kv_align.spec import kv_align
from cuda_kernels.kv_gather.spec import kv_gather
from cuda_kernels.kv_scatter.spec import kv_scatter
from cuda_kernels.kv_strip.spec import kv_strip
from teachkv.errors import PlanRefused
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


def test_rows_of_unequal_length_do_not_share_a_batch():
    cache = started({1: 9, 2: 9}, windows=(None, 4))
    write(cache, cache.open_decode([1, 2]))
    assert cache.length(1) == 10
