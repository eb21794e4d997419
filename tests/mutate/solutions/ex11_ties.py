"""A solution of ex11_ties."""

import numpy as np

from cuda_kernels.sample.spec import largest


def top(logits, k):
    return largest(np.array(logits, np.float32), k).tolist()


def test_top_k():
    assert top([1.0, 5.0, 1.0, 1.0], 2) == [0, 1]
