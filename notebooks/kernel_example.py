"""One call of the ragged decode kernel, small enough to look at."""

from typing import Any

import numpy as np


def example() -> tuple[Any, ...]:
    """Two rows of 24 columns that end at column 20; row 1 has 14 dead columns. One head of 8 dims."""
    rng = np.random.default_rng(0)
    cache = rng.standard_normal((2, 1, 24, 8)).astype(np.float32)
    query = rng.standard_normal((2, 1, 8)).astype(np.float32)
    cu_seqlens, row, end, lead_pad = (np.array(values, np.int32) for values in ([0, 1, 2], [0, 1], [20, 20], [0, 14]))
    return query, cache, cache.copy(), cu_seqlens, row, end, lead_pad, None, 0.35
