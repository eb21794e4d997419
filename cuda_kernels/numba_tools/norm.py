"""Root mean square normalisation of one row by one block; rms_norm and qk_norm differ only in what a row is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cuda_kernels.numba_tools.launch import row_threads
from cuda_kernels.numba_tools.words import cuda, narrow, widen

THREADS_LIMIT = 256


@cuda.jit
def normalise_rows(x: Any, weight: Any, residual: Any, out: Any, eps: Any) -> None:
    """x [N, K], weight [K], residual [N, K] or empty, out [N, K]. One block per row.

    1. each thread sums the squares of its own columns
    2. the sums are added pairwise, in a tree that depends on K alone
    3. each thread scales its own columns
    """
    row, me, width = cuda.blockIdx.x, cuda.threadIdx.x, x.shape[1]
    sums = cuda.shared.array(THREADS_LIMIT, np.float32)

    mine = np.float32(0.0)
    for k in range(me, width, cuda.blockDim.x):
        # guard[numba-residual]: the sum is rounded when it is stored, and the norm is of what was stored
        # mutant[numba-residual/not-stored]:
        #   - if residual.size > 0:
        #   + if False:
        if residual.size > 0:
            x[row, k] = narrow(widen(x[row, k]) + widen(residual[row, k]), x)
        value = widen(x[row, k])
        mine += value * value
    sums[me] = mine
    # guard[numba-norm-barrier]: a sum may be added only when its thread has written it
    # mutant[numba-norm-barrier/removed]:
    #   - cuda.syncthreads()
    #   + pass
    cuda.syncthreads()

    step = cuda.blockDim.x // 2
    while step > 0:
        if me < step:
            sums[me] += sums[me + step]
        cuda.syncthreads()
        step //= 2

    # guard[numba-norm-eps]: eps stands under the root, or a row of zeros divides by zero
    # mutant[numba-norm-eps/outside]:
    #   - root = np.float32(math.sqrt(sums[0] / np.float32(width) + eps))
    #   + root = np.float32(math.sqrt(sums[0] / np.float32(width))) + eps
    root = np.float32(math.sqrt(sums[0] / np.float32(width) + eps))
    for k in range(me, width, cuda.blockDim.x):
        out[row, k] = narrow(widen(x[row, k]) / root * widen(weight[k]), out)


def threads_for(width: int) -> int:
    """Block size for rows of `width`."""
    return min(THREADS_LIMIT, row_threads(width))
