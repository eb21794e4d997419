"""Distributions by chi-square. No killer stands here: a decoy runs every test beside its guard's killers."""

import numpy as np
import pytest
from sampling import draw_many, logs

from teachkv.sample import SamplingParams

# 99.9th percentiles of chi-square by degrees of freedom.
LIMIT = {1: 10.83, 2: 13.82, 3: 16.27, 4: 18.47, 7: 24.32, 96: 147.0}


def chi_square(found, exact, count):
    assert set(found) <= {i for i, p in enumerate(exact) if p > 0}
    return sum((found[i] - count * p) ** 2 / (count * p) for i, p in enumerate(exact) if p > 0)


@pytest.mark.parametrize(
    ("params", "exact"),
    [
        ({}, [0.4, 0.3, 0.15, 0.1, 0.05]),
        ({"top_k": 3}, np.array([0.4, 0.3, 0.15, 0, 0]) / 0.85),
        ({"top_p": 0.75}, np.array([0.4, 0.3, 0.15, 0, 0]) / 0.85),
        ({"min_p": 0.3}, np.array([0.4, 0.3, 0.15, 0, 0]) / 0.85),
        ({"top_k": 3, "top_p": 0.8}, np.array([0.4, 0.3, 0, 0, 0]) / 0.7),
        ({"temperature": 2.0}, np.sqrt([0.4, 0.3, 0.15, 0.1, 0.05]) / np.sqrt([0.4, 0.3, 0.15, 0.1, 0.05]).sum()),
        ({"temperature": 0.5}, np.square([0.4, 0.3, 0.15, 0.1, 0.05]) / np.square([0.4, 0.3, 0.15, 0.1, 0.05]).sum()),
    ],
)
def test_distribution_by_chi_square(params, exact):
    count = 20_000
    found = draw_many(logs(0.4, 0.3, 0.15, 0.1, 0.05), SamplingParams(**params), count, seed=11, batch=500)
    assert chi_square(found, exact, count) < LIMIT[sum(p > 0 for p in exact) - 1]


def test_flat_distribution_over_a_prime_vocabulary():
    assert (
        chi_square(draw_many(np.zeros(97), SamplingParams(), 20_000, seed=5, batch=500), [1 / 97] * 97, 20_000)
        < LIMIT[96]
    )
