"""How drawn tokens come to the host while the device goes on with the next step.

On a device a copy to ordinary memory holds the host until it has landed. A copy to pinned memory does not: it is put
into the stream behind the kernel that draws, and an event behind it says when it has landed.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from teachkv.kv.view import Array, IntArray

Fetch = Callable[[], IntArray]


class Arrivals:
    """Two lines of pinned memory by turns: one step's tokens are read while the next step's are on their way.

    The lines are kept for good. Were they given back, a copy still under way would land in what others got.
    """

    def __init__(self, xp: Any, rows: int) -> None:
        self.xp, self.turn = xp, 0
        self.lines = [pinned(xp, rows, np.int32) for _ in range(2)]
        self.landed = [] if xp is np else [xp.cuda.Event(disable_timing=True) for _ in range(2)]

    def expect(self, tokens: Any) -> Fetch:
        """Send tokens [B] int32 on their way; the answer waits for them and gives them, once, on the host."""
        if self.xp is np:
            return lambda: np.asarray(tokens)
        self.turn = 1 - self.turn
        line, landed = self.lines[self.turn][: len(tokens)], self.landed[self.turn]
        tokens.get(out=line, blocking=False)
        landed.record()

        def fetch() -> IntArray:
            landed.synchronize()
            return line

        return fetch


def pinned(xp: Any, count: int, dtype: Any) -> Array:
    """Zeros [count] in host memory from and to which a device copies without the host's waiting."""
    if xp is np:
        return np.zeros(count, dtype)
    zeros: Array = import_module("cupyx").zeros_pinned(count, dtype)
    return zeros
