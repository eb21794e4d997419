"""What the engine asks of a batch cache, and the picture behind it.

Rows share one buffer per layer, [R, G, C, D] for K and for V, and one `stored_len`. Every row's live run *ends* at the
same column, so one append column serves all; row r starts at `lead_pad[r]`.

    column      0 1 2 3 4 5 6 7        stored_len = 8, the next token of every row goes to column 8
    row 0       k k k k k k k k        lead_pad = 0   positions 0..7
    row 1       . . . k k k k k        lead_pad = 3   positions 0..4
    row 2       . . . . . . k k        lead_pad = 6   positions 0..1

Position = column - lead_pad. `lead_pad` changes only when rows are aligned, joined, realigned, compacted or commit
unequal numbers of tokens; each of these raises `geometry_epoch`. `stored_len` grows every step. That is why the pad
is carried and the live length recomputed: a carried length would be stale on the next token.

A prompt being computed lies elsewhere, in staging: column = position, no lead pad, its own end.

Two implementations show the same visible state, bit for bit: `RebuildBatchCache` builds the batch whenever its
members change (slow, obvious), `IncrementalBatchCache` lets rows join and leave in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from teachkv.errors import GeometryError
from teachkv.kv.view import Array, CacheView

Block: TypeAlias = Sequence[tuple[Array, Array]]


@dataclass(frozen=True, eq=False)
class LiveLayer:
    """k, v [G, n, D]: owned copies of the live positions `first` .. `first`+n-1. `first` is 0 except in a full ring."""

    k: Array
    v: Array
    first: int


@dataclass(frozen=True, eq=False)
class LiveRows:
    """Everything one sequence has computed, without dead prefix and without slack. Safe to keep."""

    length: int
    layers: tuple[LiveLayer, ...]


def without_last(rows: LiveRows, count: int) -> LiveRows:
    """The same without the last `count` positions."""
    if count == 0:
        return rows
    layers = (LiveLayer(held.k[:, :-count], held.v[:, :-count], held.first) for held in rows.layers)
    return LiveRows(rows.length - count, tuple(layers))


@dataclass
class CacheStats:
    """Counts since the cache was made. `moved_bytes` are KV bytes copied, `allocated_bytes` what is held now,
    `layer_bytes` the same for each layer: what a ring saves can be read there."""

    builds: int = 0
    aligns: int = 0
    strips: int = 0
    joins: int = 0
    leaves: int = 0
    realigns: int = 0
    compacts: int = 0
    grows: int = 0
    moved_bytes: int = 0
    allocated_bytes: int = 0
    layer_bytes: tuple[int, ...] = ()

    def hold(self, buffers: Iterable[tuple[int, Array | None]], layers: int) -> None:
        """Take down what is held now, from (layer, buffer) of every buffer; None holds nothing."""
        held = [0] * layers
        for layer, buffer in buffers:
            held[layer] += 0 if buffer is None else int(buffer.nbytes)
        self.layer_bytes, self.allocated_bytes = tuple(held), sum(held)


class BatchCache(Protocol):
    """KV storage of all resident sequences, keyed by request id. Views are opened, filled by the model, and closed.

    All refusals are PlanRefused (a batch cannot be formed; RowAtMaximum if one row alone is to blame) and leave every
    row as it was. GeometryError is the engine's own fault: an unknown id, a view used twice, rows from an old epoch.
    """

    @property
    def can_be_ragged(self) -> bool:
        """Whether sequences of different lengths may decode together; asked of the model's slots, at load."""

    @property
    def geometry_epoch(self) -> int: ...

    def add(self, request_id: int) -> None:
        """Make room for a sequence of length 0."""

    def drop(self, request_id: int) -> None:
        """Forget a sequence (finished, aborted, preempted); its rows are free at once. An open view of it is void."""

    def length(self, request_id: int) -> int:
        """Positions computed so far."""

    def truncate(self, request_id: int, n: int) -> None:
        """Forget the positions from n on. Raises SlotError where a ring no longer holds what n would need."""

    def open_prefill(self, ids: Sequence[int], counts: Sequence[int]) -> CacheView:
        """Room for counts[b] new positions of each sequence, in staging."""

    def open_decode(self, ids: Sequence[int], counts: Sequence[int] | None = None) -> CacheView:
        """Room for counts[b] (default 1) new positions of each sequence behind the shared append column."""

    def fixed_view(self) -> CacheView | None:
        """A view of no rows over the buffers that every decode view will have; None where buffers are made anew. It is
        not open, and nothing changes."""

    def close(self, view: CacheView, kept: Sequence[int] | None = None) -> None:
        """The model has written the view's tokens: row b keeps the first kept[b] of them (default: all)."""

    def live_rows(self, request_id: int, epoch: int | None = None) -> LiveRows:
        """Owned copies of the live rows. Raises GeometryError if they moved after `epoch`."""

    def load_rows(self, request_id: int, rows: LiveRows) -> None:
        """Give an empty sequence rows that were computed before, at positions 0 .. length-1."""

    def load_blocks(self, request_id: int, blocks: Sequence[Block]) -> None:
        """The same from prefix blocks: each holds, per layer, k and v [G, block_tokens, D]."""

    def invalidate(self) -> None:
        """Something failed between open and close: forget open views; every row is as of its last close."""

    def bytes_for(self, lengths: Sequence[int], staging: Sequence[int] = ()) -> int:
        """Upper bound of the bytes held with decoders of these lengths and prompts of these lengths in staging."""

    def held(self) -> int:
        """Bytes that row buffers hold now."""

    def slack(self) -> int:
        """Bytes held beyond `bytes_for` what is resident now; `trim` brings it to 0."""

    def trim(self) -> None:
        """Give back what long or many rows left behind: afterwards `bytes_for` of what is resident bounds what is held.

        For use between steps, before an admission that would not fit beside the slack. Copies everything once.
        """

    def stats(self) -> CacheStats: ...

    def take_events(self) -> list[str]:
        """What happened to the geometry since the last call, in order, one line each."""


def checked_counts(ids: Sequence[int], counts: Sequence[int] | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A part's ids and token counts as tuples. Raises GeometryError if empty, an id repeats, a count is below 1."""
    members = tuple(map(int, ids))
    tokens = (1,) * len(members) if counts is None else tuple(map(int, counts))
    if not members or len(set(members)) != len(members):
        raise GeometryError(f"a part needs different sequences, got ids {list(members)}")
    if len(tokens) != len(members) or min(tokens) < 1:
        raise GeometryError(f"a part needs one count of at least 1 for each of {list(members)}, got {list(tokens)}")
    return members, tokens


def checked_kept(counts: Sequence[int], kept: Sequence[int] | None) -> tuple[int, ...]:
    """How many of its tokens each row keeps. Raises GeometryError unless 1 <= kept[b] <= counts[b]."""
    if kept is None:
        return tuple(counts)
    kept = tuple(map(int, kept))
    if len(kept) != len(counts) or any(not 1 <= k <= n for k, n in zip(kept, counts, strict=True)):
        raise GeometryError(f"rows that wrote {list(counts)} tokens cannot keep {list(kept)}")
    return kept
