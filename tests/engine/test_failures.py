"""Faults in the middle of a step: the request that is to blame ends, all others end as if nothing had happened."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from teachkv import LLM, SamplingParams
from teachkv.errors import NonFiniteLogits
from tests.engine.markov import alphabet

PROMPTS = ["a", "hh", "ooo", "a" * 40]
WANTED = SamplingParams(temperature=0, max_tokens=6)
ANSWERS = ["bcdefg", "ijklmn", "pqrstu", "bcdefg"]


def fail_on_call(model: Any, number: int, fault: Callable[[], BaseException], times: int = 1) -> None:
    """Call `number` of the model (and the next ones, `times` in all) raises, after it has written into the caches."""
    forward, calls = model.forward, [0]

    def failing(*args: Any) -> Any:
        logits = forward(*args)
        calls[0] += 1
        if number <= calls[0] < number + times:
            raise fault()
        return logits

    model.forward = failing


def texts(llm: LLM) -> list[str]:
    return [output.outputs[0].text for output in llm.generate(PROMPTS, WANTED)]


@pytest.mark.case("Avarok-Cybersecurity/atlas#375")
@pytest.mark.kills("shortage-one-victim/all-fail")
@pytest.mark.parametrize("call", [1, 2, 3, 5])
def test_a_lack_of_memory_costs_one_request_its_rows_and_nobody_his_answer(kind: dict[str, Any], call: int) -> None:
    llm, model = alphabet(**kind)
    fail_on_call(model, call, MemoryError)
    assert texts(llm) == ANSWERS


@pytest.mark.case("EricLBuehler/mistral.rs#2033")
@pytest.mark.kills("shortage-newest/oldest")
def test_the_newest_gives_way_and_the_oldest_never(kind: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    llm, model = alphabet(**kind)
    fail_on_call(model, 2, MemoryError, times=2)
    roster, left = llm._alive().engine.roster, list[int]()
    leave, resident = roster.leave, list[set[int]]()

    def noted(id: int) -> None:
        if not roster.sequences[id].finished:
            resident.append(set(roster.resident))
            left.append(id)
        leave(id)

    monkeypatch.setattr(roster, "leave", noted)
    # Equal lengths, so that every policy has all of them in its batch.
    outputs = llm.generate(["a", "h", "o"], WANTED)
    assert [output.outputs[0].text for output in outputs] == ["bcdefg", "ijklmn", "pqrstu"]
    assert left
    assert left == [max(holding) for holding in resident]
    assert 0 not in left


@pytest.mark.case("vllm-project/vllm#16832")
@pytest.mark.kills("cached-once/own-rows")
def test_rows_that_come_back_after_a_shortage_are_no_prefix_hit_of_the_prompt(kind: dict[str, Any]) -> None:
    """vllm#16832: usage numbers are those of a run without pressure. The own rows are found again, and say nothing."""
    prompts, wanted = ["a" * 40, "h" * 40], SamplingParams(temperature=0, max_tokens=6)
    llm, model = alphabet(**kind)
    fail_on_call(model, 4, MemoryError)
    outputs = llm.generate(prompts, wanted)
    assert [(o.outputs[0].text, o.num_cached_tokens) for o in outputs] == [("bcdefg", 0), ("ijklmn", 0)]
    assert llm.stats()["engaged"]["prefix-hit"] >= 1


@pytest.mark.case("vllm-project/vllm#16832")
@pytest.mark.kills("said-once/again")
@pytest.mark.parametrize("call", [2, 3, 4, 5])
def test_a_prompt_computed_again_reports_each_position_once(kind: dict[str, Any], call: int) -> None:
    prompts, wanted = ["abcde", "h" * 40], SamplingParams(temperature=0, max_tokens=6, prompt_logprobs=2)
    calm = [o.prompt_logprobs for o in alphabet(**kind)[0].generate(prompts, wanted)]
    llm, model = alphabet(**kind)
    fail_on_call(model, call, MemoryError)
    assert [o.prompt_logprobs for o in llm.generate(prompts, wanted)] == calm
    assert [len(entries or ()) for entries in calm] == [5, 40]


def test_a_lack_of_memory_for_one_alone_is_its_own_error(kind: dict[str, Any]) -> None:
    """Once, and the prefix cache gives way; a second time at the same point, and the request ends."""
    llm, model = alphabet(**kind)
    fail_on_call(model, 2, MemoryError)
    assert llm.generate(["a"], WANTED)[0].outputs[0].text == "bcdefg"
    llm, model = alphabet(**kind)
    fail_on_call(model, 2, MemoryError, times=2)
    output = llm.generate(["a"], WANTED)[0]
    assert (output.outputs[0].finish_reason, output.outputs[0].text) == ("error", "b")
    assert texts(llm) == ANSWERS


@pytest.mark.kills("error-ends-request/drawn-anyway")
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.case("Don-Chad/ninfer-3090#23")
def test_logits_that_are_no_numbers_end_their_request_alone(kind: dict[str, Any], bad: float) -> None:
    llm, model = alphabet(**kind)
    forward = model.forward

    def poisoned(tokens: Any, parts: Any, logits_at: Any) -> Any:
        logits = forward(tokens, parts, logits_at)
        logits[tokens[logits_at] == ord("j"), 5] = bad
        return logits

    model.forward = poisoned  # type: ignore[method-assign]
    outputs = llm.generate(PROMPTS, WANTED)
    assert [o.outputs[0].text for o in outputs] == ["bcdefg", "ij", "pqrstu", "bcdefg"]
    assert [o.outputs[0].finish_reason for o in outputs] == ["length", "error", "length", "length"]
    assert isinstance(outputs[1].error, NonFiniteLogits)
    assert "request 1: " in str(outputs[1].error)


@pytest.mark.parametrize("call", [1, 2, 4])
def test_ctrl_c_in_a_step_leaves_the_engine_fit(kind: dict[str, Any], call: int) -> None:
    llm, model = alphabet(**kind)
    fail_on_call(model, call, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        llm.generate(PROMPTS, WANTED)
    roster = llm._alive().engine.roster
    assert (roster.sequences, roster.resident) == ({}, set())
    assert texts(llm) == ANSWERS


@pytest.mark.parametrize("call", [2, 3])
def test_a_fault_in_a_step_does_not_reach_into_the_next(kind: dict[str, Any], call: int) -> None:
    """A cohort in mid-decode, an error between open and close: the stream goes on as if there had been none."""
    prompts, wanted = ["abc", "defgh", "i" * 30], SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)
    with LLM("tiny", **kind) as llm:
        calm = [o.outputs[0].token_ids for o in llm.generate(prompts, wanted)]
    with LLM("tiny", **kind) as llm:
        fail_on_call(llm._alive().engine.model, call, RuntimeError)
        drawn: list[list[int]] = [[], [], []]
        stream = llm.stream(prompts, wanted)
        serving = llm._alive()
        step, faults = serving.engine.step, []

        def stubborn() -> Any:
            try:
                return step()
            except RuntimeError:
                faults.append(1)
                return step()

        serving.engine.step = stubborn  # type: ignore[method-assign]
        for chunk in stream:
            drawn[chunk.request] += chunk.token_ids
    assert faults == [1]
    assert drawn == calm
