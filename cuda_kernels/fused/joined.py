"""Linear layers of one x in one go, for the raw kernels. Bits are those of the layers one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cuda_kernels.common.signatures import Joined
from cuda_kernels.fused import defines
from cuda_kernels.linear.raw import linear
from cuda_kernels.raw.arrays import dtype_code, empty, same
from cuda_kernels.raw.loader import Launch, Place, kernel, place_of, remembered
from cuda_kernels.raw.panels import Panels, empty_panels, panels
from cuda_kernels.raw.product import ROWS_LIMIT, chunk_of, tiled
from cuda_kernels.raw.shapes import ceil_div
from cuda_kernels.raw.tiles import Tile, tile_for, warpgroup_tile


def linears(x: Any, weights: Sequence[Any], biases: Sequence[Any]) -> list[Any]:
    """x [T, K], weights [N, K] each, biases [N] or None each -> [T, N] each."""
    return [linear(x, w, bias) for w, bias in zip(weights, biases, strict=True)]


def gate_up(x: Any, gate: Any, up: Any, gate_bias: Any, up_bias: Any) -> Any:
    """x [T, K], gate and up [F, K], biases [F] or None -> silu(gate(x)) * up(x), [T, F]; of panels, in panels.

    Many tokens take one kernel; few take two products, whose weights stream past shared memory.
    """
    (rows, width), outputs, panelled = x.shape, gate.shape[0], isinstance(x, Panels)
    beside = x.array if panelled else x
    dtype, place = dtype_code(beside), place_of(beside)
    if not panelled and (rows <= ROWS_LIMIT or not tiled(dtype, width, place.arch)):
        return linear(x, up, up_bias, gate=linear(x, gate, gate_bias))
    for name, w in (("gate", gate), ("up", up)):
        same(name, w, (outputs, width), beside.dtype)
    for name, bias in (("gate_bias", gate_bias), ("up_bias", up_bias)):
        if bias is not None:
            same(name, bias, (outputs,), beside.dtype)
    tile = warpgroup_tile(rows, 2 * outputs) if panelled else tile_for(rows, 2 * outputs, width, place.arch)[0]
    launch = _launch(place, dtype, tile, x.height if panelled else 0, rows, outputs, width)
    out = empty_panels(beside, rows, outputs, x.height) if panelled else empty(x, (rows, outputs))
    if tile.warpgroups:
        x, gate, up = panels(tile.bm, x).array, panels(tile.bn, gate, up).array, None
    launch(x, gate, up, gate_bias, up_bias, out.array if panelled else out)
    return out


@remembered
def _launch(place: Place, dtype: int, tile: Tile, panel_rows: int, rows: int, outputs: int, width: int) -> Launch:
    built = defines.gate_up_tiles(dtype, outputs, tile, panel_rows)
    tiles = kernel("fused/gate_up_tiles_kernel.cu", "gate_up_tiles", place, built)
    grid = (ceil_div(rows, tile.bm), ceil_div(outputs, tile.bn // 2), 1)
    scalars = (rows, outputs, width, chunk_of(outputs, width))
    return tiles.launch(grid, (tile.threads, 1, 1), scalars, shared=tile.shared, early=True)


JOINED = Joined(linears, gate_up)
