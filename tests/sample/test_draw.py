"""Exact supports, ties (E01, E03, E05, E06 of the public reports)."""

import numpy as np
import pytest
from sampling import OPS, at, logs, rows, support

from cuda_kernels.sample.spec import SLACK, kept, mass, nucleus, sample, scale
from teachkv.errors import NonFiniteLogits
from teachkv.sample import SamplingParams, sample_batch

BATCHES = (1, 7, 8, 9, 33)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.kills("topk-exact/by-value", "topk-exact/highest-id")
@pytest.mark.case("flashinfer-ai/flashinfer#3774")
def test_top_k_keeps_exactly_k_and_the_lowest_id_wins(batch):
    assert support(logs(0.4, 0.3, 0.3), SamplingParams(top_k=2), batch=batch) == {0, 1}
    assert support(logs(0.3, 0.3, 0.4), SamplingParams(top_k=2), batch=batch) == {0, 2}
    assert support(np.zeros(97), SamplingParams(top_k=1), batch=batch) == {0}
    assert support(np.zeros(97), SamplingParams(top_k=3), batch=batch) == {0, 1, 2}
    assert support([0, 5, 1, 5, 5, 5], SamplingParams(top_k=3), batch=batch) == {1, 3, 4}
    assert support(np.zeros(7), SamplingParams(top_k=7), batch=batch) == set(range(7))
    assert support(np.zeros(7), SamplingParams(top_k=700), batch=batch) == set(range(7))


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.case("flashinfer-ai/flashinfer#3774")
def test_k_of_one_equals_greedy(batch):
    logits = np.random.default_rng(3).integers(0, 4, (batch, 97)).astype(np.float32)
    greedy = sample_batch(OPS, logits, [at(0, SamplingParams(temperature=0))] * batch)
    assert [d.token for d in greedy] == [int(np.flatnonzero(row == row.max())[0]) for row in logits]
    one = sample_batch(OPS, logits, [at(i, SamplingParams(top_k=1)) for i in range(batch)])
    assert one == greedy


@pytest.mark.parametrize(
    ("p", "expected"),
    [(0.4, {0}), (0.5, {0}), (0.5001, {0, 1}), (0.8, {0, 1}), (0.8001, {0, 1, 2}), (1.0, {0, 1, 2}), (1e-6, {0})],
)
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.kills("topp-crossing/dropped", "topp-crossing/one-more")
@pytest.mark.case("rasbt/reasoning-from-scratch#164")
def test_top_p_keeps_the_token_that_crosses(p, expected, batch):
    ids = kept(scale(logs(0.5, 0.3, 0.2), 1.0), 0, p, 0)
    assert ids is None or set(ids.tolist()) == expected
    assert support(logs(0.5, 0.3, 0.2), SamplingParams(top_p=p), batch=batch, count=120) == expected
    shuffled = {{0: 2, 1: 0, 2: 1}[token] for token in expected}
    assert support(logs(0.3, 0.2, 0.5), SamplingParams(top_p=p), batch=batch, count=120) == shuffled


@pytest.mark.case("rasbt/reasoning-from-scratch#164")
def test_top_p_cuts_ties_by_id_in_flat_and_wide_vocabularies():
    assert support(np.zeros(10), SamplingParams(top_p=0.3)) == {0, 1, 2}
    scaled = scale(np.zeros(5000, np.float32), 1.0)
    assert kept(scaled, 0, 0.5, 0).tolist() == list(range(2500))
    order = np.random.default_rng(0).permutation(5000)
    values = np.linspace(0, 3, 5000, dtype=np.float32)[order]
    ids = kept(scale(values, 1.0), 0, 0.9, 0)
    p = np.exp(values.astype(np.float64))
    p /= p.sum()
    ranked = np.argsort(-p, kind="stable")
    size = int(np.searchsorted(np.cumsum(p[ranked]), 0.9 * (1 - 2.0**-20))) + 1
    assert ids.tolist() == sorted(ranked[:size].tolist())


@pytest.mark.kills("min-p-alone/needs-top-p", "min-p-alone/strict")
def test_min_p_works_alone_and_keeps_its_boundary():
    assert support(logs(0.5, 0.25, 0.2, 0.05), SamplingParams(min_p=0.5)) == {0, 1}
    assert support(logs(0.5, 0.25, 0.2, 0.05), SamplingParams(min_p=0.4)) == {0, 1, 2}
    assert support(logs(0.5, 0.25, 0.2, 0.05), SamplingParams(min_p=1.0)) == {0}
    assert support(logs(0.25, 0.05, 0.5, 0.2), SamplingParams(min_p=0.4, top_k=2)) == {0, 2}


def test_a_mass_that_reaches_its_bound_exactly_is_enough():
    scaled = scale(logs(0.5, 0.3, 0.2), 1.0)
    masses = mass(scaled)
    top_p = (int(masses[0]) + 0.5) / int(masses.sum()) / (1 - SLACK)
    assert nucleus(scaled, top_p).tolist() == [0]
    min_p = float(np.exp(scaled[1])) / (1 - SLACK)
    assert kept(scaled, 0, 1.0, min_p).tolist() == [0, 1]


@pytest.mark.parametrize("vocab", [31, 32, 33, 97, 1023, 1024, 1025])
@pytest.mark.case("flashinfer-ai/flashinfer#1178")
def test_each_single_allowed_token_is_drawn(vocab):
    for only in {0, 1, 30, vocab // 2, vocab - 2, vocab - 1}:
        row = np.full(vocab, -np.inf, np.float32)
        row[only] = -3.0
        for params in ({}, {"top_k": 5}, {"top_p": 0.9}, {"min_p": 0.1}, {"temperature": 0}, {"temperature": 1e-9}):
            states = [at(7, SamplingParams(**params), vocab_size=vocab)]
            assert sample_batch(OPS, rows(row), states)[0].token == only


@pytest.mark.kills("finite-logits/removed", "finite-logits/nan-only")
@pytest.mark.case("flashinfer-ai/flashinfer#1178", "Don-Chad/ninfer-3090#23")
def test_no_finite_maximum_is_an_error_of_that_row_alone():
    good, nan, inf, none = np.zeros(97), np.zeros(97), np.zeros(97), np.full(97, -np.inf)
    nan[50], inf[3] = np.nan, np.inf
    logits = np.array([good, nan, inf, none, good], np.float32)
    for params in (SamplingParams(temperature=0), SamplingParams(top_k=5, top_p=0.5), SamplingParams(logprobs=2)):
        draws = sample_batch(OPS, logits, [at(0, params) for _ in range(5)])
        assert [d.token >= 0 for d in draws] == [True, False, False, False, True]
        words = ["NaN", "infinity", "no token that may be drawn"]
        for draw, word in zip(draws[1:4], words, strict=True):
            assert isinstance(draw.error, NonFiniteLogits)
            assert word in str(draw.error)
        assert draws[0].error is None


def test_extreme_temperatures_neither_overflow_nor_lose_the_maximum():
    row = np.array([1e30, -1e30, 3e38, 0], np.float32)
    for temperature in (1e-30, 1e-5, 1.0, 1e30):
        assert (
            sample_batch(OPS, rows(row), [at(0, SamplingParams(temperature=temperature), vocab_size=4)])[0].token >= 0
        )
    assert support(row, SamplingParams(temperature=1e-30)) == {2}
    assert support(np.array([0.0, 1.0, 2.0, 3.0]), SamplingParams(temperature=1e30)) == {0, 1, 2, 3}


@pytest.mark.kills("draw-side/left")
def test_the_inverse_of_the_cumulative_mass_at_its_boundaries():
    logits = rows(logs(0.0, 0.25, 0.0, 0.25, 0.5), 5)
    numbers = np.array([0.0, 0.2499, 0.25, 0.5, np.nextafter(1, 0)])
    one = np.ones(5, np.float32)
    tokens = sample(logits, one, np.zeros(5, np.int32), one, 0 * one, numbers)
    assert tokens.tolist() == [1, 1, 3, 4, 4]


def test_logits_are_left_as_they_were_and_mixed_rows_do_not_disturb_each_other():
    rng = np.random.default_rng(1)
    logits = rng.standard_normal((9, 97)).astype(np.float32)
    before = logits.copy()
    kinds = [{"temperature": 0}, {}, {"top_k": 4}, {"top_p": 0.5}, {"min_p": 0.2}, {"repetition_penalty": 1.3},
             {"logit_bias": {3: 5.0}}, {"logprobs": 3}, {"top_k": 9, "top_p": 0.9, "min_p": 0.05}]  # fmt: skip
    together = sample_batch(OPS, logits, [at(i, SamplingParams(**k), seed=i) for i, k in enumerate(kinds)])
    for i, k in enumerate(kinds):
        assert sample_batch(OPS, logits[i : i + 1], [at(i, SamplingParams(**k), seed=i)]) == [together[i]]
    assert np.array_equal(logits, before)


def test_sizes_that_do_not_fit_are_refused_and_nothing_gives_nothing():
    with pytest.raises(ValueError, match="2 rows"):
        sample_batch(OPS, np.zeros((2, 5), np.float32), [at(0, SamplingParams(), vocab_size=5)])
    assert sample_batch(OPS, np.zeros((0, 5), np.float32), []) == []
