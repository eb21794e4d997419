"""The same request alone and in company: same tokens, same log-probs, whatever shares its batch or came before."""

from typing import Any

import numpy as np
import pytest

from teachkv import LLM, SamplingParams

LENGTHS = (1, 3, 17, 40, 64, 65, 130, 200)


def prompts(seed: int, lengths: tuple[int, ...] = LENGTHS) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 256, n).tolist() for n in lengths]


def params(index: int) -> SamplingParams:
    """Greedy and sampled requests side by side, all of different length."""
    if index % 2:
        return SamplingParams(temperature=1.0, seed=index, max_tokens=5 + index, top_k=50, ignore_eos=True, logprobs=1)
    return SamplingParams(temperature=0, max_tokens=5 + index, ignore_eos=True, logprobs=1)


def facts(output: Any) -> Any:
    """Everything of a request that must not depend on its company; log-probs to the last bit."""
    first = output.outputs[0]
    return first.token_ids, first.text, first.finish_reason, first.logprobs


@pytest.fixture(scope="module")
def solo() -> list[Any]:
    """Each request in an engine of its own, with nothing before it."""
    found = []
    for index, prompt in enumerate(prompts(1)):
        with LLM("tiny", seed=7, enable_prefix_caching=False, policy="bucketed") as llm:
            found.append(facts(llm.generate([prompt], params(index))[0]))
    # Teeth: requests that all say the same thing would prove nothing.
    assert len({tuple(ids) for ids, *_ in found}) >= 4
    return found


@pytest.mark.case("huggingface/transformers#22861")
def test_a_request_is_the_same_in_any_company(kind: dict[str, Any], solo: list[Any]) -> None:
    with LLM("tiny", **kind) as llm:
        together = llm.generate(prompts(1), [params(i) for i in range(len(LENGTHS))])
    assert [facts(output) for output in together] == solo


def test_order_of_arrival_changes_nothing(kind: dict[str, Any], solo: list[Any]) -> None:
    order = np.random.default_rng(5).permutation(len(LENGTHS)).tolist()
    asked = prompts(1)
    with LLM("tiny", **kind) as llm:
        together = llm.generate([asked[i] for i in order], [params(i) for i in order])
    assert [facts(output) for output in together] == [solo[i] for i in order]


@pytest.mark.case("vllm-project/vllm#51226")
def test_few_seats_and_little_memory_change_nothing(kind: dict[str, Any], solo: list[Any]) -> None:
    """Few seats make requests wait, a small budget makes them give their memory back and compute anew."""
    with LLM("tiny", **kind, max_num_seqs=3) as llm:
        assert [facts(o) for o in llm.generate(prompts(1), [params(i) for i in range(len(LENGTHS))])] == solo


def test_what_ran_before_changes_nothing(kind: dict[str, Any], solo: list[Any]) -> None:
    """Cold, then warm: the second time prompts are found in the prefix cache."""
    asked, wanted = prompts(1), [params(i) for i in range(len(LENGTHS))]
    with LLM("tiny", **kind) as llm:
        assert [facts(o) for o in llm.generate(asked, wanted)] == solo
        warm = llm.generate(asked, wanted)
    assert [facts(o) for o in warm] == solo
    assert [o.num_cached_tokens for o in warm] == [(n - 1) // 16 * 16 for n in LENGTHS]


@pytest.mark.kills("reuse-recomputes/served")
@pytest.mark.case("vllm-project/vllm#42019")
def test_prompt_logprobs_are_the_same_warm_and_cold(kind: dict[str, Any]) -> None:
    asked = prompts(2, (33,))
    wanted = SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=0, ignore_eos=True)
    with LLM("tiny", **kind) as llm:
        cold = llm.generate(asked, wanted)[0]
        warm = llm.generate(asked, wanted)[0]
        logits = llm.forward(asked[0])
    assert cold.prompt_logprobs == warm.prompt_logprobs
    assert warm.num_cached_tokens == 0
    assert cold.prompt_logprobs is not None
    assert cold.prompt_logprobs[0] is None
    for at in range(1, 33):
        entry = cold.prompt_logprobs[at]
        row = logits[at - 1].astype(np.float64)
        assert entry is not None
        exact = row[asked[0][at]] - np.log(np.exp(row - row.max()).sum()) - row.max()
        assert entry[asked[0][at]].logprob == pytest.approx(exact, abs=1e-5)


def test_greedy_tokens_are_the_arg_max_of_forward(kind: dict[str, Any]) -> None:
    prompt = prompts(3, (20,))[0]
    with LLM("tiny", **kind) as llm:
        drawn = (
            llm.generate([prompt], SamplingParams(temperature=0, max_tokens=6, ignore_eos=True))[0].outputs[0].token_ids
        )
        ids = list(prompt)
        for token in drawn:
            assert token == int(llm.forward(ids)[-1].argmax())
            ids.append(token)


@pytest.mark.case("vllm-project/vllm#11953")
def test_samples_of_one_request_differ_and_repeat(kind: dict[str, Any]) -> None:
    wanted = SamplingParams(n=4, temperature=1.0, seed=3, max_tokens=8, ignore_eos=True)
    with LLM("tiny", **kind) as llm:
        first = [o.token_ids for o in llm.generate("abc", wanted)[0].outputs]
        again = [o.token_ids for o in llm.generate("abc", wanted)[0].outputs]
    assert first == again
    assert len({tuple(ids) for ids in first}) == 4
