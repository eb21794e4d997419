"""What only the rebuild cache does: strip late, and let sequences that stay behind own their rows."""

import pytest
from kvfake import OPS, check_live, decode, spec, started

from teachkv.kv import RebuildBatchCache


def cache() -> RebuildBatchCache:
    return RebuildBatchCache(spec(), OPS, poison=True)


@pytest.mark.kills("accumulation/never-stripped")
def test_pad_does_not_accumulate_over_membership_changes() -> None:
    c = started(cache(), {1: 6, 2: 3, 3: 6})
    decode(c, [1, 2])
    view = decode(c, [3, 2])
    assert view.layers[0].geometry.lead_pad is not None
    assert view.layers[0].geometry.lead_pad.tolist() == [0, 2]
    check_live(c, 2, 5, (None, None))


def test_sequences_left_behind_own_their_rows_so_that_the_old_batch_can_go() -> None:
    c = started(cache(), {1: 6, 2: 3, 3: 9})
    decode(c, [1, 2, 3])
    decode(c, [1, 3])
    assert not c._rows[2].borrowed
    assert c._rows[2].lead_pad == 0
    check_live(c, 2, 4, (None, None))
