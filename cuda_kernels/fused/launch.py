"""Launches the fused kernels of a decode step. Every choice that touches bits is that of the operations they join."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cuda_kernels.fused import defines, sizes
from cuda_kernels.raw import loader
from cuda_kernels.raw.arrays import dtype_code, empty, integers, same
from cuda_kernels.raw.product import chunk_of
from cuda_kernels.raw.shapes import ceil_div


@dataclass(frozen=True)
class QKV:
    """What stands before a layer's attention: norm [K], weights q, k, v [N, K], biases [N] or None."""

    norm: Any
    q: Any
    k: Any
    v: Any
    q_bias: Any
    k_bias: Any
    v_bias: Any


def qkv(x: Any, layer: QKV, cos: Any, sin: Any, caches: tuple[Any, Any], row: Any, column: Any, eps: float) -> Any:
    """x [T, K] -> q [T, H, D], normed, projected and rotated; k and v go to caches [R, G, C, D] at (row, column)."""
    (rows, hidden), (places, groups, columns, head_dim) = x.shape, caches[0].shape
    heads = layer.q.shape[0] // head_dim
    for name, w, n in (("q", layer.q, heads), ("k", layer.k, groups), ("v", layer.v, groups)):
        same(name, w, (n * head_dim, hidden), x.dtype)
    for name, table in (("cos", cos), ("sin", sin)):
        same(name, table, (rows, head_dim // 2))
    integers("row", row, rows)
    integers("column", column, rows)
    plan = sizes.qkv(hidden, (heads, groups, head_dim), rows, loader.arch_of(x))
    built = defines.qkv(dtype_code(x), hidden, (heads, groups, head_dim), plan)
    kernel = loader.kernel("fused/qkv_kernel.cu", "decode_qkv", x, built)
    out = empty(x, (rows, heads, head_dim))
    weights = (layer.norm, layer.q, layer.k, layer.v, layer.q_bias, layer.k_bias, layer.v_bias)
    arguments = (x, *weights, cos, sin, row, column, out, *caches, eps, rows, heads, groups, columns, places)
    grid = ((heads + 2 * groups) * head_dim // 16, ceil_div(rows, plan.tokens), 1)
    kernel(grid, (32 * plan.warps, 1, 1), arguments, shared=plan.shared, early=True)
    return out


def gate_up(x: Any, norm: Any, gate: Any, up: Any, gate_bias: Any, up_bias: Any, eps: float) -> Any:
    """x [T, K], norm [K], gate and up [F, K] -> silu(gate(rms_norm(x))) * up(rms_norm(x)), [T, F]."""
    (rows, hidden), width = x.shape, gate.shape[0]
    same("gate", gate, (width, hidden), x.dtype)
    same("up", up, (width, hidden), x.dtype)
    plan = sizes.gate_up(hidden, width, rows, loader.arch_of(x))
    built = defines.gate_up(dtype_code(x), hidden, width, plan)
    kernel = loader.kernel("fused/gate_up_kernel.cu", "decode_gate_up", x, built)
    out = empty(x, (rows, width))
    arguments = (x, norm, gate, up, gate_bias, up_bias, out, eps, rows, width)
    grid = (ceil_div(width, 8 * plan.units), ceil_div(rows, plan.tokens), 1)
    kernel(grid, (32 * plan.warps, 1, 1), arguments, shared=plan.shared, early=True)
    return out


def add(x: Any, w: Any, bias: Any, residual: Any) -> Any:
    """x [T, K], w [N, K], bias [N] or None, residual [T, N] -> x @ w.T + bias + residual."""
    (rows, width), outputs = x.shape, w.shape[0]
    same("w", w, (outputs, width), x.dtype)
    same("residual", residual, (rows, outputs), x.dtype)
    plan = sizes.add(width, outputs, rows)
    kernel = loader.kernel("fused/add_kernel.cu", "decode_add", x, defines.add(dtype_code(x), width, outputs, plan))
    out = empty(x, (rows, outputs))
    grid = (ceil_div(outputs, 8 * plan.units), ceil_div(rows, plan.tokens), 1)
    arguments = (x, w, bias, residual, out, rows, outputs)
    kernel(grid, (32 * plan.warps, 1, 1), arguments, shared=plan.shared, early=True)
    return out


def head(x: Any, norm: Any, w: Any, eps: float) -> Any:
    """x [T, K], norm [K], w [V, K] -> logits [T, V] in float32 of rms_norm(x)."""
    (rows, hidden), vocabulary = x.shape, w.shape[0]
    same("w", w, (vocabulary, hidden), x.dtype)
    if chunk_of(vocabulary, hidden) < hidden:
        raise ValueError(f"head: {vocabulary} x {hidden} is cut into chunks; use rms_norm and lm_head")
    plan = sizes.head(hidden, rows, loader.arch_of(x))
    kernel = loader.kernel("fused/head_kernel.cu", "decode_head", x, defines.head(dtype_code(x), hidden, plan))
    out = empty(x, (rows, vocabulary), "float32")
    grid = (min(ceil_div(vocabulary, 8 * plan.warps), sizes.MULTIPROCESSORS), ceil_div(rows, plan.tokens), 1)
    arguments = (x, norm, w, out, eps, rows, vocabulary)
    kernel(grid, (32 * plan.warps, 1, 1), arguments, shared=plan.shared, early=True)
    return out
