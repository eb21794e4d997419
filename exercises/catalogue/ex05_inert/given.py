"""What equal rows must not notice

Rows of equal length need no dead prefix. The engine promises them that ragged decoding costs nothing: `lead_pad` is
then None, not an array of zeros, and everything that handles pads stays untouched. An array of zeros gives the same
text, so nobody saw when the promise was broken; the uniform batch had become slower.

`make_geometry(row, lead_pad, end, counts)` takes a pad for each row and decides what to publish.

Your task: hold the promise with a test.
"""

import numpy as np

from teachkv.kv.geometry import make_geometry


def geometry(lead_pads):
    """Rows with these pads, all of which end at column 8 and write one token."""
    n = len(lead_pads)
    return make_geometry(np.arange(n), np.array(lead_pads), np.full(n, 8), np.ones(n, np.int32))


def test_equal_rows_publish_nothing():
    assert geometry([0, 3]).lead_pad.tolist() == [0, 3]
