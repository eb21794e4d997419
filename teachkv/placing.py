"""A part of a step as the kernels take it: its slice of the token axis, and per layer where to write and what is seen.

Geometry is made and judged on the host. `bring` takes an array to where the kernels run, each array once per pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from teachkv.attention import Kind
from teachkv.kv.view import Array, CacheView, Geometry, IntArray, LayerView
from teachkv.masks import CausalByKernel, ExplicitBias, Mask, Masker

Bring = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class Part:
    """The decode or the prefill half of a step.

    cu_seqlens   [B+1]  where each row's tokens begin and end, counted from the part's first token
    cache               the view to write K and V to and to attend over
    bias                explicit mask [B, 1, q, k] in place of the masker's answer
    prompt_lens  [B]    prompt length of each row; only dynamic rope asks for it
    """

    kind: Kind
    cu_seqlens: IntArray
    cache: CacheView
    bias: Array | None = None
    prompt_lens: IntArray | None = None

    @property
    def counts(self) -> IntArray:
        """Tokens of each row [B]."""
        return np.diff(self.cu_seqlens)


@dataclass(frozen=True, eq=False)
class PlacedLayer:
    """One layer of a part: caches and geometry, the buffer row of each token [T], and what its queries may see."""

    view: LayerView
    rows: Array
    mask: Mask


@dataclass(frozen=True, eq=False)
class Placed:
    """A part ready for the kernels. `tokens` is its slice of the step's token axis."""

    kind: Kind
    tokens: slice
    cu_seqlens: Array
    layers: tuple[PlacedLayer, ...]


def place(parts: Sequence[Part], windows: Sequence[int | None], bring: Bring) -> list[Placed]:
    """Cut the token axis, part after part, and place every layer."""
    stops = np.cumsum([0, *(int(part.cu_seqlens[-1]) for part in parts)]).tolist()
    return [place_part(part, slice(a, b), windows, bring) for part, (a, b) in zip(parts, pairwise(stops), strict=True)]


def place_part(part: Part, tokens: slice, windows: Sequence[int | None], bring: Bring) -> Placed:
    """Layers of equal geometry and window share one PlacedLayer's arrays: one mask per (geometry, window)."""
    known: dict[tuple[int, int | None], tuple[Geometry, Array, Mask]] = {}
    layers = []
    for layer, window in zip(part.cache.layers, windows, strict=True):
        key = (id(layer.geometry), window)
        if key not in known:
            known[key] = place_geometry(part, layer.geometry, window, bring)
        where, rows, mask = known[key]
        layers.append(PlacedLayer(LayerView(layer.k, layer.v, where), rows, mask))
    return Placed(part.kind, tokens, bring(part.cu_seqlens), tuple(layers))


def place_geometry(part: Part, geometry: Geometry, window: int | None, bring: Bring) -> tuple[Geometry, Array, Mask]:
    """(geometry there, buffer row of each token there, mask there)."""
    mask = judge(part, geometry, window)
    pads = None if geometry.lead_pad is None else bring(geometry.lead_pad)
    if isinstance(mask, CausalByKernel) and mask.lead_pad is not None:
        mask = CausalByKernel(pads if mask.lead_pad is geometry.lead_pad else bring(mask.lead_pad), mask.window)
    where = Geometry(bring(geometry.row), pads, bring(geometry.end), bring(geometry.column))
    return where, bring(np.repeat(geometry.row, part.counts)), mask


def judge(part: Part, geometry: Geometry, window: int | None) -> Mask:
    """The masker's answer. Which of its two doors a layer takes depends on the model's config."""
    if part.bias is not None:
        return ExplicitBias(part.bias)
    if window is None:
        return Masker.causal(geometry, part.cu_seqlens)
    return Masker.sliding_window_causal(geometry, part.cu_seqlens, window)
