"""Three of the best two

Top-k with k = 2 and three equal logits: how many tokens may be drawn? A selection by value lets all three through.
A selection by sorting may take the last ones on one machine and the first on another. Here the rule is: exactly k,
equal values from the lowest id up.

Your task: kill a mutant for each half of that rule.
"""

import numpy as np

from cuda_kernels.sample.spec import largest


def top(logits, k):
    return largest(np.array(logits, np.float32), k).tolist()


def test_top_k():
    assert top([3.0, 1.0, 2.0], 2) == [0, 2]
