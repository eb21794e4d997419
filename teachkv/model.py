"""The forward pass of a decoder-only transformer: llama, mistral, qwen2, qwen3 differ by the weights they have.

Letters: T tokens of all parts, M rows of logits, H query heads, G KV heads, D head dim, K hidden, F intermediate,
V vocabulary. Everything lies on one token axis without padding; rows of one step never see each other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cuda_kernels.registry import Ops
from teachkv.attention import attend
from teachkv.config import ModelConfig
from teachkv.config.rope import Rope
from teachkv.kv.view import Array, IntArray
from teachkv.placing import Part, Placed, place
from teachkv.weights import LayerWeights, ModelWeights


class Model:
    """Weights and operations of one model; it holds no state between calls."""

    decode_path = "plain"  # how decode steps run, for the path line

    def __init__(self, config: ModelConfig, weights: ModelWeights, ops: Ops) -> None:
        self.config, self.weights, self.ops = config, weights, ops
        self.rope = Rope(config.rope)
        self.scale = config.head_dim**-0.5

    def forward(self, tokens: IntArray, parts: Sequence[Part], logits_at: IntArray) -> Array:
        """tokens [T], parts one after another on that axis, logits_at [M] -> float32 [M, V].

        Writes K and V of all tokens into the caches of the parts.
        """
        bring = self.ops.xp.asarray
        cos, sin = (bring(table) for table in self.angles(parts))
        placed = place(parts, self.config.windows, bring)
        return self.compute(bring(tokens), cos, sin, placed, bring(logits_at))

    def compute(
        self, tokens: Array, cos: Array, sin: Array, parts: Sequence[Placed], logits_at: Array | slice
    ) -> Array:
        """The pass itself, on arrays that lie where the kernels run: tokens [T], cos and sin [T, D/2] -> [M, V]."""
        ops, weights, eps = self.ops, self.weights, self.config.rms_eps
        x = ops.embed(tokens, weights.embed)  # [T, K]
        for index, layer in enumerate(weights.layers):
            h = self.normed(x, layer.input_norm)
            q, k, v = self.project(h, layer)
            mixed = self.attention(index, q, k, v, cos, sin, parts)
            x = ops.linear(mixed, layer.o, layer.o_bias, residual=x)
            h = self.normed(x, layer.post_norm)
            h = ops.gate_up(h, layer.gate, layer.up, layer.gate_bias, layer.up_bias)  # [T, F]
            x = ops.linear(h, layer.down, layer.down_bias, residual=x)
        # guard[last-token]: logits are taken where the caller says, each row's own last real token
        # mutant[last-token/last-rows]:
        #   - x = ops.rms_norm(x[logits_at], weights.norm, eps)
        #   + x = ops.rms_norm(x[len(x) - len(logits_at) :], weights.norm, eps)
        x = ops.rms_norm(x[logits_at], weights.norm, eps)
        return ops.lm_head(x, weights.lm_head)

    def normed(self, x: Array, weight: Array) -> Array:
        """x [T, K], weight [K] -> what a layer's first products take, [T, K]."""
        return self.ops.rms_norm(x, weight, self.config.rms_eps)

    def project(self, h: Array, layer: LayerWeights) -> tuple[Array, Array, Array]:
        """h [T, K] -> q [T, H, D], k and v [T, G, D], before rotation."""
        ops, dim, eps = self.ops, self.config.head_dim, self.config.rms_eps
        flat = ops.linears(h, (layer.q, layer.k, layer.v), (layer.q_bias, layer.k_bias, layer.v_bias))
        q, k, v = (one.reshape(len(h), -1, dim) for one in flat)
        if layer.q_norm is not None:
            q = ops.qk_norm(q, layer.q_norm, eps)
        if layer.k_norm is not None:
            k = ops.qk_norm(k, layer.k_norm, eps)
        return q, k, v

    def attention(
        self, index: int, q: Array, k: Array, v: Array, cos: Array, sin: Array, parts: Sequence[Placed]
    ) -> Array:
        """Rotate, append and attend, part by part: q [T, H, D], k and v [T, G, D] -> [T, H * D]."""
        mixed = []
        for part in parts:
            t, here = part.tokens, part.layers[index]
            view, columns = here.view, here.view.geometry.column
            self.ops.rope_and_append(q[t], k[t], v[t], cos[t], sin[t], view.k, view.v, here.rows, columns)
            mixed.append(attend(self.ops, part.kind, q[t], view, part.cu_seqlens, here.mask, self.scale))
        joined = mixed[0] if len(mixed) == 1 else self.ops.xp.concatenate(mixed)
        return joined.reshape(len(q), -1)

    def angles(self, parts: Sequence[Part]) -> tuple[Array, Array]:
        """cos and sin [T, D/2] for the positions of all parts, on the host."""
        positions = np.concatenate([part.cache.positions for part in parts])
        lens = [np.repeat(part.prompt_lens, part.counts) for part in parts if part.prompt_lens is not None]
        return self.rope.cos_sin(positions, np.concatenate(lens) if len(lens) == len(parts) else None)
