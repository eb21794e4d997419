"""A penalty that rewards

A repetition penalty of 2 makes a token that was seen less likely: a logit of 4 becomes 2. What becomes of a logit
of -4? Divided, it would be -2, and the token likelier than before.

`repetition(row, seen, penalty)` changes the row in place.

Your task: pin the sign.
"""

import numpy as np

from teachkv.sample.processors import repetition


def penalized(logits, seen, penalty):
    row = np.array(logits, np.float32)
    repetition(row, seen, penalty)
    return row.tolist()


def test_the_penalty_makes_a_token_less_likely():
    assert penalized([4.0, 1.0], {0}, 2.0) == [2.0, 1.0]
