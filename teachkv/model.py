"""The forward pass of a decoder-only transformer: llama, mistral, qwen2, qwen3 differ by the weights they have.

Letters: T tokens of all parts, M rows of logits, H query heads, G KV heads, D head dim, K hidden, F intermediate,
V vocabulary. Everything lies on one token axis without padding; rows of one step never see each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from cuda_kernels.registry import Ops
from teachkv.attention import Kind, attend
from teachkv.config import ModelConfig
from teachkv.config.rope import Rope
from teachkv.kv.view import Array, CacheView, Geometry, IntArray, LayerView
from teachkv.masks import CausalByKernel, ExplicitBias, Mask, Masker
from teachkv.weights import LayerWeights, ModelWeights


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


class Model:
    """Weights and operations of one model; it holds no state between calls."""

    def __init__(self, config: ModelConfig, weights: ModelWeights, ops: Ops) -> None:
        self.config, self.weights, self.ops = config, weights, ops
        self.rope = Rope(config.rope)
        self.scale = config.head_dim**-0.5

    def forward(self, tokens: IntArray, parts: Sequence[Part], logits_at: IntArray) -> Array:
        """tokens [T], parts one after another on that axis, logits_at [M] -> float32 [M, V].

        Writes K and V of all tokens into the caches of the parts.
        """
        ops, weights, eps = self.ops, self.weights, self.config.rms_eps
        there = ops.xp.asarray
        places = _places(parts, there)
        cos, sin = self._angles(places)
        x = ops.embed(there(tokens), weights.embed)  # [T, K]
        for index, layer in enumerate(weights.layers):
            h = ops.rms_norm(x, layer.input_norm, eps)
            q, k, v = self._project(h, layer)
            mixed = self._attention(index, q, k, v, cos, sin, places)
            x = ops.linear(mixed, layer.o, layer.o_bias, residual=x)
            h = ops.rms_norm(x, layer.post_norm, eps)
            gate = ops.linear(h, layer.gate, layer.gate_bias)  # [T, F]
            h = ops.linear(h, layer.up, layer.up_bias, gate=gate)
            x = ops.linear(h, layer.down, layer.down_bias, residual=x)
        # guard[last-token]: logits are taken where the caller says, each row's own last real token
        # mutant[last-token/last-rows]:
        #   - x = ops.rms_norm(x[there(logits_at)], weights.norm, eps)
        #   + x = ops.rms_norm(x[len(x) - len(logits_at) :], weights.norm, eps)
        x = ops.rms_norm(x[there(logits_at)], weights.norm, eps)
        return ops.lm_head(x, weights.lm_head)

    def _project(self, h: Array, layer: LayerWeights) -> tuple[Array, Array, Array]:
        """h [T, K] -> q [T, H, D], k and v [T, G, D], before rotation."""
        ops, dim, eps = self.ops, self.config.head_dim, self.config.rms_eps
        q = ops.linear(h, layer.q, layer.q_bias).reshape(len(h), -1, dim)
        k = ops.linear(h, layer.k, layer.k_bias).reshape(len(h), -1, dim)
        v = ops.linear(h, layer.v, layer.v_bias).reshape(len(h), -1, dim)
        if layer.q_norm is not None:
            q = ops.qk_norm(q, layer.q_norm, eps)
        if layer.k_norm is not None:
            k = ops.qk_norm(k, layer.k_norm, eps)
        return q, k, v

    def _attention(
        self, index: int, q: Array, k: Array, v: Array, cos: Array, sin: Array, places: Sequence[_Place]
    ) -> Array:
        """Rotate, append and attend, part by part: q [T, H, D], k and v [T, G, D] -> [T, H * D]."""
        mixed = []
        for place in places:
            layer = place.part.cache.layers[index]
            t, where, cu_seqlens = place.tokens, place.where(layer.geometry), place.there(place.part.cu_seqlens)
            view = LayerView(layer.k, layer.v, where)
            rows = place.rows(layer.geometry)
            self.ops.rope_and_append(q[t], k[t], v[t], cos[t], sin[t], view.k, view.v, rows, where.column)
            mask = place.mask(layer.geometry, self.config.windows[index])
            mixed.append(attend(self.ops, place.part.kind, q[t], view, cu_seqlens, mask, self.scale))
        joined = mixed[0] if len(mixed) == 1 else self.ops.xp.concatenate(mixed)
        return joined.reshape(len(q), -1)

    def _angles(self, places: Sequence[_Place]) -> tuple[Array, Array]:
        """cos and sin [T, D/2] for the positions of all parts."""
        positions = np.concatenate([place.part.cache.positions for place in places])
        lens = [place.prompt_lens() for place in places]
        known = [found for found in lens if found is not None]
        cos, sin = self.rope.cos_sin(positions, np.concatenate(known) if len(known) == len(lens) else None)
        return self.ops.xp.asarray(cos), self.ops.xp.asarray(sin)


@dataclass(frozen=True, eq=False)
class _Place:
    """A part, its slice of the token axis, and what its layers share: one mask per (geometry, window).

    Geometry is made and judged on the host; `there` brings an array to where the kernels run, once per pass.
    """

    part: Part
    tokens: slice
    bring: Callable[[Array], Array]
    _masks: dict[tuple[int, int | None], Mask] = field(default_factory=dict)
    _rows: dict[int, IntArray] = field(default_factory=dict)
    _there: dict[int, Array] = field(default_factory=dict)

    def there(self, array: Array) -> Array:
        if id(array) not in self._there:
            self._there[id(array)] = self.bring(array)
        return self._there[id(array)]

    def where(self, geometry: Geometry) -> Geometry:
        pads = None if geometry.lead_pad is None else self.there(geometry.lead_pad)
        return Geometry(self.there(geometry.row), pads, self.there(geometry.end), self.there(geometry.column))

    def mask(self, geometry: Geometry, window: int | None) -> Mask:
        if self.part.bias is not None:
            return ExplicitBias(self.part.bias)
        key = (id(geometry), window)
        if key not in self._masks:
            cu_seqlens = self.part.cu_seqlens
            if window is None:
                mask = Masker.causal(geometry, cu_seqlens)
            else:
                mask = Masker.sliding_window_causal(geometry, cu_seqlens, window)
            if isinstance(mask, CausalByKernel) and mask.lead_pad is not None:
                mask = CausalByKernel(self.there(mask.lead_pad), mask.window)
            self._masks[key] = mask
        return self._masks[key]

    def rows(self, geometry: Geometry) -> IntArray:
        """The buffer row of each token [T]."""
        if id(geometry) not in self._rows:
            self._rows[id(geometry)] = self.bring(np.repeat(geometry.row, np.diff(self.part.cu_seqlens)))
        return self._rows[id(geometry)]

    def prompt_lens(self) -> IntArray | None:
        lens = self.part.prompt_lens
        return None if lens is None else np.repeat(lens, np.diff(self.part.cu_seqlens))


def _places(parts: Sequence[Part], bring: Callable[[Array], Array]) -> list[_Place]:
    """Cut the token axis: part after part."""
    stops = np.cumsum([0, *(int(part.cu_seqlens[-1]) for part in parts)]).tolist()
    return [_Place(part, slice(a, b), bring) for part, (a, b) in zip(parts, pairwise(stops), strict=True)]
