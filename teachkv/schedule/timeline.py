"""Pictures of runs: who runs and who waits, step by step, as one small SVG that reads on light and dark pages."""

from collections.abc import Sequence
from html import escape
from itertools import groupby

from teachkv.schedule.simulate import Run

LEFT, WIDTH, ROW, GAP, TOP = 190, 620, 46, 14, 56
STYLE = """
svg { --ink: #24292f; --page: #ffffff; --line: #d0d7de; --run: #1f6feb; --wait: #e5924a }
@media (prefers-color-scheme: dark) {
  svg { --ink: #d8dee6; --page: #161b22; --line: #444c56; --run: #58a6ff; --wait: #b9743a }
}
text { font: 12px system-ui, sans-serif; fill: var(--ink) }
.page { fill: var(--page) } .axis { stroke: var(--line) } .run { fill: var(--run) } .wait { fill: var(--wait) }
"""


def timeline(title: str, runs: Sequence[tuple[str, Run]], last_step: int) -> str:
    """One row per run over steps 0 .. last_step: running from below, waiting on top of it, prompt steps as ticks."""
    most = max(step.plan.running + step.plan.waiting for _, run in runs for step in run.steps)
    height = TOP + len(runs) * (ROW + GAP) + 24
    rows = [_row(label, run, i, last_step, most) for i, (label, run) in enumerate(runs)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 20} {height}" role="img">',
            f"<title>{escape(title)}</title><style>{STYLE}</style>",
            f'<rect class="page" width="{LEFT + WIDTH + 20}" height="{height}"/>',
            f'<text x="10" y="20" font-weight="bold">{escape(title)}</text>',
            _legend(),
            *rows,
            _axis(last_step, height),
            "</svg>\n",
        ]
    )


def _legend() -> str:
    parts = []
    for x, name, text in ((10, "run", "running"), (90, "wait", "waiting"), (170, "axis", "| step with prompts in it")):
        mark = f'<rect class="{name}" x="{x}" y="30" width="10" height="10"/>' if name != "axis" else ""
        parts.append(f'{mark}<text x="{x + 14}" y="40">{text}</text>')
    return "".join(parts)


def _row(label: str, run: Run, i: int, last_step: int, most: int) -> str:
    base = TOP + i * (ROW + GAP) + ROW
    steps = run.steps[:last_step]
    running = [step.plan.running for step in steps]
    everyone = [step.plan.running + step.plan.waiting for step in steps]
    ticks = "".join(f"M{_x(n, last_step):.1f} {base + 1}v5" for n, step in enumerate(steps) if step.plan.prefill)
    ends = f"{len(run.steps):,} steps" + (" (cut)" if len(run.steps) > last_step else "")
    return (
        f'<text x="10" y="{base - 22}">{escape(label)}</text><text x="10" y="{base - 6}" opacity=".7">{ends}</text>'
        f'<path class="wait" d="{_area(everyone, last_step, most, base)}"/>'
        f'<path class="run" d="{_area(running, last_step, most, base)}"/>'
        f'<path d="{ticks}" stroke="var(--ink)" stroke-width=".7"/>'
        f'<path class="axis" d="M{LEFT} {base}h{WIDTH}"/>'
    )


def _x(step: int, last_step: int) -> float:
    return LEFT + step / last_step * WIDTH


def _area(values: Sequence[int], last_step: int, most: int, base: int) -> str:
    """A staircase from the base line, one corner per change."""
    path, at = [f"M{LEFT} {base}"], 0
    for value, group in groupby(values):
        path.append(f"V{base - value / most * ROW:.1f}")
        at += len(list(group))
        path.append(f"H{_x(at, last_step):.1f}")
    return "".join(path) + f"V{base}Z"


def _axis(last_step: int, height: int) -> str:
    marks = range(0, last_step + 1, 100)
    texts = [f'<text x="{_x(n, last_step):.0f}" y="{height - 6}" text-anchor="middle">{n}</text>' for n in marks]
    return "".join(texts) + f'<text x="10" y="{height - 6}">step</text>'
