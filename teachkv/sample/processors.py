"""What changes logits before the draw: penalties, logit bias, and bans before `min_tokens`.

Scopes: presence and frequency count generated tokens; repetition takes prompt and generated tokens, each distinct one
once. They read token ids, never a row of a batch, so no padding can be counted.
"""

import math
from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

Row = NDArray[np.float32]


def repetition(row: Row, seen: Collection[int], penalty: float) -> None:
    """row [V] in place: logits of `seen` tokens are divided if positive, multiplied if negative (CTRL, Keskar 2019)."""
    ids = np.fromiter(seen, np.int64, len(seen))
    logits = row[ids]
    # guard[repetition-sign]: dividing a negative logit would make a repeated token likelier
    # mutant[repetition-sign/always-divides]:
    #   - row[ids] = np.where(logits > 0, logits / np.float32(penalty), logits * np.float32(penalty))
    #   + row[ids] = logits / np.float32(penalty)
    row[ids] = np.where(logits > 0, logits / np.float32(penalty), logits * np.float32(penalty))


def presence_and_frequency(row: Row, counts: Mapping[int, int], presence: float, frequency: float) -> None:
    """row [V] in place: minus `presence` once and `frequency` per occurrence of generated tokens (OpenAI's formula)."""
    ids = np.fromiter(counts, np.int64, len(counts))
    times = np.fromiter(counts.values(), np.float32, len(counts))
    row[ids] -= np.float32(presence) + np.float32(frequency) * times


def bias(row: Row, biases: Mapping[int, float]) -> None:
    """row [V] in place: add each token's bias; -inf forbids it."""
    for token, value in biases.items():
        row[token] = -math.inf if value == -math.inf else row[token] + np.float32(value)


def forbid(row: Row, tokens: Collection[int]) -> None:
    """row [V] in place: these tokens cannot be drawn."""
    row[np.fromiter(tokens, np.int64, len(tokens))] = -math.inf
