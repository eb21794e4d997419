"""A solution of ex12_repetition."""

import numpy as np

from teachkv.sample.processors import repetition


def penalized(logits, seen, penalty):
    row = np.array(logits, np.float32)
    repetition(row, seen, penalty)
    return row.tolist()


def test_the_penalty_makes_a_token_less_likely():
    assert penalized([4.0, -4.0, 1.0], {0, 1}, 2.0) == [2.0, -8.0, 1.0]
