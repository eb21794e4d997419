"""Microseconds per launch inside a CUDA graph, with more data than the L2 cache holds; cuBLAS beside it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import cupy
import ml_dtypes
import numpy as np

from cuda_kernels.registry import get

BF16 = ml_dtypes.bfloat16
MODELS = {
    "SmolLM2-135M": {"K": 576, "I": 1536, "H": 9, "G": 3, "D": 64, "V": 49152},
    "Qwen2.5-0.5B": {"K": 896, "I": 4864, "H": 14, "G": 2, "D": 64, "V": 151936},
}
CACHE_BYTES = 400_000_000
REPEATS = 15


def random(*shape: int) -> Any:
    return (cupy.random.standard_normal(shape, np.float32) * 0.5).astype(BF16)


def copies(size: int) -> int:
    """How many input sets make the data several times the L2 cache."""
    return int(min(96, max(4, CACHE_BYTES // max(size, 1))))


def microseconds(calls: list[Callable[[], Any]]) -> float:
    """Median time of one call: all of them captured once, the graph replayed."""
    cupy.cuda.Device().synchronize()  # the inputs were made on another stream
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        keep = [call() for call in calls]  # compile, and fill the memory pool
        del keep
        stream.synchronize()
        stream.begin_capture()
        held = [call() for call in calls]
        graph = stream.end_capture()
        times = []
        for _ in range(REPEATS):
            start, stop = cupy.cuda.Event(), cupy.cuda.Event()
            start.record(stream)
            graph.launch(stream)
            stop.record(stream)
            stop.synchronize()
            times.append(cupy.cuda.get_elapsed_time(start, stop) * 1e3)
        del held
    return float(np.median(times[3:])) / len(calls)


def library(x: Any, weights: list[Any]) -> float:
    """cuBLAS (through PyTorch) on the same shapes; NaN where PyTorch is not installed."""
    try:
        import torch
    except ImportError:
        return float("nan")
    a = torch.randn(x.shape, device="cuda", dtype=torch.bfloat16)
    ws = [torch.randn(w.shape, device="cuda", dtype=torch.bfloat16) for w in weights]
    for w in ws[:3]:
        torch.nn.functional.linear(a, w)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        held = [torch.nn.functional.linear(a, w) for w in ws]
    times = []
    for _ in range(REPEATS):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) * 1e3)
    del held
    return float(np.median(times[3:])) / len(ws)


def show(
    name: str, us: float, bytes_moved: float = 0.0, flops: float = 0.0, cublas: float = float("nan")
) -> dict[str, Any]:
    line = {
        "name": name,
        "us": round(us, 2),
        "GB/s": round(bytes_moved / us / 1e3),
        "TFLOP/s": round(flops / us / 1e6, 1),
    }
    if cublas == cublas:
        line["cublas_us"] = round(cublas, 2)
    print(" ".join(f"{k}={v}" for k, v in line.items()), flush=True)
    return line


def linears(model: str, rows: int, lines: list[dict[str, Any]]) -> None:
    s = MODELS[model]
    for what, n, k in (
        ("q", s["H"] * s["D"], s["K"]),
        ("kv", s["G"] * s["D"], s["K"]),
        ("up", s["I"], s["K"]),
        ("down", s["K"], s["I"]),
    ):
        n_copies = copies(n * k * 2) if rows < 200 else 4
        ws, x = [random(n, k) for _ in range(n_copies)], random(rows, k)
        us = microseconds([partial(get("linear", "raw"), x, w) for w in ws])
        lines.append(
            show(
                f"{model} linear {what} [{n}, {k}] rows {rows}",
                us,
                2 * (n * k + rows * (n + k)),
                2.0 * rows * n * k,
                library(x, ws),
            )
        )


def heads(model: str, rows: int, lines: list[dict[str, Any]]) -> None:
    s = MODELS[model]
    ws, x = [random(s["V"], s["K"]) for _ in range(4)], random(rows, s["K"])
    us = microseconds([partial(get("lm_head", "raw"), x, w) for w in ws])
    size = 2 * s["V"] * s["K"] + 4 * rows * s["V"]
    lines.append(show(f"{model} lm_head rows {rows}", us, size, 2.0 * rows * s["V"] * s["K"], library(x, ws)))


def decode(model: str, name: str, lengths: Any, lines: list[dict[str, Any]]) -> None:
    s = MODELS[model]
    lengths = np.asarray(lengths, np.int32)
    B, C = len(lengths), int(-(-lengths.max() // 256) * 256)
    live = int(lengths.sum()) * s["G"] * s["D"] * 4
    n = int(min(48, max(3, CACHE_BYTES // (B * s["G"] * C * s["D"] * 4))))
    caches = [(random(B, s["G"], C, s["D"]), random(B, s["G"], C, s["D"])) for _ in range(n)]
    q, row = random(B, s["H"], s["D"]), cupy.arange(B, dtype=np.int32)
    cu, end = cupy.arange(B + 1, dtype=np.int32), cupy.full(B, lengths.max(), np.int32)
    pad = cupy.asarray(lengths.max() - lengths)
    run = get("attention_decode_ragged", "raw")
    us = microseconds([partial(run, q, *kv, cu, row, end, pad, None, 0.125) for kv in caches])
    lines.append(show(f"{model} attention_decode {name}, {int(lengths.sum())} live columns", us, live))


def prefill(model: str, B: int, length: int, lines: list[dict[str, Any]]) -> None:
    s = MODELS[model]
    k, v = random(B, s["G"], length, s["D"]), random(B, s["G"], length, s["D"])
    q, row = random(B * length, s["H"], s["D"]), cupy.arange(B, dtype=np.int32)
    cu, end = cupy.arange(B + 1, dtype=np.int32) * length, cupy.full(B, length, np.int32)
    us = microseconds([lambda: get("attention_prefill", "raw")(q, k, v, cu, row, end, None, None, 0.125)] * 4)
    flops = 4.0 * B * s["H"] * s["D"] * length * (length + 1) / 2
    lines.append(show(f"{model} attention_prefill {B} x {length}", us, 2 * (q.size * 2 + k.size * 2), flops))


def others(model: str, rows: int, lines: list[dict[str, Any]]) -> None:
    s = MODELS[model]
    K, H, G, D = s["K"], s["H"], s["G"], s["D"]
    x, weight, residual = random(rows, K), random(K), random(rows, K)
    lines.append(
        show(
            f"{model} rms_norm rows {rows}",
            microseconds([lambda: get("rms_norm", "raw")(x, weight, 1e-6, residual)] * 8),
            8 * rows * K,
        )
    )
    q, kv = random(rows, H, D), random(rows, G, D)
    cos = cupy.ones((rows, D // 2), np.float32)
    caches = [random(rows, G, 512, D) for _ in range(2)]
    row, column = cupy.arange(rows, dtype=np.int32), cupy.full(rows, 300, np.int32)
    us = microseconds([lambda: get("rope_and_append", "raw")(q, kv, kv, cos, cos, *caches, row, column)] * 8)
    lines.append(show(f"{model} rope_and_append rows {rows}", us, 2 * rows * D * (2 * H + 4 * G)))
    logits = cupy.random.standard_normal((rows, s["V"]), np.float32)
    for name, heat, k, p in (("greedy", 0.0, 0, 1.0), ("top-k 50 top-p 0.95", 1.0, 50, 0.95)):
        settings = (
            cupy.full(rows, heat, np.float32),
            cupy.full(rows, k, np.int32),
            cupy.full(rows, p, np.float32),
            cupy.zeros(rows, np.float32),
        )
        uniform = cupy.random.random(rows)
        us = microseconds([partial(get("sample", "raw"), logits, *settings, uniform)] * 4)
        lines.append(show(f"{model} sample {name} rows {rows}", us, 4.0 * rows * s["V"]))


def moves(model: str, lines: list[dict[str, Any]]) -> None:
    s = MODELS[model]
    cache = random(128, s["G"], 1024, s["D"])
    row, zero, eight, length = (
        cupy.asarray(a, np.int32) for a in (np.arange(128), np.zeros(128), np.full(128, 8), np.full(128, 1000))
    )
    us = microseconds([lambda: get("kv_align", "raw")(cache, row, zero, cache, row, eight, length)] * 4)
    lines.append(show(f"{model} kv_align 128 rows of 1000 by 8", us, 4.0 * 128 * 1000 * s["G"] * s["D"]))


def run() -> dict[str, Any]:
    """All lines; the ones that matter first, in case time runs out."""
    lines: list[dict[str, Any]] = []
    rng = np.random.default_rng(0)
    for model in ("Qwen2.5-0.5B", "SmolLM2-135M"):
        spread = {rows: rng.integers(16, 566, rows) for rows in (8, 32, 128)}
        cells: dict[str, Any] = {"B=1": [307], "B=1 long": [8192], "B=8 spread": spread[8]}
        cells |= {"B=32 uniform": [307] * 32, "B=32 spread": spread[32]}
        cells |= {"B=128 uniform": [307] * 128, "B=128 spread": spread[128], "B=128 at 2000": [2000] * 128}
        for name, lengths in cells.items():
            decode(model, name, lengths, lines)
        prefill(model, 32, 275, lines)
        prefill(model, 2, 4096, lines)
        for rows in (1, 8, 32, 128, 8800):
            linears(model, rows, lines)
        for rows in (1, 32, 128):
            heads(model, rows, lines)
            others(model, rows, lines)
        moves(model, lines)
    return {"lines": lines}


def tile_variants() -> dict[str, Any]:
    """linear_tiles in several shapes: what chose the constants in raw/tiles.py."""
    from cuda_kernels.raw.tiles import Tile

    product: Any = importlib.import_module("cuda_kernels.raw.product")

    s, lines = MODELS["Qwen2.5-0.5B"], []
    kept = product.tile_for, product.ROWS_LIMIT
    small: tuple[tuple[Any, ...], ...] = (
        (64, 32, 4, 1, 6),
        (64, 64, 2, 2, 4),
        (32, 64, 2, 2, 6),
        (32, 64, 2, 1, 6),
        (64, 32, 2, 1, 6),
    )
    large: tuple[tuple[Any, ...], ...] = (
        *((128, 64, 4, 1, 4), (128, 128, 4, 2, 3), (128, 128, 2, 4, 3), (128, 64, 2, 2, 4)),
        *((128, n, 8, 1, 4, True) for n in (64, 128, 160, 192)),
        *((192, n, 12, 1, 4, True) for n in (128, 160)),
    )
    tiles = {8800: large, 2200: large, 275: large, 128: small, 64: small, 32: small}
    for rows, shapes in tiles.items():
        product.ROWS_LIMIT = 0
        for what, n, k in (("up", s["I"], s["K"]), ("down", s["K"], s["I"]), ("q", s["K"], s["K"])):
            ws, x = [random(n, k) for _ in range(copies(n * k * 2) if rows < 200 else 4)], random(rows, k)
            for shape in shapes:
                tile = Tile(*shape)
                blocks = -(-rows // tile.bm) * -(-n // tile.bn)
                for parts in (1,) if rows > 200 else sorted({1, max(1, 264 // blocks), max(1, 800 // blocks)}):
                    product.tile_for = lambda *_, t=tile, p=parts: (t, p)
                    us = microseconds([partial(get("linear", "raw"), x, w) for w in ws])
                    lines.append(show(f"tiles {what} rows {rows} {shape} parts {parts}", us, 0, 2.0 * rows * n * k))
    product.tile_for, product.ROWS_LIMIT = kept
    return {"lines": decode_variants() + lines}


def decode_variants() -> list[dict[str, Any]]:
    """Decode with one and with two segments per block."""
    from cuda_kernels.raw import attention

    lines: list[dict[str, Any]] = []
    chosen, rng = attention.decode_segments, np.random.default_rng(0)
    for segments in (1, 2):
        attention.decode_segments = lambda *_, n=segments: n
        cells: dict[str, Any] = {"B=1": [307], "B=32 spread": rng.integers(16, 566, 32), "B=128 uniform": [307] * 128}
        cells |= {"B=128 spread": rng.integers(16, 566, 128), "B=128 at 2000": [2000] * 128}
        for name, lengths in cells.items():
            decode("Qwen2.5-0.5B", f"{segments} per block {name}", lengths, lines)
    attention.decode_segments = chosen
    return lines
