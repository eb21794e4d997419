"""The overlapped loop against the ordinary one: nothing that anybody can see differs."""

from typing import Any

import numpy as np
import pytest

from teachkv import LLM, SamplingParams
from teachkv.errors import OptionError
from teachkv.inputs import handed_over
from tests.engine.markov import alphabet

EOS = SamplingParams(temperature=0, max_tokens=40, stop_token_ids=[ord("q")])
PENALTY = SamplingParams(temperature=0.8, seed=5, max_tokens=12, frequency_penalty=1.5)
PROMPTS = ["a", "hh", "ooo", "a" * 40]


def run(kind: dict[str, Any], overlap: str, params: SamplingParams) -> tuple[Any, ...]:
    """Answers, what the prefix cache stored, what is left, and tokens counted."""
    llm, _ = alphabet(**{**kind, "overlap": overlap})
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
    kind: dict[str, Any], params: SamplingParams
) -> None:
    assert run(kind, "on", params) == run(kind, "off", params)


def test_the_overlapped_loop_ran_ahead_and_dropped_what_was_surplus(kind: dict[str, Any]) -> None:
    llm, _ = alphabet(**{**kind, "overlap": "on"}, trace=True)
    llm.generate(PROMPTS, EOS)
    engaged = llm.stats()["engaged"]
    assert engaged["overlap"] > 5
    assert 1 <= engaged["surplus"] <= len(PROMPTS)
    drawn = [token.id for record in llm.trace.records for token in record.tokens]
    assert len(drawn) == sum(record.decode_tokens for record in llm.trace.records) + len(PROMPTS)


@pytest.mark.kills("last-by-count/one-more", "ending/still-planned")
def test_an_end_by_count_is_known_beforehand_and_leaves_no_surplus(kind: dict[str, Any]) -> None:
    llm, _ = alphabet(**{**kind, "overlap": "on"})
    llm.generate(PROMPTS, SamplingParams(temperature=0, max_tokens=6))
    assert llm.stats()["engaged"]["overlap"] > 0
    assert "surplus" not in llm.stats()["engaged"]


@pytest.mark.kills("surplus-unpublished/published")
def test_the_row_of_a_last_token_is_not_stored_though_a_surplus_step_wrote_it(kind: dict[str, Any]) -> None:
    """Sixteen and sixteen tokens: with the row of the stop token there would be a second block."""
    blocks = []
    for overlap in ("off", "on"):
        llm, _ = alphabet(**{**kind, "overlap": overlap})
        llm.generate([[ord("a")] * 16], EOS)
        blocks.append(llm.stats()["prefix"].blocks)
    assert blocks == [1, 1]


@pytest.mark.kills("sees-last-token/not-asked")
def test_a_penalty_sees_the_token_before_and_is_named(kind: dict[str, Any]) -> None:
    found = []
    for overlap in ("off", "on"):
        with LLM("tiny", **{**kind, "overlap": overlap}) as llm:
            found.append([o.outputs[0].token_ids for o in llm.generate(PROMPTS, PENALTY)])
            engaged = llm.stats()["engaged"]
    assert found[0] == found[1]
    assert engaged["in-turn-penalties"] > 0


@pytest.mark.kills("failed-draw/looked-up")
def test_a_draw_that_failed_is_not_looked_up() -> None:
    given, drawn = np.array([7, 0, 9], np.int32), np.array([4, -1], np.int32)
    assert handed_over(np, given, [(1, 1)], drawn).tolist() == [7, 0, 9]
    assert handed_over(np, given[:2], [(0, 0), (1, 1)], drawn).tolist() == [4, 0]
    assert handed_over(np, given, [(2, 0), (0, 1)], drawn).tolist() == [0, 0, 4]


@pytest.mark.parametrize("options", [{"speculative_tokens": 2}, {"window_cache": "ring"}])
def test_overlap_that_cannot_be_is_refused_or_named(options: dict[str, Any], tmp_path: Any) -> None:
    from tests.toys import write_tiny

    model = str(write_tiny(tmp_path / "m", "mistral", sliding_window=8))
    with pytest.raises(OptionError, match="overlap"):
        LLM(model, overlap="on", **options)
    LLM(model, overlap="auto", **options).close()
