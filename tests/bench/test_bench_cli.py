"""`teachkv bench` at the command line: exit codes, and that no option is only parsed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from fakes import measured, said

from teachkv.bench import session as sessions
from teachkv.bench.compare import Bar, bar_held
from teachkv.bench.judge import judge
from teachkv.bench.presets import PRESETS
from teachkv.bench.record import Record
from teachkv.cli import main

RUN = ["bench", "run", "--model", "tiny", "--cell", "uniform-4:prompt=50,out=10", "--quiet"]


@pytest.fixture
def script(tmp_path: Path) -> str:
    (tmp_path / "base.json").write_text(json.dumps({"tok_s": 1000.0}))
    return f"base: fake:{tmp_path / 'base.json'}"


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The session that the command line made; nothing is measured."""
    made: dict[str, Any] = {}

    def run(self: sessions.Session) -> bool:
        made.update(setup=self.record.setup, arms=[arm.label for arm in self.record.arms], path=self.path)
        made.update(stop_after=self.stop_after, options=[dict(arm.options) for arm in self.record.arms])
        return True

    monkeypatch.setattr(sessions.Session, "run", run)
    return made


@pytest.mark.case("ml-explore/mlx-lm#1808")
@pytest.mark.parametrize(
    ("words", "what", "value"),
    [
        (["--cell", "spread-2"], "cells", ["uniform-4:prompt=50,out=10", "spread-2"]),
        (["--shape", "smollm2-135m"], "shape", "smollm2-135m"),
        (["--rounds", "7"], "rounds", 7),
        (["--ladder"], "ladder", True),
        (["--identity"], "identity", True),
        (["--no-null"], "null", False),
        (["--warmup", "3"], "warmup", 3),
        (["--warmup", "all"], "warmup", 1_000_000),
        (["--model", "glass"], "model", "glass"),
        (["--probe", "40,8"], "probe", {"prompt": 40, "out": 8, "settle": False}),
        (["--probe", "40,8,settle"], "probe", {"prompt": 40, "out": 8, "settle": True}),
        (["--limit", "9"], "limit", 9.0),
        (["--order-seed", "4"], "seed", 4),
    ],
)
def test_every_option_reaches_the_run(seen: dict[str, Any], words: list[str], what: str, value: Any) -> None:
    """mlx-lm#1808: each is given once, and must differ from the run without it."""
    assert main([*RUN, "--arm", "ragged"]) == 0
    before = seen["setup"][what]
    assert main([*RUN, "--arm", "ragged", *words]) == 0
    assert seen["setup"][what] == value != before


def test_a_preset_gives_what_is_not_given_beside_it(seen: dict[str, Any]) -> None:
    assert main(["bench", "run", "--preset", "quick", "--rounds", "9", "--quiet"]) == 0
    setup = seen["setup"]
    assert (setup["model"], setup["rounds"], setup["identity"]) == ("tiny", 9, True)
    assert seen["arms"] == ["bucketed", "bucketed (A/A)", "ragged", "packed"]


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_can_be_asked_for(seen: dict[str, Any], name: str) -> None:
    assert main(["bench", "run", "--preset", name, "--model", "tiny", "--quiet"]) == 0
    assert seen["setup"]["cells"] == list(PRESETS[name].cells)


def test_arms_out_and_stop_after_reach_the_run(seen: dict[str, Any], tmp_path: Path) -> None:
    words = ["--arm", "ragged", "--arm", "f: policy=ragged prefill_floor_steps=4", "--out", str(tmp_path / "o.json")]
    assert main([*RUN, *words, "--stop-after", "5"]) == 0
    assert seen["arms"] == ["ragged", "ragged (A/A)", "f"]
    assert seen["options"][2] == {"policy": "ragged", "prefill_floor_steps": 4}
    assert (seen["path"], seen["stop_after"]) == (tmp_path / "o.json", 5.0)
    assert main([*RUN[:2], "--model", "glass", "--arm", "ragged", "--quiet"]) == 0
    assert seen["setup"]["model"] == "glass"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--arm", "old: commit:HEAD~3"], "no literal commit"),
        (["--arm", "x: policy=fifo"], "policy"),
        (["--arm", "mistralrs"], "not installed"),
        (["--arm", "ragged", "--model", "no-such"], "no model"),
        (["--arm", "ragged", "--shape", "no-such"], "no shape"),
        (["--arm", "ragged", "--probe", "40"], "PROMPT,OUT"),
        (["--arm", "ragged", "--cell", "unifrom-8"], "did you mean"),
        (["--arm", "m: mutant=no/such"], "unknown mutant"),
        (["--arm", "ragged", "--rounds", "0"], "at least one"),
        (["--preset", "list"], "no preset 'list': known are quick"),
    ],
)
def test_exit_2_when_nothing_can_be_measured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str], says: str
) -> None:
    from teachkv.bench import peers

    monkeypatch.setattr(peers, "find_spec", lambda name: None)
    assert main([*RUN, *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert len(err.splitlines()) == 1


def test_exit_0_when_measured_and_held(capsys: pytest.CaptureFixture[str], script: str, tmp_path: Path) -> None:
    """Real processes, scripted engine."""
    assert main([*RUN, "--arm", script, "--rounds", "1", "--out", str(tmp_path / "r.json")]) == 0
    out = capsys.readouterr().out
    assert "tok/s" in out
    assert "0 refusals" in out
    assert len(Record.load(tmp_path / "r.json").samples) == 2


@pytest.mark.case("vllm-project/vllm#57519")
def test_exit_1_when_a_guard_or_a_bar_failed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    measured(tmp_path, {"base": {}, "fast": {"tok_s": 2000.0, "prefill_tok_s": 20_000.0}, "short": {"short": {"0": 1}}})
    record = str(tmp_path / "record.json")
    assert main(["bench", "report", record]) == 1
    assert "REFUSED" in capsys.readouterr().out
    measured(tmp_path, {"base": {}, "fast": {"tok_s": 2000.0, "prefill_tok_s": 20_000.0}})
    cell = Record.load(Path(record)).cells[0]
    assert main(["bench", "report", record]) == 0
    assert main(["bench", "compare", record]) == 0
    assert "+100.0%" in capsys.readouterr().out
    assert main(["bench", "compare", record, "--bar", f"fast@{cell}>=1.9"]) == 0
    assert main(["bench", "compare", record, "--bar", f"fast@{cell}>=2.1"]) == 1
    assert main(["bench", "compare", record, "--bar", "fast@no-cell>=2.1"]) == 2
    assert main(["bench", "compare", record, "--metric", "no_metric"]) == 2


@pytest.mark.kills("bar/unresolved-counts")
def test_a_bar_is_not_reached_by_an_unresolved_claim(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    world = {"noise": 0.08}
    record = measured(tmp_path, {"base": world, "same": world | {"tok_s": 1040.0}})
    text = ["bench", "compare", str(tmp_path / "record.json"), "--bar", f"same@{record.cells[0]}>=0.5"]
    assert main(text) == 1
    assert "NOT reached: unresolved" in capsys.readouterr().out


def test_a_bar_of_just_the_claimed_ratio_is_reached(tmp_path: Path) -> None:
    record = measured(tmp_path, {"base": {}, "twice": {"tok_s": 2000.0}})
    delta = said(record, "twice").delta
    assert bar_held(record, judge(record), Bar("twice", record.cells[0], 1 + delta))[0]
    assert not bar_held(record, judge(record), Bar("twice", record.cells[0], 1.001 + delta))[0]


def test_two_records_are_shown_and_nothing_is_claimed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name, script in (("a", {}), ("b", {"tok_s": 2000.0, "prefill_tok_s": 20_000.0})):
        (tmp_path / name).mkdir()
        measured(tmp_path / name, {"base": script}, rounds=1)
    assert main(["bench", "compare", str(tmp_path / "a/record.json"), str(tmp_path / "b/record.json")]) == 1
    assert "refused: +100.0% between two calls" in capsys.readouterr().out


def test_markdown_has_tables(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    measured(tmp_path, {"base": {}}, rounds=1)
    main(["bench", "report", str(tmp_path / "record.json"), "--markdown"])
    assert "| cell | arm | tok/s |" in capsys.readouterr().out


def test_plots_are_drawn_and_the_same_each_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from teachkv.bench.plots import draw

    record = measured(tmp_path, {"base": {}, "fast": {"tok_s": 1500.0}}, rounds=2)
    record.roof = {"where": "test", "bytes_s": 1e9}
    made = draw(record, tmp_path / "one")
    assert {path.name.partition("-")[0].removesuffix(".svg") for path in made} == {"throughput", "timeline", "roof"}
    assert [path.read_bytes() for path in made] == [path.read_bytes() for path in draw(record, tmp_path / "two")]


def test_ctrl_c_keeps_finished_samples(tmp_path: Path, script: str) -> None:
    out = tmp_path / "r.json"
    words = [sys.executable, "-m", "teachkv", *RUN, "--arm", script, "--rounds", "400", "--out", str(out)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    until = time.monotonic() + 90
    while not (out.exists() and len(Record.load(out).samples) >= 2) and time.monotonic() < until:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "--resume adds the rest" in err
    assert len(Record.load(out).samples) >= 2


def test_importing_the_verb_loads_no_harness_and_no_plotting() -> None:
    code = (
        "import sys, teachkv.cli; teachkv.cli.build_parser(); "
        "print([m for m in sys.modules if m.startswith(('teachkv.bench', 'matplotlib'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
