"""What the incremental cache asks before it changes a cohort. Nothing here touches a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from teachkv.kv.align import batch_can_be_ragged, ensure_uniform_batch_cache_lens, front_align_would_succeed
from teachkv.kv.batch_rows import BatchRows
from teachkv.kv.clone import unalignable
from teachkv.kv.columns import ColumnPlan, plan_columns
from teachkv.kv.seat import Seat
from teachkv.kv.slots import SequenceRows, Slot
from teachkv.kv.spec import CacheSpec
from teachkv.kv.stage_pool import StagePool
from teachkv.kv.view import IntArray


def seat_slots(seat: Seat, prototypes: Sequence[Slot], batch: BatchRows, pool: StagePool) -> tuple[Slot, ...]:
    """The sequence's rows as slots, dead prefix included: what pre-flight, capability and readers look at."""
    slots: list[Slot] = []
    for layer, prototype in enumerate(prototypes):
        ring = batch.spec.rings[layer]
        if layer in seat.ring_slots or seat.row is None:
            slots.append(seat.ring_slots.get(layer, prototype))
        else:
            k, v = (pool if seat.staged else batch).buffers.arrays[layer]
            stop = seat.end if ring is None else seat.ring_end[ring]
            slots.append(prototype.handed(k[seat.row], v[seat.row], stop, seat.length))
    return tuple(slots)


def place_column(seats: Mapping[int, Seat], lengths: list[int], width: int, batch: BatchRows) -> ColumnPlan:
    """Where the append column goes: where the running cohort has it; else where the rows end, if they end together."""
    cohort, buffers = batch.cohort, batch.buffers
    staying = any(seat.cohort is cohort for seat in seats.values())
    ends = {seat.end for seat in seats.values()}
    stored_len = cohort.stored_len if staying else ends.pop() if len(ends) == 1 else max(lengths)
    joining = sum(seat.staged for seat in seats.values())
    renewed = batch.lacks_rows(joining) and not batch.preallocated
    return plan_columns(stored_len, lengths, width, 0 if renewed else buffers.columns, batch.spec.maximum)


def admit(
    seats: Mapping[int, Seat], width: int, prototypes: Sequence[Slot], batch: BatchRows, pool: StagePool
) -> ColumnPlan:
    """The plan by which `seats` become the cohort, with `width` columns to come. Raises PlanRefused."""
    lengths = [seat.length for seat in seats.values()]
    plan = place_column(seats, lengths, width, batch)
    places = [place for place, seat in enumerate(seats.values()) if seat.staged]
    rows = [SequenceRows(seat_slots(seat, prototypes, batch, pool)) for seat in seats.values() if seat.staged]
    ragged = batch_can_be_ragged([prototypes, *(row.slots for row in rows)])
    # guard[join]: a refusal after the first shift would leave some rows moved and some not
    # origin: the seed document
    # mutant[join/no-preflight]:
    #   - if ragged and not front_align_would_succeed(rows, plan.stored_len, width):
    #   + if False:
    if ragged and not front_align_would_succeed(rows, plan.stored_len, width):
        raise unalignable(rows, plan.stored_len, width, places, lengths)
    aligned = [plan.stored_len] * len(lengths) if ragged else lengths
    # guard[join-postcondition]: rows whose ring layers cannot be aligned share no append column
    # origin: the seed document
    # mutant[join-postcondition/removed]:
    #   - ensure_uniform_batch_cache_lens(*planned_lengths(batch.spec, aligned, lengths))
    #   + pass
    ensure_uniform_batch_cache_lens(*planned_lengths(batch.spec, aligned, lengths))
    return plan


def planned_lengths(spec: CacheSpec, aligned: list[int], lengths: list[int]) -> tuple[IntArray, list[int]]:
    """[kinds, B] and a layer of each kind: what full slots are aligned to, and what rings have seen."""
    kinds = spec.kinds
    lines = np.array([aligned if kind is None else lengths for kind in kinds], dtype=np.int32)
    return lines, [layers[0] for layers in kinds.values()]
