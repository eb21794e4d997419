"""What a recorded decode step reads anew each time: tokens, geometry and angles, in a buffer that never moves."""

from __future__ import annotations

from typing import Any

import numpy as np

from teachkv.arrivals import pinned
from teachkv.kv.view import Array, Geometry

LINES = ("tokens", "row", "lead_pad", "end", "column")


class Desk:
    """What changes from step to step, in one device buffer that is filled by one copy.

    Five lines of B int32 (LINES), then cos and sin, B * D/2 float32 each.
    """

    def __init__(self, xp: Any, rows: int, half: int) -> None:
        words = rows * (len(LINES) + 2 * half)
        self.host = pinned(xp, words, np.int32)
        self.there = xp.zeros(words, dtype=np.int32)
        self.cu_seqlens = xp.arange(rows + 1, dtype=np.int32)
        self.rows, self.half = rows, half
        self.sent = xp.cuda.Event(disable_timing=True)
        self.lines = {name: self.line(self.host, name) for name in LINES}
        self.tables = [self.table(self.host, which) for which in (0, 1)]

    def line(self, buffer: Array, name: str) -> Array:
        at = LINES.index(name) * self.rows
        return buffer[at : at + self.rows]

    def table(self, buffer: Array, which: int) -> Array:
        """cos (0) or sin (1) as float32 [B, D/2]."""
        start = self.rows * (len(LINES) + which * self.half)
        return buffer[start : start + self.rows * self.half].view(np.float32).reshape(self.rows, self.half)

    def fill(self, tokens: Array, geometry: Geometry, cos: Array, sin: Array) -> None:
        """Rows that the step does not use are padding: buffer row -1, which kernels skip. Tokens that lie on the device
        are copied there, in the same stream: nobody need know them yet."""
        self.sent.synchronize()  # after a step that broke off the last copy may still be reading
        count = len(tokens)
        pads = 0 if geometry.lead_pad is None else geometry.lead_pad
        values = {"row": geometry.row, "lead_pad": pads, "end": geometry.end, "column": geometry.column}
        self.host[:] = 0
        self.lines["row"][count:] = -1
        here = isinstance(tokens, np.ndarray)
        if here:
            self.lines["tokens"][:count] = tokens
        for name, value in values.items():
            self.lines[name][:count] = value
        self.tables[0][:count] = cos
        self.tables[1][:count] = sin
        self.there.data.copy_from_host_async(self.host.ctypes.data, self.there.nbytes)
        self.sent.record()
        if not here:  # the line of tokens comes first
            self.there.data.copy_from_device_async(tokens.data, tokens.nbytes)
