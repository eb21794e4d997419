"""Whatever is handed in, the answer is an answer or one of our own errors, and nothing has started."""

from typing import Any

import numpy as np
import pytest

from teachkv import LLM, SamplingParams
from teachkv.errors import OptionError, RequestError, TemplateError, UnknownOption
from teachkv.text import ChatTemplate
from tests.toys import refuses

TWO = SamplingParams(temperature=0, max_tokens=2)


@pytest.fixture(scope="module")
def llm() -> LLM:
    return LLM("tiny", seed=0)


@pytest.mark.parametrize(
    "alien",
    [
        ["a", 5], ["a", None], [None], [1.0, 2.0], [[1.0]], np.array([1.0]), np.array(3), [True], [b"ab"], ["a", b"b"],
        {"prompt_token_ids": None}, {"prompt_token_ids": 5}, {"prompt_token_ids": "ab"},
        {"prompt_token_ids": {"prompt": "x"}}, {"prompt_token_ids": [{"role": "user", "content": "x"}]},
        {"prompt_token_ids": [1], "prompt": 5}, {"prompt": "x", 5: 1}, {"prompt": None}, {1: 2}, {}, [[[1]]],
        (c for c in "ab"), {"a"}, [np.float32(1)], [1, np.int64(1), "x"], [1 + 2j], 3, None, b"a",
    ],
)  # fmt: skip
def test_what_is_no_prompt_is_a_request_error(llm: LLM, alien: Any) -> None:
    with refuses(RequestError, "bring|use 'prompt'"):
        llm.generate(alien, TWO)
    assert llm._alive().engine.roster.sequences == {}


@pytest.mark.parametrize(
    "ids", [[np.int64(1), np.int32(2)], [[np.int64(1), 2]], np.array([1, 2], np.uint8), (1, 2), range(1, 3)]
)
def test_whole_numbers_of_any_kind_are_ids(llm: LLM, ids: Any) -> None:
    assert llm.generate(ids, TWO)[0].prompt_token_ids == [1, 2]


@pytest.mark.parametrize("params", [{"max_tokens": 3}, "x", 5, [None], [TWO, {}], {TWO: 1}, iter([TWO])])
def test_what_is_no_sampling_params_is_an_option_error(llm: LLM, params: Any) -> None:
    with refuses(OptionError, "sampling params"):
        llm.generate("a", params)


@pytest.mark.parametrize(
    "values",
    [
        {"stop": 5}, {"stop": {"a": 1}}, {"stop": {"a"}}, {"stop": b"a"}, {"stop_token_ids": 5},
        {"stop_token_ids": {1: 2}}, {"logit_bias": [1]}, {"logit_bias": 3}, {"logit_bias": "1"}, {"top_k": 2**31},
        {"top_k": 10**30},
    ],
)  # fmt: skip
def test_params_of_the_wrong_kind_are_option_errors(values: dict[str, Any]) -> None:
    with refuses(OptionError, f"{next(iter(values))}="):
        SamplingParams(**values)


@pytest.mark.parametrize("ids", [None, 5, "ab", [[1, 2]], [1.5], np.eye(2), [{"role": "user", "content": "x"}], []])
def test_forward_takes_ids_only(llm: LLM, ids: Any) -> None:
    with refuses(RequestError, "forward"):
        llm.forward(ids)


def test_forward_takes_arrays(llm: LLM) -> None:
    assert np.array_equal(llm.forward(np.array([1, 2, 3])), llm.forward([1, 2, 3]))
    bias = np.triu(np.full((1, 1, 3, 3), -np.inf), 1)
    assert np.allclose(llm.forward([1, 2, 3], bias.tolist()), llm.forward([1, 2, 3]), atol=1e-5)


@pytest.mark.parametrize("shape", [(3, 3), (1, 1, 2, 2), (1, 1, 3, 4), (2, 1, 3, 3), (1, 1, 4, 4), ()])
def test_a_bias_of_another_shape_is_refused(llm: LLM, shape: tuple[int, ...]) -> None:
    with refuses(OptionError, r"bias has shape .*must be \(1, 1, 3, 3\)"):
        llm.forward([1, 2, 3], np.zeros(shape, np.float32))


@pytest.mark.parametrize("alien", ["hi", ["hi"], [1, 2], [[1, 2]], {"prompt": "x"}, [[]], [{"content": "x"}]])
def test_chat_takes_conversations_only(llm: LLM, alien: Any) -> None:
    with refuses(RequestError, "conversation 0"):
        llm.chat(alien, TWO)


def test_chat_is_generate_for_conversations(llm: LLM) -> None:
    talk = [{"role": "user", "content": "x"}]
    one, two = llm.chat(talk, TWO), llm.chat([talk, tuple(talk)], TWO)
    assert one[0].prompt_token_ids == two[0].prompt_token_ids == two[1].prompt_token_ids


def test_what_a_template_may_name_goes_in_by_keyword_and_a_slip_is_told(llm: LLM) -> None:
    """Tools, documents, the template's name, an open last message: all that vLLM's chat takes."""
    talk = [{"role": "user", "content": "x"}]
    shown = ChatTemplate({"default": "{{ tools }}{{ documents }}{{ mood }}", "rag": "{{ messages[0].content }}..."})
    tokenizer = llm._alive().assembly.tokenizer
    before, tokenizer.chat_template = tokenizer.chat_template, shown
    try:
        one = llm.chat(talk, TWO, tools=[{"a": 1}], documents=[{"b": 2}], variables={"mood": "!"})
        assert tokenizer.decode(one[0].prompt_token_ids) == "[{'a': 1}][{'b': 2}]!"
        open_end = llm.chat([talk, talk], TWO, template_name="rag", continue_final_message=True)
        assert [tokenizer.decode(out.prompt_token_ids) for out in open_end] == ["x", "x"]
        with refuses(TemplateError, "no template named 'x'; known: default, rag"):
            llm.chat(talk, TWO, template_name="x")
        with refuses(UnknownOption, "tool.*tools"):
            llm.chat(talk, TWO, tool=[{}])
    finally:
        tokenizer.chat_template = before


@pytest.mark.parametrize(
    "options",
    [
        {"seed": 2**64}, {"seed": -1}, {"enable_prefix_caching": "no"}, {"enable_prefix_caching": 0},
        {"coalesce": "off", "policy": "ragged"}, {"cuda_graphs": "false"}, {"cuda_graphs": None}, {"poison": 1},
        {"graphs_at_load": "no"},
    ],
)  # fmt: skip
def test_options_of_the_wrong_kind_are_option_errors(options: dict[str, Any]) -> None:
    with refuses(OptionError, f"option '{next(iter(options))}'"):
        LLM("tiny", **options)


def test_the_largest_seed_works() -> None:
    with LLM("tiny", seed=2**64 - 1) as llm:
        assert len(llm.generate([[1]], SamplingParams(max_tokens=2, ignore_eos=True))[0].outputs[0].token_ids) == 2


@pytest.mark.parametrize("name", ["", "a" * 5000, "a\0b"])
def test_a_name_that_no_file_can_have_is_no_model(name: str) -> None:
    with refuses(OptionError, "no model"):
        LLM(name)
