"""Buffers whose rows are taken and given back: the batch of the incremental cache, and its staging.

Letters: R rows, G KV heads, C columns, D head dim.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from teachkv.kv.memory import Memory, Move
from teachkv.kv.spec import CacheSpec, ring_columns
from teachkv.kv.view import Array

Arrays: TypeAlias = dict[int, tuple[Array, Array]]


def row_block(rows: int) -> int:
    """Rows to allocate where `rows` are needed: at most a quarter more, so that growing costs O(1) per joining row."""
    block = 1 << max(0, rows.bit_length() - 3)
    return -(-rows // block) * block


class RowBuffers:
    """K and V, each [R, G, C, D], of some layers. A ring layer has its own number of columns.

    The lowest free row is taken first, so that the same history gives the same rows.
    """

    def __init__(self, memory: Memory, spec: CacheSpec, layers: Sequence[int], rows: int = 0, columns: int = 0) -> None:
        self.memory, self.spec, self.layers = memory, spec, tuple(layers)
        self._nothing = self._made(0, 0)
        self.rows, self.columns = rows, columns
        self.free = list(range(rows))
        self.arrays = self._made(rows, columns) if rows else self._nothing
        memory.held_bytes += self.nbytes()

    @property
    def used(self) -> int:
        return self.rows - len(self.free)

    def take(self) -> int:
        """A free row, all of it dead."""
        return heapq.heappop(self.free)

    def give(self, row: int) -> None:
        """The row's content belongs to nobody any more."""
        for k, v in self.arrays.values():
            for buffer in (k, v):
                self.memory.kill(buffer, row, 0, buffer.shape[2])
        heapq.heappush(self.free, row)

    def rows_for(self, needed: int, columns: int) -> int:
        """Rows to allocate where `needed` are: as many as now if they suffice, else twice as many, while half of the
        budget has room for all of it."""
        doubled = max(row_block(needed), 2 * self.rows if needed > self.rows else self.rows)
        budget, others = self.memory.budget, self.memory.held_bytes - self.nbytes()
        # guard[kv-budget]: doubling saves copies, but what nobody asked for must not push a prompt out of the budget
        # mutant[kv-budget/always-doubles]:
        #   - if budget is None or 2 * (others + doubled * self._row_bytes(columns)) <= budget:
        #   + if True:
        if budget is None or 2 * (others + doubled * self._row_bytes(columns)) <= budget:
            return doubled
        return row_block(needed)

    def prepare(self, rows: int, columns: int) -> Arrays:
        """New buffers of that size. May fail for want of memory; nothing has changed then."""
        return self._made(rows, columns)

    def adopt(self, made: Arrays, rows: int, columns: int, moves: Mapping[int | None, Sequence[Move]]) -> None:
        """Copy what stays into the prepared buffers, by kind of layer, and use them from now on."""
        tables = {kind: self.memory.table(of_kind) for kind, of_kind in moves.items()}
        for layer in self.layers:
            for source, target in zip(self.arrays[layer], made[layer], strict=True):
                self.memory.move(source, target, tables[self.spec.rings[layer]])
        self.memory.held_bytes -= self.nbytes()
        self.arrays, self.rows, self.columns = made, rows, columns
        self.memory.held_bytes += self.nbytes()
        self.free = sorted(set(range(rows)) - {move.dst_row for kind in moves.values() for move in kind})

    def clear(self) -> None:
        """Let the memory go. Needs none itself, so it may stand in the middle of a change."""
        self.memory.held_bytes -= self.nbytes()
        self.arrays, self.rows, self.columns, self.free = self._nothing, 0, 0, []

    def move(self, kind: int | None, moves: Sequence[Move], source: RowBuffers | None = None) -> None:
        """Copy runs within these buffers, or from `source`, in all layers of a kind; what a shift vacates dies."""
        if not moves:
            return
        table = self.memory.table(moves)
        for layer in self.layers:
            if self.spec.rings[layer] == kind:
                origin = self.arrays if source is None else source.arrays
                for from_buffer, to_buffer in zip(origin[layer], self.arrays[layer], strict=True):
                    self.memory.move(from_buffer, to_buffer, table)
                    if source is None:
                        self._kill_vacated(to_buffer, moves)

    def kill(self, kind: int | None, row: int, start: int, stop: int) -> None:
        """Columns [start, stop) of a row die in all layers of a kind."""
        if start >= stop or not self.memory.poison:
            return
        for layer in self.layers:
            if self.spec.rings[layer] == kind:
                for buffer in self.arrays[layer]:
                    self.memory.kill(buffer, row, start, stop)

    def nbytes(self) -> int:
        return sum(int(k.nbytes + v.nbytes) for k, v in self.arrays.values())

    def _across(self, layer: int, columns: int) -> int:
        width = self.spec.rings[layer]
        return columns if width is None else ring_columns(width)

    def _row_bytes(self, columns: int) -> int:
        return sum(self._across(layer, columns) for layer in self.layers) * self.spec.column_bytes

    def _made(self, rows: int, columns: int) -> Arrays:
        made = {}
        for layer in self.layers:
            shape = (rows, self.spec.kv_heads, self._across(layer, columns), self.spec.head_dim)
            made[layer] = self.memory.buffer(shape, self.spec.dtype), self.memory.buffer(shape, self.spec.dtype)
        return made

    def _kill_vacated(self, buffer: Array, moves: Sequence[Move]) -> None:
        for move in moves:
            if move.dst_col >= move.src_col:
                self.memory.kill(buffer, move.src_row, move.src_col, min(move.dst_col, move.src_col + move.length))
            else:
                start = max(move.dst_col + move.length, move.src_col)
                self.memory.kill(buffer, move.src_row, start, move.src_col + move.length)
