"""Guessing ahead changes how many steps are needed, and nothing else."""

from typing import Any

import pytest

from teachkv import LLM, SamplingParams
from teachkv.speculate import draft_room, propose
from tests.engine.markov import alphabet
from tests.engine.test_alone import LENGTHS, facts, params, prompts
from tests.engine.test_alone import solo as solo  # the fixture


@pytest.mark.parametrize(
    ("tokens", "most", "guess"),
    [
        ([1, 2, 3, 9, 1, 2], 3, [3, 9, 1]),
        ([1, 2, 3, 1, 2, 4, 1, 2], 2, [4, 1]),  # the latest place wins
        ([5, 1, 2, 7, 6, 1, 2, 8, 5, 1, 2], 1, [7]),  # a longer suffix beats a later place
        ([1, 2, 3], 4, []),
        ([1, 2, 1, 2], 5, [1, 2, 1, 2, 1]),
        ([1, 1], 4, []),
        ([1, 1, 1, 1], 3, [1, 1, 1]),
        ([7], 4, []),
        ([1, 2, 3, 1, 2], 0, []),
        ([1, 2, 3, 1, 2], -1, []),
    ],
)
def test_a_guess_is_what_followed_last_time(tokens: list[int], most: int, guess: list[int]) -> None:
    assert propose(tokens, most) == guess


@pytest.mark.kills("draft-room/own-column-forgotten")
def test_drafts_fit_behind_the_longest_row() -> None:
    assert [draft_room([4, n], 16, 4) for n in (8, 11, 12, 14, 15)] == [4, 4, 3, 1, 0]


CYCLE = {ord("a"): ord("b"), ord("b"): ord("c"), ord("c"): ord("a")}


@pytest.mark.parametrize("limit", [1, 2, 5, 9, 30])
def test_right_guesses_save_steps(ordinary: dict[str, Any], limit: int) -> None:
    llm, model = alphabet(lambda t: CYCLE[t], speculative_tokens=4, **ordinary)
    got = llm.generate("abcabc", SamplingParams(temperature=0, max_tokens=limit))[0].outputs[0]
    assert got.text == ("abc" * 10)[:limit]
    assert len(model.passes) <= 1 + -(-(limit - 1) // 5)


@pytest.mark.kills("draft-accepted/always")
def test_a_wrong_guess_leaves_no_token(ordinary: dict[str, Any]) -> None:
    """What followed "ab" last time was "a"; the model goes on with "c"."""
    llm, _ = alphabet(lambda t: CYCLE[t], speculative_tokens=4, **ordinary)
    got = llm.generate("abaca", SamplingParams(temperature=0, max_tokens=9))[0].outputs[0]
    assert got.text == "bcabcabca"
    assert llm.stats()["engaged"]["speculate"] > 0


@pytest.mark.kills("draft-accepted/past-the-end")
def test_an_end_inside_a_guess_ends_there(ordinary: dict[str, Any]) -> None:
    llm, _ = alphabet(lambda t: CYCLE[t], speculative_tokens=4, **ordinary)
    by_text = llm.generate("abcabcabc", SamplingParams(temperature=0, max_tokens=30, stop=["ca"]))[0].outputs[0]
    assert (by_text.text, by_text.token_ids) == ("ab", list(b"abca"))
    by_token = llm.generate("abcabc", SamplingParams(temperature=0, max_tokens=30, stop_token_ids=[ord("b")]))
    assert by_token[0].outputs[0].token_ids == list(b"ab")
    assert llm._alive().engine.roster.resident == set()


@pytest.mark.parametrize("drafts", [1, 3, 7])
def test_the_same_with_and_without_to_the_last_bit(ordinary: dict[str, Any], drafts: int, solo: list[Any]) -> None:
    with LLM("tiny", speculative_tokens=drafts, trace=True, **ordinary) as llm:
        together = llm.generate(prompts(1), [params(i) for i in range(len(LENGTHS))])
        assert [facts(output) for output in together] == solo


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_a_repeating_text_is_guessed_and_stays_the_same(ordinary: dict[str, Any], temperature: float) -> None:
    """A model that follows what it read: guesses come true, in rows of different length, greedy and sampled."""
    asked = [list(b"one two three one two three one two "), list(b"xyzxyzxy"), list(b"k" * 70), list(b"qw" * 9)]
    wanted = SamplingParams(temperature=temperature, top_k=2, seed=5, max_tokens=40, ignore_eos=True, logprobs=0)
    with LLM("tiny", **ordinary) as llm:
        plain = [facts(output) for output in llm.generate(asked, wanted)]
        steps = llm.stats()["steps"]["count"]
    with LLM("tiny", speculative_tokens=4, **ordinary) as llm:
        guessed = [facts(output) for output in llm.generate(asked, wanted)]
        engaged = llm.stats()["engaged"]
        fewer = llm.stats()["steps"]["count"]
    assert guessed == plain
    assert engaged["speculate"] > 0
    if temperature == 0:
        assert fewer < steps
