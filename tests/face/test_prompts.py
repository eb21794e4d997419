"""What counts as one prompt, what as many, and what is refused."""

from typing import Any

import numpy as np
import pytest

from teachkv.errors import RequestError
from teachkv.prompts import as_list, parse_prompt


class Letters:
    """A tokenizer of one id per letter."""

    def encode(self, text: str) -> list[int]:
        return [ord(c) - ord("a") for c in text]

    def chat_ids(self, messages: list[dict[str, str]]) -> list[int]:
        return [i for message in messages for i in self.encode(message["content"])]


def ids(prompt: Any) -> tuple[int, ...]:
    return parse_prompt(prompt, "prompt 0", Letters(), 26).ids  # type: ignore[arg-type]


CHAT = [{"role": "user", "content": "abc"}]


@pytest.mark.parametrize("one", ["abc", [0, 1, 2], (0, 1, 2), CHAT, {"prompt": "abc"}, {"prompt_token_ids": [0, 1, 2]}])
def test_one_prompt_and_a_list_of_it_mean_the_same(one: Any) -> None:
    assert as_list(one) == ([list(one) if isinstance(one, tuple) else one], True)
    items, single = as_list([one, one])
    assert (len(items), single) == (2, False)
    assert ids(as_list(one)[0][0]) == ids(items[1]) == (0, 1, 2)


def test_arrays_of_ids_are_prompts() -> None:
    assert as_list(np.arange(3)) == ([[0, 1, 2]], True)
    items, single = as_list(np.arange(6).reshape(2, 3))
    assert not single
    assert [ids(p) for p in items] == [(0, 1, 2), (3, 4, 5)]


def test_no_prompts_are_many_prompts_of_none() -> None:
    assert as_list([]) == ([], False)


@pytest.mark.kills("door-vocabulary/removed")
@pytest.mark.parametrize("bad", [[0, 26], [-1], [2**31]])
def test_an_id_outside_the_vocabulary_is_refused(bad: list[int]) -> None:
    with pytest.raises(RequestError, match=r"prompt 0: token id -?\d+ is outside the vocabulary 0..25"):
        ids(bad)


@pytest.mark.parametrize("empty", ["", [], {"prompt": ""}, {"prompt_token_ids": []}])
def test_an_empty_prompt_is_refused(empty: Any) -> None:
    with pytest.raises(RequestError, match="empty"):
        ids(empty)


@pytest.mark.parametrize(
    "mixed", [[1, "a"], [1, True], [1.5], {"text": "a"}, {"prompt": 3}, [{"role": "user", "content": "a"}, 3]]
)
def test_a_prompt_of_mixed_kinds_is_refused(mixed: Any) -> None:
    with pytest.raises(RequestError):
        ids(mixed)


@pytest.mark.parametrize("alien", [None, 3, b"abc", object()])
def test_what_is_no_prompt_at_all_is_refused(alien: Any) -> None:
    with pytest.raises(RequestError, match="bring text"):
        as_list(alien)
