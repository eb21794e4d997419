"""Launches of linear and lm_head: which kernel runs, and the K-chunks that make every choice give the same bits."""

from __future__ import annotations

from typing import Any

from cuda_kernels.raw import loader
from cuda_kernels.raw.arrays import dtype_code, empty, same
from cuda_kernels.raw.shapes import ceil_div, padded

WARPS_WANTED = 2112  # 16 for each of 132 multiprocessors: enough loads in flight to fill the memory bus
CHUNKS_LIMIT = 16
CHUNK_STEP = 128


def chunk_of(n: int, k: int) -> int:
    """Length of the K-chunks of a layer [N, K]. Chosen by the shape alone: a row's bits must not depend on its mates."""
    chunks = min(CHUNKS_LIMIT, max(1, ceil_div(8 * WARPS_WANTED, n)))
    return ceil_div(ceil_div(k, chunks), CHUNK_STEP) * CHUNK_STEP


def product(
    path: str, x: Any, w: Any, bias: Any, gate: Any, residual: Any, *, out_float32: bool
) -> Any:
    """x [T, K], w [N, K] -> [T, N] by the kernels of the file `path`."""
    rows, width = x.shape
    outputs = w.shape[0]
    same("w", w, (outputs, width), x.dtype)
    for name, array, shape in (("bias", bias, (outputs,)), ("gate", gate, (rows, outputs)), ("residual", residual, (rows, outputs))):
        if array is not None:
            same(name, array, shape, x.dtype)
    out = empty(x, (rows, outputs), "float32" if out_float32 else None)
    defines = {"TKV_DTYPE": dtype_code(x), "TKV_OUT_F32": int(out_float32)}
    kernel = loader.kernel(path, "linear_simple", x, defines)
    arguments = (x, w, bias, gate, residual, out, rows, outputs, width, chunk_of(outputs, width))
    kernel((ceil_div(outputs, 32), ceil_div(rows, 32), 1), (256, 1, 1), arguments, shared=2 * padded(32 * 33 * 4))
    return out
