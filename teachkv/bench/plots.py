"""Pictures of a record (extra 'bench'): throughput with every sample, running and waiting over time, the roof."""

from pathlib import Path
from typing import Any

from teachkv.bench.metrics import figures
from teachkv.bench.record import Record
from teachkv.errors import OptionError


def draw(record: Record, folder: Path) -> list[Path]:
    """Writes SVG files and returns their paths. Raises OptionError without matplotlib."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise OptionError("plots need matplotlib: pip install 'teachkv[bench]'") from error
    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "teachkv"  # the same record gives the same file
    folder.mkdir(parents=True, exist_ok=True)
    made = [draw_throughput(record, folder)]
    made += [draw_timeline(record, cell, folder) for cell in record.cells]
    return made + ([draw_roof(record, folder)] if record.roof else [])


def draw_throughput(record: Record, folder: Path) -> Path:
    """A dot per sample: what varies is seen, and a mean is not believed before."""
    plot, axes = canvas("tokens per second, one dot per sample")
    names = [(cell, arm.label) for cell in record.cells for arm in record.arms if record.of(cell, arm.label)]
    for place, (cell, arm) in enumerate(names):
        values = [figures(sample).tok_s for sample in record.of(cell, arm)]
        axes.plot(values, [place] * len(values), "o", alpha=0.6, color=f"C{record.cells.index(cell) % 10}")
        axes.plot([sum(values) / len(values)], [place], "|", markersize=14, color="black")
    axes.set_yticks(range(len(names)), [f"{cell}  {arm}" for cell, arm in names])
    axes.set_xlim(left=0)
    axes.invert_yaxis()
    return keep(plot, folder / "throughput.svg")


def draw_timeline(record: Record, cell: str, folder: Path) -> Path:
    """Running solid, waiting dotted, of the first sample of each arm."""
    plot, axes = canvas(f"running (solid) and waiting (dotted), {cell}")
    for number, arm in enumerate(arm for arm in record.arms if arm.twin_of is None):
        for sample in record.of(cell, arm.label)[:1]:
            at = [step.at for step in sample.steps]
            axes.step(at, [step.running for step in sample.steps], where="pre", color=f"C{number}", label=arm.label)
            axes.step(at, [step.waiting for step in sample.steps], ":", where="pre", color=f"C{number}")
    axes.set_xlabel("seconds")
    axes.legend()
    safe = "".join(letter if letter.isalnum() or letter in "-." else "-" for letter in cell)
    return keep(plot, folder / f"timeline-{safe}.svg")


def draw_roof(record: Record, folder: Path) -> Path:
    """Bytes per second of each sample under the measured roof, over the mean number of rows in a step."""
    plot, axes = canvas(f"bytes read per second; roof: {record.roof['where']}")
    for number, arm in enumerate(record.arms):
        found = [figures(sample) for cell in record.cells for sample in record.of(cell, arm.label)]
        axes.plot(
            [f.run_mean for f in found], [f.bytes_s / 1e9 for f in found], "o", color=f"C{number}", label=arm.label
        )
    axes.axhline(record.roof["bytes_s"] / 1e9, color="black")
    axes.set_xlabel("mean rows per step")
    axes.set_ylabel("GB/s")
    axes.set_ylim(bottom=0)
    axes.legend()
    return keep(plot, folder / "roof.svg")


def canvas(title: str) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    plot = Figure(figsize=(8, 4.5), layout="constrained")
    axes = plot.subplots()
    axes.set_title(title)
    return plot, axes


def keep(plot: Any, path: Path) -> Path:
    plot.savefig(path, metadata={"Date": None})
    return path
