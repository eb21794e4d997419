"""Exactly w keys

A window of w means w keys, the query's own among them. When the context is longer than w by one, the first key is
outside. Published engines were wrong here by one, in both directions. With a thousand keys nobody reads the
difference off the text.

Your task: find the one context length at which the mutant differs, and pin it.
"""

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
    assert window_of(context=100, window=4) == 4
    assert window_of(context=3, window=4) is None
