"""One layer of one sequence, the last w positions kept, in order.

    w = 4, nine positions seen, then a chunk of three:
    kept           5 6 7 8
    visible        5 6 7 8 | 9 10 11      the query at 9 still needs 6, 7, 8: judge by the oldest query of the chunk
    kept after         8 9 10 11

Letters: G KV heads, D head dim, w window.
"""

from __future__ import annotations

from typing import ClassVar

from teachkv.errors import SlotError
from teachkv.kv.memory import Memory
from teachkv.kv.spec import CacheSpec
from teachkv.kv.view import Array


class WindowSlot:
    """The last w positions of K and V. `length` counts all positions seen; columns [start, stop) hold the kept ones.

    It cannot be padded to another length: what it dropped is gone, and columns of two rings mean different positions.
    """

    supports_per_sequence_len: ClassVar[bool] = False

    def __init__(self, memory: Memory, spec: CacheSpec, width: int) -> None:
        self.memory, self.spec, self.width = memory, spec, width
        self.maximum = spec.maximum
        self.length = 0
        self.k: Array | None = None
        self.v: Array | None = None
        self.start = self.stop = 0

    @property
    def capacity(self) -> int:
        return 0 if self.k is None else self.k.shape[1]

    @property
    def stored(self) -> int:
        """Positions kept: min(length, w)."""
        return self.stop - self.start

    def append(self, k: Array, v: Array) -> tuple[Array, Array]:
        """Take k, v [G, t, D]. Returns what the chunk's queries may see: kept columns, then the new ones, in order.

        The query at position p finds p-w+1 .. p among them. Raises SlotError past the maximum.
        """
        seen = self.seen(k, v)
        longer = self.extended(k, v)
        self.k, self.v, self.length = longer.k, longer.v, longer.length
        self.start, self.stop = longer.start, longer.stop
        return seen

    def seen(self, k: Array, v: Array) -> tuple[Array, Array]:
        """k, v [G, stored + t, D]: what queries of the new columns k, v [G, t, D] may attend to, or more."""
        # guard[ring-chunk]: cells are still needed by the oldest query of the chunk when the newest would free them
        # origin: llama.cpp#18727
        # mutant[ring-chunk/judged-by-the-newest]:
        #   - return self._joined(self.k, k), self._joined(self.v, v)
        #   + return self._joined(self.k, k)[:, -self.width :], self._joined(self.v, v)[:, -self.width :]
        return self._joined(self.k, k), self._joined(self.v, v)

    def extended(self, k: Array, v: Array) -> WindowSlot:
        """This ring after the new columns k, v [G, t, D], in memory of its own. This one is not changed."""
        length = self.length + k.shape[1]
        if length > self.maximum:
            raise SlotError(f"a ring of {self.length} positions cannot take {k.shape[1]} more, maximum {self.maximum}")
        seen_k, seen_v = self.seen(k, v)
        total = seen_k.shape[1]
        # guard[ring]: a ring keeps the last w positions; a chunk longer than w must not leave it wider
        # origin: mistral.rs#246
        # mutant[ring/keeps-the-first]:
        #   - start, stop = max(0, total - self.width), total
        #   + start, stop = 0, min(total, self.width)
        start, stop = max(0, total - self.width), total
        kept_k, kept_v = (self.memory.strip(side[None], 0, start, stop) for side in (seen_k, seen_v))
        return self.handed(kept_k, kept_v, stop - start, length)

    def _joined(self, old: Array | None, new: Array) -> Array:
        joined = self.memory.buffer((new.shape[0], self.stored + new.shape[1], new.shape[2]), self.spec.dtype)
        if old is not None:
            joined[:, : self.stored] = old[:, self.start : self.stop]
        joined[:, self.stored :] = new
        return joined

    def set_len(self, n: int) -> None:
        """Roll back to n positions. Refuses to extend, and refuses once the window has dropped anything."""
        if not 0 <= n <= self.length:
            raise SlotError(f"a ring that saw {self.length} positions cannot be set to {n}")
        # guard[ring-rollback]: the dropped positions would be inside the window again, and they are gone
        # origin: mistral.rs, rotating cache
        # mutant[ring-rollback/removed]:
        #   - if n < self.length and self.length > self.width:
        #   + if False:
        if n < self.length and self.length > self.width:
            raise SlotError(f"a ring of {self.width} that saw {self.length} positions cannot roll back to {n}")
        self.stop -= self.length - n
        self.length = n

    def would_align(self, target: int) -> bool:
        """A ring reaches no length but its own."""
        return self.length == target

    def front_padded(self, target: int) -> WindowSlot:
        if not self.would_align(target):
            raise SlotError(f"a ring that saw {self.length} positions cannot be padded to {target}")
        return self

    def stripped(self, lead: int) -> WindowSlot:
        """A new slot that owns the kept positions. `lead` is 0: a ring has no dead prefix."""
        if lead:
            raise SlotError(f"a ring has no dead prefix to strip, asked for {lead} columns")
        if self.k is None or self.v is None:
            return WindowSlot(self.memory, self.spec, self.width)
        k = self.memory.strip(self.k[None], 0, self.start, self.stop)
        v = self.memory.strip(self.v[None], 0, self.start, self.stop)
        return self.handed(k, v, k.shape[1], self.length)

    def handed(self, k: Array, v: Array, stop: int, length: int) -> WindowSlot:
        """A ring whose last kept column is stop-1 of k, v [G, C, D]: views into one row of a batch, or owned arrays."""
        slot = WindowSlot(self.memory, self.spec, self.width)
        slot.k, slot.v, slot.length = k, v, length
        slot.start, slot.stop = stop - min(length, self.width), stop
        if not 0 <= slot.start <= stop <= k.shape[1]:
            raise SlotError(f"{length} positions cannot end at column {stop} of a ring buffer of {k.shape[1]}")
        return slot

    def content(self) -> tuple[Array, Array]:
        """k, v [G, stored, D], the kept positions in order; not copied."""
        if self.k is None or self.v is None:
            empty = self.memory.buffer((self.spec.kv_heads, 0, self.spec.head_dim), self.spec.dtype)
            return empty, empty
        return self.k[:, self.start : self.stop], self.v[:, self.start : self.stop]
