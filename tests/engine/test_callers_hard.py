"""Callers that leave, close, fail or come from several threads: nobody waits for ever, nobody else notices."""

import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from teachkv import LLM, SamplingParams
from teachkv.engine import Engine
from teachkv.errors import TeachKVError
from tests.engine.markov import alphabet
from tests.toys import refuses

SIX = SamplingParams(temperature=0, max_tokens=6)


def joined(chunks: Iterator[Any], start: str = "") -> tuple[str, str]:
    """(text of all pieces, text of the output)"""
    pieces, output = start, None
    for chunk in chunks:
        pieces, output = pieces + chunk.text, chunk.output or output
    assert output is not None
    return pieces, output.outputs[0].text


@pytest.mark.parametrize("read", [0, 1, 3])
def test_close_ends_open_streams(kind: dict[str, Any], read: int, monkeypatch: pytest.MonkeyPatch) -> None:
    llm, _ = alphabet(**kind)
    stream = llm.stream(["a", "hh"], SamplingParams(temperature=0, max_tokens=9))
    before = [next(stream) for _ in range(read)]
    llm.close()
    if read:
        monkeypatch.setattr(Engine, "step", lambda self: pytest.fail("a closed engine took a step"))
        chunks = before + list(stream)
        ends = {chunk.request: chunk.output for chunk in chunks if chunk.output is not None}
        assert [ends[i].outputs[0].finish_reason for i in (0, 1)] == ["abort", "abort"]
        for i in (0, 1):
            assert "".join(c.text for c in chunks if c.request == i) == ends[i].outputs[0].text
    else:
        with pytest.raises(TeachKVError, match="closed"):
            next(stream)


@pytest.mark.kills("broken-step/kept-as-it-is")
@pytest.mark.parametrize("fault", [RuntimeError, MemoryError])
@pytest.mark.parametrize("drafts", [0, 2])
@pytest.mark.parametrize("place", ["before", "after"])
def test_a_draw_that_breaks_off_ends_its_own_call_only(
    kind: dict[str, Any], fault: type[Exception], place: str, drafts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are handed back, tokens drawn or not, and nobody has been told: other streams go on as if nothing was."""
    import teachkv.engine

    if drafts and kind.get("overlap"):
        pytest.skip("overlap with drafts is refused")
    llm, _ = alphabet(**kind, speculative_tokens=drafts)
    other = llm.stream("a", SIX)
    start = next(other).text
    draw = vars(teachkv.engine)["draw_tokens"]

    def broken(*args: Any) -> Any:
        if place == "after":
            draw(*args)
        raise fault

    with monkeypatch.context() as patch:
        patch.setattr(teachkv.engine, "draw_tokens", broken)
        with refuses(fault):
            llm.generate(["hh", "i"], SIX)
    assert joined(other, start) == ("bcdefg", "bcdefg")
    assert llm.generate("hh", SIX)[0].outputs[0].text == "ijklmn"
    roster = llm._alive().engine.roster
    assert (roster.sequences, roster.resident, roster.scheduler.counts()) == ({}, set(), (0, 0, 0))


def test_a_log_that_fails_loses_no_piece_of_others(kind: dict[str, Any]) -> None:
    """The step is over when it is told of: what it drew is drawn."""
    llm, _ = alphabet(**kind)
    other = llm.stream("a", SIX)
    start = next(other).text
    observer = llm._alive().engine.observer
    see = observer.see

    def broken(*args: Any) -> None:
        observer.see = see  # type: ignore[method-assign]
        raise ValueError("disk full")

    observer.see = broken  # type: ignore[method-assign, assignment]
    with pytest.raises(ValueError, match="disk full"):
        llm.generate("hh", SIX)
    assert joined(other, start) == ("bcdefg", "bcdefg")


def test_a_call_from_inside_a_step_is_refused(kind: dict[str, Any]) -> None:
    problems: list[str] = []

    def log(*told: Any) -> None:
        for call in (lambda: llm.generate("a", SIX), lambda: llm.forward([1]), lambda: llm.close()):
            try:
                call()
            except TeachKVError as error:
                problems.append(str(error))

    llm, _ = alphabet(**kind)
    llm._alive().engine.observer.see = log  # type: ignore[method-assign, assignment]
    assert llm.generate(["a", "hh"], SIX)[0].outputs[0].text == "bcdefg"
    assert problems
    assert all("in a step" in problem for problem in problems)
    assert len(problems) % 3 == 0


def test_a_forgotten_stream_found_inside_a_step_is_aborted_after_it(kind: dict[str, Any]) -> None:
    llm, model = alphabet(**kind)
    forgotten: list[Any] = [llm.stream("hh", SamplingParams(temperature=0, max_tokens=90))]
    next(forgotten[0])
    forward = model.forward

    def dropping(*args: Any) -> Any:
        forgotten.clear()
        gc.collect()
        return forward(*args)

    model.forward = dropping  # type: ignore[method-assign, assignment]
    assert llm.generate("a", SIX)[0].outputs[0].text == "bcdefg"
    assert llm._alive().engine.roster.sequences == {}


def test_threads_share_one_llm(kind: dict[str, Any]) -> None:
    llm, model = alphabet(**kind)
    callers, together = 6, threading.Barrier(6)
    found: dict[int, Any] = {}

    def ask(number: int) -> None:
        together.wait()
        try:
            texts = [output.outputs[0].text for output in llm.generate(["a", "hh" * number], SIX)]
            found[number] = (texts, joined(llm.stream("ooo", SIX)), llm.forward([1, 2]).shape)
        except BaseException as error:
            found[number] = repr(error)

    threads = [threading.Thread(target=ask, args=(number,), daemon=True) for number in range(1, callers + 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    vocab = model.config.vocab_size
    right = (["bcdefg", "ijklmn"], ("pqrstu", "pqrstu"), (2, vocab))
    assert found == dict.fromkeys(range(1, callers + 1), right)
    assert llm._alive().engine.roster.sequences == {}


def test_a_caller_who_waits_comes_before_the_one_who_has_just_been() -> None:
    """A long answer in one thread does not keep another thread out until it is done."""
    llm, model = alphabet(lambda token: token ^ 1)
    began, answer = threading.Event(), list[Any]()
    steps_before: list[int] = []
    forward = model.forward

    def counting(*args: Any) -> Any:
        began.set()
        return forward(*args)

    model.forward = counting  # type: ignore[method-assign, assignment]

    def short() -> None:
        began.wait(30)
        steps_before.append(len(model.passes))
        answer.extend(llm.generate("hh", SamplingParams(temperature=0, max_tokens=1)))
        steps_before.append(len(model.passes))

    thread = threading.Thread(target=short, daemon=True)
    thread.start()
    llm.generate("a", SamplingParams(temperature=0, max_tokens=1500, ignore_eos=True))
    thread.join(60)
    assert answer[0].outputs[0].text == "i"
    assert len(model.passes) >= 1500
    assert steps_before[1] - steps_before[0] < 200


def test_samples_without_tokens_end_with_the_one_that_computes_the_prompt(kind: dict[str, Any]) -> None:
    """Only the first of n samples reports on the prompt; the output waits for it, though the others end at the door."""
    wanted = SamplingParams(n=3, temperature=1.0, max_tokens=0, prompt_logprobs=0)
    with LLM("tiny", **kind) as llm:
        output = llm.generate([[1, 2, 3], [4]], wanted)[0]
    assert [completion.finish_reason for completion in output.outputs] == ["length"] * 3
    assert output.prompt_logprobs is not None
    assert [None if entry is None else list(entry) for entry in output.prompt_logprobs] == [None, [2], [3]]


@pytest.mark.parametrize("wanted", [0, 3, None])
@pytest.mark.parametrize("drafts", [0, 3])
def test_a_prompt_that_fills_the_context_still_gets_its_logprobs(
    kind: dict[str, Any], wanted: int | None, drafts: int
) -> None:
    if drafts and kind.get("overlap"):
        pytest.skip("overlap with drafts is refused")
    params = SamplingParams(temperature=0, max_tokens=wanted, prompt_logprobs=0, ignore_eos=True)
    for context in (16, 512, 513):
        with LLM("tiny", max_model_len=context, speculative_tokens=drafts, **kind) as llm:
            prompts = [[7] * (context - 2), [7] * (context - 1), [7] * context]
            outputs = llm.generate(prompts, params)
            rows = llm.forward(prompts[2])
        for output, room in zip(outputs, (2, 1, 0), strict=True):
            first = output.outputs[0]
            assert (len(first.token_ids), first.finish_reason) == (
                room if wanted is None else min(wanted, room),
                "length",
            )
            assert output.prompt_logprobs is not None
            assert len(output.prompt_logprobs) == context - room
        best = int(rows[context - 2].argmax())
        last = outputs[2].prompt_logprobs[-1]  # type: ignore[index]
        assert last is not None
        assert (last[7].rank == 1) == (best == 7)
