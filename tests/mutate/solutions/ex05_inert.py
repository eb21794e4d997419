"""A solution of ex05_inert."""

import numpy as np

from teachkv.kv.geometry import make_geometry


def geometry(lead_pads):
    """Rows with these pads, all of which end at column 8 and write one token."""
    n = len(lead_pads)
    return make_geometry(np.arange(n), np.array(lead_pads), np.full(n, 8), np.ones(n, np.int32))


def test_equal_rows_publish_nothing():
    assert geometry([0, 3]).lead_pad.tolist() == [0, 3]
    assert geometry([0, 0]).lead_pad is None
