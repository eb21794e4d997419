"""The decode step told in fewer kernels: five per layer instead of eleven, with the same bits.

    model.py                                              here
    rms_norm, linear q, linear k, linear v, rope_append   qkv
    attention_decode_ragged                               the same kernel
    linear o + residual                                   add
    rms_norm, linear gate, linear up * silu               gate_up
    linear down + residual                                add
    rms_norm, lm_head                                     head

A long prompt keeps the order of model.py. Where the card has warpgroups, the rows between its kernels lie in panels
(cuda_kernels/common/panels.cuh), as the products want them; without that each product lays out a copy of its own.

Each of these kernels begins while the one before it still runs, and asks for its weights meanwhile
(cuda_kernels/common/chain.cuh). They keep the chunks and the order of sums of the operations they join, so a row that
was prefilled by those goes on as if nothing had changed.

Letters as in model.py: T tokens, one per row; H query heads, G KV heads, D head dim, K hidden, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuda_kernels.fused import launch, sizes
from cuda_kernels.raw.loader import arch_of
from cuda_kernels.raw.tiles import SQUARE, panelled
from cuda_kernels.rms_norm.raw import norm_in_panels
from teachkv.attention import attend
from teachkv.kv.view import Array
from teachkv.model import Model
from teachkv.placing import Placed
from teachkv.weights import LayerWeights, ModelWeights

SHORT, SHORT_HEAD = 16, 32  # tokens up to which MLP and head run fused; above, tiles through shared memory win


class FusedModel(Model):
    """A `Model` whose decode steps run fused. Everything else goes the ordinary way."""

    decode_path = "fused"

    def compute(
        self, tokens: Array, cos: Array, sin: Array, parts: Sequence[Placed], logits_at: Array | slice
    ) -> Array:
        """As in Model, with the same bits."""
        if len(parts) != 1 or parts[0].kind != "decode" or len(tokens) == 0:
            return super().compute(tokens, cos, sin, parts, logits_at)
        ops, weights, part = self.ops, self.weights, parts[0]
        x = ops.embed(tokens, weights.embed)  # [T, K]
        for layer, here in zip(weights.layers, part.layers, strict=True):
            view = here.view
            q = launch.qkv(x, qkv_of(layer), cos, sin, (view.k, view.v), here.rows, view.geometry.column, self.eps)
            mixed = attend(ops, "decode", q, view, part.cu_seqlens, here.mask, self.scale)  # [T, H, D]
            x = launch.add(mixed.reshape(len(x), -1), layer.o, layer.o_bias, x)
            x = self.mlp(x, layer)
        x = x[logits_at]
        if len(x) <= SHORT_HEAD:
            logits: Array = launch.head(x, weights.norm, weights.lm_head, self.eps)
            return logits
        return ops.lm_head(ops.rms_norm(x, weights.norm, self.eps), weights.lm_head)

    def normed(self, x: Array, weight: Array) -> Array:
        """As in Model; of many tokens in panels."""
        if not panelled(len(x), self.config.hidden_size, self.config.intermediate_size, arch_of(x)):
            return super().normed(x, weight)
        panels: Array = norm_in_panels(x, weight, self.eps, SQUARE.bm)
        return panels

    def mlp(self, x: Array, layer: LayerWeights) -> Array:
        """x [T, K] -> x + down(silu(gate(h)) * up(h)) with h = rms_norm(x)."""
        ops = self.ops
        if len(x) <= SHORT:
            biases = layer.gate_bias, layer.up_bias
            h = launch.gate_up(x, layer.post_norm, layer.gate, layer.up, *biases, self.eps)  # [T, F]
            out: Array = launch.add(h, layer.down, layer.down_bias, x)
            return out
        h = ops.rms_norm(x, layer.post_norm, self.eps)
        h = ops.gate_up(h, layer.gate, layer.up, layer.gate_bias, layer.up_bias)
        return ops.linear(h, layer.down, layer.down_bias, residual=x)

    @property
    def eps(self) -> float:
        """The small number under the root of every norm."""
        return self.config.rms_eps


def qkv_of(layer: LayerWeights) -> launch.QKV:
    """What the first kernel of a layer reads."""
    return launch.QKV(layer.input_norm, layer.q, layer.k, layer.v, layer.q_bias, layer.k_bias, layer.v_bias)


def fused(model: Model) -> Model:
    """The model with fused decode steps, or the model itself where it has none: other backends, types and shapes."""
    return FusedModel(model.config, model.weights, model.ops) if refusal(model) is None else model


def refusal(model: Model) -> str | None:
    """Why decode steps of this model do not run fused."""
    config, weights = model.config, model.weights
    if any(model.ops.tellings.get(op) != "raw" for op in ("linear", "rms_norm", "rope_and_append", "lm_head")):
        return f"backend {model.ops.backend!r} has no fused kernels"
    if weights.embed.dtype == "float32":
        return "they are for 16-bit types"
    if has_head_norms(weights):
        return "its queries and keys are normed by head"
    heads = config.num_heads, config.num_kv_heads, config.head_dim
    shape = config.hidden_size, config.intermediate_size, config.vocab_size
    return sizes.refusal(*shape, heads, arch_of(weights.embed))


def has_head_norms(weights: ModelWeights) -> bool:
    """Qwen3 norms q and k between projection and rotation."""
    return any(layer.q_norm is not None or layer.k_norm is not None for layer in weights.layers)
