"""The hooks of a session, each handing over at once. `plugin.py` loads them."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from teachkv.mutate import restart
from teachkv.mutate.claims import MARK_LINE, find_claims
from teachkv.mutate.classroom import Classroom
from teachkv.mutate.drift import card_items
from teachkv.mutate.errors import MutateError
from teachkv.mutate.formats import check_kinds
from teachkv.mutate.launch import serve
from teachkv.mutate.listing import list_lines, show_lines
from teachkv.mutate.options import (
    asked_for_exercises,
    check_options,
    quieten_neighbours,
    take_over_workers,
)
from teachkv.mutate.randomness import settle_hypothesis
from teachkv.mutate.rebase import rebase_lines
from teachkv.mutate.registry import Registry
from teachkv.mutate.report import merge, read_report
from teachkv.mutate.run import Run, write_reports
from teachkv.mutate.settings import read_settings
from teachkv.mutate.verdicts import NOTHING

REGISTRY = pytest.StashKey[Registry]()
RUN = pytest.StashKey[Run]()
CODE = pytest.StashKey[int]()
CLASSROOM = pytest.StashKey[Classroom]()


def begin(early_config: pytest.Config) -> None:
    """Before any conftest, which may import the packages: from here on it is noted what runs."""
    option = early_config.known_args_namespace
    with usage_errors():
        if option.mutate_with and not restart.boot_spec():
            registry, args = registry_of(early_config), list(early_config.invocation_params.args)
            restart.run_with_mutant(registry, option.mutate_with, args)
        if option.mutate:
            quieten_neighbours(early_config)
        if option.mutate and "task" not in restart.boot_spec():
            check_options(option)
            check_kinds(option.mutate_report)
            early_config.stash[RUN] = Run(registry_of(early_config))
            early_config.stash[RUN].ran.start()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, Any, Any]:
    with usage_errors():
        check_options(config.option)
        check_kinds(config.option.mutate_report)
        if asked_for_exercises(config.option) and "task" not in restart.boot_spec():
            config.stash[CLASSROOM] = Classroom(config)
            config.args = config.stash[CLASSROOM].files() or [str(config.rootpath / "pyproject.toml")]
    if config.option.mutate:
        take_over_workers(config.option)
    return (yield)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARK_LINE)


def pytest_report_header(config: pytest.Config) -> list[str]:
    mutant = restart.boot_spec().get("mutant")
    return [f"mutate: running under {mutant}"] if mutant else []


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A run does not import what the settings leave out, unless it is asked for by name."""
    option = config.option
    if not option.mutate or option.file_or_dir:
        return None
    return collection_path in read_settings(config.rootpath).ignore or None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Adds the card items last, so that no `-k` drops them; a session without tests stays one (exit 5)."""
    option = config.option
    silent = option.mutate or option.mutate_list or option.mutate_show or option.mutate_rebase or option.mutate_merge
    # guard[empty-selection]: card items alone would turn a selection of nothing into a green run
    # origin: kesha-voice-kit#1075, patterns that matched nothing were reported green
    # mutant[empty-selection/cards-always]:
    #   - if items and not silent:
    #   + if not silent:
    if items and not silent:
        items += card_items(session, registry_of(config), items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    config = session.config
    option, spec = config.option, restart.boot_spec()
    if option.mutate:
        settle_hypothesis(session.items)
    if "task" in spec:
        serve(session, lambda: registry_of(config).spans(), spec, restart.overlay_module().FINDER)
        return None
    with usage_errors():
        if option.mutate_list or option.mutate_show or option.mutate_merge or option.mutate_rebase:
            tell(config, look_up(session))
            return True
        if option.mutate:
            config.stash[RUN].ran.stop()
            if CLASSROOM in config.stash:
                code, lines = config.stash[CLASSROOM].run(session, registry_of(config), config.stash[RUN].ran)
                config.stash[CODE] = code
                tell(config, lines)
                for attempt in config.stash[CLASSROOM].attempts:
                    count(config, "solved" if attempt.solved else "open", attempt)
                return True
            if session.items and not session.testsfailed:
                config.stash[RUN].execute(session)
                return True
    return None


def look_up(session: pytest.Session) -> list[str]:
    """The lines of the modes that run nothing."""
    option, registry = session.config.option, registry_of(session.config)
    if option.mutate_merge:
        report = merge([read_report(Path(path)) for path in option.mutate_merge])
        session.config.stash[CODE] = report.code
        return write_reports(report, option.mutate_report, registry)
    if option.mutate_rebase:
        return list(rebase_lines(registry))
    claims = find_claims(session.items)
    if not option.mutate_show:
        return list(list_lines(registry, claims))
    config = session.config
    paths = config.args if config.args_source is pytest.Config.ArgsSource.ARGS else []
    return list(show_lines(registry, claims, option.mutate_show, paths))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    mutant = restart.boot_spec().get("mutant")
    if mutant and not restart.overlay_module().FINDER.served:
        tell(config, [f"not applied: no test imported the file of {mutant}"])
        session.exitstatus = pytest.ExitCode.USAGE_ERROR
    if CODE in config.stash:
        session.exitstatus = config.stash[CODE]
        return
    run = config.stash.get(RUN, None)
    if run is not None and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = NOTHING if run.nothing else run.report(config.option.mutate_strict).code


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The report, before pytest's own closing line, which counts the verdicts."""
    run = config.stash.get(RUN, None)
    if run is None or (not run.campaigns and not run.others and not run.nothing):
        return
    report = run.report(config.option.mutate_strict)
    terminalreporter.section("mutants")
    with usage_errors():
        tell(config, [run.nothing] if run.nothing else write_reports(report, config.option.mutate_report, run.registry))
    for result in report.results:
        count(config, str(result.verdict), result)


def count(config: pytest.Config, word: str, thing: object) -> None:
    """Adds one to a word of pytest's closing line."""
    config.pluginmanager.getplugin("terminalreporter").stats.setdefault(word, []).append(thing)


def tell(config: pytest.Config, lines: list[str]) -> None:
    reporter = config.pluginmanager.getplugin("terminalreporter")
    for line in lines:
        reporter.write_line(line)


def registry_of(config: pytest.Config) -> Registry:
    """The registry of the project pytest runs in, read once."""
    if REGISTRY not in config.stash:
        with usage_errors():
            config.stash[REGISTRY] = Registry.load(read_settings(config.rootpath))
    return config.stash[REGISTRY]


class usage_errors:  # noqa: N801 - reads as a statement
    """`with usage_errors():` turns a MutateError into pytest's own one-line usage error (exit 4)."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, MutateError):
            raise pytest.UsageError(str(error)) from error
