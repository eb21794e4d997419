"""The prefix cache inside the engine: warm answers are the cold ones, bit for bit, whatever was stored by whom."""

from collections.abc import Iterator
from typing import Any

import pytest

from teachkv import LLM, SamplingParams
from teachkv.outputs import RequestOutput

BLOCK = 16
PATHS = [("packed", "incremental"), ("packed", "rebuild"), ("ragged", "rebuild"), ("bucketed", "rebuild")]
GREEDY = SamplingParams(temperature=0.0, max_tokens=6, logprobs=3, ignore_eos=True)


def prompt(length: int, seed: int = 0) -> list[int]:
    """Token ids without a pattern; prompts of one seed are beginnings of one another."""
    ids, state = [], seed * 7919 + 1
    for _ in range(length):
        state = state * 1103515245 + 12345 & 0x7FFFFFFF
        ids.append(3 + (state >> 16) % 200)
    return ids


def tiny(**options: Any) -> LLM:
    return LLM("tiny", seed=1, **options)


def answer(output: RequestOutput) -> tuple[list[int], Any]:
    """Tokens and their log-probs: floats that are compared for equality."""
    completion = output.outputs[0]
    assert completion.logprobs is not None
    return completion.token_ids, [{t: p.logprob for t, p in step.items()} for step in completion.logprobs]


@pytest.fixture(scope="module")
def bare() -> Iterator[LLM]:
    """An engine that stores nothing."""
    with tiny(enable_prefix_caching=False) as llm:
        yield llm


def cold(bare: LLM, prompts: list[list[int]]) -> list[Any]:
    """Each prompt alone on the bare engine."""
    outputs = [bare.generate([ids], GREEDY)[0] for ids in prompts]
    assert all(output.num_cached_tokens == 0 for output in outputs)
    return [answer(output) for output in outputs]


def drained(llm: LLM) -> None:
    prefix = llm.stats()["prefix"]
    assert prefix.pins == 0
    assert llm.stats()["now"] == {"running": 0, "waiting": 0, "resident": 0}


@pytest.mark.case("GeeeekExplorer/nano-vllm#144", "ROCm/ATOM#902")
@pytest.mark.parametrize(("policy", "batch_cache"), PATHS)
def test_warm_is_cold_at_every_length_around_a_block(bare: LLM, policy: str, batch_cache: str) -> None:
    # nano-vllm#144
    prompts = [prompt(n, seed=n) for n in (1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 49)]
    wanted = cold(bare, prompts)
    with tiny(policy=policy, batch_cache=batch_cache) as llm:
        for ids, expected in zip(prompts, wanted, strict=True):
            first, second = llm.generate([ids], GREEDY)[0], llm.generate([ids], GREEDY)[0]
            assert first.num_cached_tokens == 0
            assert second.num_cached_tokens == (len(ids) - 1) // BLOCK * BLOCK
            assert answer(first) == expected
            assert answer(second) == expected
        drained(llm)


@pytest.mark.case("vllm-project/vllm#29387", "GeeeekExplorer/nano-vllm#219")
@pytest.mark.parametrize(("policy", "batch_cache"), PATHS)
def test_equal_prompts_in_one_call_do_not_read_what_is_not_computed(bare: LLM, policy: str, batch_cache: str) -> None:
    # vllm#29387, nano-vllm#219
    prompts = [prompt(40), prompt(40), [*prompt(39), 5], prompt(40)]
    wanted = cold(bare, prompts)
    with tiny(policy=policy, batch_cache=batch_cache) as llm:
        for _ in range(2):
            assert [answer(output) for output in llm.generate(prompts, GREEDY)] == wanted
        drained(llm)


@pytest.mark.case("ml-explore/mlx-examples#977")
@pytest.mark.parametrize(("policy", "batch_cache"), PATHS)
def test_what_a_ragged_batch_stores_answers_later_turns_right(bare: LLM, policy: str, batch_cache: str) -> None:
    # The seed's poisoned cache: rows that end in a batch carry a dead prefix, and a later turn must not be shown it.
    prompts = [prompt(n, seed=n) for n in (8, 21, 40, 70)]
    long = SamplingParams(temperature=0.0, max_tokens=24, ignore_eos=True)
    with tiny(policy=policy, batch_cache=batch_cache) as llm:
        turns = [[*o.prompt_token_ids, *o.outputs[0].token_ids, 7, 8, 9] for o in llm.generate(prompts, long)]
        wanted = cold(bare, turns)
        outputs = llm.generate(turns, GREEDY)
        # All but the last token drawn were computed: 8 + 23 of the first turn are one whole block, not two.
        assert [o.num_cached_tokens for o in outputs] == [(n + 23) // BLOCK * BLOCK for n in (8, 21, 40, 70)]
        assert [answer(output) for output in outputs] == wanted
        drained(llm)


@pytest.mark.case("MemTensor/MemOS#2301")
def test_two_answers_to_one_prompt_leave_it_as_it_was(bare: LLM) -> None:
    # MemOS#2301
    turns = [[*prompt(40), *prompt(20, seed=s)] for s in (1, 2, 3)]
    wanted = cold(bare, [*turns, prompt(40)])
    with tiny() as llm:
        llm.generate([prompt(40)], GREEDY)
        for _ in range(2):
            assert [answer(llm.generate([ids], GREEDY)[0]) for ids in [*turns, prompt(40)]] == wanted
        drained(llm)


@pytest.mark.case("vllm-project/vllm#42019")
@pytest.mark.parametrize("count", [0, 2])
def test_prompt_logprobs_are_computed_again(count: int) -> None:
    # vllm#42019; 0 is a wish too
    params = SamplingParams(temperature=0.0, max_tokens=2, prompt_logprobs=count, ignore_eos=True)
    with tiny() as llm:
        first, second = (llm.generate([prompt(40)], params)[0] for _ in range(2))
        llm.generate([prompt(40)], GREEDY)
        third = llm.generate([prompt(40)], params)[0]
    assert first.prompt_logprobs == second.prompt_logprobs == third.prompt_logprobs
    assert first.prompt_logprobs is not None
    assert len(first.prompt_logprobs) == 40
    assert third.num_cached_tokens == 0


def test_a_small_budget_is_kept_and_changes_no_answer(bare: LLM) -> None:
    prompts = [[*prompt(20, seed=n % 3), *prompt(n, seed=n)] for n in range(1, 40, 3)]
    wanted = cold(bare, prompts)
    with tiny() as llm:
        llm.generate([prompt(33)], GREEDY)
        block_bytes = llm.stats()["prefix"].bytes_used // 2
    with tiny(prefix_cache_bytes=3 * block_bytes) as llm:
        for _ in range(2):
            assert [answer(output) for output in llm.generate(prompts, GREEDY)] == wanted
            assert llm.stats()["prefix"].bytes_used <= 3 * block_bytes
        assert llm.stats()["prefix"].evicted_blocks > 0
        drained(llm)
