"""kv_align: move runs of columns; shift, join, realign and compact are all made of it."""

from __future__ import annotations

from cuda_kernels.common.types import Array, IntArray


def kv_align(
    src: Array,
    src_row: IntArray,
    src_col: IntArray,
    dst: Array,
    dst_row: IntArray,
    dst_col: IntArray,
    length: IntArray,
) -> None:
    """src [Rs, G, Cs, D], dst [Rd, G, Cd, D], all else [M]: copy M runs of `length` columns, IN PLACE in dst.

    src may be dst and a run may overlap itself (a shift). Two runs of one call must not touch each other's columns,
    because their order is not promised. Raises ValueError for a run outside either buffer, before anything is moved.
    """
    for buffer, rows, columns in ((src, src_row, src_col), (dst, dst_row, dst_col)):
        outside = (rows < 0) | (rows >= buffer.shape[0]) | (columns < 0) | (columns + length > buffer.shape[2])
        if outside.any():
            raise ValueError(f"kv_align: runs {outside.nonzero()[0].tolist()} leave a buffer of shape {buffer.shape}")
    for i in range(len(length)):
        a, b, n = int(src_col[i]), int(dst_col[i]), int(length[i])
        run = src[src_row[i], :, a : a + n]
        dst[dst_row[i], :, b : b + n] = run.copy() if src is dst else run
