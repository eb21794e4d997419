"""Whatever is wrong at the command line: one line that says what, where and what to do, and exit code 2."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from teachkv.cli import main

TEACHKV = [sys.executable, "-m", "teachkv"]


def run(capsys: pytest.CaptureFixture[str], args: Sequence[str]) -> tuple[int, str, list[str]]:
    try:
        status = main(args)
    except SystemExit as exit:
        status = int(exit.code or 0)
    out, err = capsys.readouterr()
    return status, out, err.splitlines()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["generate", "hi", "--model", "no-such"], "no model 'no-such'"),
        (["generate", "hi", "--model", "tiny", "--max-num-seq", "3"], "did you mean --max-num-seqs"),
        (["generate", "hi", "--model", "tiny", "--max-tokens", "-1"], "max_tokens=-1 must be at least 0"),
        (["generate", "hi", "--model", "tiny", "--top-p", "1.5"], "top_p"),
        (["generate", "hi", "--model", "tiny", "--policy", "fifo"], "invalid choice"),
        (["generate", "hi", "--model", "tiny", "--max-model-len", "1", "--max-tokens", "1"], "do not fit"),
        (["generate", "hi", "--model", "tiny", "--max-model-len", "99999"], "above the model's context"),
        (["generate", "hi", "--model", "tiny", "--prefill-max-seqs", "3"], "belong to policy 'ragged'"),
        (["generate", "--model", "tiny"], "no prompt"),
        (["generate", "", "--model", "tiny"], "prompt 0: is empty"),
        (["generate", "--model", "tiny", "--file", "/no/such/file"], "/no/such/file"),
        (["inspect", "no-such"], "no model 'no-such'"),
        (["pull", "no-such-model"], "no-such-model"),
        (["frobnicate"], "invalid choice"),
        ([], "VERB"),
    ],
)
def test_one_line_and_exit_code_2(capsys: pytest.CaptureFixture[str], args: list[str], says: str) -> None:
    status, out, err = run(capsys, [*args, "--quiet"] if args[:1] == ["generate"] else args)
    assert status == 2
    assert out == ""
    assert len(err) == 1
    assert err[0].startswith("teachkv")
    assert says in err[0]


def test_a_file_that_is_no_text_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "picture.bin"
    path.write_bytes(b"\xff\xfe\x00")
    status, _, err = run(capsys, ["generate", "--model", "tiny", "--file", str(path)])
    assert (status, len(err)) == (2, 1)
    assert str(path) in err[0]


def running(*options: str) -> "subprocess.Popen[bytes]":
    """A long answer under way in a process of its own, with Python's own reaction to Ctrl-C."""
    command = [*TEACHKV, "generate", "abc", "--model", "tiny", "--ignore-eos", "--quiet", *options]
    interruptible = "import signal, sys, runpy; signal.signal(2, signal.default_int_handler); sys.argv = sys.argv[1:]; "
    return subprocess.Popen(
        [sys.executable, "-c", interruptible + "runpy.run_module('teachkv', run_name='__main__')", *command[2:]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    """`teachkv generate ... | head -c 1`: no traceback, and the status that shells give a closed pipe."""
    with running("--max-tokens", "400") as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.read(1)
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait(timeout=60) == 141


def test_ctrl_c_says_so_and_nothing_else() -> None:
    with running("--max-tokens", "1900") as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.read(1)
        child.send_signal(signal.SIGINT)
        assert child.stderr.read().strip() == b"interrupted"
        assert child.wait(timeout=60) == 130


def test_help_is_quick_and_lists_every_verb() -> None:
    began = time.perf_counter()
    done = subprocess.run([*TEACHKV, "--help"], capture_output=True, text=True, check=True, env={**os.environ})
    assert time.perf_counter() - began < 5
    for verb in ("pull", "generate", "inspect"):
        assert verb in done.stdout


def test_no_tokens_wanted_is_an_answer_of_none(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, ["generate", "hi", "there", "--model", "tiny", "--max-tokens", "0", "--quiet"])
    assert (status, out, err) == (0, "[1/2] hi\n\n\n[2/2] there\n\n", [])


@pytest.mark.parametrize(("letters", "drawn"), [(7, 1), (8, 0)])
def test_a_prompt_up_to_the_context_is_answered_as_far_as_there_is_room(
    capsys: pytest.CaptureFixture[str], letters: int, drawn: int
) -> None:
    words = ["--model", "tiny", "--max-model-len", "8", "--max-tokens", "5", "--json", "--quiet", "--ignore-eos"]
    status, out, err = run(capsys, ["generate", "a" * letters, *words])
    assert (status, err) == (0, [])
    [completion] = json.loads(out)["outputs"]
    assert (len(completion["token_ids"]), completion["finish_reason"]) == (drawn, "length")


def test_a_prompt_over_the_context_is_refused_and_says_both_lengths(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, ["generate", "a" * 9, "--model", "tiny", "--max-model-len", "8", "--quiet"])
    assert (status, out) == (2, "")
    assert err == ["teachkv generate: prompt 0: 9 tokens do not fit into the context of 8; shorten it"]


def test_a_request_that_fails_in_the_engine_ends_with_2_and_the_others_are_answered(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = f"--model tiny --kv-budget {3 << 20} --max-tokens 2 --quiet --temperature 0".split()
    status, out, err = run(capsys, ["generate", "a", "b" * 2000, *words])
    assert status == 2
    assert out.startswith("[1/2] a\n")
    assert len(err) == 1
    assert err[0].startswith("teachkv generate: prompt 1: ")
    assert "KV budget" in err[0]
