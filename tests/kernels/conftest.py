"""Host builds and simulators take minutes on a fresh machine: `make kernels` runs them, `make test` does not."""

from pathlib import Path

import pytest

HEAVY = {"raw", "numba", "trace"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and item.path.relative_to(here).parts[0] in HEAVY:
            item.add_marker("kernels")
