"""A uniform cohort must not notice that ragged decode exists; the scheduler must know when it does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kvfake import OPS, decode, spec, started

from teachkv.kv import IncrementalBatchCache, RebuildBatchCache
from teachkv.masks import CausalByKernel, Masker, NoMask

BOTH = pytest.mark.parametrize("kind", [RebuildBatchCache, IncrementalBatchCache])
ONE_EACH = np.arange(4, dtype=np.int32)


@BOTH
@pytest.mark.kills("inert/publishes-when-uniform")
def test_a_uniform_batch_leaves_every_ragged_mechanism_untouched(kind: Any) -> None:
    """No lead pad is published, no strip is pending, no row is moved, and one query token gets no mask."""
    c = started(kind(spec(), OPS, poison=True), {1: 7, 2: 7, 3: 7})
    for step in range(4):
        geometry = decode(c, [1, 2, 3]).layers[0].geometry
        stored_len = 8 + step
        assert geometry.lead_pad is None
        assert isinstance(Masker.causal(geometry, ONE_EACH), NoMask)
        for window in (None, stored_len, stored_len + 1):
            assert isinstance(Masker.sliding_window_causal(geometry, ONE_EACH, window), NoMask)
        bites = Masker.sliding_window_causal(geometry, ONE_EACH, stored_len - 1)
        assert isinstance(bites, CausalByKernel)
        assert (bites.lead_pad, bites.window) == (None, stored_len - 1)
    stats = c.stats()
    assert (stats.aligns, stats.strips, stats.realigns, stats.compacts) == (0, 0, 0, 0)
    if isinstance(c, RebuildBatchCache):
        assert [row.lead_pad for row in c._rows.values()] == [0, 0, 0]
        assert c.geometry_epoch == 0


@BOTH
def test_a_ragged_batch_is_not_inert(kind: Any) -> None:
    """The same observations on unequal rows, so that the test above is known to look at something."""
    c = started(kind(spec(), OPS, poison=True), {1: 7, 2: 4, 3: 7})
    geometry = decode(c, [1, 2, 3]).layers[0].geometry
    assert geometry.lead_pad is not None
    assert isinstance(Masker.causal(geometry, ONE_EACH), CausalByKernel)
    assert c.geometry_epoch > 0
    assert any(event.startswith(("align", "join")) for event in c.take_events())
    assert c.take_events() == []


@BOTH
@pytest.mark.kills("capability/always-true")
@pytest.mark.parametrize("rings", [(4,), (None, 4), (4, None, None)])
def test_the_capability_predicate_is_what_the_scheduler_reads(kind: Any, rings: tuple[int | None, ...]) -> None:
    """It is asked of the model's slots at load: true before any row exists, and no cohort flips it."""
    ring = kind(spec(rings=rings), OPS, poison=True)
    full = kind(spec(layers=len(rings)), OPS, poison=True)
    assert (ring.can_be_ragged, full.can_be_ragged) == (False, True)
    for c in (ring, full):
        started(c, {1: 7, 2: 7})
        decode(c, [1, 2])
    assert (ring.can_be_ragged, full.can_be_ragged) == (False, True)
