"""The overlapped loop against the ordinary one: nothing that anybody can see differs."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from teachkv import LLM, SamplingParams
from teachkv.errors import OptionError
from teachkv.inputs import handed_over
from teachkv.kv import LiveLayer, LiveRows
from teachkv.roster import Roster
from tests.engine.markov import alphabet

EOS = SamplingParams(temperature=0, max_tokens=40, stop_token_ids=[ord("q")])
PENALTY = SamplingParams(temperature=0.8, seed=5, max_tokens=12, frequency_penalty=1.5)
PROMPTS = ["a", "hh", "ooo", "a" * 40]


def run(options: dict[str, Any], overlap: bool, params: SamplingParams) -> tuple[Any, ...]:
    """Answers, what the prefix cache stored, what is left, and tokens counted."""
    llm, _ = alphabet(**{**options, "overlap": overlap})
    outputs = [o.outputs[0] for o in llm.generate(PROMPTS, params)]
    stats = llm.stats()
    facts = [(o.token_ids, o.text, o.finish_reason, o.stop_reason) for o in outputs]
    totals = stats["steps"]["prefill_tokens"], stats["steps"]["decode_tokens"]
    return facts, stats["prefix"].blocks, stats["now"], totals


@pytest.mark.kills("surplus-dropped/ended-goes-on", "surplus-uncounted/counted")
@pytest.mark.parametrize("params", [
    EOS, SamplingParams(temperature=0, max_tokens=6), SamplingParams(temperature=0, max_tokens=1),
    SamplingParams(temperature=0, max_tokens=30, stop=["mno", "st"]),
    SamplingParams(temperature=0, max_tokens=9, min_tokens=4, stop_token_ids=[ord("k")]),
])  # fmt: skip
def test_answers_counts_and_what_is_stored_are_those_of_the_ordinary_loop(
    ordinary: dict[str, Any], params: SamplingParams
) -> None:
    assert run(ordinary, True, params) == run(ordinary, False, params)


def test_the_overlapped_loop_ran_ahead_and_dropped_what_was_surplus(ordinary: dict[str, Any]) -> None:
    llm, _ = alphabet(**{**ordinary, "overlap": True}, trace=True)
    llm.generate(PROMPTS, EOS)
    engaged = llm.stats()["engaged"]
    assert engaged["overlap"] > 5
    assert 1 <= engaged["surplus"] <= len(PROMPTS)
    drawn = [token.id for record in llm.trace.records for token in record.tokens]
    assert len(drawn) == sum(record.decode_tokens for record in llm.trace.records) + len(PROMPTS)


@pytest.mark.kills("last-by-count/one-more", "ending/still-planned")
def test_an_end_by_count_is_known_beforehand_and_leaves_no_surplus(ordinary: dict[str, Any]) -> None:
    llm, _ = alphabet(**{**ordinary, "overlap": True})
    llm.generate(PROMPTS, SamplingParams(temperature=0, max_tokens=6))
    assert llm.stats()["engaged"]["overlap"] > 0
    assert "surplus" not in llm.stats()["engaged"]


@pytest.mark.parametrize(("left", "told"), [(1, ["ending"]), (2, ["appended"]), (3, ["appended"])])
def test_a_token_is_announced_as_the_last_one_only_if_none_may_follow(left: int, told: list[str]) -> None:
    """Announced too early, its sequence would never be planned again, nor end: the loop would spin."""
    said: list[str] = []
    scheduler = SimpleNamespace(appended=lambda _: said.append("appended"), ending=lambda _: said.append("ending"))
    roster: Any = SimpleNamespace(scheduler=scheduler, limits=SimpleNamespace(left=lambda sequence: left))
    sequence: Any = SimpleNamespace(id=0, unseen=0)
    Roster.expect(roster, [sequence])
    assert said == told
    assert sequence.unseen == 1


@pytest.mark.kills("surplus-unpublished/published")
def test_the_row_of_a_last_token_is_not_stored_though_a_surplus_step_wrote_it(ordinary: dict[str, Any]) -> None:
    """Sixteen and sixteen tokens: with the row of the stop token there would be a second block."""
    blocks = []
    for overlap in (False, True):
        llm, _ = alphabet(**{**ordinary, "overlap": overlap})
        llm.generate([[ord("a")] * 16], EOS)
        blocks.append(llm.stats()["prefix"].blocks)
    assert blocks == [1, 1]


@pytest.mark.parametrize("overlap", [False, True])
def test_rows_with_a_dead_prefix_are_refused_by_the_prefix_cache_not_cut_to_fit(
    ordinary: dict[str, Any], overlap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever cuts the row of a last token off must not cut a fault off with it."""
    llm, _ = alphabet(**{**ordinary, "overlap": overlap})
    cache = llm._alive().engine.cache
    live_rows = cache.live_rows

    def with_dead_prefix(id: int) -> LiveRows:
        rows = live_rows(id)
        layers = (LiveLayer(np.insert(h.k, 0, 9, 1), np.insert(h.v, 0, 9, 1), h.first) for h in rows.layers)
        return LiveRows(rows.length + 1, tuple(layers))

    monkeypatch.setattr(cache, "live_rows", with_dead_prefix)
    llm.generate([[ord("a")] * 40], EOS)
    assert llm.stats()["engaged"]["store-refused"] >= 1
    assert llm.stats()["prefix"].blocks == 0


@pytest.mark.kills("sees-last-token/not-asked")
def test_a_penalty_sees_the_token_before_and_is_named(ordinary: dict[str, Any]) -> None:
    found = []
    for overlap in (False, True):
        with LLM("tiny", **{**ordinary, "overlap": overlap}) as llm:
            found.append([o.outputs[0].token_ids for o in llm.generate(PROMPTS, PENALTY)])
            engaged = llm.stats()["engaged"]
    assert found[0] == found[1]
    assert engaged["in-turn-penalties"] > 0


@pytest.mark.kills("failed-draw/looked-up")
def test_a_draw_that_failed_is_not_looked_up() -> None:
    given, drawn = np.array([7, 0, 9], np.int32), np.array([4, -1], np.int32)
    assert handed_over(np, given, [1], [1], drawn).tolist() == [7, 0, 9]
    assert handed_over(np, given[:2], [0, 1], [0, 1], drawn).tolist() == [4, 0]
    assert handed_over(np, given, [2, 0], [0, 1], drawn).tolist() == [0, 0, 4]


@pytest.mark.parametrize("options", [{"speculative_tokens": 2}, {"window_cache": "ring"}])
def test_overlap_that_cannot_be_is_refused_or_named(options: dict[str, Any], tmp_path: Any) -> None:
    from tests.toys import write_tiny

    model = str(write_tiny(tmp_path / "m", "mistral", sliding_window=8))
    with pytest.raises(OptionError, match="overlap"):
        LLM(model, overlap=True, **options)
    LLM(model, overlap="auto", **options).close()


SAMPLED = SamplingParams(
    temperature=0.9, seed=3, max_tokens=10, logprobs=3, prompt_logprobs=2, stop_token_ids=list(range(97, 105))
)


@pytest.mark.parametrize("mode", ["raw_logprobs", "processed_logits"])
def test_log_probs_are_those_of_the_ordinary_loop(ordinary: dict[str, Any], mode: str) -> None:
    """They are read after the next step was launched: what they are read from must still stand."""
    found = []
    for overlap in (False, True):
        with LLM("tiny", **{**ordinary, "overlap": overlap}) as llm:
            outputs = llm.generate(PROMPTS, replace(SAMPLED, logprobs_mode=mode))
            found.append([(o.outputs[0].token_ids, o.outputs[0].logprobs, o.prompt_logprobs) for o in outputs])
    assert found[0] == found[1]
    assert len({tuple(answer[0]) for answer in found[0]}) == len(PROMPTS)


@pytest.mark.parametrize("after", [1, 3])
def test_an_abort_while_its_next_step_is_in_flight_costs_the_others_nothing(
    ordinary: dict[str, Any], after: int
) -> None:
    llm, _ = alphabet(**{**ordinary, "overlap": True})
    engine = llm._alive().engine
    wanted = SamplingParams(temperature=0, max_tokens=6)
    staying = llm.stream(["hh", "ooo"], wanted)
    answers = {0: "", 1: ""}
    leaving = llm.stream(["a" * 9], SamplingParams(temperature=0, max_tokens=30))
    for _ in range(after):
        next(leaving)
    assert engine.in_flight is not None
    gone = set(engine.roster.sequences)
    leaving.close()
    gone -= set(engine.roster.sequences)
    for chunk in staying:
        answers[chunk.request] += chunk.text
    assert answers == {0: "ijklmn", 1: "pqrstu"}
    assert gone
    assert llm.stats()["now"]["resident"] == 0
    assert llm.generate(["a"], wanted)[0].outputs[0].text == "bcdefg"


@pytest.mark.parametrize("call", [1, 2, 4])
def test_an_error_while_tokens_are_fetched_loses_no_request(ordinary: dict[str, Any], call: int) -> None:
    """The step behind it is in flight then; it is dropped, and computed again from what is known."""
    llm, _ = alphabet(**{**ordinary, "overlap": True})
    engine, calls = llm._alive().engine, [0]
    take_in = engine.take_in

    def failing(work: Any) -> Any:
        calls[0] += 1
        if calls[0] == call:
            assert engine.in_flight is not None
            raise OSError("the device fell off")
        return take_in(work)

    engine.take_in = failing  # type: ignore[method-assign]
    with pytest.raises(OSError, match="fell off"):
        llm.generate(PROMPTS, SamplingParams(temperature=0, max_tokens=6))
    assert engine.in_flight is None
    again = llm.generate(PROMPTS, SamplingParams(temperature=0, max_tokens=6))
    assert [o.outputs[0].text for o in again] == ["bcdefg", "ijklmn", "pqrstu", "bcdefg"]
    assert llm.stats()["now"]["resident"] == 0
