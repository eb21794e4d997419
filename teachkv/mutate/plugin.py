"""The pytest plugin: hooks only, each handing over at once."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

from teachkv.mutate import restart
from teachkv.mutate.claims import MARK_LINE, find_claims
from teachkv.mutate.drift import card_items
from teachkv.mutate.errors import MutateError
from teachkv.mutate.listing import list_lines, show_lines
from teachkv.mutate.options import add_options
from teachkv.mutate.registry import Registry
from teachkv.mutate.settings import read_settings

REGISTRY = pytest.StashKey[Registry]()


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> Generator[None]:
    """Before any conftest (which may import the packages) and before output is captured: restart if need be."""
    wanted = early_config.known_args_namespace.mutate_with
    if wanted and restart.MARK not in os.environ:
        with usage_errors():
            restart.run_with_mutant(registry_of(early_config), wanted, list(early_config.invocation_params.args))
    return (yield)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARK_LINE)


def pytest_report_header(config: pytest.Config) -> list[str]:
    overlay = restart.overlay_module()
    return [f"mutate: running under {overlay.SPEC['mutant']}"] if overlay else []


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Adds the card items last, so that no `-k` drops them; a session without tests stays one (exit 5)."""
    if items and not (config.option.mutate_list or config.option.mutate_show):
        items += card_items(session, registry_of(config), items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    config = session.config
    if not (config.option.mutate_list or config.option.mutate_show):
        return None
    registry, claims = registry_of(config), find_claims(session.items)
    with usage_errors():
        show = config.option.mutate_show
        lines = show_lines(registry, claims, show) if show else list_lines(registry, claims)
        reporter = config.pluginmanager.getplugin("terminalreporter")
        for line in lines:
            reporter.write_line(line)
    return True


def pytest_sessionfinish(session: pytest.Session) -> None:
    overlay = restart.overlay_module()
    if overlay and not overlay.FINDER.served:
        reporter = session.config.pluginmanager.getplugin("terminalreporter")
        reporter.write_line(f"not applied: no test imported the file of {overlay.SPEC['mutant']}", red=True)
        session.exitstatus = pytest.ExitCode.USAGE_ERROR


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
