"""Small pictures for the lessons: inline SVG with a text alternative, readable on light and dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import count

_numbers = count()
STYLE = """
.tkv-pic { --ink: #1b1f24; --line: #8c959f; --dead: #d0d7de; --live: #a9c8f0; --new: #f4c089; --bad: #cf222e; --bar: #4078c0;
  max-width: 46rem; overflow-x: auto; }
@media (prefers-color-scheme: dark) { .tkv-pic { --ink: #e6edf3; --dead: #3d444d; --live: #2f5a94; --new: #8a5a1c; --bad: #ff7b72; --bar: #6ea8fe; } }
[data-md-color-scheme="default"] .tkv-pic { --ink: #1b1f24; --dead: #d0d7de; --live: #a9c8f0; --new: #f4c089; --bad: #cf222e; --bar: #4078c0; }
[data-md-color-scheme="slate"] .tkv-pic { --ink: #e6edf3; --dead: #3d444d; --live: #2f5a94; --new: #8a5a1c; --bad: #ff7b72; --bar: #6ea8fe; }
.tkv-pic svg { width: 100%; height: auto; display: block; }
.tkv-pic text { font: 12px system-ui, sans-serif; fill: var(--ink); }
.tkv-pic .dead { fill: var(--dead); } .tkv-pic .live { fill: var(--live); } .tkv-pic .new { fill: var(--new); }
.tkv-pic .bad { fill: var(--bad); } .tkv-pic .bar { fill: var(--bar); } .tkv-pic .edge { fill: none; stroke: var(--line); }
"""


class Picture:
    """Shown by a notebook as it is."""

    def __init__(self, label: str, width: float, height: float, parts: Sequence[str]) -> None:
        self.label, self.width, self.height, self.parts = label, width, height, parts

    def __repr__(self) -> str:
        return self.label

    def _repr_html_(self) -> str:
        name = f"tkv-pic-{next(_numbers)}"
        head = f'<svg viewBox="0 0 {self.width:g} {self.height:g}" role="img" aria-labelledby="{name}">'
        title = f'<title id="{name}">{escape(self.label)}</title>'
        return f'<style>{STYLE}</style><div class="tkv-pic">{head}{title}{"".join(self.parts)}</svg></div>'


class Drawing:
    """An SVG made elsewhere, with what it shows in words."""

    def __init__(self, label: str, svg: str) -> None:
        self.label, self.svg = label, svg

    def __repr__(self) -> str:
        return self.label

    def _repr_html_(self) -> str:
        return self.svg


def text(x: float, y: float, content: str, anchor: str = "start", weight: str = "normal") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-weight="{weight}">{escape(content)}</text>'


def box(x: float, y: float, kind: str, width: float, height: float) -> str:
    return f'<rect x="{x:g}" y="{y:g}" class="{kind}" width="{width:g}" height="{height:g}"/>'


def rows_picture(title: str, rows: Sequence[tuple[str, int, str, Sequence[float]]]) -> Picture:
    """Rows of cells: (name, dead columns, one character per live column, weight of every column).

    The last column is the one written in this step. A bar under a cell is the attention weight that it took; a red bar
    is weight on a column that holds nothing.
    """
    columns = max(pad + len(cells) for _, pad, cells, _ in rows)
    size, left, step = 34, 120, 78
    parts = [text(0, 14, title, weight="bold")]
    for c in range(columns):
        parts.append(text(left + c * size + size / 2, 34, str(c), "middle"))
    parts.append(text(0, 34, "column"))
    most = max((w for *_, weights in rows for w in weights), default=1.0) or 1.0
    for number, (name, pad, cells, weights) in enumerate(rows):
        y = 42 + number * step
        parts.append(text(0, y + 20, name))
        parts.append(text(0, y + 48, "attention weight"))
        for c in range(columns):
            x, live = left + c * size, c >= pad
            kind = "dead" if not live else "new" if c == pad + len(cells) - 1 else "live"
            parts += [box(x, y, kind, size - 2, 28), box(x, y, "edge", size - 2, 28)]
            parts.append(text(x + size / 2 - 1, y + 19, cells[c - pad] if live else "-", "middle"))
            if c < len(weights) and weights[c] > 0:
                height = 24 * weights[c] / most
                parts.append(box(x + 8, y + 30, "bar" if live else "bad", size - 18, height))
                parts.append(text(x + size / 2 - 1, y + 66, f"{weights[c]:.2f}".lstrip("0"), "middle"))
    said = "; ".join(
        f"{n}: {pad} dead columns, then {cells}, weights {[round(w, 2) for w in weights]}"
        for n, pad, cells, weights in rows
    )
    return Picture(f"{title}. {said}", left + columns * size + 10, 42 + len(rows) * step, parts)


def bars_picture(title: str, bars: Sequence[tuple[str, float]], bad: Sequence[str] = (), form: str = "{:g}") -> Picture:
    """One horizontal bar per (name, value); those named in `bad` are red."""
    left, wide = 300, 380
    most = max((value for _, value in bars), default=1.0) or 1.0
    parts = [text(0, 14, title, weight="bold")]
    for number, (name, value) in enumerate(bars):
        y = 26 + number * 24
        parts.append(text(left - 8, y + 14, name, "end"))
        parts.append(box(left, y, "bad" if name in bad else "bar", max(wide * value / most, 1), 18))
        parts.append(text(left + wide * value / most + 6, y + 14, form.format(value)))
    said = "; ".join(f"{name}: {form.format(value)}" for name, value in bars)
    return Picture(f"{title}. {said}", left + wide + 90, 32 + len(bars) * 24, parts)
