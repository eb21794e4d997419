"""What the sampling tests share: a backend that is the spec alone, and draws counted over many indices."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
from numpy.typing import ArrayLike

from cuda_kernels.sample.spec import sample
from teachkv.sample import SampleState, SamplingParams, sample_batch

OPS = SimpleNamespace(xp=np, sample=sample)


def rows(values: ArrayLike, count: int = 1) -> np.ndarray:
    return np.tile(np.asarray(values, np.float32), (count, 1))


def logs(*probabilities: float) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(np.array(probabilities)).astype(np.float32)


def state(params: SamplingParams | None = None, prompt=(), *, vocab_size=97, seed=0, **more) -> SampleState:
    return SampleState(params or SamplingParams(), prompt, vocab_size=vocab_size, seed=seed, **more)


def at(index: int, params: SamplingParams, *, seed: int = 0, vocab_size: int = 97) -> SampleState:
    """A state about to draw token `index`, without penalties."""
    made = state(params, seed=seed, vocab_size=vocab_size)
    made.index = index
    return made


def draw_many(values: ArrayLike, params: SamplingParams, count: int, *, seed: int = 0, batch: int = 64) -> Counter:
    """Tokens of `count` successive indices of one seeded request, drawn `batch` rows at a time."""
    values = np.asarray(values, np.float32)
    found: Counter = Counter()
    for start in range(0, count, batch):
        size = min(batch, count - start)
        states = [at(start + i, params, seed=seed, vocab_size=len(values)) for i in range(size)]
        found.update(d.token for d in sample_batch(OPS, rows(values, size), states))
    return found


def support(values: ArrayLike, params: SamplingParams, *, batch: int = 1, count: int = 150) -> set[int]:
    return set(draw_many(values, params, count, batch=batch))
