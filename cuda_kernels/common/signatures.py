"""The signature of every operation: what each telling must accept and return.

Letters: T tokens, B rows, H query heads, G KV heads, D head dim, K and N linear in and out, V vocabulary, R buffer
rows, C columns, M moves. Geometry arrays are int32. Arrays are C-contiguous unless a spec says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cuda_kernels.common.types import F32, F64, Array, IntArray


class Embed(Protocol):
    """tokens [T], table [V, K] -> [T, K]"""

    def __call__(self, tokens: IntArray, table: Array) -> Array: ...


class RmsNorm(Protocol):
    """x [T, K], weight [K], residual [T, K] -> [T, K]; x += residual in place first"""

    def __call__(self, x: Array, weight: Array, eps: float, residual: Array | None = None) -> Array: ...


class QkNorm(Protocol):
    """x [T, H, D], weight [D] -> [T, H, D]"""

    def __call__(self, x: Array, weight: Array, eps: float) -> Array: ...


class Linear(Protocol):
    """x [T, K], w [N, K], bias [N], gate [T, N], residual [T, N] -> [T, N]"""

    def __call__(
        self,
        x: Array,
        w: Array,
        bias: Array | None = None,
        gate: Array | None = None,
        residual: Array | None = None,
    ) -> Array: ...


class Linears(Protocol):
    """x [T, K], weights [N, K] each, biases [N] or None each -> [T, N] each"""

    def __call__(self, x: Array, weights: Sequence[Array], biases: Sequence[Array | None]) -> list[Array]: ...


class GateUp(Protocol):
    """x [T, K], gate and up [F, K], biases [F] or None -> silu(gate(x)) * up(x), [T, F]"""

    def __call__(self, x: Array, gate: Array, up: Array, gate_bias: Array | None, up_bias: Array | None) -> Array: ...


@dataclass(frozen=True)
class Joined:
    """Linear layers of the same x that a backend runs in one go, with the bits they have one by one."""

    linears: Linears
    gate_up: GateUp


class RopeAndAppend(Protocol):
    """q [T, H, D] rotated in place; rotated k and plain v [T, G, D] written to caches [R, G, C, D]"""

    def __call__(
        self,
        q: Array,
        k: Array,
        v: Array,
        cos: F32,
        sin: F32,
        k_cache: Array,
        v_cache: Array,
        row: IntArray,
        column: IntArray,
    ) -> None: ...


class Attention(Protocol):
    """q [T, H, D], caches [R, G, C, D], cu_seqlens [B+1], row, end, lead_pad [B], bias [B, 1, n, C'] -> [T, H, D]"""

    def __call__(
        self,
        q: Array,
        k_cache: Array,
        v_cache: Array,
        cu_seqlens: IntArray,
        row: IntArray,
        end: IntArray,
        lead_pad: IntArray | None = None,
        window: int | None = None,
        scale: float = 1.0,
        bias: F32 | None = None,
    ) -> Array: ...


class LmHead(Protocol):
    """x [T, K], w [V, K] -> float32 [T, V]"""

    def __call__(self, x: Array, w: Array) -> F32: ...


class Sample(Protocol):
    """logits [B, V] float32 and per-row settings [B] -> tokens [B]; greedy at temperature 0, ties to the lowest id"""

    def __call__(
        self,
        logits: F32,
        temperature: F32,
        top_k: IntArray,
        top_p: F32,
        min_p: F32,
        uniform: F64,
    ) -> IntArray: ...


class KvAlign(Protocol):
    """src [Rs, G, Cs, D], dst [Rd, G, Cd, D], moves [M]: copy runs of columns in place in dst"""

    def __call__(
        self,
        src: Array,
        src_row: IntArray,
        src_col: IntArray,
        dst: Array,
        dst_row: IntArray,
        dst_col: IntArray,
        length: IntArray,
    ) -> None: ...


class KvStrip(Protocol):
    """cache [R, G, C, D] -> an owned [G, stop - start, D]"""

    def __call__(self, cache: Array, row: int, start: int, stop: int) -> Array: ...


class KvGather(Protocol):
    """cache [R, G, C, D] -> owned [blocks, G, block_tokens, D]"""

    def __call__(self, cache: Array, row: int, start: int, blocks: int, block_tokens: int) -> Array: ...


class KvScatter(Protocol):
    """blocks [n, G, block_tokens, D] -> cache [R, G, C, D], in place"""

    def __call__(self, blocks: Array, cache: Array, row: int, start: int) -> None: ...
