"""What attention may know about a cache: plain arrays that can be printed. Nothing here computes.

Letters: B rows of a part, T tokens of a part, R buffer rows, G KV heads, C columns, D head dim.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

IntArray: TypeAlias = npt.NDArray[np.int32]
Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Geometry:
    """Where the rows of one part lie in the buffers of one kind of layer.

    row       [B]  buffer row of each live row; -1 is padding
    lead_pad  [B]  columns before the row's first live one; None means 0 everywhere. Negative in ring layers,
                   where column 0 holds position -lead_pad
    end       [B]  one past the last column written by this step; the row's n tokens lie at end-n .. end-1
    column    [T]  the column each token of the part is written to
    """

    row: IntArray
    lead_pad: IntArray | None
    end: IntArray
    column: IntArray


class LayerView(NamedTuple):
    """K and V of one layer, both [R, G, C, D], with the geometry that says which columns are live."""

    k: Array
    v: Array
    geometry: Geometry


@dataclass(frozen=True, eq=False)
class CacheView:
    """All layers of one part. Layers of equal geometry share one Geometry object.

    positions  [T]  logical index of each token, what RoPE sees; the same in every layer
    epoch           the batch cache's `geometry_epoch` when the view was made; an older view is refused
    """

    layers: tuple[LayerView, ...]
    positions: IntArray
    epoch: int
