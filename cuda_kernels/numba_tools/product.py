"""y = x @ w.T, tile by tile: the kernel of linear and lm_head.

           K                      A block owns a TILE x TILE square of y. It walks along K: all threads fetch a square
        [ x . . ]   T             of x and one of w into shared memory, then every thread multiplies its row of the one
        [ . . . ]                 with its row of the other. Each value fetched is used TILE times.
    K   [ w . . ]   N

Each output is summed by one thread in ascending k, whatever T is: a row's bits do not depend on its mates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cuda_kernels.numba_tools.launch import absent, ceil_div, launch
from cuda_kernels.numba_tools.words import cuda, exp32, narrow, widen
from cuda_kernels.raw.arrays import empty, same

TILE = 16
PITCH = TILE + 1  # of a row in shared memory: a column then lies in all banks, not in one


@cuda.jit
def multiply(x: Any, w: Any, bias: Any, gate: Any, residual: Any, out: Any) -> None:
    """x [T, K], w [N, K], bias [N], gate and residual [T, N] (each may be empty) -> out [T, N]. TILE * TILE threads."""
    # The column of the square runs fastest, so neighbouring threads fetch neighbouring elements.
    i, j = cuda.threadIdx.x // TILE, cuda.threadIdx.x % TILE
    t, n = cuda.blockIdx.y * TILE + i, cuda.blockIdx.x * TILE + j
    n_to_fetch = cuda.blockIdx.x * TILE + i
    tokens, width, outputs = x.shape[0], x.shape[1], w.shape[0]
    x_tile = cuda.shared.array((TILE, PITCH), np.float32)
    w_tile = cuda.shared.array((TILE, PITCH), np.float32)

    y = np.float32(0.0)
    for first in range(0, width, TILE):
        k = first + j
        # guard[numba-tile-edge]: a square that hangs over the edge is filled with zeros, which add nothing
        # mutant[numba-tile-edge/last-value]:
        #   - x_tile[i, j] = widen(x[t, k]) if t < tokens and k < width else np.float32(0.0)
        #   - w_tile[i, j] = widen(w[n_to_fetch, k]) if n_to_fetch < outputs and k < width else np.float32(0.0)
        #   + x_tile[i, j] = widen(x[min(t, tokens - 1), min(k, width - 1)])
        #   + w_tile[i, j] = widen(w[min(n_to_fetch, outputs - 1), min(k, width - 1)])
        x_tile[i, j] = widen(x[t, k]) if t < tokens and k < width else np.float32(0.0)
        w_tile[i, j] = widen(w[n_to_fetch, k]) if n_to_fetch < outputs and k < width else np.float32(0.0)
        # guard[numba-tile-filled]: others fetch what this thread multiplies
        # mutant[numba-tile-filled/removed]:
        #   - cuda.syncthreads()
        #   + pass
        cuda.syncthreads()
        for step in range(TILE):
            y += x_tile[i, step] * w_tile[j, step]
        # guard[numba-tile-used]: nobody may overwrite a square that another still reads
        # mutant[numba-tile-used/removed]:
        #   - cuda.syncthreads()
        #   + pass
        cuda.syncthreads()

    if t < tokens and n < outputs:
        out[t, n] = narrow(finish(y, bias, gate, residual, t, n), out)


@cuda.jit(device=True)
def finish(y: Any, bias: Any, gate: Any, residual: Any, t: Any, n: Any) -> Any:
    """What follows the product, in this order: + bias, times silu(gate), + residual."""
    if bias.size > 0:
        y += widen(bias[n])
    if gate.size > 0:
        g = widen(gate[t, n])
        # guard[numba-silu]: silu is of the gate, x / (1 + exp(-x)); the other factor is not touched
        # mutant[numba-silu/swapped]:
        #   - y *= g / (np.float32(1.0) + exp32(-g))
        #   + y = g * (y / (np.float32(1.0) + exp32(-y)))
        # mutant[numba-silu/sigmoid]:
        #   - y *= g / (np.float32(1.0) + exp32(-g))
        #   + y *= np.float32(1.0) / (np.float32(1.0) + exp32(-g))
        y *= g / (np.float32(1.0) + exp32(-g))
    if residual.size > 0:
        y += widen(residual[t, n])
    return y


def product(x: Any, w: Any, bias: Any, gate: Any, residual: Any, *, out_float32: bool) -> Any:
    """x [T, K], w [N, K], bias [N], gate and residual [T, N] or None -> [T, N]. Raises ValueError or TypeError."""
    (tokens, width), outputs = x.shape, w.shape[0]
    same("w", w, (outputs, width), x.dtype)
    for name, array, shape in (
        ("bias", bias, (outputs,)),
        ("gate", gate, (tokens, outputs)),
        ("residual", residual, (tokens, outputs)),
    ):
        if array is not None:
            same(name, array, shape, x.dtype)
    out = empty(x, (tokens, outputs), np.float32 if out_float32 else None)
    terms = absent(bias, 1, x), absent(gate, 2, x), absent(residual, 2, x)
    launch(multiply, (ceil_div(outputs, TILE), ceil_div(tokens, TILE), 1), TILE * TILE, x, w, *terms, out)
    return out
