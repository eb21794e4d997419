"""One layer of one sequence, every position kept.

    column     0 1 2 3 4 5 ...            capacity = 8, length = 6
    live       k k k k k k . .            the two columns of slack were never written: NaN under poison
    padded     . . . k k k k k k          after front_padded(9): length = 9, columns 0..2 are a dead prefix

Letters: G KV heads, C columns, D head dim.
"""

from __future__ import annotations

from typing import ClassVar

from teachkv.errors import SlotError
from teachkv.kv.memory import Memory
from teachkv.kv.spec import CacheSpec, round_up
from teachkv.kv.view import Array


class FullSlot:
    """K and V, each [G, C, D], of which the first `length` columns are used. Grows by blocks of 512 columns."""

    supports_per_sequence_len: ClassVar[bool] = True

    def __init__(self, memory: Memory, spec: CacheSpec) -> None:
        self.memory, self.spec = memory, spec
        self.maximum = spec.maximum
        self.length = 0
        self.k: Array | None = None
        self.v: Array | None = None

    @property
    def capacity(self) -> int:
        return 0 if self.k is None else self.k.shape[1]

    @property
    def stored(self) -> int:
        """Columns in use; for a full slot this is its length."""
        return self.length

    def append(self, k: Array, v: Array) -> None:
        """Write k, v [G, t, D] behind the last position. Raises SlotError past the maximum; nothing is written then."""
        longer = self.extended(k, v)
        self.k, self.v, self.length = longer.k, longer.v, longer.length

    def extended(self, k: Array, v: Array) -> FullSlot:
        """This slot with k, v [G, t, D] behind its last position. This one keeps its length, whatever fails."""
        stop = self.length + k.shape[1]
        # guard[slot-full]: a token past the maximum has no column; clipping it would lose it without a word
        # origin: nano-vllm#150 (the token to be written starts the block)
        # mutant[slot-full/removed]:
        #   - if stop > self.maximum:
        #   + if False:
        if stop > self.maximum:
            raise SlotError(f"a slot of {self.length} positions cannot take {k.shape[1]} more, maximum {self.maximum}")
        longer = FullSlot(self.memory, self.spec)
        longer.length, longer.k, longer.v = stop, self.k, self.v
        if longer.k is None or longer.v is None or stop > self.capacity:
            longer.k, longer.v = self._grown(stop)
        longer.k[:, self.length : stop] = k
        longer.v[:, self.length : stop] = v
        return longer

    def set_len(self, n: int) -> None:
        """Roll back to n positions. Refuses to extend: those columns hold nothing that was ever computed."""
        # guard[set-len]: the parent engine checked capacity only, and served never-written zero rows as content
        # origin: the parent engine, try_set_len
        # mutant[set-len/checks-capacity-only]:
        #   - if not 0 <= n <= self.length:
        #   + if not 0 <= n <= self.capacity:
        if not 0 <= n <= self.length:
            raise SlotError(f"a slot of {self.length} positions cannot be set to {n}")
        for buffer in (self.k, self.v):
            if buffer is not None:
                self.memory.kill(buffer[None], 0, n, self.length)
        self.length = n

    def would_align(self, target: int) -> bool:
        """Whether `front_padded(target)` would finish. Touches nothing."""
        return self.k is not None and self.length <= target <= self.maximum and self.capacity <= self.maximum

    def front_padded(self, target: int) -> FullSlot:
        """A new slot whose live run ends at column `target`; the columns before it are dead. Never rotates anything."""
        if not self.would_align(target):
            raise SlotError(f"a slot of {self.length} positions cannot be padded to {target}, maximum {self.maximum}")
        assert self.k is not None
        assert self.v is not None
        lead = target - self.length
        padded = FullSlot(self.memory, self.spec)
        padded.k, padded.v = (self._copied(old, lead, max(self.capacity, target)) for old in (self.k, self.v))
        padded.length = target
        return padded

    def stripped(self, lead: int) -> FullSlot:
        """A new slot that owns the live run alone: columns [lead, length) moved to column 0."""
        slot = FullSlot(self.memory, self.spec)
        if self.k is not None and self.v is not None:
            slot.k = self.memory.strip(self.k[None], 0, lead, self.length)
            slot.v = self.memory.strip(self.v[None], 0, lead, self.length)
        slot.length = self.length - lead
        return slot

    def handed(self, k: Array, v: Array, stop: int, length: int) -> FullSlot:
        """A slot over the first `stop` columns of k, v [G, C, D], of which the last `length` are live."""
        if not 0 <= length <= stop <= k.shape[1]:
            raise SlotError(f"{length} positions cannot end at column {stop} of {k.shape[1]}")
        slot = FullSlot(self.memory, self.spec)
        slot.k, slot.v, slot.length = k, v, stop
        return slot

    def content(self) -> tuple[Array, Array]:
        """k, v [G, length, D], the columns in use; not copied."""
        if self.k is None or self.v is None:
            empty = self.memory.buffer((self.spec.kv_heads, 0, self.spec.head_dim), self.spec.dtype)
            return empty, empty
        return self.k[:, : self.length], self.v[:, : self.length]

    def _grown(self, columns: int) -> tuple[Array, Array]:
        # guard[growth]: the last block is clipped, so that a maximum of 1,000 is usable to its end
        # origin: the parent engine: with a maximum of 1000, token 513 asks for 1024
        # mutant[growth/whole-blocks-only]:
        #   - capacity = round_up(columns, self.maximum)
        #   + capacity = self.maximum // 512 * 512
        capacity = round_up(columns, self.maximum)
        return self._copied(self.k, 0, capacity), self._copied(self.v, 0, capacity)

    def _copied(self, old: Array | None, lead: int, capacity: int) -> Array:
        new = self.memory.buffer((self.spec.kv_heads, capacity, self.spec.head_dim), self.spec.dtype)
        if old is not None:
            new[:, lead : lead + self.length] = old[:, : self.length]
            self.memory.moved_bytes += self.length * self.spec.column_bytes // 2
        return new
