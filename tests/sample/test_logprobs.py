"""Named modes, and what holds in each (E11)."""

import math

import numpy as np
import pytest
from sampling import OPS, logs, rows, state

from teachkv.sample import SamplingParams, log_softmax, prompt_logprobs, sample_batch

ROW = [0.0, math.log(2), math.log(4)]


def entry(row=ROW, prompt=(), generated=(), **params):
    made = state(SamplingParams(**params), prompt, vocab_size=len(row), generated=generated, decode="<{}>".format)
    draw = sample_batch(OPS, rows(row), [made])[0]
    return draw.token, draw.logprobs


def exact(row):
    row = np.asarray(row, np.float64)
    return row - row.max() - np.log(np.exp(row - row.max()).sum())


@pytest.mark.case("vllm-project/vllm#9453")
def test_raw_values_do_not_depend_on_temperature_penalties_or_filters():
    for params in ({}, {"temperature": 2.0}, {"repetition_penalty": 1.5}, {"top_k": 1}, {"logit_bias": {0: 50.0}}):
        _, found = entry(prompt=[2], logprobs=3, **params)
        assert [found[i].logprob for i in range(3)] == pytest.approx(exact(ROW), abs=2e-7)


@pytest.mark.kills("raw-stays-raw/in-place")
def test_raw_values_are_read_from_logits_that_penalties_have_not_touched():
    logits = rows(ROW)
    made = state(SamplingParams(logit_bias={0: 50.0}, logprobs=3), vocab_size=3)
    draw = sample_batch(OPS, logits, [made])[0]
    assert draw.token == 0
    assert draw.logprobs[0].logprob == pytest.approx(math.log(1 / 7), abs=1e-6)
    assert logits.tolist() == rows(ROW).tolist()


@pytest.mark.case("vllm-project/vllm#9453")
def test_processed_values_are_what_the_draw_saw():
    _, found = entry(logprobs=-1, logprobs_mode="processed_logprobs", temperature=2.0)
    assert [found[i].logprob for i in range(3)] == pytest.approx(exact(np.array(ROW) / 2), abs=2e-7)
    _, found = entry(logprobs=-1, logprobs_mode="processed_logprobs", top_k=2)
    assert [found[i].logprob for i in range(3)] == pytest.approx([-math.inf, math.log(1 / 3), math.log(2 / 3)])
    _, found = entry(logprobs=-1, logprobs_mode="processed_logprobs", temperature=0, logit_bias={0: math.log(4)})
    assert [found[i].logprob for i in range(3)] == pytest.approx([math.log(0.4), math.log(0.2), math.log(0.4)])


def test_logits_modes_report_logits():
    _, found = entry(logprobs=-1, logprobs_mode="raw_logits", temperature=2.0, logit_bias={1: 1.0})
    assert [found[i].logprob for i in range(3)] == pytest.approx(ROW)
    _, found = entry(logprobs=-1, logprobs_mode="processed_logits", temperature=0, logit_bias={1: 1.0})
    assert [found[i].logprob for i in range(3)] == pytest.approx([0, math.log(2) + 1, math.log(4)])


@pytest.mark.case("vllm-project/vllm#9453")
def test_the_sum_over_the_vocabulary_is_one():
    rng = np.random.default_rng(0)
    for scale in (0.01, 1, 30, 1000):
        row = (rng.standard_normal(49_152) * scale).astype(np.float32)
        assert np.exp(log_softmax(row).astype(np.float64)).sum() == pytest.approx(1, abs=2e-6)
        assert log_softmax(row).dtype == np.float32
        assert np.abs(log_softmax(row) - exact(row)).max() <= 4e-7 * max(1, np.abs(exact(row)).max())


@pytest.mark.kills("chosen-reported/removed")
@pytest.mark.case("vllm-project/vllm#9453")
def test_the_chosen_token_is_always_there_with_its_rank():
    for index in range(60):
        made = state(SamplingParams(logprobs=1), vocab_size=5, generated=[0] * index, decode=str)
        draw = sample_batch(OPS, rows(logs(0.1, 0.2, 0.3, 0.3, 0.1)), [made])[0]
        assert draw.token in draw.logprobs
        ranks = {2: 1, 3: 2, 1: 3, 0: 4, 4: 5}
        assert {t: e.rank for t, e in draw.logprobs.items()} == {2: 1, draw.token: ranks[draw.token]}
    token, found = entry(logprobs=0)
    assert list(found) == [token]
    assert found[token].decoded_token == f"<{token}>"


def test_likeliest_first_ties_by_id_and_never_more_than_asked():
    _, found = entry([0, 1, 1, 1, 0], logprobs=2, temperature=0)
    assert [(t, e.rank) for t, e in found.items()] == [(1, 1), (2, 2)]
    _, found = entry([0, 1, 1, 1, 0], logprobs=50, temperature=0)
    assert list(found) == [1, 2, 3, 0, 4]


def test_prompt_logprobs_have_one_entry_per_token_and_none_for_the_first():
    logits = np.random.default_rng(2).standard_normal((4, 7)).astype(np.float32)
    found = prompt_logprobs(logits, [3, 1, 6, 6], 1, str)
    assert found[0] is None
    assert len(found) == 4
    for t, token in ((1, 1), (2, 6), (3, 6)):
        assert found[t][token].logprob == pytest.approx(exact(logits[t - 1])[token], abs=1e-6)
        assert int(np.argmax(logits[t - 1])) in found[t]
    assert prompt_logprobs(logits, [3], 1, str) == [None]
