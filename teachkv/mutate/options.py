"""The command line of `pytest --mutate`. An option that does not fit another is an error, never ignored."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable
from typing import Any

import pytest

from teachkv.mutate.errors import MutateError

LANES = ("python", "numba-nojit", "numba-sim", "nvrtc", "host", "tsan", "gpu")
DEFAULT_LANES = "python,numba-nojit"
_NEEDS_RUN = ("only", "shard", "strict", "matrix", "order", "auto", "report")


_EXERCISE = (
    ("--exercise", "judge the pending exercise (or that one)"),
    ("--exercise-hint", "the next of its three hints"),
    ("--exercise-skip", "go on without it"),
    ("--exercise-reset", "its file as it was given"),
    ("--exercise-watch", "judge it at each change of its file, until it is solved"),
)
EXERCISES = ("exercise", *(name[2:].replace("-", "_") for name, _ in _EXERCISE[1:]))


def xdist_takes_part() -> bool:
    """Whether pytest-xdist is installed and loaded by itself; then `-n` is its option."""
    return importlib.util.find_spec("xdist") is not None and not os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD")


def add_options(parser: pytest.Parser) -> None:
    """Registers every option in one group of `pytest --help`."""
    group = parser.getgroup("mutate", "named mutants (cards beside the code)")
    add = group.addoption
    add("--mutate", action="store_true", help="take each guard away and see its named test go red")
    add("--mutate-only", metavar="EXPR", help="mutants whose id matches EXPR, in the grammar of -k")
    add("--mutate-list", action="store_true", help="list guards, mutants and claimed killers")
    add("--mutate-show", metavar="ID", help="show one mutant: reason, origin, place, diff, killers")
    add("--mutate-with", metavar="ID", help="run pytest under one mutant; --pdb works")
    add("--mutate-rebase", action="store_true", help="propose drifted cards anew, as a diff for git apply")
    add("--mutate-strict", action="store_true", help="only a failed assertion is a kill")
    add("--mutate-matrix", action="store_true", help="no bail: every test that reaches a guard, under every mutant")
    add("--mutate-order", type=int, choices=(1, 2), default=1, help="2: explain survivors by removing two guards")
    add("--mutate-auto", nargs="?", type=int, const=0, metavar="N", help="automatic mutants in guard spans (at most N)")
    add("--mutate-jobs", type=int, metavar="N", help="children at a time (default: the CPUs; -n N means the same)")
    add("--mutate-isolation", choices=("auto", "fork", "spawn"), default="auto", help="how children start")
    add("--mutate-timeout-factor", type=float, default=10.0, metavar="X", help="a child's time over its tests' own")
    add("--mutate-lane", default=DEFAULT_LANES, metavar="LANES", help=f"from {','.join(LANES)}")
    add("--mutate-shard", metavar="I/N", help="part I of N of the mutants")
    add("--mutate-merge", action="append", metavar="JSON", help="join reports of shards; runs nothing")
    add(
        "--mutate-report", action="append", metavar="KIND", default=[],
        help="term, term-missing, json:PATH, stryker:PATH, html:PATH, github (may be given again)",
    )  # fmt: skip
    for name, text in _EXERCISE:
        add(name, nargs="?", const="", metavar="NAME", help=text)
    add("--exercise-list", action="store_true", help="list the exercises and how far you are")
    add("--exercise-check-all", action="store_true", help="judge every exercise that was begun")
    if not xdist_takes_part():
        group._addoption("-n", dest="numprocesses", metavar="N", help="with --mutate the same as --mutate-jobs")


def check_options(option: Any) -> None:
    """Refuses options that would do nothing; settles the number of jobs. Raises MutateError."""
    modes = [name for name in ("list", "show", "with", "rebase", "merge") if getattr(option, f"mutate_{name}")]
    if len(modes) + option.mutate > 1:
        raise MutateError(f"--mutate-{modes[0]} does not go with another mode; give one of them")
    used = [name for name in _NEEDS_RUN if getattr(option, f"mutate_{name}") not in (None, False, 1, [])]
    if option.mutate_auto is not None and "auto" not in used:
        used.append("auto")
    if used and not option.mutate and not (option.mutate_merge and used == ["report"]):
        raise MutateError(f"--mutate-{used[0]} needs --mutate")
    asked = asked_for_exercises(option)
    if asked and not option.mutate:
        raise MutateError("--exercise and its kin need --mutate")
    if len(asked) > 1:
        raise MutateError(f"--{asked[1].replace('_', '-')} does not go with --{asked[0].replace('_', '-')}; give one")
    workers = getattr(option, "numprocesses", None)
    if workers is not None and not option.mutate and not xdist_takes_part():
        raise MutateError("-n needs --mutate here (pytest-xdist is not installed)")
    option.mutate_jobs = _jobs(option.mutate_jobs, workers)


def asked_for_exercises(option: Any) -> list[str]:
    """The exercise options that were given."""
    given = [name for name in EXERCISES if getattr(option, name) is not None]
    return given + [name for name in ("exercise_list", "exercise_check_all") if getattr(option, name)]


def without_exercises(args: Iterable[str], option: Any) -> list[str]:
    """The command line less the exercise options and their values."""
    kept: list[str] = []
    values = {getattr(option, name) for name in EXERCISES}
    after_option = False
    for arg in args:
        if not arg.startswith("--exercise") and not (after_option and arg in values):
            kept.append(arg)
        after_option = arg.startswith("--exercise") and "=" not in arg
    return kept


def take_over_workers(option: Any) -> None:
    """`-n` means jobs here: pytest-xdist must not spread the tests over its own workers."""
    for name, value in (("numprocesses", None), ("dist", "no"), ("tx", [])):
        if hasattr(option, name):
            setattr(option, name, value)


def quieten_neighbours(early_config: pytest.Config) -> None:
    """No coverage (the parent runs no test) and no other order of tests than the collected one."""
    if hasattr(early_config.known_args_namespace, "cov_source"):
        early_config.known_args_namespace.cov_source = []
    for name in ("randomly", "random_order"):
        plugin = early_config.pluginmanager.getplugin(name)
        if plugin is not None:
            early_config.pluginmanager.unregister(plugin)


def _jobs(jobs: int | None, workers: Any) -> int:
    if jobs is None and workers not in (None, "auto", "logical", 0):
        jobs = int(workers)
    if jobs is None:
        jobs = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if jobs < 1:
        raise MutateError(f"--mutate-jobs={jobs}: at least one child must run")
    return jobs
