"""Log-probabilities with a named meaning (`SamplingParams.logprobs_mode`)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Row = NDArray[np.float32]
Decode = Callable[[int], str]


@dataclass(frozen=True, slots=True)
class Logprob:
    """`logprob`: natural log of the probability (the logit, in the logits modes). `rank`: 1 is the likeliest."""

    logprob: float
    rank: int
    decoded_token: str


TokenLogprobs = dict[int, Logprob]


def log_softmax(row: Row) -> Row:
    """row [V] -> natural log-probabilities, float32; the sum in between is taken in float64."""
    shifted = row - row.max()
    total = np.exp(shifted).sum(dtype=np.float64)
    return np.asarray(shifted - np.float32(np.log(total)), np.float32)


def report(values: Row, chosen: int, count: int, decode: Decode) -> TokenLogprobs:
    """The `count` largest of values [V] (-1: all), the likeliest first and equal ones by id; always with `chosen`."""
    wanted = len(values) if count == -1 else min(count, len(values))
    ids = _largest(values, wanted)
    found = {token: Logprob(float(values[token]), rank, decode(token)) for rank, token in enumerate(ids, 1)}
    # guard[chosen-reported]: the drawn token may lie outside the first n, and is what callers sum up
    # mutant[chosen-reported/removed]:
    #   - if chosen not in found:
    #   -     found[chosen] = Logprob(float(values[chosen]), rank_of(values, chosen), decode(chosen))
    #   + pass
    if chosen not in found:
        found[chosen] = Logprob(float(values[chosen]), rank_of(values, chosen), decode(chosen))
    return found


def rank_of(values: Row, token: int) -> int:
    """Place of the token when values [V] are sorted, largest first and equal ones by id; starts at 1."""
    return 1 + int((values > values[token]).sum()) + int((values[:token] == values[token]).sum())


def prompt_logprobs(logits: Row, prompt_ids: Sequence[int], count: int, decode: Decode) -> list[TokenLogprobs | None]:
    """One entry per prompt token: None for the first, then what logits [T, V] of the token before said about it.

    logits: at least T - 1 rows, row t computed at prompt position t.
    """
    rows = (report(log_softmax(logits[t - 1]), int(prompt_ids[t]), count, decode) for t in range(1, len(prompt_ids)))
    return [None, *rows]


def _largest(values: Row, count: int) -> list[int]:
    if count == 0:
        return []
    last = np.partition(values, len(values) - count)[len(values) - count]
    ids = np.flatnonzero(values >= last)
    return [int(i) for i in ids[np.argsort(-values[ids], kind="stable")][:count]]
