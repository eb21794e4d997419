"""The glass masker

A model with a sliding window lost 79 of 512 tokens: no error, no warning, exit code 0. There are two doors into the
masker. The dead prefix (columns before a row's first real one) had been wired into one of them. A layer with a
window takes the other, and its mask was glass: it looked like one, and let everything through.

`Masker.sliding_window_causal(geometry, cu_seqlens, window)` returns a mask with the fields `lead_pad` and `window`.

Your task: write a test that goes red when this door forgets the dead prefix.
"""

import numpy as np

from teachkv.kv.view import Geometry
from teachkv.masks import Masker


def geometry(ends, lead_pads):
    """Rows that end at these columns and begin with so many dead ones; each has one new token."""
    ends = np.array(ends, np.int32)
    return Geometry(np.arange(len(ends), dtype=np.int32), np.array(lead_pads, np.int32), ends, ends - 1)


ONE_EACH = np.array([0, 1, 2], np.int32)  # two rows, one query token each


def test_the_window_does_not_lose_the_dead_prefix():
    mask = Masker.sliding_window_causal(geometry([8, 8], [0, 3]), ONE_EACH, 4)
    assert mask.window == 4
