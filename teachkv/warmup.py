"""What is done once at load, so that no request waits for it: recording the CUDA graphs of decode steps.

A graph belongs to a class of batch size, to K and V of every layer, and to one of the turns that steps take when one is
launched before the last is settled. Where rows are made once (a device with the incremental cache) all three are known
at load. What is left to the step that first needs it: graphs of the `rebuild` cache, whose buffers are other ones
whenever the batch has changed.
"""

from __future__ import annotations

import time

import numpy as np

from teachkv.graphs import CLASSES, GraphedModel
from teachkv.kv import BatchCache
from teachkv.model import Model
from teachkv.placing import Part


def record_graphs(model: Model, cache: BatchCache, seats: int, *, wanted: bool) -> str | None:
    """Record the graphs of all batch sizes up to `seats`; says what that cost, or why steps will do it. None where
    there are none to record. No row, count or event of the cache changes."""
    if not isinstance(model, GraphedModel):
        return None
    later = "CUDA graphs: recorded by the steps that first need them"
    if not wanted:
        return f"{later} (graphs_at_load is off)"
    view = cache.fixed_view()
    if view is None:
        return f"{later} (the batch cache makes its buffers anew)"
    part = Part("decode", np.zeros(1, np.int32), view)
    if not model.takes([part], view.positions):
        return "CUDA graphs: none (layers of different geometry)"
    began = time.perf_counter()
    model.record_ahead(part, seats)
    seconds, count, most = time.perf_counter() - began, len(model.recorded), min(seats, CLASSES[-1])
    held = 0 if model.pool is None else model.pool.total_bytes()
    return f"CUDA graphs: {count} recorded in {seconds:.2f} s for 1 .. {most} rows, {held / 1e6:.0f} MB"
