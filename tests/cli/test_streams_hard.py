"""Streams that are closed, full, narrow or no text: never a traceback, never a character that becomes another."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

GENERATE = [sys.executable, "-m", "teachkv", "generate", "--model", "tiny", "--max-tokens", "3", "--temperature", "0"]


def shell(line: str, *arguments: str | bytes, **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = ["bash", "-c", line, "bash", *arguments]
    return subprocess.run(command, capture_output=True, env={**os.environ, **environment}, check=False, timeout=120)


@pytest.mark.parametrize("where", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_like_the_null_device(where: str) -> None:
    done = shell(f'"$@" hi {where}', *GENERATE)
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr + done.stdout
    if "2>&-" in where and not where.startswith(">&-"):
        assert b"engaged" not in done.stdout


def test_a_closed_stdin_is_an_empty_one() -> None:
    done = shell('"$@" --file - --quiet <&-', *GENERATE)
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert b"prompt 0: is empty" in done.stderr
    chat = shell('"$@" <&-', sys.executable, "-m", "teachkv", "chat", "--model", "tiny", "--quiet")
    assert chat.returncode == 0
    assert b"Traceback" not in chat.stderr


@pytest.mark.parametrize("verb", ["generate", "json", "inspect"])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_one_line(verb: str) -> None:
    command = [sys.executable, "-m", "teachkv", "inspect", "tiny"]
    if verb != "inspect":
        command = [*GENERATE, "hi", "--quiet", *(["--json"] if verb == "json" else [])]
    done = shell('"$@" >/dev/full', *command)
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert b"No space left" in done.stderr


def test_an_ascii_terminal_shows_characters_by_number() -> None:
    done = shell('"$@" hü --quiet', *GENERATE, PYTHONIOENCODING="ascii", PYTHONUTF8="1")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"[1/1] h\\xfc\n")
    as_json = shell('"$@" hü --json --quiet', *GENERATE, PYTHONIOENCODING="ascii", PYTHONUTF8="1")
    assert json.loads(as_json.stdout)["prompt"] == "hü"


def test_bytes_that_are_no_text_are_named() -> None:
    for line, name in (("\"$@\" $'a\\xff' --quiet", b"prompt 0"), ('printf "a\\xff" | "$@" --file - --quiet', b"-")):
        for locale in ("C", "C.UTF-8"):
            done = shell(line, *GENERATE, LC_ALL=locale)
            assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1), done
            assert name + b": is not UTF-8 text (byte 1)" in done.stderr


def test_json_is_json_also_for_tokens_that_cannot_be_drawn() -> None:
    options = "--quiet --json --logprobs 3 --logprobs-mode processed_logprobs --logit-bias 5=-inf --prompt-logprobs -1"
    options += " --temperature 1 --top-k 1 --seed 1 --max-tokens 1"
    done = shell(f'"$@" hi {options}', *GENERATE[:-4])
    assert done.returncode == 0, done.stderr

    def refuse(name: str) -> None:
        raise AssertionError(name)

    answer = json.loads(done.stdout, parse_constant=refuse)
    values = [entry["logprob"] for entry in answer["outputs"][0]["logprobs"][0].values()]
    assert values.count(None) == 2


def test_a_bias_that_is_none_is_one_line() -> None:
    done = shell('"$@" hi --logit-bias 5', *GENERATE)
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert b"'5' is not TOKEN=BIAS" in done.stderr


def test_no_name_is_no_model(tmp_path: Path) -> None:
    done = subprocess.run([*GENERATE[:5], "", "hi", "--quiet"], cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert b"no model ''" in done.stderr
