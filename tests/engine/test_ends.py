"""How a request ends: by a stop, by length, at the door; and what its text and ids are then."""

import gc
from typing import Any

import pytest

from teachkv import LLM, SamplingParams
from teachkv.errors import RequestError
from teachkv.sequence import Sequence
from tests.engine.markov import alphabet

EOS = 256


def greedy(**params: Any) -> SamplingParams:
    return SamplingParams(temperature=0, **params)


def answer(llm: LLM, prompt: Any = "a", **params: Any) -> Any:
    return llm.generate(prompt, greedy(**params))[0].outputs[0]


@pytest.mark.case("ml-explore/mlx-lm#1689")
def test_length_is_exact_at_every_max_tokens(kind: dict[str, Any]) -> None:
    llm, _ = alphabet(**kind)
    for limit in range(6):
        got = answer(llm, max_tokens=limit)
        assert (got.text, got.finish_reason) == ("bcdefg"[:limit], "length")
        assert got.token_ids == [ord(c) for c in got.text]


@pytest.mark.case("ml-explore/mlx-lm#1689")
def test_no_tokens_wanted_means_no_pass_through_the_model(kind: dict[str, Any]) -> None:
    llm, model = alphabet(**kind)
    output = llm.generate("abc", greedy(max_tokens=0))[0]
    assert model.passes == []
    assert output.prompt_token_ids == [97, 98, 99]
    assert (output.outputs[0].text, output.outputs[0].token_ids, output.outputs[0].finish_reason) == ("", [], "length")


@pytest.mark.case("vllm-project/vllm#28172")
@pytest.mark.case("vllm-project/vllm#4182")
def test_the_end_token_is_counted_and_not_shown(kind: dict[str, Any]) -> None:
    llm, _ = alphabet(lambda t: EOS if t == ord("c") else t + 1, **kind)
    got = answer(llm, max_tokens=9)
    assert (got.text, got.token_ids, got.finish_reason, got.stop_reason) == ("bc", [98, 99, EOS], "stop", None)


def test_an_ignored_end_token_does_not_end_but_a_stop_token_does(kind: dict[str, Any]) -> None:
    llm, _ = alphabet(lambda t: EOS if t == ord("c") else (ord("x") if t == EOS else t + 1), **kind)
    got = answer(llm, max_tokens=9, ignore_eos=True, stop_token_ids=[ord("y")])
    assert (got.text, got.finish_reason, got.stop_reason) == ("bcx", "stop", ord("y"))


@pytest.mark.parametrize("limit", [3, 4, 9])
def test_a_stop_string_is_found_at_once_also_on_the_last_token(kind: dict[str, Any], limit: int) -> None:
    llm, _ = alphabet(**kind)
    got = answer(llm, max_tokens=limit, stop=["cd", "zzz"])
    assert (got.text, got.finish_reason, got.stop_reason) == ("b", "stop", "cd")
    assert got.token_ids == [98, 99, 100]


@pytest.mark.case("ggml-org/llama.cpp#10914")
def test_text_held_back_for_a_stop_comes_out_at_the_limit(kind: dict[str, Any]) -> None:
    llm, _ = alphabet(**kind)
    got = answer(llm, max_tokens=3, stop=["cdx"])
    assert (got.text, got.finish_reason) == ("bcd", "length")


@pytest.mark.case("vllm-project/vllm#29496")
@pytest.mark.kills("full-context/one-more")
@pytest.mark.parametrize(("length", "text"), [(7, "b"), (8, "")])
def test_a_prompt_up_to_the_context_ends_by_length(kind: dict[str, Any], length: int, text: str) -> None:
    llm, model = alphabet(max_model_len=8, **kind)
    output = llm.generate("a" * length, greedy(max_tokens=50))[0]
    assert (output.outputs[0].text, output.outputs[0].finish_reason) == (text, "length")
    assert len(model.passes) == len(text)


@pytest.mark.case("vllm-project/vllm#29496")
def test_a_prompt_over_the_context_is_refused_before_anything_runs(kind: dict[str, Any]) -> None:
    llm, model = alphabet(max_model_len=8, **kind)
    with pytest.raises(RequestError, match="prompt 1: 9 tokens do not fit into the context of 8"):
        llm.generate(["a", "a" * 9], greedy(max_tokens=2))
    assert model.passes == []
    assert answer(llm, max_tokens=2).text == "bc"


def test_a_request_larger_than_the_pool_ends_alone(kind: dict[str, Any]) -> None:
    llm, _ = alphabet(**kind, kv_budget=3 << 20)
    small, large = llm.generate(["a", "b" * 2000], greedy(max_tokens=3))
    assert small.outputs[0].text == "bcd"
    assert large.outputs[0].finish_reason == "error"
    assert "KV budget" in str(large.error)
    with pytest.raises(RequestError, match="KV budget"):
        llm.generate("b" * 2000, greedy(max_tokens=3))
    assert answer(llm, max_tokens=2).text == "bc"


@pytest.mark.kills("ends-once/overwritten")
def test_an_abort_after_the_end_changes_nothing(kind: dict[str, Any]) -> None:
    from teachkv.finish import finish

    llm, _ = alphabet(**kind)
    stream = llm.stream("a", greedy(max_tokens=1))
    chunk = next(c for c in stream if c.output is not None)
    sequence = chunk.output
    assert sequence is not None
    assert sequence.outputs[0].finish_reason == "length"
    roster = llm._alive().engine.roster
    llm2, _ = alphabet(**kind)
    running = llm2._alive().start(request_of(llm2))[0]
    finish(running, "length")
    finish(running, "abort")
    assert running.finish_reason == "length"
    assert roster.sequences == {}


def request_of(llm: LLM) -> Any:
    from teachkv.prompts import ParsedPrompt
    from teachkv.sequence import Request

    return Request(0, ParsedPrompt("a", (97,)), greedy(max_tokens=3))


def test_a_request_that_has_ended_leaves_nothing_behind(kind: dict[str, Any]) -> None:
    llm, _ = alphabet(**kind)
    for _ in range(3):
        llm.generate(["a", "bb", "ccc"], greedy(max_tokens=4))
    serving = llm._alive()
    roster = serving.engine.roster
    assert (serving.left, roster.sequences, roster.resident) == ([], {}, set())
    assert roster.scheduler.counts() == (0, 0, 0)
    assert roster.reuse is not None
    assert (roster.reuse.hits, roster.reuse.prefix.stats().pins) == ({}, 0)


@pytest.mark.parametrize("leave", [False, True])
def test_no_sequence_outlives_its_request(kind: dict[str, Any], leave: bool) -> None:
    """Its log-probs may be as large as the weights."""
    llm, _ = alphabet(**kind)
    params = greedy(max_tokens=6)
    stream = llm.stream(["a", "bb"], params)
    for _ in range(3):
        next(stream)
    if not leave:
        list(stream)
    stream.close()
    del stream
    gc.collect()
    left = [o for o in gc.get_objects() if type(o) is Sequence and o.request.params is params]
    assert left == []
