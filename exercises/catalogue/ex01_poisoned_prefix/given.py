"""The poisoned prefix cache

A user asked a question of 60 tokens. In the batch the request stood beside a longer one, so its rows began with
four dead columns: 64 columns, 60 of them real. Someone stored all 64 in the prefix cache. Nothing failed that day.
From then on every request with the same beginning was answered from four columns of zeros.

One guard stands against it: `PrefixCache.publish(tokens, coverage, read_rows)` must refuse rows that are not
exactly the `coverage` real ones, and store nothing.

Your task: write a test that is green now and goes red when that guard is taken away.
"""

import numpy as np
import pytest

from teachkv.errors import GeometryError
from teachkv.prefix import PrefixCache


class Layer:
    """Keys and values of one layer, as the cache gets to see them: [heads, columns, dim]."""

    def __init__(self, columns):
        self.first = 0
        self.k = np.zeros((2, columns, 4), np.float32)
        self.v = np.zeros((2, columns, 4), np.float32)


class Rows:
    """What `read_rows` returns. `columns` is 60 when it is right."""

    def __init__(self, columns):
        self.layers = [Layer(columns), Layer(columns)]


TOKENS = list(range(61))  # the last one was drawn, but never computed: 60 are real


def test_a_dead_prefix_is_not_stored():
    cache = PrefixCache(4, 1 << 20, b"some model")
    stored = cache.publish(TOKENS, 60, lambda: Rows(60))
    assert stored == 15  # 60 real rows are 15 blocks of 4. Now: what about 64 columns?
