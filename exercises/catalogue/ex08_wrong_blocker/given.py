"""The code named the wrong blocker

Guard hunt. In the engine this one descends from, a function refused with the words "no model in this tree threads a
ragged-batch mask into its forward yet". Forty models were about to be changed. It would not have helped: the masks
arrived. They were dropped further down, by whoever chooses the kernel, because one of its branches has no mask
argument.

One guard was taken away. The test below is green on the real code. Without the guard it goes red: a mask says that
the first half of the columns must not be seen, and the result depends on them all the same. The model is not
involved.

Your task: find the line. Write ANSWER = ("path/from/the/root.py", line).
"""

import numpy as np

from cuda_kernels.registry import make_ops
from teachkv.attention import attend
from teachkv.kv.view import Geometry, LayerView
from teachkv.masks import ExplicitBias

ANSWER = None


def attention(keys):
    """One row of 8 columns, one query; the mask hides columns 0 to 3."""
    ends = np.array([8], np.int32)
    view = LayerView(keys, keys, Geometry(np.array([0], np.int32), None, ends, ends - 1))
    bias = np.zeros((1, 1, 1, 8), np.float32)
    bias[..., :4] = -np.inf
    query = np.ones((1, 2, 4), np.float32)
    return attend(make_ops("reference"), "decode", query, view, np.array([0, 1], np.int32), ExplicitBias(bias), 0.5)


def test_what_the_mask_hides_does_not_matter():
    keys = np.random.default_rng(0).standard_normal((1, 1, 8, 4)).astype(np.float32)
    before = attention(keys)
    keys[:, :, :4] = 7.0
    assert np.array_equal(attention(keys), before)
