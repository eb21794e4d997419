"""The fuzzing itself: it finds what is planted, tells each bad ending, repeats itself; and a short run of every reader.

The long runs are `make fuzz` (two minutes) and the one on record in docs/evidence/fuzz.json.
"""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from teachkv.errors import CheckpointError
from tests.fuzz import __main__ as command
from tests.fuzz import guided
from tests.fuzz.guided import Course, fuzz, how_it_ends
from tests.fuzz.readers import Reader, all_readers

SEED, ROUNDS = 7, 40


def locked(raw: bytes) -> None:
    """Fails behind four doors, each half a byte: chance opens one now and then, and hardly ever all at once."""
    for place, wanted in enumerate(DOORS):
        if raw[place : place + 1] == b"" or raw[place] % 16 != wanted:
            return
        OPENED[place]()
    raise KeyError("found")


DOORS = (3, 5, 7, 9)
# Each on a line of its own, as checks in a reader are: a line is what the guide can see.
# fmt: off
OPENED = (
    lambda: 1,
    lambda: 2,
    lambda: 3,
    lambda: 4,
)
# fmt: on


def course(read: Callable[[bytes], None], *, guided: bool = True) -> Course:
    return Course(Reader("toy", (b"aaaa",), read), guided=guided, own=(__file__,))


def test_every_reader_takes_or_refuses_what_it_is_given(tmp_path: Path) -> None:
    courses = [Course(reader) for reader in all_readers(tmp_path)]
    assert len(courses) == 10
    fuzz(courses, random.Random(SEED), rounds=ROUNDS)
    assert [finding.what for one in courses for finding in one.findings.values()] == []
    for one in courses:
        assert one.rounds == ROUNDS
        assert one.refused > 0
        assert len(one.inputs) > len(one.reader.seeds), one.reader.name  # some damage led to new lines


def test_whole_inputs_are_read(tmp_path: Path) -> None:
    """Else nothing behind the first check would ever be tried."""
    for reader in all_readers(tmp_path):
        read = [how_it_ends(reader, seed) == "read" for seed in reader.seeds]
        assert sum(read) * 3 >= 2 * len(read), reader.name  # templates may refuse a conversation


def test_a_fault_behind_several_doors_is_found_only_where_new_lines_are_followed() -> None:
    led, blind = course(locked), course(locked, guided=False)
    fuzz([led, blind], random.Random(SEED), rounds=8000, batch=8000)
    assert [what.split(" at ")[0] for what in led.findings] == ["toy: KeyError"]
    assert not blind.findings


def test_the_same_seed_gives_the_same_inputs(tmp_path: Path) -> None:
    runs = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        courses = [Course(reader) for reader in all_readers(folder) if reader.name in ("header", "gguf")]
        fuzz(courses, random.Random(SEED), rounds=30)
        runs.append([one.inputs for one in courses])
    assert runs[0] == runs[1]


def fails(problem: BaseException) -> Callable[[bytes], None]:
    def read(raw: bytes) -> None:
        raise problem

    return read


@pytest.mark.parametrize(
    ("problem", "ending"),
    [
        (CheckpointError("one line"), "refused"),
        (CheckpointError("two\nlines"), "toy: message of 9 characters"),
        (CheckpointError(" "), "toy: message of 1 characters"),
        (CheckpointError("x" * 10_000), "toy: message of 10000 characters"),
        (ValueError("no"), "toy: ValueError at"),
        (MemoryError(), "toy: MemoryError at"),
        (SystemExit(3), "toy: SystemExit at"),
    ],
)
def test_each_ending_is_told(problem: BaseException, ending: str) -> None:
    assert how_it_ends(Reader("toy", (), fails(problem)), b"").startswith(ending)


def test_an_input_that_hangs_is_stopped_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guided, "HANG", 0.05)

    def forever(raw: bytes) -> None:
        while True:
            try:
                sum(range(1000))
            except Exception:
                continue

    assert how_it_ends(Reader("toy", (), forever), b"").startswith("toy: Hang at")


def test_the_command_saves_what_it_finds_and_reads_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def odd(raw: bytes) -> None:
        if len(raw) % 2:
            raise KeyError("odd")

    monkeypatch.setattr(command, "all_readers", lambda root: [Reader("a toy", (b"aaaa",), odd)])
    for name in (
        "silence_panics",
        "bound_memory",
        "expect_life",
    ):  # these would stay with the process that runs the tests
        monkeypatch.setattr(command, name, lambda: None)
    saved, record = tmp_path / "found", tmp_path / "record.json"
    monkeypatch.setattr(
        "sys.argv", ["fuzz", "--rounds", "200", "--seed", "3", "--findings", str(saved), "--out", str(record)]
    )
    assert command.main() == 1
    printed = capsys.readouterr().out
    assert printed.startswith("seed 3; readers: a toy")
    (file,) = saved.iterdir()  # the last input of each reader is kept only while it is read
    assert f"--replay {file}" in printed
    assert '"inputs": 200' in record.read_text()
    monkeypatch.setattr("sys.argv", ["fuzz", "--replay", str(file)])
    assert command.main() == 1
    assert "a toy: KeyError at" in capsys.readouterr().out
    file.write_bytes(b"even")
    assert command.main() == 0
