"""A run from its plan to its record: order, resume, interruption, failures of whole processes."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from fakes import CELL, in_process, measured

from teachkv.bench.arms import fake_arm, parse_arm
from teachkv.bench.judge import judge, refusals
from teachkv.bench.launch import failed, launch
from teachkv.bench.record import Record, load_json
from teachkv.bench.samples import Sample
from teachkv.bench.session import Session, Setup, plan, prepare, resume
from teachkv.errors import OptionError

OTHER = "spread-4:longest=90,out=10"
ARMS = [fake_arm("a", {}), fake_arm("b", {"tok_s": 1500.0})]


def session(
    tmp_path: Path, setup: Setup, launcher: Any = in_process, record: Record | None = None, **more: Any
) -> Session:
    record = record or prepare(setup, ARMS, tmp_path)
    return Session(record, tmp_path / "r.json", launcher, tmp_path, lambda line: None, **more)


def test_every_arm_has_every_sample_and_the_base_has_a_twin() -> None:
    setup = Setup((CELL, OTHER), rounds=3)
    tasks = plan(setup, prepare(setup, ARMS).arms)
    assert Counter(task.arm.label for task in tasks) == {"a": 6, "a (A/A)": 6, "b": 6}
    assert all(len(task.cells) == 1 for task in tasks)
    for round in range(3):
        for cell in (CELL, OTHER):
            positions = [t.position for t in tasks if (t.round, t.cells) == (round, (cell,))]
            assert positions == [0, 1, 2]  # the arms of a cell run next to one another


def test_a_ladder_is_one_process_for_all_cells() -> None:
    setup = Setup((CELL, OTHER), rounds=2, ladder=True)
    tasks = plan(setup, prepare(setup, ARMS).arms)
    assert len(tasks) == 6
    assert all(task.cells == (CELL, OTHER) for task in tasks)


def test_the_record_comes_back_as_it_was(tmp_path: Path) -> None:
    record = measured(tmp_path, {"a": {}, "b": {}}, rounds=2)
    again = Record.load(tmp_path / "record.json")
    assert json.loads(json.dumps(again.body())) == json.loads(json.dumps(record.body()))
    assert [str(f) for f in judge(again)] == [str(f) for f in judge(record)]


def test_a_record_that_was_edited_is_refused(tmp_path: Path) -> None:
    measured(tmp_path, {"a": {}}, rounds=1)
    path = tmp_path / "record.json"
    path.write_text(path.read_text().replace('"rounds":1', '"rounds":2'))
    with pytest.raises(OptionError, match="does not match its checksum"):
        load_json(path)


class Cut:
    """A launcher that is interrupted at its n-th job."""

    def __init__(self, at: int, error: type[BaseException] = KeyboardInterrupt) -> None:
        self.at, self.jobs, self.error = at, list[dict[str, Any]](), error

    def __call__(self, job: dict[str, Any]) -> list[Sample]:
        if len(self.jobs) == self.at:
            raise self.error
        self.jobs.append(job)
        return in_process(job)


def test_ctrl_c_keeps_what_was_finished_and_resume_adds_the_rest(tmp_path: Path) -> None:
    setup = Setup((CELL,), rounds=3)
    with pytest.raises(KeyboardInterrupt):
        session(tmp_path, setup, Cut(4)).run()
    path = tmp_path / "r.json"
    assert len(Record.load(path).samples) == 4
    rest = Cut(99)
    record = resume(path, setup, ARMS, tmp_path)
    assert session(tmp_path, setup, rest, record).run()
    assert len(rest.jobs) == 9 - 4
    done = Record.load(path)
    assert len({sample.key for sample in done.samples}) == len(done.samples) == 9
    assert not refusals(judge(done))


def test_resume_of_a_whole_record_measures_nothing(tmp_path: Path) -> None:
    setup = Setup((CELL,), rounds=2)
    session(tmp_path, setup).run()
    assert session(tmp_path, setup, Cut(0), resume(tmp_path / "r.json", setup, ARMS, tmp_path)).run()


def test_stop_after_leaves_a_run_that_resumes(tmp_path: Path) -> None:
    setup = Setup((CELL,), rounds=3)
    assert session(tmp_path, setup, stop_after=0.0).run() is False
    assert session(tmp_path, setup, record=resume(tmp_path / "r.json", setup, ARMS, tmp_path)).run()


@pytest.mark.kills("resume/any-sources")
def test_resume_on_other_sources_is_refused(tmp_path: Path) -> None:
    setup = Setup((CELL,), rounds=1)
    session(tmp_path, setup).run()
    (tmp_path / "teachkv").mkdir()
    (tmp_path / "teachkv" / "new.py").write_text("x = 1\n")
    with pytest.raises(OptionError, match="other sources"):
        resume(tmp_path / "r.json", setup, ARMS, tmp_path)


@pytest.mark.parametrize("other", [Setup((CELL,), rounds=2), Setup((OTHER,), rounds=1)])
def test_resume_with_another_question_is_refused(tmp_path: Path, other: Setup) -> None:
    session(tmp_path, Setup((CELL,), rounds=1)).run()
    with pytest.raises(OptionError, match="other cells, arms or options"):
        resume(tmp_path / "r.json", other, ARMS, tmp_path)


def test_a_process_that_died_fails_the_run_and_is_measured_again(tmp_path: Path) -> None:
    setup = Setup((CELL,), rounds=1)

    def dying(job: dict[str, Any]) -> list[Sample]:
        return failed(job, -9, "killed") if job["arm"]["label"] == "b" else in_process(job)

    first = session(tmp_path, setup, dying)
    assert first.run() is False
    assert [f"{f.arm} {f.answer.reason}" for f in refusals(judge(first.record))] == ["b nothing came back: killed"]
    again = session(tmp_path, setup, record=resume(tmp_path / "r.json", setup, ARMS, tmp_path))
    assert again.run()
    assert not refusals(judge(again.record))


def test_each_sample_has_a_process_of_its_own_and_may_die_in_it(tmp_path: Path) -> None:
    """Through the real launcher: a script that is no script, then one that is."""
    setup = Setup((CELL,), rounds=1, null=False)
    record = prepare(setup, [fake_arm("a", {"no-such-key": 1})], tmp_path)
    record.roof = {"where": "test", "bytes_s": 1.0}
    assert Session(record, tmp_path / "r.json", launch, tmp_path, lambda line: None).run() is False
    assert "unknown keys ['no-such-key']" in (record.samples[0].failed or "")
    record = prepare(setup, [fake_arm("a", {})], tmp_path)
    record.roof = {"where": "test", "bytes_s": 1.0}
    assert Session(record, tmp_path / "r2.json", launch, tmp_path, lambda line: None).run()


@pytest.mark.parametrize(
    ("cells", "arms", "says"),
    [
        ((CELL, CELL), ARMS, "named twice"),
        ((), ARMS, "nothing to measure"),
        ((CELL,), [], "nothing to measure"),
        ((CELL,), [ARMS[0], ARMS[0]], "two arms are called 'a'"),
        (("no-cell",), ARMS, "no cell"),
    ],
)
def test_what_cannot_be_measured_is_said_before_anything_is(cells: Any, arms: Any, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        prepare(Setup(cells), list(arms))


@pytest.mark.kills("literal-commit/any-ref")
@pytest.mark.parametrize("ref", ["HEAD~3", "main", "FIX~3", "abc123", "A" * 40])
def test_relative_refs_are_refused(ref: str) -> None:
    with pytest.raises(OptionError, match="no literal commit"):
        parse_arm(f"old: commit:{ref}")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("x: policy=fifo", "policy"),
        ("x: polici=ragged", "did you mean 'policy'"),
        ("x: fast", "no policy, peer or key=value"),
        ("fake:/no/such/file", "cannot read the script"),
        ("transformers fast", "not key=value"),
    ],
)
def test_what_is_no_arm_is_named(text: str, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        parse_arm(text)
