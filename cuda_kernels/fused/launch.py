"""Launches the fused kernels of a decode step. Every choice that touches bits is that of the operations they join."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cuda_kernels.fused import defines, sizes
from cuda_kernels.raw.arrays import FLOAT32, dtype_code, empty, integers, same
from cuda_kernels.raw.loader import Launch, Place, kernel, place_of, remembered
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
    shape = (heads, groups, head_dim)
    launch = _qkv(place_of(x), dtype_code(x), rows, hidden, shape, columns, places, eps)
    out = empty(x, (rows, heads, head_dim))
    weights = (layer.norm, layer.q, layer.k, layer.v, layer.q_bias, layer.k_bias, layer.v_bias)
    launch(x, *weights, cos, sin, row, column, out, *caches)
    return out


@remembered
def _qkv(
    place: Place, dtype: int, rows: int, hidden: int, heads: tuple[int, int, int], columns: int, places: int, eps: float
) -> Launch:
    """heads: (H, G, D)."""
    plan, (H, G, D) = sizes.qkv(hidden, heads, rows, place.arch), heads
    loaded = kernel("fused/qkv_kernel.cu", "decode_qkv", place, defines.qkv(dtype, hidden, heads, plan))
    grid = ((H + 2 * G) * D // 16, ceil_div(rows, plan.tokens), 1)
    scalars = (eps, rows, H, G, columns, places)
    return loaded.launch(grid, (32 * plan.warps, 1, 1), scalars, shared=plan.shared, early=True)


def gate_up(x: Any, norm: Any, gate: Any, up: Any, gate_bias: Any, up_bias: Any, eps: float) -> Any:
    """x [T, K], norm [K], gate and up [F, K] -> silu(gate(rms_norm(x))) * up(rms_norm(x)), [T, F]."""
    (rows, hidden), width = x.shape, gate.shape[0]
    same("gate", gate, (width, hidden), x.dtype)
    same("up", up, (width, hidden), x.dtype)
    launch = _gate_up(place_of(x), dtype_code(x), rows, hidden, width, eps)
    out = empty(x, (rows, width))
    launch(x, norm, gate, up, gate_bias, up_bias, out)
    return out


@remembered
def _gate_up(place: Place, dtype: int, rows: int, hidden: int, width: int, eps: float) -> Launch:
    plan = sizes.gate_up(hidden, width, rows, place.arch)
    loaded = kernel("fused/gate_up_kernel.cu", "decode_gate_up", place, defines.gate_up(dtype, hidden, width, plan))
    grid = (ceil_div(width, 8 * plan.units), ceil_div(rows, plan.tokens), 1)
    return loaded.launch(grid, (32 * plan.warps, 1, 1), (eps, rows, width), shared=plan.shared, early=True)


def add(x: Any, w: Any, bias: Any, residual: Any) -> Any:
    """x [T, K], w [N, K], bias [N] or None, residual [T, N] -> x @ w.T + bias + residual."""
    (rows, width), outputs = x.shape, w.shape[0]
    same("w", w, (outputs, width), x.dtype)
    same("residual", residual, (rows, outputs), x.dtype)
    launch = _add(place_of(x), dtype_code(x), rows, width, outputs)
    out = empty(x, (rows, outputs))
    launch(x, w, bias, residual, out)
    return out


@remembered
def _add(place: Place, dtype: int, rows: int, width: int, outputs: int) -> Launch:
    plan = sizes.add(width, outputs, rows)
    loaded = kernel("fused/add_kernel.cu", "decode_add", place, defines.add(dtype, width, outputs, plan))
    grid = (ceil_div(outputs, 8 * plan.units), ceil_div(rows, plan.tokens), 1)
    return loaded.launch(grid, (32 * plan.warps, 1, 1), (rows, outputs), shared=plan.shared, early=True)


def head(x: Any, norm: Any, w: Any, eps: float) -> Any:
    """x [T, K], norm [K], w [V, K] -> logits [T, V] in float32 of rms_norm(x)."""
    (rows, hidden), vocabulary = x.shape, w.shape[0]
    same("w", w, (vocabulary, hidden), x.dtype)
    if chunk_of(vocabulary, hidden) < hidden:
        raise ValueError(f"head: {vocabulary} x {hidden} is cut into chunks; use rms_norm and lm_head")
    launch = _head(place_of(x), dtype_code(x), rows, hidden, vocabulary, eps)
    out = empty(x, (rows, vocabulary), FLOAT32)
    launch(x, norm, w, out)
    return out


@remembered
def _head(place: Place, dtype: int, rows: int, hidden: int, vocabulary: int, eps: float) -> Launch:
    plan = sizes.head(hidden, rows, place.arch)
    loaded = kernel("fused/head_kernel.cu", "decode_head", place, defines.head(dtype, hidden, plan))
    grid = (min(ceil_div(vocabulary, 8 * plan.warps), sizes.MULTIPROCESSORS), ceil_div(rows, plan.tokens), 1)
    return loaded.launch(grid, (32 * plan.warps, 1, 1), (eps, rows, vocabulary), shared=plan.shared, early=True)
