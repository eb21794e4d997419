"""One tiny call per op, for the pictures on its page: small enough to count every column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def ints(*values: int) -> Any:
    return np.array(values, np.int32)


def attention_example() -> tuple[Any, ...]:
    """Two rows, of 60 live columns behind 20 dead ones and of 9 behind 71."""
    rng = np.random.default_rng(0)
    cache = rng.standard_normal((2, 1, 84, 8)).astype(np.float32)
    q = rng.standard_normal((2, 1, 8)).astype(np.float32)
    return q, cache, cache.copy(), ints(0, 1, 2), ints(0, 1), ints(80, 80), ints(20, 71), None, 0.35


def examples() -> dict[str, tuple[Callable[[], tuple[Any, ...]], tuple[str, ...]]]:
    """Per op: a tiny call, and the arrays whose picture is drawn."""
    rng = np.random.default_rng(0)

    def draw(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    cache = draw(2, 1, 24, 8)
    settings = np.ones(1, np.float32), ints(5), np.ones(1, np.float32), np.zeros(1, np.float32), np.array([0.5])

    def rope() -> tuple[Any, ...]:
        new, angles, caches = draw(2, 1, 8), (draw(2, 4), draw(2, 4)), (draw(2, 1, 9, 8), draw(2, 1, 9, 8))
        return draw(2, 2, 8), new, new.copy(), *angles, *caches, ints(1, -1), ints(4, 0)

    return {
        "embed": (lambda: (ints(3, 1), draw(5, 48)), ("table", "out")),
        "rms_norm": (lambda: (draw(2, 48), draw(48), 1e-6, draw(2, 48)), ("x",)),
        "qk_norm": (lambda: (draw(2, 2, 16), draw(16), 1e-6), ("x",)),
        "linear": (lambda: (draw(3, 24), draw(20, 24)), ("x", "w", "out")),
        "rope_and_append": (rope, ("q", "k_cache")),
        "attention_decode_ragged": (attention_example, ("k_cache", "v_cache")),
        "attention_prefill": (attention_example, ("k_cache", "v_cache")),
        "lm_head": (lambda: (draw(1, 24), draw(20, 24)), ("w", "out")),
        "sample": (lambda: (draw(1, 40), *settings), ("logits",)),
        "kv_align": (lambda: (cache, ints(0), ints(2), cache, ints(0), ints(5), ints(12)), ("src", "dst")),
        "kv_strip": (lambda: (cache, 0, 5, 13), ("cache", "out")),
        "kv_gather": (lambda: (cache, 0, 4, 2, 8), ("cache", "out")),
        "kv_scatter": (lambda: (draw(2, 1, 8, 8), cache, 0, 4), ("blocks", "cache")),
    }
