"""The guard whose tests stayed green

Whether rows of unequal length may share a batch is asked once, when a model is loaded, and the scheduler plans by
the answer. In the origin of this engine somebody made the question answer True for every model. The whole suite
stayed green. The reason: the check of exercise 3 stood behind it and refused each batch. Two guards covered each
other, so no test of refusals could tell whether the first one was there. What was lost was time: the scheduler
planned batches that were refused at every step.

Your task: test the question itself. A cache with a window in any layer must say that it cannot be ragged.
"""

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
