"""A solution of ex06_one_query."""

import numpy as np

from teachkv.kv.view import Geometry
from teachkv.masks import CausalByKernel, Masker, NoMask


def geometry(ends, lead_pads):
    """Rows that end at these columns, with one new token each; `lead_pads` is None for rows of equal length."""
    ends = np.array(ends, np.int32)
    pads = None if lead_pads is None else np.array(lead_pads, np.int32)
    return Geometry(np.arange(len(ends), dtype=np.int32), pads, ends, ends - 1)


ONE_EACH = np.array([0, 1, 2], np.int32)


def test_one_query_token():
    assert isinstance(Masker.causal(geometry([8, 8], None), ONE_EACH), NoMask)
    mask = Masker.causal(geometry([8, 8], [0, 3]), ONE_EACH)
    assert isinstance(mask, CausalByKernel)
    assert mask.lead_pad.tolist() == [0, 3]
