"""Which rows of the flat step the logits are read at."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from teachkv.inputs import Wanted, want_logits


@pytest.mark.kills("last-real-token/one-early")
@pytest.mark.parametrize(
    ("fields", "rows", "position"),
    [
        ({}, [8], 6),
        ({"drafts": (5, 6)}, [6, 7, 8], 4),
        ({"wants_all": True, "draw": False}, [5, 6, 7, 8], 3),
        ({"draw": False}, [], None),
    ],
)
def test_rows_end_at_the_chunk_s_own_last_token(fields: dict[str, Any], rows: list[int], position: int | None) -> None:
    """Four tokens from position 3 on, which lie at 5..8 of the flat step."""
    chunk: Any = SimpleNamespace(
        **{"sequence": SimpleNamespace(id="a"), "start": 3, "count": 4, "wants_all": False, "drafts": (), "draw": True}
        | fields
    )
    logits_at: list[int] = []
    wanted: list[Wanted] = []
    want_logits(chunk, 9, logits_at, wanted)
    assert logits_at == rows
    assert [one.position for one in wanted] == ([] if position is None else [position])
