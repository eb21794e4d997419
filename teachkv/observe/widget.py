"""The step player in a notebook: a live widget where anywidget is there, else the same player as HTML that stays.

A saved notebook, a page made from it and a viewer without a kernel show the HTML; without scripts it is a list of
steps. Both draw the same records with the same player.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from teachkv.errors import OptionError
from teachkv.observe.export import asset, fragment, played
from teachkv.observe.scenes import Scene
from teachkv.observe.trace import StepRecord

# The player hands each step it shows to the model, so that Python can ask where the reader stands.
MODULE = """
export default {
  render({ model, el }) {
    const root = document.createElement("div");
    root.addEventListener("tkv-step", (event) => { model.set("at", event.detail); model.save_changes(); });
    el.append(root);
    window.tkvPlayer(root, model.get("records"));
  },
};
"""


class StillPlayer:
    """The player as HTML: nothing runs but the page's own script. Times are left out, so equal runs save equal text."""

    def __init__(self, records: Sequence[StepRecord] | Scene) -> None:
        self.records: Sequence[StepRecord] | Scene = records
        if not isinstance(records, Scene):
            self.records = [replace(record, seconds=0.0, forward_seconds=0.0) for record in records]

    def __repr__(self) -> str:
        return "\n".join(self.records.lines if isinstance(self.records, Scene) else map(str, self.records))

    def _repr_html_(self) -> str:
        parts = (
            f'<style class="tkv-code">{asset("player.css")}</style>',
            fragment(self.records),
            f'<script class="tkv-code">{asset("player.js")}</script>',
        )
        return "\n".join(parts)


def step_player(records: Sequence[StepRecord] | Scene, live: bool | None = None) -> Any:
    """A player of these records, or of a scene (teachkv/observe/scenes.py).

    live: True = the widget, False = the HTML, None = the widget if there is anywidget. With TEACHKV_STILL set (as when
    the notebooks are run to be saved) None means False. Raises OptionError for an empty trace, and for live=True
    without anywidget.
    """
    if not isinstance(records, Scene) and not records:
        raise OptionError("step_player: the trace has no step; run something with trace=True first")
    there = importlib.util.find_spec("anywidget") is not None
    if live and not there:
        raise OptionError("step_player: live=True needs anywidget; pip install anywidget, or leave `live` out")
    if live or (live is None and there and not os.environ.get("TEACHKV_STILL")):
        return live_player(records)
    return StillPlayer(records)


def live_player(records: Sequence[StepRecord] | Scene) -> Any:
    """The widget; its `at` is the index of the step that is shown."""
    import anywidget
    import traitlets

    kind = type(
        "LivePlayer",
        (anywidget.AnyWidget,),
        {
            "_esm": asset("player.js") + MODULE,
            "_css": asset("player.css"),
            "records": traitlets.Any().tag(sync=True),
            "at": traitlets.Int(0).tag(sync=True),
        },
    )
    return kind(records=played(records))
