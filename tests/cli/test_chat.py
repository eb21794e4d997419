"""`teachkv chat` driven as a person would: lines in, answers out, Ctrl-C in the middle."""

import builtins
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from teachkv import SamplingParams
from teachkv.commands.chat import Session
from teachkv.errors import RequestError, TeachKVError
from teachkv.text import ChatTemplate
from tests.engine.markov import alphabet

SEND = SamplingParams(temperature=0, max_tokens=3)
Feed = Callable[..., None]


@pytest.fixture
def feed(monkeypatch: pytest.MonkeyPatch) -> Feed:
    """Lines that input() will give; an exception class in their place is raised."""

    def set_lines(*lines: Any) -> None:
        left: Iterator[Any] = iter([*lines, EOFError])

        def read(prompt: str = "") -> str:
            line = next(left)
            if isinstance(line, type):
                raise line
            return str(line)

        monkeypatch.setattr(builtins, "input", read)

    return set_lines


def contents(session: Session) -> list[str]:
    return [turn["content"] for turn in session.turns]


def test_a_conversation_keeps_its_history(feed: Feed, capsys: pytest.CaptureFixture[str]) -> None:
    llm, model = alphabet(enable_prefix_caching=False)
    session = Session(llm, SEND, system="be brief")
    feed("hello", "more", "/history")
    session.run()
    said = contents(session)
    assert said[::2] == ["hello", "more"]
    assert all(len(answer) == 3 for answer in said[1::2])
    out = capsys.readouterr().out
    assert "system: be brief" in out
    assert f"assistant: {said[1]}" in out
    assert len(model.passes[0]) < len(model.passes[3])


def test_ctrl_c_stops_an_answer_and_keeps_the_session(feed: Feed, capsys: pytest.CaptureFixture[str]) -> None:
    llm, model = alphabet()
    forward, calls = model.forward, [0]

    def interrupted(*args: Any) -> Any:
        calls[0] += 1
        if calls[0] == 3:
            raise KeyboardInterrupt
        return forward(*args)

    model.forward = interrupted  # type: ignore[method-assign]
    session = Session(llm, SEND)
    feed("hello", KeyboardInterrupt, "again")
    session.run()
    assert [len(text) for text in contents(session)] == [5, 2, 5, 3]
    assert "(stopped)" in capsys.readouterr().out
    assert llm._alive().engine.roster.sequences == {}


def test_an_error_takes_the_message_back_and_the_session_goes_on(
    feed: Feed, capsys: pytest.CaptureFixture[str]
) -> None:
    llm, _ = alphabet(max_model_len=100)
    session = Session(llm, SEND)
    feed("x" * 200, "short")
    session.run()
    assert contents(session)[0] == "short"
    assert "do not fit into the context of 100" in capsys.readouterr().err


def test_commands(feed: Feed, capsys: pytest.CaptureFixture[str]) -> None:
    llm, _ = alphabet()
    session = Session(llm, SEND)
    feed("one", "/retry", "/nonsense", "two", "/undo")
    session.run()
    assert len(session.turns) == 2
    assert session.turns[0]["content"] == "one"
    assert "no command '/nonsense'" in capsys.readouterr().err
    session.take("/clear")
    session.take("/retry")
    assert session.turns == []


def test_one_of_several_templates_is_chosen_by_name(feed: Feed, capsys: pytest.CaptureFixture[str]) -> None:
    llm, _ = alphabet()
    llm._alive().assembly.tokenizer.chat_template = ChatTemplate({"short": "{{ messages[-1].content }}"})
    feed("hello")
    session = Session(llm, SEND, template="short")
    session.run()
    assert [turn["role"] for turn in session.turns] == ["user", "assistant"]
    feed("hello")
    Session(llm, SEND).run()
    assert "has no template named 'default'; choose one by name: short" in capsys.readouterr().err


def test_a_model_without_a_template_says_so() -> None:
    llm, _ = alphabet()
    llm._alive().assembly.tokenizer.chat_template = None
    with pytest.raises(TeachKVError, match="chat template"):
        llm.chat([{"role": "user", "content": "hi"}])
    with pytest.raises(RequestError):
        llm.generate([[]])
