"""What the fused kernels are compiled with. Chunks are those of the operations they join; the rest changes no bit."""

from __future__ import annotations

from cuda_kernels.fused.sizes import Plan, head_slots
from cuda_kernels.raw.product import chunk_of
from cuda_kernels.raw.shapes import row_threads
from cuda_kernels.raw.tiles import Tile

Defines = dict[str, int]


def qkv(dtype: int, hidden: int, heads: tuple[int, int, int], plan: Plan) -> Defines:
    """heads: (H, G, D)."""
    H, G, D = heads
    chunks = {"TKV_CHUNK": chunk_of(H * D, hidden), "TKV_CHUNK_KV": chunk_of(G * D, hidden)}
    return _normed(dtype, hidden, plan) | chunks | {"TKV_D": D}


def gate_up(dtype: int, hidden: int, width: int, plan: Plan) -> Defines:
    return _normed(dtype, hidden, plan) | {"TKV_CHUNK": chunk_of(width, hidden), "TKV_UNITS": plan.units}


def gate_up_tiles(dtype: int, width: int, tile: Tile, panel_rows: int = 0) -> Defines:
    """panel_rows: the height of the panels that the result is left in; 0 for rows one after another."""
    layout = {"TKV_PAIRS": int(width % 2 == 0), "TKV_ROWS": panel_rows}
    return {"TKV_DTYPE": dtype, "TKV_OUT_F32": 0, "TKV_SPLIT": 0} | layout | tile.defines


def add(dtype: int, width: int, outputs: int, plan: Plan) -> Defines:
    return _plain(dtype, width, plan) | {"TKV_CHUNK": chunk_of(outputs, width), "TKV_UNITS": plan.units}


def head(dtype: int, hidden: int, plan: Plan) -> Defines:
    return _normed(dtype, hidden, plan) | {"TKV_SLOTS": head_slots(hidden), "TKV_THREADS": 32 * plan.warps}


def _plain(dtype: int, width: int, plan: Plan) -> Defines:
    cut = {"TKV_TOKENS": plan.tokens, "TKV_STEPS": plan.steps}
    return {"TKV_DTYPE": dtype, "TKV_OUT_F32": 0, "TKV_K": width} | cut


def _normed(dtype: int, hidden: int, plan: Plan) -> Defines:
    return _plain(dtype, hidden, plan) | {"TKV_NORM_THREADS": row_threads(hidden)}
