"""Streams: joined pieces are the text, several may run side by side, leaving one early aborts it."""

from typing import Any

import pytest

from teachkv import SamplingParams
from teachkv.errors import OptionError, TeachKVError
from tests.engine.markov import alphabet

EMOJI = "🐈".encode()


@pytest.mark.case("ml-explore/mlx-lm#1689")
@pytest.mark.parametrize("stop", [None, ["de"], ["xx", "efz"]])
@pytest.mark.case("ggml-org/llama.cpp#10914")
def test_joined_pieces_are_the_text_at_every_length(kind: dict[str, Any], stop: list[str] | None) -> None:
    llm, _ = alphabet(**kind)
    for limit in range(8):
        wanted = SamplingParams(temperature=0, max_tokens=limit, stop=stop)
        pieces, ids, output = "", [], None
        for chunk in llm.stream("a", wanted):
            assert output is None
            pieces, output = pieces + chunk.text, chunk.output
            ids += chunk.token_ids
        assert output is not None
        assert pieces == output.outputs[0].text
        assert ids == output.outputs[0].token_ids


@pytest.mark.case("antonellof/ferrox#124")
def test_a_character_is_never_split(kind: dict[str, Any]) -> None:
    follow = {ord("a"): EMOJI[0], **{EMOJI[i]: EMOJI[i + 1] for i in range(3)}, EMOJI[3]: ord("!")}
    llm, _ = alphabet(lambda t: follow.get(t, ord("a")), **kind)
    seen = [c.text for c in llm.stream("a", SamplingParams(temperature=0, max_tokens=5))]
    assert [text for text in seen if text] == ["🐈", "!"]
    cut = [c.text for c in llm.stream("a", SamplingParams(temperature=0, max_tokens=2))]
    assert "".join(cut) == "\ufffd"


def test_two_streams_side_by_side_do_not_take_each_others_pieces(kind: dict[str, Any]) -> None:
    llm, _ = alphabet(**kind)
    wanted = SamplingParams(temperature=0, max_tokens=4)
    first, second = llm.stream("a", wanted), llm.stream(["hh", "ooo"], wanted)
    got: dict[str, str] = {"first": "", "second 0": "", "second 1": ""}
    got["first"] += next(first).text
    for chunk in second:
        got[f"second {chunk.request}"] += chunk.text
    for chunk in first:
        got["first"] += chunk.text
    assert got == {"first": "bcde", "second 0": "ijkl", "second 1": "pqrs"}


def test_leaving_a_stream_frees_its_rows_and_spares_the_others(kind: dict[str, Any]) -> None:
    llm, _ = alphabet(**kind)
    wanted = SamplingParams(temperature=0, max_tokens=6)
    other = llm.stream("hh", wanted)
    start = next(other).text
    left = llm.stream(["a", "b" * 30], SamplingParams(temperature=0, max_tokens=500))
    next(left)
    left.close()  # type: ignore[attr-defined]
    roster = llm._alive().engine.roster
    assert all(sequence.request.params.max_tokens == 6 for sequence in roster.sequences.values())
    assert start + "".join(c.text for c in other) == "ijklmn"
    assert roster.resident == set()


def test_a_stream_that_is_never_asked_runs_nothing(kind: dict[str, Any]) -> None:
    llm, model = alphabet(**kind)
    llm.stream("a", SamplingParams(temperature=0))
    assert model.passes == []
    assert llm._alive().engine.roster.sequences == {}


@pytest.mark.case("ml-explore/mlx-lm#1689")
def test_a_list_of_params_of_another_length_is_refused(kind: dict[str, Any]) -> None:
    llm, _ = alphabet(**kind)
    with pytest.raises(OptionError, match="2 sampling params for 3 prompts"):
        llm.generate(["a", "b", "c"], [SamplingParams()] * 2)


def test_each_prompt_has_its_own_params(kind: dict[str, Any]) -> None:
    llm, _ = alphabet(**kind)
    wanted = [SamplingParams(temperature=0, max_tokens=n) for n in (1, 2, 3)]
    assert [o.outputs[0].text for o in llm.generate(["a", "a", "a"], wanted)] == ["b", "bc", "bcd"]
    assert llm.generate([], wanted[0]) == []


def test_a_closed_llm_says_so(kind: dict[str, Any]) -> None:
    llm, _ = alphabet(**kind)
    with llm:
        pass
    llm.close()
    with pytest.raises(TeachKVError, match="closed"):
        llm.generate("a")
