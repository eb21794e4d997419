"""A tight memory changes when a request runs, never what it says; and limits are counted in ids, to the last one."""

from typing import Any

import numpy as np
import pytest

from teachkv import LLM, SamplingParams
from teachkv.schedule import ColumnBudget, Scheduler
from teachkv.schedule.simulate import Job, simulate

PENALIZED: dict[str, Any] = {
    "frequency_penalty": 0.7, "presence_penalty": 0.3, "repetition_penalty": 1.2, "min_tokens": 12,
    "max_tokens": 24, "logprobs": 2, "prompt_logprobs": 1,
}  # fmt: skip


def answers(budget: int, kind: dict[str, Any]) -> tuple[list[Any], int]:
    """(everything of three seeded requests that grow past a block of memory, how often one had to give way)."""
    prompts = [np.random.default_rng(i).integers(0, 200, n).tolist() for i, n in enumerate((500, 495, 490))]
    params = [SamplingParams(temperature=0.9, seed=i, stop_token_ids=[7], **PENALIZED) for i in range(3)]
    with LLM("tiny", **kind, kv_budget=budget, enable_prefix_caching=False) as llm:
        outputs = llm.generate(prompts, params)
        gave_way = llm.stats()["engaged"].get("preempt", 0)
    assert [output.error for output in outputs] == [None] * 3
    first = [output.outputs[0] for output in outputs]
    prompt_side = [(len(o.prompt_token_ids), o.prompt_logprobs, o.num_cached_tokens) for o in outputs]
    return [(o.token_ids, o.text, o.logprobs, o.finish_reason, o.stop_reason) for o in first] + prompt_side, gave_way


@pytest.mark.case("vllm-project/vllm#16832", "vllm-project/vllm#5349", "vllm-project/vllm#3032")
def test_penalties_stops_counts_and_logprobs_are_those_of_a_roomy_memory(kind: dict[str, Any]) -> None:
    roomy, gave_way = answers(1 << 30, kind)
    assert gave_way == 0
    for budget in (6, 5, 4, 3):
        tight, gave_way = answers(budget << 20, kind)
        assert tight == roomy
        if gave_way:
            return
    pytest.fail("no budget was tight enough to make anybody give way")


@pytest.mark.case("vllm-project/vllm#28172")
@pytest.mark.parametrize("policy", ["bucketed", "ragged", "packed"])
@pytest.mark.parametrize(("prompt", "out"), [(1, 2), (5, 4), (8, 9), (13, 2)])
def test_the_last_token_needs_no_column(policy: str, prompt: int, out: int) -> None:
    """prompt + out - 1 columns are enough for all of it, and one fewer is one token too few."""
    for columns, tokens, ended in ((prompt + out - 1, out, "length"), (prompt + out - 2, out - 1, "error")):
        run = simulate(Scheduler(policy, budget=ColumnBudget(columns)), [Job(0, prompt, out)])
        if columns > prompt:
            assert (len(run.lives[0].tokens), run.lives[0].ended) == (tokens, ended)


@pytest.mark.case("vllm-project/vllm#28172")
def test_tokens_are_counted_as_drawn_not_as_the_text_would_be_encoded(kind: dict[str, Any]) -> None:
    """Control tokens leave no text, and halves of a character make one: the ids are the count."""
    with LLM("tiny", **kind) as llm:
        tokenizer = llm._alive().assembly.tokenizer
        outputs = [
            llm.generate("x", SamplingParams(temperature=5.0, seed=s, max_tokens=30, ignore_eos=True))[0].outputs[0]
            for s in range(4)
        ]
        assert [len(output.token_ids) for output in outputs] == [30] * 4
        assert any(len(tokenizer.encode(output.text)) != 30 for output in outputs), "no text that would miscount"
        steps = llm.stats()["steps"]
    assert steps["decode_tokens"] == 4 * 29


@pytest.mark.case("GeeeekExplorer/nano-vllm#150", "GeeeekExplorer/nano-vllm#66")
@pytest.mark.parametrize("length", [510, 511, 512, 513])
def test_a_prompt_that_ends_at_a_block_goes_on_over_its_edge(kind: dict[str, Any], length: int) -> None:
    prompt = np.random.default_rng(length).integers(0, 200, length).tolist()
    wanted = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True)
    with LLM("tiny", **kind, enable_prefix_caching=False) as llm:
        drawn = llm.generate([prompt], wanted)[0].outputs[0].token_ids
        grown = [*prompt, *drawn]
        best = llm.forward(grown[:-1])[length - 1 :].argmax(axis=-1).tolist()
    assert drawn == best
