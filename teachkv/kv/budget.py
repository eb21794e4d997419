"""How many bytes a batch may come to hold: what admission and preemption ask before they act."""

from __future__ import annotations

from collections.abc import Sequence

from teachkv.kv.spec import GROW, CacheSpec, ring_columns, round_up


def rectangle_bytes(spec: CacheSpec, rows: int, columns: int) -> int:
    """Bytes of `rows` rows with `columns` columns in the full layers and a ring's own number in the others."""
    per_row = sum(
        len(layers) * (columns if ring is None else ring_columns(ring)) for ring, layers in spec.kinds.items()
    )
    return rows * per_row * spec.column_bytes


def batch_columns(spec: CacheSpec, lengths: Sequence[int]) -> int:
    """Columns a batch of these lengths may come to use: its longest row, whole blocks, one block of dead prefix."""
    return min(round_up(max(lengths) + 1, spec.maximum) + GROW, spec.maximum) if lengths else 0


def staging_columns(spec: CacheSpec, lengths: Sequence[int]) -> int:
    """Columns of the staging rectangle for prompts of these lengths."""
    return round_up(max(lengths), spec.maximum) if lengths else 0


def bytes_for(spec: CacheSpec, lengths: Sequence[int], staging: Sequence[int] = ()) -> int:
    """Upper bound for decoders of `lengths` positions and prompts that will reach `staging` positions.

    (rows x columns of the batch) + (rows x columns of staging); prefix blocks are counted by the prefix cache.
    """
    batch = rectangle_bytes(spec, len(lengths), batch_columns(spec, lengths))
    return batch + rectangle_bytes(spec, len(staging), staging_columns(spec, staging))
