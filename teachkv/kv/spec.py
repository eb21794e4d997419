"""How the KV storage of one model is shaped: which layers keep everything, which keep a ring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from teachkv.errors import OptionError

GROW = 512  # columns; buffers grow in blocks of this many, and the last block is clipped to the maximum

WindowCache = Literal["masked", "ring"]


def round_up(columns: int, maximum: int) -> int:
    """Whole blocks of GROW columns that hold `columns`, the last one clipped so that `maximum` is usable to its end."""
    return min(-(-columns // GROW) * GROW, maximum)


@dataclass(frozen=True)
class CacheSpec:
    """Shape of the storage of one model.

    rings[l] is the width w of a ring layer, None for a layer that keeps every position. A layer with a window may
    be either: `window_cache="masked"` keeps everything and lets mask or kernel apply the window (may be ragged, costs
    memory), `"ring"` keeps the last w positions (memory bounded by w, refuses raggedness).
    """

    kv_heads: int
    head_dim: int
    maximum: int
    rings: tuple[int | None, ...]
    dtype: npt.DTypeLike = np.float32

    def __post_init__(self) -> None:
        if self.maximum < 1 or not self.rings or min(self.kv_heads, self.head_dim) < 1:
            raise OptionError(f"a cache needs layers, heads and at least one column, got {self}")
        if any(width is not None and width < 1 for width in self.rings):
            raise OptionError(f"a ring must hold at least one position, got widths {self.rings}")

    @classmethod
    def for_windows(
        cls,
        windows: Sequence[int | None],
        *,
        kv_heads: int,
        head_dim: int,
        maximum: int,
        window_cache: WindowCache = "masked",
        dtype: npt.DTypeLike = np.float32,
    ) -> CacheSpec:
        """The storage for a model whose layer l attends `windows[l]` positions (None: all)."""
        if window_cache not in ("masked", "ring"):
            raise OptionError(f"window_cache is 'masked' or 'ring', got {window_cache!r}")
        rings = tuple(windows) if window_cache == "ring" else (None,) * len(windows)
        return cls(kv_heads, head_dim, maximum, rings, dtype)

    @property
    def layers(self) -> int:
        return len(self.rings)

    @property
    def column_bytes(self) -> int:
        """Bytes of one column of one row in one layer, K and V together."""
        return 2 * self.kv_heads * self.head_dim * np.dtype(self.dtype).itemsize

    @cached_property
    def kinds(self) -> dict[int | None, tuple[int, ...]]:
        """Layers by kind: None for those that keep everything, else the ring width. Layers of a kind share geometry."""
        found: dict[int | None, list[int]] = {}
        for layer, width in enumerate(self.rings):
            found.setdefault(width, []).append(layer)
        return {kind: tuple(layers) for kind, layers in found.items()}


def ring_columns(width: int) -> int:
    """Columns of a ring's buffer in a batch. The slack is what lets a full ring be moved once per `slack` tokens."""
    return width + min(width, GROW)
