"""The pytest plugin. It imports little: a run starts pytest anew, and what was imported before that is lost."""

from __future__ import annotations

from collections.abc import Generator
from importlib import import_module

import pytest

from teachkv.mutate import restart
from teachkv.mutate.options import add_options


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    """Before any conftest and before output is captured: restart if need be, then load the other hooks."""
    if early_config.known_args_namespace.mutate and "task" not in restart.boot_spec():
        restart.run_single_threaded()
    hooks = import_module("teachkv.mutate.hooks")
    early_config.pluginmanager.register(hooks, "teachkv_mutate_hooks")
    hooks.begin(early_config)
    return (yield)
