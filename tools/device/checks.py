"""Every raw op on the device against float64 on fresh random inputs, with poison wherever nothing may be read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import cupy
import ml_dtypes
import numpy as np

from cuda_kernels.registry import get
from tools.device.reference import attention64, linear64, norm64, rotate64

DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
LIMIT = {"float32": 2e-6, "float16": 1.2e-3, "bfloat16": 1e-2}
NAN = float("nan")


@dataclass
class Report:
    """Counts and the worst error per op and dtype."""

    failed: int = 0
    cells: int = 0
    worst: dict[str, float] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def error(self, name: str, dtype: str, out: Any, reference: Any) -> None:
        """||out - ref|| / ||ref||; NaN never passes."""
        a, b = cupy.asnumpy(out).astype(np.float64), np.asarray(reference, np.float64)
        error = float(np.linalg.norm(a - b)) / max(float(np.linalg.norm(b)), 1e-30)
        self.truth(f"{name} {dtype} error {error:.3g}", error <= LIMIT[dtype])
        key = f"{name.split()[0]} {dtype}"
        if not error <= self.worst.get(key, 0.0):
            self.worst[key] = error

    def truth(self, what: str, holds: bool) -> None:
        self.cells += 1
        if not holds:
            self.failed += 1
            self.failures.append(what)
            print("FAILED", what, flush=True)


def draw(rng: np.random.Generator, dtype: str, *shape: int) -> np.ndarray[Any, Any]:
    return rng.standard_normal(shape, np.float32).astype(DTYPES[dtype])


def bits(array: Any) -> np.ndarray[Any, Any]:
    host: np.ndarray[Any, Any] = cupy.asnumpy(array)
    return host.view(np.uint16 if host.dtype.itemsize == 2 else np.uint32)


@dataclass
class Batch:
    """A ragged batch with poisoned dead columns, on the host."""

    q: Any
    k: Any
    v: Any
    cu: Any
    row: Any
    end: Any
    pad: Any

    def device(self) -> tuple[Any, ...]:
        return tuple(cupy.asarray(a) for a in (self.q, self.k, self.v, self.cu, self.row, self.end, self.pad))


def batch(rng: np.random.Generator, dtype: str, H: int, G: int, D: int, lengths: list[int], counts: list[int]) -> Batch:
    """Row i has `lengths[i]` live columns after a random lead pad, and `counts[i]` queries at its end."""
    B, C = len(lengths), max(lengths) + 70
    pad = rng.integers(0, 65, B).astype(np.int32)
    end = (pad + np.asarray(lengths)).astype(np.int32)
    row = rng.permutation(B).astype(np.int32)
    k, v = draw(rng, dtype, B, G, C, D), draw(rng, dtype, B, G, C, D)
    for b in range(B):
        for cache in (k, v):
            cache[row[b], :, : pad[b]] = NAN
            cache[row[b], :, end[b] :] = NAN
    cu = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return Batch(draw(rng, dtype, int(cu[-1]), H, D), k, v, cu, row, end, pad)


def attention(
    report: Report,
    rng: np.random.Generator,
    dtype: str,
    H: int,
    G: int,
    D: int,
    lengths: list[int],
    counts: list[int],
    window: int | None,
) -> None:
    b = batch(rng, dtype, H, G, D, lengths, counts)
    reference = attention64(b.q, b.k, b.v, b.cu, b.row, b.end, b.pad, window, D**-0.5)
    name = f"D={D} H={H} G={G} w={window}"
    outs = [get(op, "raw")(*b.device(), window, D**-0.5) for op in ("attention_decode_ragged", "attention_prefill")]
    report.error(f"attention_decode_ragged {name}", dtype, outs[0], reference)
    report.error(f"attention_prefill {name}", dtype, outs[1], reference)
    report.truth(
        f"attention {dtype} {name}: prefill and decode differ in bits", bool((bits(outs[0]) == bits(outs[1])).all())
    )


def linear(report: Report, rng: np.random.Generator, dtype: str, T: int, N: int, K: int) -> None:
    x, w, bias, gate, residual = (draw(rng, dtype, *s) for s in ((T, K), (N, K), (N,), (T, N), (T, N)))
    dx, dw, *terms = map(cupy.asarray, (x, w, bias, gate, residual))
    report.error(
        f"linear T={T} N={N} K={K}", dtype, get("linear", "raw")(dx, dw, *terms), linear64(x, w, bias, gate, residual)
    )
    plain = get("linear", "raw")(dx, dw)
    logits = get("lm_head", "raw")(dx, dw)
    report.error(f"lm_head T={T} N={N} K={K}", "float32" if dtype == "float32" else dtype, logits, linear64(x, w))
    for rows in sorted({1, 2, min(T, 17), min(T, 33)}):
        start = int(rng.integers(0, T - rows + 1)) if rows <= T else 0
        piece = dx[start : start + rows].copy()
        for op, whole in (("linear", plain), ("lm_head", logits)):
            same = bits(get(op, "raw")(piece, dw)) == bits(whole[start : start + rows])
            report.truth(f"{op} {dtype} N={N} K={K}: rows {rows} of {T} differ in bits", bool(same.all()))


def small_ops(report: Report, rng: np.random.Generator, dtype: str, T: int, K: int, H: int, G: int, D: int) -> None:
    x, weight, residual = draw(rng, dtype, T, K), draw(rng, dtype, K), draw(rng, dtype, T, K)
    stream = cupy.asarray(x)
    out = get("rms_norm", "raw")(stream, cupy.asarray(weight), 1e-6, cupy.asarray(residual))
    summed = (x.astype(np.float32) + residual.astype(np.float32)).astype(x.dtype)
    report.truth(f"rms_norm {dtype}: the stream", bool((bits(stream) == bits(cupy.asarray(summed))).all()))
    report.error(f"rms_norm K={K}", dtype, out, norm64(summed, weight, 1e-6))
    heads, head_weight = draw(rng, dtype, T, H, D), draw(rng, dtype, D)
    report.error(
        f"qk_norm D={D}",
        dtype,
        get("qk_norm", "raw")(cupy.asarray(heads), cupy.asarray(head_weight), 1e-6),
        norm64(heads, head_weight, 1e-6),
    )
    tokens = rng.integers(0, 50, T).astype(np.int32)
    table = draw(rng, dtype, 50, K)
    report.truth(
        f"embed {dtype}",
        bool((bits(get("embed", "raw")(cupy.asarray(tokens), cupy.asarray(table))) == bits(table[tokens])).all()),
    )
    rope(report, rng, dtype, T, H, G, D)
    copies(report, rng, dtype, G, D)


def rope(report: Report, rng: np.random.Generator, dtype: str, T: int, H: int, G: int, D: int) -> None:
    q, k, v = draw(rng, dtype, T, H, D), draw(rng, dtype, T, G, D), draw(rng, dtype, T, G, D)
    angles = rng.random((T, D // 2)) * 6.28
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    k_cache, v_cache = (cupy.full((T, G, 9, D), NAN, DTYPES[dtype]) for _ in range(2))
    row, column = rng.permutation(T).astype(np.int32), rng.integers(0, 9, T).astype(np.int32)
    row[0] = -1
    turned = cupy.asarray(q)
    get("rope_and_append", "raw")(
        turned, *map(cupy.asarray, (k, v, cos, sin)), k_cache, v_cache, *map(cupy.asarray, (row, column))
    )
    report.error(f"rope_and_append D={D}", dtype, turned, rotate64(q, cos, sin))
    live = row >= 0
    written = cupy.asnumpy(k_cache)[row[live], :, column[live]]
    if live.any():
        report.error(f"rope_and_append D={D}", dtype, cupy.asarray(written), rotate64(k, cos, sin)[live])
    count = int(np.isfinite(cupy.asnumpy(v_cache).astype(np.float32)).sum())
    report.truth(f"rope_and_append {dtype}: wrote {count} values of v", count == int(live.sum()) * G * D)


def copies(report: Report, rng: np.random.Generator, dtype: str, G: int, D: int) -> None:
    for op in ("kv_align", "kv_strip", "kv_gather", "kv_scatter"):
        cache = draw(rng, dtype, 5, G, 200, D)
        device = cupy.asarray(cache)
        if op == "kv_align":
            moves = tuple(
                np.asarray(m, np.int32) for m in ([0, 1, 3], [3, 40, 0], [0, 1, 4], [20, 2, 7], [150, 160, 33])
            )
            src = (moves[0], moves[1]), (moves[2], moves[3]), moves[4]
            get(op, "raw")(device, *map(cupy.asarray, src[0]), device, *map(cupy.asarray, src[1]), cupy.asarray(src[2]))
            get(op, "spec")(cache, *src[0], cache, *src[1], src[2])
            out, expected = device, cache
        elif op == "kv_strip":
            out, expected = get(op, "raw")(device, 3, 7, 131), get(op, "spec")(cache, 3, 7, 131)
        elif op == "kv_gather":
            out, expected = get(op, "raw")(device, 3, 7, 5, 16), get(op, "spec")(cache, 3, 7, 5, 16)
        else:
            blocks = draw(rng, dtype, 4, G, 16, D)
            get(op, "raw")(cupy.asarray(blocks), device, 2, 9)
            get(op, "spec")(blocks, cache, 2, 9)
            out, expected = device, cache
        report.truth(f"{op} {dtype} D={D}", bool((bits(out) == bits(expected)).all()))


def sampling(report: Report, rng: np.random.Generator, B: int, V: int) -> None:
    logits = (rng.standard_normal((B, V)) * 3).astype(np.float32)
    logits[:, : V // 3] = np.round(logits[:, : V // 3])  # ties
    temperature = rng.choice([0.0, 0.3, 1.0, 1.7], B).astype(np.float32)
    top_k = rng.choice([0, 1, 5, 50, V], B).astype(np.int32)
    top_p, min_p = rng.choice([1.0, 0.95, 0.5], B).astype(np.float32), rng.choice([0.0, 0.05], B).astype(np.float32)
    settings = (temperature, top_k, top_p, min_p, rng.random(B))
    out = cupy.asnumpy(get("sample", "raw")(cupy.asarray(logits), *map(cupy.asarray, settings)))
    wrong = int((out != get("sample", "spec")(logits, *settings)).sum())
    # exp differs in the last place between processors; a draw within 2^-40 of a boundary may fall to the neighbour
    report.truth(f"sample B={B} V={V}: {wrong} of {B} tokens differ from the spec", wrong <= B // 200)


def invariance(
    report: Report, rng: np.random.Generator, dtype: str, H: int, G: int, D: int, placements: int
) -> dict[str, int]:
    """One row's decode, alone and among others, at random lead pads, rows and capacities: distinct bit patterns."""
    length = 300 + int(rng.integers(0, 400))
    q, k, v = draw(rng, dtype, 1, H, D), draw(rng, dtype, G, length, D), draw(rng, dtype, G, length, D)
    seen: set[bytes] = set()
    for _ in range(placements):
        B = int(rng.choice([1, 2, 5, 16]))
        b = batch(rng, dtype, H, G, D, [int(n) for n in rng.integers(1, 900, B)], [1] * B)
        slot, pad = int(rng.integers(0, B)), int(rng.integers(0, 71))
        C = max(b.k.shape[2], length + pad + int(rng.integers(0, 300)))
        caches = []
        for old, mine in ((b.k, k), (b.v, v)):
            grown = np.full((B, G, C, D), NAN, old.dtype)
            grown[:, :, : old.shape[2]] = old
            grown[b.row[slot]] = NAN
            grown[b.row[slot], :, pad : pad + length] = mine
            caches.append(grown)
        b.q[slot], b.k, b.v, b.pad[slot], b.end[slot] = q[0], *caches, pad, pad + length
        for op in ("attention_decode_ragged", "attention_prefill"):
            seen.add(bits(get(op, "raw")(*b.device(), None, D**-0.5)[slot]).tobytes())
    report.truth(f"invariance {dtype} D={D}: {len(seen)} distinct results in {placements} placements", len(seen) == 1)
    return {"placements": 2 * placements, "distinct": len(seen)}


def big_offsets(report: Report) -> None:
    """A cache of more than 2^31 elements: a marker appended at its end comes back through attention and the copies."""
    R, G, C, D = 2100, 2, 8192, 64
    k, v = (cupy.zeros((R, G, C, D), np.float16) for _ in range(2))
    q, new = cupy.ones((1, G, D), np.float16), cupy.full((1, G, D), 7.0, np.float16)
    cos, sin = cupy.ones((1, D // 2), np.float32), cupy.zeros((1, D // 2), np.float32)
    row, column = cupy.asarray([R - 1], np.int32), cupy.asarray([C - 1], np.int32)
    get("rope_and_append", "raw")(q, new, new, cos, sin, k, v, row, column)
    geometry = (cupy.asarray([0, 1], np.int32), row, cupy.asarray([C], np.int32), cupy.asarray([C - 1], np.int32))
    for op in ("attention_decode_ragged", "attention_prefill"):
        out = get(op, "raw")(q, k, v, *geometry, None, 0.125)
        report.truth(f"{op}: marker past 2^31 elements", bool((out == 7).all()))
    report.truth("kv_strip past 2^31", bool((get("kv_strip", "raw")(v, R - 1, C - 1, C) == 7).all()))
    report.truth("kv_gather past 2^31", bool((get("kv_gather", "raw")(v, R - 1, C - 16, 1, 16)[:, :, -1] == 7).all()))
    one = [cupy.asarray([n], np.int32) for n in (R - 1, C - 1, R - 1, 5, 1)]
    get("kv_align", "raw")(v, one[0], one[1], v, one[2], one[3], one[4])
    get("kv_scatter", "raw")(cupy.full((1, G, 4, D), 3.0, np.float16), v, R - 1, 8)
    report.truth("kv_align past 2^31", bool((v[R - 1, :, 5] == 7).all()))
    report.truth("kv_scatter past 2^31", bool((v[R - 1, :, 8:12] == 3).all()))


def shapes() -> Iterator[tuple[int, int, int]]:
    """(H, G, D): every group size, the tuned head dims and odd ones."""
    yield from ((2 * group, 2, 64) for group in range(1, 9))
    yield from ((6, 2, D) for D in (4, 20, 24, 36, 80, 96, 100, 128, 160, 192, 248, 256))


def run(only: str | None = None) -> dict[str, Any]:
    """The whole matrix, or one dtype of it. Poison is on."""
    os.environ["TEACHKV_POISON"] = "1"
    rng, report = np.random.default_rng(), Report()
    bit_counts: dict[str, Any] = {}
    for dtype in (only,) if only else tuple(DTYPES):
        for H, G, D in shapes():
            attention(report, rng, dtype, H, G, D, [1, 700, 64, 257, 33], [1, 1, 1, 1, 1], None)
            attention(report, rng, dtype, H, G, D, [40, 300, 129, 520], [5, 70, 129, 3], 100 if D % 3 else None)
        attention(report, rng, dtype, 14, 2, 64, [int(n) for n in rng.integers(1, 2000, 512)], [1] * 512, None)
        for T, N, K in (
            (1, 896, 896),
            (7, 128, 896),
            (130, 896, 4864),
            (300, 4864, 896),
            (40, 1003, 300),
            (3, 77, 65),
            (1500, 1000, 512),
        ):
            linear(report, rng, dtype, T, N, K)
        for T, K, H, G, D in ((1, 896, 14, 2, 64), (5, 577, 9, 3, 80), (300, 4100, 4, 1, 20), (2, 8192, 8, 8, 256)):
            small_ops(report, rng, dtype, T, K, H, G, D)
        if dtype != "float32":
            for H, G, D in ((14, 2, 64), (9, 3, 64), (8, 1, 128)):
                bit_counts[f"{dtype} H={H} G={G} D={D}"] = invariance(report, rng, dtype, H, G, D, 60)
        print(dtype, report.cells, "cells", report.failed, "failed", flush=True)
    if only not in (None, "float16"):
        return finished(report, bit_counts)
    for B, V in ((1, 17), (64, 1000), (400, 32000), (16, 151936)):
        sampling(report, rng, B, V)
    big_offsets(report)
    return finished(report, bit_counts)


def finished(report: Report, bit_counts: dict[str, Any]) -> dict[str, Any]:
    """The record, printed short."""
    for key, value in sorted(report.worst.items()):
        print(f"{key:40s} {value:.2e}")
    return {
        "cells": report.cells,
        "failed": report.failed,
        "failures": report.failures,
        "worst": report.worst,
        "bits": bit_counts,
    }


def tiny() -> None:
    """Every kernel and path once or twice, small."""
    rng, report = np.random.default_rng(0), Report()
    for dtype in DTYPES:
        for D in (20, 64, 80):
            attention(report, rng, dtype, 6, 2, D, [1, 300, 70], [1, 3, 1], None)
            attention(report, rng, dtype, 7, 1, D, [40, 70], [5, 40], 10)
        for T, N, K in ((3, 40, 200), (70, 136, 328)):
            linear(report, rng, dtype, T, N, K)
        small_ops(report, rng, dtype, 3, 100, 4, 2, 20)
    sampling(report, rng, 8, 1000)
    assert report.failed == 0, report.failures
