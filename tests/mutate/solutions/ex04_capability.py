"""A solution of ex04_capability."""

from types import SimpleNamespace

import numpy as np

from cuda_kernels.kv_align.spec import kv_align
from cuda_kernels.kv_gather.spec import kv_gather
from cuda_kernels.kv_scatter.spec import kv_scatter
from cuda_kernels.kv_strip.spec import kv_strip
from teachkv.kv import CacheSpec, RebuildBatchCache

OPS = SimpleNamespace(xp=np, kv_align=kv_align, kv_strip=kv_strip, kv_gather=kv_gather, kv_scatter=kv_scatter)


def cache(windows):
    """A cache with one layer per entry: None is a full layer, a number a layer that keeps a window."""
    return RebuildBatchCache(CacheSpec(2, 2, 64, windows, np.float64), OPS)


def test_who_may_be_ragged():
    assert cache((None, None)).can_be_ragged
    assert not cache((None, 4)).can_be_ragged
