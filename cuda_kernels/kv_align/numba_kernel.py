"""kv_align, told in Numba: one block per (move, head) copies a run of columns, chunk by chunk.

    shift right by 2      a b c d . .        from the end: no source is overwritten before it is read
                          . . a b c d

A chunk is one element per thread: all read, then a barrier, then all write. So a run may overlap itself.
"""

from __future__ import annotations

from typing import Any

from cuda_kernels.common.types import Array, IntArray
from cuda_kernels.numba_tools.launch import launch
from cuda_kernels.numba_tools.words import cuda
from cuda_kernels.raw.arrays import integers, same
from cuda_kernels.raw.shapes import ceil_div

THREADS = 256


@cuda.jit
def move_runs(src: Any, src_row: Any, src_col: Any, dst: Any, dst_row: Any, dst_col: Any, length: Any) -> None:
    """src [Rs, G, Cs, D] -> dst [Rd, G, Cd, D]; all else [M]."""
    groups, dims, threads = src.shape[1], src.shape[3], cuda.blockDim.x
    move, g = cuda.blockIdx.x // groups, cuda.blockIdx.x % groups
    elements = length[move] * dims
    chunks = (elements + threads - 1) // threads
    # guard[numba-shift-order]: a run shifted right over itself is copied from its end, else it repeats its head
    # mutant[numba-shift-order/always-forward]:
    #   - backward = dst_col[move] > src_col[move]
    #   + backward = False
    # mutant[numba-shift-order/always-backward]:
    #   - backward = dst_col[move] > src_col[move]
    #   + backward = True
    backward = dst_col[move] > src_col[move]
    for n in range(chunks):
        chunk = chunks - 1 - n if backward else n
        i = chunk * threads + cuda.threadIdx.x
        mine = i < elements
        column, d = i // dims, i % dims
        if mine:
            held = src[src_row[move], g, src_col[move] + column, d]
        # guard[numba-shift-barrier]: this thread's target may be another's source
        # mutant[numba-shift-barrier/removed]:
        #   - cuda.syncthreads()
        #   + pass
        cuda.syncthreads()
        if mine:
            dst[dst_row[move], g, dst_col[move] + column, d] = held


def kv_align(
    src: Array,
    src_row: IntArray,
    src_col: IntArray,
    dst: Array,
    dst_row: IntArray,
    dst_col: IntArray,
    length: IntArray,
) -> None:
    """src [Rs, G, Cs, D] -> dst [Rd, G, Cd, D], in place: M runs of `length` columns; src may be dst.

    Two runs of one call must not touch each other's columns. Moves must lie inside both buffers: they are on the
    device, and asking them would make the host wait. The stepper refuses a move that does not.
    """
    _, groups, _, dim = src.shape
    same("dst", dst, (dst.shape[0], groups, dst.shape[2], dim), src.dtype)
    moves = {"src_row": src_row, "src_col": src_col, "dst_row": dst_row, "dst_col": dst_col, "length": length}
    for name, array in moves.items():
        integers(name, array, len(length))
    # Fewer threads where even the longest possible run is short; the result does not depend on it.
    threads = min(THREADS, ceil_div(min(src.shape[2], dst.shape[2]) * dim, 32) * 32)
    grid = (len(length) * groups, 1, 1)
    launch(move_runs, grid, max(32, threads), src, src_row, src_col, dst, dst_row, dst_col, length)
