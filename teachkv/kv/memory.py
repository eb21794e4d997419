"""The few ways KV memory is made and moved, counted, for host and device arrays alike."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from teachkv.kv.view import Array

POISON_VARIABLE = "TEACHKV_POISON"


class MemoryOps(Protocol):
    """The part of `cuda_kernels.registry.Ops` that moves KV rows."""

    @property
    def xp(self) -> Any: ...
    @property
    def kv_align(self) -> Any: ...
    @property
    def kv_strip(self) -> Any: ...
    @property
    def kv_gather(self) -> Any: ...
    @property
    def kv_scatter(self) -> Any: ...


def poison_wanted(poison: bool | None) -> bool:
    """The option if it was given, else the environment."""
    return os.environ.get(POISON_VARIABLE, "0") not in ("", "0") if poison is None else poison


@dataclass(frozen=True)
class Move:
    """`length` columns of one row: from (src_row, src_col) to (dst_row, dst_col)."""

    src_row: int
    src_col: int
    dst_row: int
    dst_col: int
    length: int


@dataclass(frozen=True)
class MoveTable:
    """Moves on the device: five arrays of one length, and how many columns they move in all."""

    columns: int
    lines: tuple[Array, ...]


class Memory:
    """Makes, moves and poisons buffers. Counts the bytes that moves touch, so that a claim about cost can be a test.

    A new buffer holds zeros, which nobody reads either: what a broken guard lets through is the same at every run.
    With poison on, every column that no token was written to holds NaN, and a column that dies is filled with NaN
    again: whoever reads it by mistake cannot get a plausible answer.

    `held_bytes` is what row buffers hold now. They grow by doubling while that stays within half of `budget` bytes
    (None: always), else by what is needed; that what is needed fits is the caller's promise, not looked at here.
    """

    def __init__(self, ops: MemoryOps, *, poison: bool | None = None, budget: int | None = None) -> None:
        self.ops = ops
        self.xp = ops.xp
        self.poison = poison_wanted(poison)
        self.budget = budget
        self.moved_bytes = 0
        self.held_bytes = 0

    def buffer(self, shape: Sequence[int], dtype: npt.DTypeLike) -> Array:
        if self.poison:
            return self.xp.full(tuple(shape), np.nan, dtype=dtype)  # type: ignore[no-any-return]
        return self.xp.zeros(tuple(shape), dtype=dtype)  # type: ignore[no-any-return]

    def kill(self, buffer: Array, row: int, start: int, stop: int) -> None:
        """Columns [start, stop) of a row no longer belong to anybody."""
        if self.poison and start < stop:
            buffer[row, :, start:stop] = np.nan

    def table(self, moves: Sequence[Move]) -> MoveTable:
        """The moves as kv_align takes them, made once for all layers. Empty runs are left out."""
        rows = [(m.src_row, m.src_col, m.dst_row, m.dst_col, m.length) for m in moves if m.length > 0]
        lines = np.array(rows, dtype=np.int32).reshape(len(rows), 5).T.copy()
        return MoveTable(int(lines[4].sum()), tuple(self.xp.asarray(line) for line in lines))

    def move(self, src: Array, dst: Array, moves: MoveTable | Sequence[Move]) -> None:
        """One kv_align from src [Rs, G, Cs, D] to dst [Rd, G, Cd, D]; overlap within a row is safe."""
        table = moves if isinstance(moves, MoveTable) else self.table(moves)
        if table.columns:
            src_row, src_col, dst_row, dst_col, length = table.lines
            self.ops.kv_align(src, src_row, src_col, dst, dst_row, dst_col, length)
            self.moved_bytes += table.columns * dst.shape[1] * dst.shape[3] * dst.dtype.itemsize

    def strip(self, buffer: Array, row: int, start: int, stop: int) -> Array:
        """An owned copy [G, stop-start, D] of a live run."""
        self.moved_bytes += (stop - start) * buffer.shape[1] * buffer.shape[3] * buffer.dtype.itemsize
        return self.ops.kv_strip(buffer, row, start, stop)  # type: ignore[no-any-return]
