"""Status lines and answers on one terminal; options that can be told to be none; files that are looked at first."""

import io
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cuda_kernels.common import device
from teachkv import parts
from teachkv.cli import main
from teachkv.commands import build_parser
from teachkv.commands.chat import Session
from teachkv.commands.generate import print_streaming
from teachkv.commands.parsing import picked
from teachkv.commands.status import StatusLines, brief
from teachkv.sample import SamplingParams
from tests.engine.markov import alphabet


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def one_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """For answers and status lines alike."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def chunks(tell: Callable[[str], None]) -> Iterator[Any]:
    """Two answers that stream side by side, with a status line after each piece."""
    for number, (request, text, ended) in enumerate(
        [(0, "one ", False), (1, "uno ", False), (0, "two", True), (1, "due ", False), (1, "tre", True)]
    ):
        reason = "length" if ended else None
        yield SimpleNamespace(
            request=request, index=0, text=text, finish_reason=reason, output=request if ended else None
        )
        tell(f"status {number}")


def test_no_status_line_stands_in_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = one_terminal(monkeypatch)
    tell = StatusLines()
    tell("before")
    print_streaming(chunks(tell), ["a", "b"], tell)
    tell("after")
    assert screen.getvalue() == (
        "before\n[1/2] a\none two\nstatus 0\nstatus 1\n\n[2/2] b\nuno due tre\nstatus 2\nstatus 3\nstatus 4\nafter\n"
    )


def shared_pipe(monkeypatch: pytest.MonkeyPatch) -> int:
    """One pipe for answers and status lines, as in `teachkv generate ... 2>&1 | cat`; the end to read from."""
    out, into = os.pipe()
    monkeypatch.setattr(sys, "stdout", os.fdopen(into, "w"))
    monkeypatch.setattr(sys, "stderr", os.fdopen(os.dup(into), "w"))
    return out


def test_no_status_line_stands_in_an_answer_of_a_shared_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    out = shared_pipe(monkeypatch)
    tell = StatusLines()
    print_streaming(chunks(tell), ["a", "b"], tell)
    sys.stdout.close()
    sys.stderr.close()
    with os.fdopen(out) as told:
        assert told.read() == (
            "[1/2] a\none two\nstatus 0\nstatus 1\n\n[2/2] b\nuno due tre\nstatus 2\nstatus 3\nstatus 4\n"
        )


def test_the_path_is_told_without_its_details(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = one_terminal(monkeypatch)
    tell = StatusLines()
    tell("path: policy packed, backend reference (spec: embed; reference: linear), context 9; seed 1")
    tell("note: flag (absent) is off")
    assert (
        screen.getvalue() == "path: policy packed, backend reference, context 9; seed 1\nnote: flag (absent) is off\n"
    )


def test_a_machine_without_a_gpu_hears_of_no_fault() -> None:
    lines: list[str] = []
    if device.driver() is not None:
        pytest.skip("this machine has a GPU")
    alphabet(log=lines.append)
    (path,) = (line for line in lines if line.startswith("path:"))
    assert "rms_norm linear" in path, "every op's telling, for whoever asks"
    assert "CuPy" not in brief(path)
    assert len(brief(path)) < 200
    assert not any("CuPy" in line or "GPU" in line for line in lines if line != path)


@pytest.mark.parametrize("name", ["cupy", "cuda"])
def test_a_gpu_that_lies_idle_is_told(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "driver", lambda: object())
    broken = SimpleNamespace(cuda=None) if name == "cuda" else None
    monkeypatch.setitem(sys.modules, "cupy", broken)
    monkeypatch.setattr(parts, "gpu", device.gpu.__wrapped__)
    lines: list[str] = []
    alphabet(log=lines.append)
    assert [line for line in lines if line.startswith("note: chosen by 'auto': CuPy cannot")]


def test_on_two_streams_no_line_waits(capsys: pytest.CaptureFixture[str]) -> None:
    tell = StatusLines()
    seen: list[str] = []

    def watched() -> Iterator[Any]:
        for chunk in chunks(tell):
            yield chunk
            seen.append(capsys.readouterr().err)

    print_streaming(watched(), ["a", "b"], tell)
    assert seen[0] == ""
    assert seen[1:] == [f"status {number}\n" for number in range(4)]


def test_status_lines_that_wait_are_not_lost_when_an_answer_breaks_off(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = one_terminal(monkeypatch)
    tell = StatusLines()

    def broken() -> Iterator[Any]:
        yield next(chunks(tell))
        tell("what happened")
        raise MemoryError

    with pytest.raises(MemoryError):
        print_streaming(broken(), ["a"], tell)
    assert screen.getvalue() == "[1/1] a\none \nwhat happened\n"


def test_a_conversation_shows_its_answers_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = one_terminal(monkeypatch)
    tell = StatusLines()
    llm, _ = alphabet(lambda t: max(t + 1, ord("b")), log=tell)
    session = Session(llm, SamplingParams(temperature=0, max_tokens=3), tell=tell)
    session.take("say a")
    answer = session.turns[-1]["content"]
    assert len(answer) == 3
    assert f"\n{answer}\n" in f"\n{screen.getvalue()}"
    assert "engaged: join" in screen.getvalue().partition(answer)[2]


@pytest.mark.parametrize(("words", "name"), [("--max-tokens none", "max_tokens"), ("--logprobs none", "logprobs")])
def test_a_number_that_may_be_none_can_be_said_to_be(words: str, name: str) -> None:
    args = build_parser().parse_args(["generate", "x", *words.split()])
    assert picked(args, SamplingParams) == {name: None}


def test_until_the_context_ends(capsys: pytest.CaptureFixture[str]) -> None:
    words = "generate hi --model tiny --quiet --json --ignore-eos --max-model-len 40 --max-tokens none"
    assert main(words.split()) == 0
    assert '"finish_reason": "length"' in capsys.readouterr().out


@pytest.mark.parametrize("words", ["--max-tokens many", "--max-num-seqs none", "--temperature none"])
def test_what_is_neither_is_one_line(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args(["generate", "x", *words.split()])
    assert ended.value.code == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert words.split()[0] in err


@pytest.mark.parametrize("where", ["no/such/folder/t.jsonl", "."])
def test_a_trace_that_cannot_be_written_is_told_before_the_model_is_asked(
    where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / where)
    assert main(["generate", "hi", "--model", "no-such-model", "--trace", path]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert path in err


def test_a_trace_of_before_stays_until_there_is_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("kept\n")
    assert main(["generate", "hi", "--model", "no-such-model", "--trace", str(path)]) == 2
    assert path.read_text() == "kept\n"
    capsys.readouterr()
