"""A short soak on every path; the long one is a record in docs/evidence."""

from typing import Any

import pytest

from tests.engine.soak import soak


@pytest.mark.parametrize("drafts", [0, 3])
def test_every_request_ends_once_with_the_right_count(kind: dict[str, Any], drafts: int) -> None:
    options = {"policy": kind["policy"], "batch_cache": kind["batch_cache"], "speculative_tokens": drafts}
    record = soak(60, seed=drafts, **options)
    assert record["wrong"] == []
    assert set(record["ended_by"]) >= {"length", "abort"}
