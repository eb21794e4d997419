"""The step player in a notebook: HTML that stays, and the live widget."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from teachkv import LLM, SamplingParams
from teachkv.errors import OptionError
from teachkv.observe import StepRecord
from teachkv.observe.export import asset
from teachkv.observe.widget import MODULE, StillPlayer, step_player
from tests.chromium import BINARY, Chromium


def held_by(player: StillPlayer) -> str:
    """The JSON of the records in the page."""
    return player._repr_html_().partition('type="application/json"')[2].partition(">")[2].partition("</script>")[0]


@pytest.fixture(scope="module")
def records() -> list[StepRecord]:
    with LLM("tiny", seed=0, trace=True) as llm:
        llm.generate(["one", "a longer prompt"], SamplingParams(max_tokens=4, temperature=0, ignore_eos=True))
        return llm.trace.records


def test_equal_runs_save_equal_pages(records: list[StepRecord]) -> None:
    """Seconds differ from run to run; a saved lesson must not."""
    player = step_player(records, live=False)
    assert isinstance(player, StillPlayer)
    held = json.loads(held_by(player))
    assert {(step["seconds"], step["forward_seconds"]) for step in held} == {(0.0, 0.0)}
    assert [step["rows"] for step in held][-1] != []
    assert any(record.seconds > 0 for record in records)


def test_saving_asks_for_the_html(records: list[StepRecord], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEACHKV_STILL", "1")
    assert isinstance(step_player(records), StillPlayer)


def test_without_anywidget_there_is_the_html_and_no_pretence(
    records: list[StepRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.delenv("TEACHKV_STILL", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "anywidget" else found(name))
    assert isinstance(step_player(records), StillPlayer)
    with pytest.raises(OptionError, match="needs anywidget"):
        step_player(records, live=True)


def test_an_empty_trace_is_refused() -> None:
    with pytest.raises(OptionError, match="no step"):
        step_player([])


def test_the_widget_holds_the_records(records: list[StepRecord]) -> None:
    pytest.importorskip("anywidget")
    widget: Any = step_player(records, live=True)
    assert [step["step"] for step in widget.records] == [record.step for record in records]
    assert widget.at == 0


@pytest.mark.skipif(BINARY is None, reason="no Chromium here")
def test_the_widget_tells_which_step_it_shows(records: list[StepRecord], tmp_path: Path) -> None:
    """The module as a browser runs it, with a stand-in for the notebook's model."""
    held = held_by(StillPlayer(records))
    module = (asset("player.js") + MODULE).replace("export default", "window.widget =")
    page = (
        f'<meta charset="utf-8"><link rel="icon" href="data:,"><div id="el"></div><script>{module};'
        f"const state = {{ records: {held}, at: 0 }}; window.state = state;"
        "const model = { get: (k) => state[k], set: (k, v) => { state[k] = v; },"
        " save_changes() { state.saved = state.at; } };"
        "window.widget.render({ model, el: document.getElementById('el') });"
        "document.querySelector('.tkv-player').focus();</script>"
    )
    path = tmp_path / "widget.html"
    path.write_text(page, encoding="utf-8")
    browser = Chromium(tmp_path / "profile")
    try:
        browser.open(path.as_uri())
        assert browser.complaints() == []
        browser.press("ArrowRight")
        assert browser.ask("state.saved") == 1
        browser.press("End")
        assert browser.ask("state.saved") == len(records) - 1
    finally:
        browser.close()
