"""What planning costs per step with 10, 1,000 and 100,000 requests waiting: `python benchmarks/planning_cost.py`.

64 requests decode; in every step one of them ends, one that waited gets its seat, and a new one arrives. A step is
timed whole: plan, apply, and the reports of what was computed. The list-scanning twins stand beside as a yardstick.
Prints a Markdown table; with a path as argument it writes a page instead.
"""

import platform
import sys
from pathlib import Path
from statistics import median
from time import perf_counter

from teachkv.schedule import Plan, Scheduler
from teachkv.schedule.twins import TWINS

SEATS, STEPS = 64, 60
WAITING = (10, 1_000, 100_000)
ARMS = [  # (label, policy, number of different prompt lengths)
    ("bucketed, one length", "bucketed", 1),
    ("bucketed, 500 lengths", "bucketed", 500),
    ("ragged, one length", "ragged", 1),
    ("ragged, 500 lengths", "ragged", 500),
    ("packed, 500 lengths", "packed", 500),
]


def report(scheduler: Scheduler, plan: Plan) -> None:
    for chunk in plan.prefill:
        scheduler.computed(chunk.id, chunk.count)
        if chunk.last:
            scheduler.appended(chunk.id)
    for id in plan.decode:
        scheduler.computed(id, 1)
        scheduler.appended(id)


def measure(policy: str, waiting: int, lengths: int) -> tuple[float, float, float]:
    """(plan alone, whole step, plan of the twin) in microseconds, medians."""
    scheduler = Scheduler(policy, max_num_seqs=SEATS)
    newest = SEATS + waiting
    for id in range(newest):
        scheduler.add(id, 100 + id % lengths)
    plans, steps, twins = [], [], []
    for step in range(STEPS + 20):
        if step >= 20:
            scheduler.finish(scheduler.state.seats[0].id)
            scheduler.add(newest + step, 100 + (newest + step) % lengths)
        began = perf_counter()
        plan = scheduler.plan()
        planned = perf_counter()
        scheduler.apply(plan)
        report(scheduler, plan)
        ended = perf_counter()
        if step >= 20:
            plans.append(planned - began)
            steps.append(ended - began)
        if step >= STEPS + 20 - (2 if waiting > 10_000 else 10):
            snapshot = scheduler.state.snapshot()
            began = perf_counter()
            TWINS[policy](snapshot, scheduler.limits)
            twins.append(perf_counter() - began)
    return median(plans) * 1e6, median(steps) * 1e6, median(twins) * 1e6


def table() -> str:
    lines = [
        "| policy, prompts | waiting | plan, us | whole step, us | twin's plan, us |",
        "|---|---:|---:|---:|---:|",
    ]
    for label, policy, lengths in ARMS:
        for waiting in WAITING:
            plan, step, twin = measure(policy, waiting, lengths)
            lines.append(f"| {label} | {waiting:,} | {plan:,.0f} | {step:,.0f} | {twin:,.0f} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    where = f"Python {platform.python_version()}, {platform.machine()}, {platform.system()}"
    return (
        "# What planning costs\n\n"
        f"Written by `python benchmarks/planning_cost.py PAGE` ({where}); {SEATS} seats, medians of {STEPS} steps.\n"
        "In every step one request ends, one that waited gets its seat and a new one arrives. The *twin* finds the\n"
        "same plan by scanning lists. A test counts operations instead of time, and wants the same count with 10 and\n"
        "with 20,000 requests waiting (`tests/schedule/test_planning_cost.py`).\n\n" + table()
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(page(), encoding="utf-8")
    else:
        sys.stdout.write(table())
