"""A solution of ex07_window_edge."""

import numpy as np

from teachkv.kv.view import Geometry
from teachkv.masks import Masker


def window_of(context, window):
    """The window that the mask of one row with `context` columns carries; None where it carries none."""
    ends = np.array([context], np.int32)
    geometry = Geometry(np.array([0], np.int32), None, ends, ends - 1)
    mask = Masker.sliding_window_causal(geometry, np.array([0, 1], np.int32), window)
    return getattr(mask, "window", None)


def test_the_window_bites_as_soon_as_it_must():
    assert window_of(context=4, window=4) is None
    assert window_of(context=5, window=4) == 4
