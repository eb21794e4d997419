"""A solution of ex10_crossing."""

import numpy as np

from cuda_kernels.sample.spec import nucleus


def kept(probabilities, top_p):
    """Ids that top-p keeps of tokens with these probabilities."""
    logits = np.log(np.array(probabilities, np.float32))
    return nucleus(logits - logits.max(), top_p).tolist()


def test_top_p():
    assert kept([0.5, 0.3, 0.2], 0.6) == [0, 1]
