"""Hypothesis under mutation: the same examples every time, no database, no deadline, no shrinking of a kill."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import pytest

ATTRIBUTE = "_hypothesis_internal_use_settings"


def settle_hypothesis(items: Iterable[pytest.Item]) -> None:
    """Changes the settings of the collected tests, so that no profile and no `@settings` comes in between."""
    if "hypothesis" not in sys.modules:
        return
    from hypothesis import Phase, settings

    for item in items:
        function = getattr(getattr(item, "obj", None), "__func__", getattr(item, "obj", None))
        current = getattr(function, ATTRIBUTE, None)
        if current is not None:
            phases = tuple(phase for phase in current.phases if phase in (Phase.explicit, Phase.generate))
            calm = settings(current, derandomize=True, database=None, deadline=None, phases=phases)
            setattr(function, ATTRIBUTE, calm)
