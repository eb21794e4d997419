"""Every way to schedule and to keep a batch; tests that take `kind` run on all of them."""

from typing import Any

import pytest

KINDS: dict[str, dict[str, Any]] = {
    f"{policy}-{cache}": {"policy": policy, "batch_cache": cache}
    for policy in ("bucketed", "ragged", "packed")
    for cache in ("rebuild", "incremental")
}
ORDINARY = dict(KINDS)
AHEAD = ("ragged-rebuild", "bucketed-incremental", "ragged-incremental", "packed-incremental")
KINDS |= {f"{name}-overlap": {**ORDINARY[name], "overlap": True} for name in AHEAD}


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def kind(request: pytest.FixtureRequest) -> dict[str, Any]:
    options: dict[str, Any] = {**request.param, "poison": True, "seed": 7}
    return options


@pytest.fixture(params=ORDINARY.values(), ids=ORDINARY)
def ordinary(request: pytest.FixtureRequest) -> dict[str, Any]:
    """For what does not go with overlap: drafts."""
    options: dict[str, Any] = {**request.param, "poison": True, "seed": 7}
    return options
