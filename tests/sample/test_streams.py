"""A draw depends on its request alone (E08, E09)."""

import random
import subprocess
import sys

import numpy as np
import pytest
from sampling import OPS, rows, state

from teachkv.sample import SamplingParams, new_state, sample_batch
from teachkv.sample.state import random_numbers


def run(states, steps, logits):
    """Tokens of each state when all are drawn together."""
    for _ in range(steps):
        for s, draw in zip(states, sample_batch(OPS, logits, states), strict=True):
            s.tokens = [*getattr(s, "tokens", []), draw.token]
            s.accept(draw.token)
    return [s.tokens for s in states]


def fresh(i):
    params = SamplingParams(seed=i if i % 2 else None, temperature=0.5 + i / 10, top_k=i % 5 * 10)
    return new_state(params, [i], engine_seed=99, request_id=i, vocab_size=97)


@pytest.mark.kills("own-stream/one-for-the-batch")
@pytest.mark.case("vllm-project/vllm#51226")
def test_same_draws_alone_in_any_batch_and_in_any_order():
    logits = np.random.default_rng(0).standard_normal((16, 97)).astype(np.float32)
    alone = [run([fresh(i)], 12, logits[i : i + 1])[0] for i in range(16)]
    assert len({tuple(tokens) for tokens in alone}) == 16
    assert run([fresh(i) for i in range(16)], 12, logits) == alone
    order = list(range(16))
    random.Random(5).shuffle(order)
    shuffled = run([fresh(i) for i in order], 12, logits[order])
    assert shuffled == [alone[i] for i in order]


@pytest.mark.kills("own-stream/one-for-the-batch")
@pytest.mark.case("vllm-project/vllm#51226")
def test_a_seeded_row_does_not_care_whether_its_mate_has_a_seed():
    def seeded():
        return new_state(SamplingParams(seed=42), [], engine_seed=5, request_id=0, vocab_size=97)

    alone = run([seeded()], 8, rows(np.zeros(97)))[0]
    for mate in (SamplingParams(seed=1), SamplingParams(), SamplingParams(temperature=0)):
        for place in (0, 1):
            states = [new_state(mate, [], engine_seed=random.getrandbits(64), request_id=1, vocab_size=97)]
            states.insert(place, seeded())
            assert run(states, 8, rows(np.zeros(97), 2))[place] == alone


@pytest.mark.case("vllm-project/vllm#16832")
@pytest.mark.case("huggingface/text-generation-inference#1765")
def test_rebuilding_a_state_from_its_tokens_goes_on_as_if_nothing_had_happened():
    params = SamplingParams(seed=3, frequency_penalty=0.5, repetition_penalty=1.2, min_tokens=6, stop_token_ids=[1])
    logits = rows(np.linspace(0, 1, 97))
    whole = run([state(params, [1, 2], seed=3)], 12, logits)[0]
    for cut in range(12):
        again = state(params, [1, 2], seed=3, generated=whole[:cut])
        again.tokens = whole[:cut]
        assert run([again], 12 - cut, logits)[0] == whole


@pytest.mark.kills("own-stream/samples-share")
@pytest.mark.case("vllm-project/vllm#11953")
def test_n_samples_of_one_seed_are_distinct_and_repeat_as_a_set():
    def samples():
        params = SamplingParams(n=4, seed=7)
        made = [new_state(params, [1], engine_seed=0, request_id=9, vocab_size=97, sample_index=i) for i in range(4)]
        return run(made, 8, rows(np.zeros(97), 4))

    first = samples()
    assert len({tuple(tokens) for tokens in first}) == 4
    assert first == samples()


@pytest.mark.case("vllm-project/vllm#11953")
def test_without_a_seed_requests_differ_and_the_engine_seed_repeats_them():
    def requests(engine_seed):
        made = [
            new_state(SamplingParams(), [1], engine_seed=engine_seed, request_id=i, vocab_size=97) for i in range(4)
        ]
        return run(made, 8, rows(np.zeros(97), 4))

    assert len({tuple(tokens) for tokens in requests(1)}) == 4
    assert requests(1) == requests(1)
    assert requests(1) != requests(2)


@pytest.mark.case("vllm-project/vllm#11953")
def test_another_process_draws_the_same():
    code = (
        "from teachkv.sample import *; from teachkv.sample.state import random_numbers;"
        "s = new_state(SamplingParams(), [1], engine_seed=4, request_id=2, vocab_size=9);"
        "print(random_numbers([s], [0])); print(random_numbers([s], [1]))"
    )
    outputs = {subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout for _ in range(2)}
    s = new_state(SamplingParams(), [1], engine_seed=4, request_id=2, vocab_size=9)
    assert outputs == {f"{random_numbers([s], [0])}\n{random_numbers([s], [1])}\n".encode()}
