"""Every raw op on the device against float64 on fresh random inputs, with poison wherever nothing may be read."""

from __future__ import annotations

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
    bits: dict[str, Any] = field(default_factory=dict)

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
