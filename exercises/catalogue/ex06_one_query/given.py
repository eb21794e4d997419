"""One token needs no mask?

While text is generated, each row has one query token, the newest. It may see every column before it, so causality
needs no mask: a shortcut returned `NoMask()`. In a ragged batch some of those columns are dead.

Your task: write a test that goes red when the shortcut is taken for ragged rows too. It must accept the shortcut
where it is right.
"""

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
