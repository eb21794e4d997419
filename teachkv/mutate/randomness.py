"""Hypothesis under mutation: the same examples every time, no database, no deadline, no shrinking of a kill."""

from __future__ import annotations

import importlib.util


def settle_hypothesis() -> None:
    """Makes a profile out of the current one and loads it, before any test module creates its settings."""
    if importlib.util.find_spec("hypothesis") is None:
        return
    from hypothesis import HealthCheck, Phase, settings

    settings.register_profile(
        "teachkv-mutate",
        parent=settings(),
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("teachkv-mutate")
