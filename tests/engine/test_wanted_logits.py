"""Which rows of the flat step the logits are read at."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from teachkv.inputs import want_logits


@pytest.mark.kills("last-real-token/one-early")
@pytest.mark.parametrize(
    ("fields", "places"),
    [
        ({}, [8]),
        ({"drafts": (5, 6)}, [6, 7, 8]),
        ({"wants_all": True, "draw": False}, [5, 6, 7, 8]),
        ({"draw": False}, []),
    ],
)
def test_rows_end_at_the_chunk_s_own_last_token(fields: dict[str, Any], places: list[int]) -> None:
    """Four tokens from position 3 on, which lie at 5..8 of the flat step."""
    chunk: Any = SimpleNamespace(
        **{"sequence": SimpleNamespace(id="a"), "start": 3, "count": 4, "wants_all": False, "drafts": (), "draw": True}
        | fields
    )
    assert list(want_logits(chunk, 9, first_row=20)) == places
    assert (chunk.rows, chunk.first_row) == (len(places), 20)
    assert not chunk.draw or places[chunk.draws_at - 20] == 8 - len(chunk.drafts)
