"""A trace as a page with a step player, as a fragment for other pages, and as a file for Perfetto."""

import html
import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib.resources import files
from itertools import count
from typing import Any

from teachkv.observe.scenes import Scene
from teachkv.observe.trace import StepRecord

_numbers = count()
# player.js starts what it finds, so it comes behind the views.
PARTS = {"player.js": ("draw.js", "steps.js", "ops.js", "threads.js", "player.js")}


# On a page of its own the player hears the keys at once.
FOCUS = (
    'addEventListener("DOMContentLoaded", () => document.querySelector(".tkv-player").focus({ preventScroll: true }));'
)


def asset(name: str) -> str:
    """Text of player.js, with all its views, or of player.css."""
    folder = files("teachkv.observe") / "player"
    return "".join((folder / part).read_text(encoding="utf-8") for part in PARTS.get(name, (name,)))


def played(records: Sequence[StepRecord] | Scene) -> Any:
    """What the player takes, as JSON-able data."""
    return records.data if isinstance(records, Scene) else [asdict(record) for record in records]


def fragment(records: Sequence[StepRecord] | Scene) -> str:
    """HTML of one player; the page must hold player.js and player.css once. Without scripts it is a list of steps."""
    name = f"tkv-trace-{next(_numbers)}"
    data = json.dumps(played(records), separators=(",", ":")).replace("</", "<\\/")
    lines = records.lines if isinstance(records, Scene) else records
    steps = "".join(f"<li><code>{html.escape(str(line))}</code></li>" for line in lines)
    holder = f'<div data-tkv-trace="{name}"><ol>{steps}</ol></div>\n'
    return f'{holder}<script type="application/json" id="{name}">{data}</script>\n'


def page(records: Sequence[StepRecord] | Scene, title: str = "teachkv trace", above: str = "") -> str:
    """A whole page in one file: no request to anywhere. `above`: HTML that stands before the player."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title>\n<style>{asset('player.css')}\nbody {{ margin: 1rem; max-width: 56rem; }}"
        "\n@media (prefers-color-scheme: dark) { body { background: #0d1117; color: #e6edf3; } }</style></head>\n"
        f"<body><h1>{html.escape(title)}</h1>\n{above}{fragment(records)}<script>{asset('player.js')}{FOCUS}</script></body></html>\n"
    )


def perfetto(records: Sequence[StepRecord]) -> str:
    """The trace in Chrome's JSON format, which ui.perfetto.dev and chrome://tracing read.

    One track of steps with their forward passes, one per sequence, counters for running, waiting and resident.
    Times in microseconds from the first step; steps follow one another without the time between them.
    """
    events: list[dict[str, object]] = [name_track(0, "steps")]
    seen: set[int] = set()
    now = 0.0
    for record in records:
        span = record.seconds * 1e6
        plan = {key: value for key, value in record.plan.items() if value not in ((), [], "")}
        events.append(slice_event(0, f"step {record.step}", now, span, {"plan": plan, "events": list(record.events)}))
        events.append(slice_event(0, "forward", now, min(record.forward_seconds * 1e6, span), {}))
        for row in record.rows:
            if row.id not in seen:
                seen.add(row.id)
                events.append(name_track(row.id + 1, f"sequence {row.id}"))
            events.append(slice_event(row.id + 1, f"{row.kind} +{row.new_tokens}", now, span, asdict(row)))
        for name in ("running", "waiting", "resident"):
            events.append({"ph": "C", "pid": 1, "name": name, "ts": now, "args": {name: getattr(record, name)}})
        now += span
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": events})


def name_track(track: int, name: str) -> dict[str, object]:
    return {"ph": "M", "pid": 1, "tid": track, "name": "thread_name", "args": {"name": name}}


def slice_event(track: int, name: str, start: float, length: float, args: dict[str, object]) -> dict[str, object]:
    return {"ph": "X", "pid": 1, "tid": track, "name": name, "ts": start, "dur": length, "args": args}
