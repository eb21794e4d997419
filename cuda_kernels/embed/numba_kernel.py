"""embed, told in Numba: one block per token copies one row of the table."""

from __future__ import annotations

from typing import Any

import numpy as np

from cuda_kernels.common.types import Array, IntArray
from cuda_kernels.numba_tools.launch import launch, row_threads
from cuda_kernels.numba_tools.words import cuda, narrow
from cuda_kernels.raw.arrays import empty, integers


@cuda.jit
def copy_rows(tokens: Any, table: Any, out: Any) -> None:
    """tokens [T], table [V, K] -> out [T, K]."""
    t = cuda.blockIdx.x
    token = tokens[t]
    # guard[numba-token-range]: a token outside the table must be seen; reading past the table gives somebody's memory
    # mutant[numba-token-range/unchecked]:
    #   - known = 0 <= token < table.shape[0]
    #   + known = True
    known = 0 <= token < table.shape[0]
    for k in range(cuda.threadIdx.x, table.shape[1], cuda.blockDim.x):
        out[t, k] = table[token, k] if known else narrow(np.float32(np.nan), out)


def embed(tokens: IntArray, table: Array) -> Array:
    """tokens [T], table [V, K] -> [T, K]. A token outside the table gives a row of NaN: a device cannot raise."""
    integers("tokens", tokens, len(tokens))
    out: Array = empty(table, (len(tokens), table.shape[1]))
    launch(copy_rows, (len(tokens), 1, 1), row_threads(table.shape[1]), tokens, table, out)
    return out
