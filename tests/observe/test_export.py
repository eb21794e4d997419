"""The trace as a page, as a fragment and for Perfetto. A browser opens the page where one is installed."""

import json
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from teachkv import LLM, SamplingParams
from teachkv.cli import main
from teachkv.observe import StepRecord
from teachkv.observe.export import fragment, page, perfetto

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def records() -> list[StepRecord]:
    with LLM("tiny", seed=0, trace=True, max_num_batched_tokens=24) as llm:
        wanted = [SamplingParams(max_tokens=n, temperature=0, ignore_eos=True) for n in (3, 7)]
        llm.generate(["one", "a longer prompt than the first </script><b>"], wanted)
        return llm.trace.records


def test_a_page_asks_nobody_for_anything(records: list[StepRecord]) -> None:
    text = page(records)
    assert re.findall(r"""(?:src|href)\s*=\s*["'][^"'#]""", text) == []
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text) == []


def test_the_records_in_a_page_are_the_records(records: list[StepRecord]) -> None:
    text = fragment(records)
    found = re.search(r'<script type="application/json" id="([^"]+)">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    assert f'data-tkv-trace="{found[1]}"' in text
    held = json.loads(found[2].replace("<\\/", "</"))
    assert [step["step"] for step in held] == [record.step for record in records]
    assert held[-1]["rows"][0]["end"] == records[-1].rows[0].end


def test_two_players_on_a_page_have_their_own_records(records: list[StepRecord]) -> None:
    names = [re.search(r'id="([^"]+)"', fragment(records)) for _ in range(2)]
    assert names[0] is not None
    assert names[1] is not None
    assert names[0][1] != names[1][1]


def test_perfetto_gets_every_step_and_counter(records: list[StepRecord]) -> None:
    events = json.loads(perfetto(records))["traceEvents"]
    steps = [event for event in events if event["ph"] == "X" and event["name"].startswith("step ")]
    assert [event["name"] for event in steps] == [f"step {record.step}" for record in records]
    assert all(a["ts"] + a["dur"] <= b["ts"] + 1e-6 for a, b in pairwise(steps))
    counters = [event for event in events if event["ph"] == "C" and event["name"] == "running"]
    assert [event["args"]["running"] for event in counters] == [record.running for record in records]


def test_the_command_writes_what_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved, drawn = tmp_path / "t.jsonl", tmp_path / "t.html"
    run = ["trace", "--model", "tiny", "abc", "de", "--max-tokens", "3", "--jsonl", str(saved)]
    assert main(run) == 0
    assert main(["trace", "--from", str(saved), "--html", str(drawn), "--perfetto", str(tmp_path / "t.json")]) == 0
    assert capsys.readouterr().out.split() == [str(saved), str(drawn), str(tmp_path / "t.json")]
    assert "tkvPlayer" in drawn.read_text(encoding="utf-8")


@pytest.mark.parametrize("content", ["", "not json\n", '{"step": 1}\n'])
def test_a_file_that_is_no_trace_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(content)
    assert main(["trace", "--from", str(path)]) == 2
    assert str(path) in capsys.readouterr().err


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_the_player_runs_in_a_browser(records: list[StepRecord], tmp_path: Path) -> None:
    """Loaded, drawn, stepped by keyboard to the end: the text says so, and the console is silent."""
    text = page(records).replace(
        "</body>",
        "<script>addEventListener('load', () => { const root = document.activeElement;"  # the keys are its own at once
        "for (const key of ['Home', 'ArrowRight', 'End'])"
        " root.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true })); });</script></body>",
    )
    path = tmp_path / "page.html"
    path.write_text(text, encoding="utf-8")
    assert CHROMIUM is not None
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--enable-logging=stderr",
        "--v=0",
    ]
    done = subprocess.run(
        [CHROMIUM, *flags, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    last = records[-1]
    assert f"step {len(records)} of {len(records)}: {last.running} running" in done.stdout
    assert f"Step {last.step + 1}: {last.running} running" in done.stdout  # the picture's text alternative
    assert "CONSOLE" not in done.stderr
