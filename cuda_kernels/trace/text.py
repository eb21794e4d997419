"""A trace as a few lines: for a terminal, a notebook, and for those who do not see the picture."""

from __future__ import annotations

from collections.abc import Iterable

from cuda_kernels.trace.record import ArrayTrace, KernelTrace, LaunchTrace

COLUMN_AXIS = 2  # caches are [R, G, C, D]
BLOCKS_SHOWN = 3


def axis_of(array: ArrayTrace) -> int:
    """The axis that a picture runs along: columns of a cache, else the last one."""
    return COLUMN_AXIS if len(array.shape) == 4 else len(array.shape) - 1


def as_text(trace: KernelTrace) -> str:
    """Per launch and array: which threads of the first blocks touched what; and whether dead columns were read."""
    lines = [f"{trace.op}, told in {trace.telling}"]
    for launch in trace.launches:
        lines.append(f"{launch.kernel}: grid {launch.grid}, {launch.block[0]} threads per block")
        for array in launch.arrays:
            lines += _array_lines(launch, array)
    for run in trace.live:
        if run.first > 0:
            lines.append(f"row {run.row}: columns {ranges(range(run.first))} are dead")
    caches = [a.name for launch in trace.launches for a in launch.arrays if len(a.shape) == 4]
    dead = trace.dead_reads(*dict.fromkeys(caches))
    if trace.live:
        lines.append(f"dead columns read: {', '.join(f'{n} row {r} column {c}' for n, r, c in dead) or 'none'}")
    return "\n".join(lines)


def _array_lines(launch: LaunchTrace, array: ArrayTrace) -> list[str]:
    axis, blocks = axis_of(array), dict[int, dict[tuple[bool, int], dict[int, set[int]]]]()
    for touch, row, index in launch.along(array.name, axis):
        place = blocks.setdefault(touch.block, {}).setdefault((touch.write, row), {})
        place.setdefault(touch.thread, set()).add(index)
    if len(array.shape) == 1:
        touched = sorted(
            {index for places in blocks.values() for t in places.values() for i in t.values() for index in i}
        )
        return [f"  {len(blocks)} blocks touch {array.name}: {ranges(touched)}"] if blocks else []
    lines = []
    for block in sorted(blocks)[:BLOCKS_SHOWN]:
        for (write, row), by_thread in sorted(blocks[block].items()):
            verb, where = "writes" if write else "reads", f"[{row}]"
            parts = [f"{ranges(t)} -> {ranges(i)}" for t, i in grouped(by_thread)]
            shown = "; ".join(parts[:4]) + ("; ..." if len(parts) > 4 else "")
            lines.append(f"  block {block} {verb} {array.name}{where}: threads {shown}")
    if len(blocks) > BLOCKS_SHOWN:
        lines.append(f"  ... and {len(blocks) - BLOCKS_SHOWN} more blocks touch {array.name}")
    return lines


def grouped(by_thread: dict[int, set[int]]) -> list[tuple[list[int], list[int]]]:
    """Threads that touched the same indices, together; a thread each with one index of its own count as one group."""
    if all(len(indices) == 1 for indices in by_thread.values()):
        return [(sorted(by_thread), sorted(set().union(*by_thread.values())))]
    groups: dict[tuple[int, ...], list[int]] = {}
    for thread, indices in sorted(by_thread.items()):
        groups.setdefault(tuple(sorted(indices)), []).append(thread)
    return [(threads, list(indices)) for indices, threads in groups.items()]


def ranges(numbers: Iterable[int]) -> str:
    """0..4, 7, 9..12"""
    runs: list[list[int]] = []
    for n in sorted(numbers):
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ", ".join(str(a) if a == b else f"{a}..{b}" for a, b in runs)
