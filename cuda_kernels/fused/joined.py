"""Linear layers of one x in one go, for the raw kernels. Bits are those of the layers one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cuda_kernels.common.signatures import Joined
from cuda_kernels.fused import defines
from cuda_kernels.linear.raw import linear
from cuda_kernels.raw import loader
from cuda_kernels.raw.arrays import dtype_code, empty, same
from cuda_kernels.raw.panels import Panels, empty_panels, panels
from cuda_kernels.raw.product import ROWS_LIMIT, chunk_of, tiled
from cuda_kernels.raw.shapes import ceil_div
from cuda_kernels.raw.tiles import tile_for, warpgroup_tile


def linears(x: Any, weights: Sequence[Any], biases: Sequence[Any]) -> list[Any]:
    """x [T, K], weights [N, K] each, biases [N] or None each -> [T, N] each."""
    return [linear(x, w, bias) for w, bias in zip(weights, biases, strict=True)]


def gate_up(x: Any, gate: Any, up: Any, gate_bias: Any, up_bias: Any) -> Any:
    """x [T, K], gate and up [F, K], biases [F] or None -> silu(gate(x)) * up(x), [T, F]; of panels, in panels.

    Many tokens take one kernel; few take two products, whose weights stream past shared memory.
    """
    (rows, width), outputs, panelled = x.shape, gate.shape[0], isinstance(x, Panels)
    beside = x.array if panelled else x
    arch = loader.arch_of(beside)
    if not panelled and (rows <= ROWS_LIMIT or not tiled(x, arch)):
        return linear(x, up, up_bias, gate=linear(x, gate, gate_bias))
    for name, w in (("gate", gate), ("up", up)):
        same(name, w, (outputs, width), beside.dtype)
    for name, bias in (("gate_bias", gate_bias), ("up_bias", up_bias)):
        if bias is not None:
            same(name, bias, (outputs,), beside.dtype)
    tile = warpgroup_tile(rows, 2 * outputs) if panelled else tile_for(rows, 2 * outputs, width, arch)[0]
    built = defines.gate_up_tiles(dtype_code(beside), outputs, tile, x.height if panelled else 0)
    kernel = loader.kernel("fused/gate_up_tiles_kernel.cu", "gate_up_tiles", beside, built)
    out = empty_panels(beside, rows, outputs, x.height) if panelled else empty(x, (rows, outputs))
    if tile.warpgroups:
        x, gate, up = panels(tile.bm, x).array, panels(tile.bn, gate, up).array, None
    grid = (ceil_div(rows, tile.bm), ceil_div(outputs, tile.bn // 2), 1)
    filled = out.array if panelled else out
    arguments = (x, gate, up, gate_bias, up_bias, filled, rows, outputs, width, chunk_of(outputs, width))
    kernel(grid, (tile.threads, 1, 1), arguments, shared=tile.shared, early=True)
    return out


JOINED = Joined(linears, gate_up)
