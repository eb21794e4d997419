"""A trace as SVG: threads downwards, columns to the right, one panel per launch; the dead prefix is grey.

Text and lines take the page's own colour, fills are readable on light and on dark, and read and write differ in
shape as well as in colour. The text form stands in the file as the alternative.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from cuda_kernels.trace.record import KernelTrace, LaunchTrace
from cuda_kernels.trace.text import as_text, axis_of

READ, WRITE, DEAD = "#3b82f6", "#e07b00", "#8a8a8a"
WIDTH, LEFT, LINE = 640, 90, 16
ROWS_LIMIT = 64


@dataclass(frozen=True)
class Panel:
    """What one panel shows: marks are (thread, index, write); `dead` and `stop` bound the live run, if one is known;
    `across` names what is counted to the right."""

    title: str
    threads: int
    length: int
    marks: frozenset[tuple[int, int, bool]]
    dead: int
    stop: int
    across: str


def as_svg(trace: KernelTrace, array: str, block: int | None = None) -> str:
    """How one block touched `array` (default: the first block that did), one panel per launch that takes it.

    Raises ValueError if no launch touches the array.
    """
    panels = [panel for launch in trace.launches for panel in _panels(trace, launch, array, block)]
    if not panels:
        names = sorted({a.name for launch in trace.launches for a in launch.arrays})
        raise ValueError(f"{trace.op}: no block touches {array!r}; the arrays are {', '.join(names)}")
    body, top = [], 2 * LINE
    for panel in panels:
        piece, height = _draw(panel, top)
        body.append(piece)
        top += height
    body.append(_legend(top, dead=any(panel.dead > 0 or panel.stop < panel.length for panel in panels)))
    # Several pictures may stand in one page.
    key = f"{trace.op}-{trace.telling}-{array}".replace("_", "-")
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH + LEFT + 10} {top + 2 * LINE}" role="img" '
        f'aria-labelledby="{key}-t {key}-d" font-family="sans-serif" font-size="12" fill="currentColor">'
    )
    title = f'<title id="{key}-t">{escape(trace.op)}, {trace.telling}: who touches {escape(array)}</title>'
    heading = f'<text x="4" y="{LINE}" font-weight="bold">{escape(trace.op)} ({trace.telling}): {escape(array)}</text>'
    return "\n".join([head, title, f'<desc id="{key}-d">{escape(as_text(trace))}</desc>', heading, *body, "</svg>"])


def _panels(trace: KernelTrace, launch: LaunchTrace, array: str, block: int | None) -> list[Panel]:
    """One panel per row of the array that the block touches."""
    number = launch.number_of(array)
    if number is None:
        return []
    traced = launch.arrays[number]
    axis = axis_of(traced)
    touched = list(launch.along(array, axis))
    chosen = block if block is not None else min((touch.block for touch, _, _ in touched), default=0)
    rows: dict[int, set[tuple[int, int, bool]]] = {}
    for touch, row, index in touched:
        if touch.block == chosen:
            rows.setdefault(row, set()).add((touch.thread, index, touch.write))
    live = {run.row: run for run in trace.live}
    panels = []
    for row, marks in sorted(rows.items()):
        length, known = traced.shape[axis], live.get(row) if axis == 2 and len(traced.shape) == 4 else None
        dead, stop = (known.first, known.stop) if known else (0, length)
        threads = max(thread for thread, _, _ in marks) + 1
        title = f"{launch.kernel}, block {chosen}: {array}[{row}]"
        across = "column" if len(traced.shape) == 4 else "number"
        panels.append(Panel(title, threads, length, frozenset(marks), dead, stop, across))
    return panels


def _draw(panel: Panel, top: int) -> tuple[str, int]:
    """SVG of a panel, and its height in pixels."""
    rows, cell = min(panel.threads, ROWS_LIMIT), WIDTH / panel.length
    step = max(3.0, min(12.0, 160 / rows))
    y0, height = top + LINE + 4, rows * step
    parts = [f'<text x="{LEFT}" y="{top + LINE - 2}">{escape(panel.title)}</text>']
    for first, stop, what in ((0, panel.dead, "dead prefix"), (panel.stop, panel.length, "beyond the end")):
        if stop > first:
            parts.append(
                f'<rect x="{LEFT + first * cell:.1f}" y="{y0}" width="{(stop - first) * cell:.1f}" '
                f'height="{height:.1f}" fill="{DEAD}" fill-opacity="0.35"><title>{what}: columns {first}..{stop - 1}'
                f"</title></rect>"
            )
    for thread, first, last, write in merged(panel.marks):
        if thread < rows:
            # A write fills its cell, a read the middle of it: the two differ without colour too.
            inset = 0.0 if write else step * 0.15
            parts.append(
                f'<rect x="{LEFT + first * cell:.1f}" y="{y0 + thread * step + inset:.1f}" '
                f'width="{max(0.8, (last - first + 1) * cell):.1f}" height="{step - 2 * inset:.1f}" '
                f'fill="{WRITE if write else READ}"/>'
            )
    parts.append(
        f'<rect x="{LEFT}" y="{y0}" width="{WIDTH}" height="{height:.1f}" fill="none" stroke="currentColor" '
        f'stroke-opacity="0.5"/>'
    )
    parts.append(f'<text x="{LEFT - 6}" y="{y0 + 10}" text-anchor="end">thread 0</text>')
    if rows > 2:
        parts.append(f'<text x="{LEFT - 6}" y="{y0 + height:.1f}" text-anchor="end">thread {rows - 1}</text>')
    below = y0 + height + LINE - 2
    parts.append(f'<text x="{LEFT}" y="{below:.1f}">{panel.across} 0</text>')
    parts.append(f'<text x="{LEFT + WIDTH}" y="{below:.1f}" text-anchor="end">{panel.length - 1}</text>')
    return "\n".join(parts), int(height) + 3 * LINE


def merged(marks: frozenset[tuple[int, int, bool]]) -> list[tuple[int, int, int, bool]]:
    """(thread, first, last, write): neighbouring indices of one thread as one bar."""
    bars: list[tuple[int, int, int, bool]] = []
    for thread, index, write in sorted(marks, key=lambda m: (m[0], m[2], m[1])):
        if bars and bars[-1][0] == thread and bars[-1][3] == write and index == bars[-1][2] + 1:
            bars[-1] = (thread, bars[-1][1], index, write)
        else:
            bars.append((thread, index, index, write))
    return bars


def _legend(top: int, *, dead: bool) -> str:
    entries = ((READ, 3, 6, "1", "read"), (WRITE, 0, 12, "1", "written"), (DEAD, 0, 12, "0.35", "dead, not to be read"))
    parts = []
    for i, (colour, inset, height, opacity, name) in enumerate(entries if dead else entries[:2]):
        x = LEFT + 110 * i
        parts.append(
            f'<rect x="{x}" y="{top + inset}" width="12" height="{height}" fill="{colour}" fill-opacity="{opacity}"/>'
        )
        parts.append(f'<text x="{x + 18}" y="{top + 11}">{name}</text>')
    return "\n".join(parts)
