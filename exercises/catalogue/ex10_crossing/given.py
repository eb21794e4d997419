"""The token that crosses p

Top-p keeps the likeliest tokens until their mass reaches p. The token that carries the sum across p belongs to
them: without it less than p is kept, and with one very likely token nothing at all. The other error keeps one too
many.

`nucleus(scaled, top_p)` takes logits less their maximum and returns the kept ids, ascending.

Your task: kill both with exact sets of ids.
"""

import numpy as np

from cuda_kernels.sample.spec import nucleus


def kept(probabilities, top_p):
    """Ids that top-p keeps of tokens with these probabilities."""
    logits = np.log(np.array(probabilities, np.float32))
    return nucleus(logits - logits.max(), top_p).tolist()


def test_top_p():
    assert 0 in kept([0.5, 0.3, 0.2], 0.9)
