"""A solution of ex01_poisoned_prefix."""

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
    with pytest.raises(GeometryError):
        cache.publish(TOKENS, 60, lambda: Rows(64))
    assert cache.stats().blocks == 0
