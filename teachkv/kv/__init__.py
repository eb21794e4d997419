"""KV storage: slots of one sequence, and the caches that batch them."""

from teachkv.kv.batch_cache import BatchCache, CacheStats, LiveLayer, LiveRows
from teachkv.kv.incremental import IncrementalBatchCache
from teachkv.kv.rebuild import RebuildBatchCache
from teachkv.kv.spec import CacheSpec
from teachkv.kv.view import CacheView, Geometry, LayerView

__all__ = [
    "BatchCache",
    "CacheSpec",
    "CacheStats",
    "CacheView",
    "Geometry",
    "IncrementalBatchCache",
    "LayerView",
    "LiveLayer",
    "LiveRows",
    "RebuildBatchCache",
]
