"""What the kernels of a fused decode step cost on this GPU, and whether they give the bits of the operations they join.

    python -m tools.device_decode --out FOLDER [--rows 1 8 32]

Each kernel runs over the weights of 24 layers in one graph, so that no weight is still in L2 from the last call.
Writes decode.json: us per call, and GB/s of the bytes of weights and keys.
"""

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cuda_kernels.fused import launch
from cuda_kernels.fused.joined import JOINED
from cuda_kernels.registry import get

HIDDEN, WIDTH, HEADS, GROUPS, DIM, VOCABULARY, LAYERS = 896, 4864, 14, 2, 64, 151936, 24
LIVE, COLUMNS = 307, 2048
EPS = 1e-6
KERNELS = ("qkv", "attention", "o", "gate_up", "down", "lm_head")


class Layers:
    """Random weights of the shape of Qwen2.5-0.5B, bfloat16, and one cache for all layers' calls each."""

    def __init__(self, cupy: Any, rows: int) -> None:
        import ml_dtypes

        self.cupy, self.rows = cupy, rows
        rng = cupy.random.default_rng(0)

        def draw(*shape: int, scale: float = 0.05) -> Any:
            return (rng.standard_normal(shape, dtype=np.float32) * scale).astype(np.dtype(ml_dtypes.bfloat16))

        def layer() -> dict[str, Any]:
            sizes = {"q": HEADS * DIM, "k": GROUPS * DIM, "v": GROUPS * DIM}
            weights = {name: draw(n, HIDDEN) for name, n in sizes.items()}
            biases = {f"{name}_bias": draw(n) for name, n in sizes.items()}
            more = {"o": draw(HIDDEN, HEADS * DIM), "gate": draw(WIDTH, HIDDEN), "up": draw(WIDTH, HIDDEN)}
            cache = {name: draw(rows, GROUPS, COLUMNS, DIM) for name in ("keys", "values")}
            return weights | biases | more | cache | {"down": draw(HIDDEN, WIDTH), "norm": draw(HIDDEN, scale=1.0)}

        self.layers = [layer() for _ in range(LAYERS)]
        self.x, self.h = draw(rows, HIDDEN, scale=1.0), draw(rows, WIDTH, scale=1.0)
        self.q, self.head = draw(rows, HEADS, DIM, scale=1.0), draw(VOCABULARY, HIDDEN)
        angles = cupy.asarray(np.random.default_rng(0).standard_normal((rows, DIM // 2)).astype(np.float32))
        self.cos, self.sin = cupy.cos(angles), cupy.sin(angles)
        self.row = cupy.arange(rows, dtype=np.int32)
        self.column = cupy.full(rows, LIVE - 1, np.int32)
        self.end, self.pad = cupy.full(rows, LIVE, np.int32), cupy.zeros(rows, np.int32)
        self.cu = cupy.arange(rows + 1, dtype=np.int32)

    def qkv(self, n: int) -> Any:
        w = self.layers[n]
        given = launch.QKV(w["norm"], w["q"], w["k"], w["v"], w["q_bias"], w["k_bias"], w["v_bias"])
        return launch.qkv(self.x, given, self.cos, self.sin, (w["keys"], w["values"]), self.row, self.column, EPS)

    def attention(self, n: int) -> Any:
        w, run = self.layers[n], get("attention_decode_ragged", "raw")
        return run(self.q, w["keys"], w["values"], self.cu, self.row, self.end, self.pad, None, 0.125)

    def o(self, n: int) -> Any:
        return launch.add(self.x, self.layers[n]["o"], None, self.x)

    def gate_up(self, n: int) -> Any:
        w = self.layers[n]
        return launch.gate_up(self.x, w["norm"], w["gate"], w["up"], None, None, EPS)

    def down(self, n: int) -> Any:
        return launch.add(self.h, self.layers[n]["down"], None, self.x)

    def lm_head(self, n: int) -> Any:
        return launch.head(self.x, self.layers[n]["norm"], self.head, EPS)

    def plain(self, name: str, n: int) -> Any:
        """The same by the operations that the fused kernel joins."""
        w, op = (
            self.layers[n],
            {name: get(name, "raw") for name in ("rms_norm", "linear", "rope_and_append", "lm_head")},
        )
        if name == "o":
            return op["linear"](self.x, w["o"], residual=self.x)
        if name == "down":
            return op["linear"](self.h, w["down"], residual=self.x)
        h = op["rms_norm"](self.x, w["norm"], EPS)
        if name == "lm_head":
            return op["lm_head"](h, self.head)
        if name == "gate_up":
            return JOINED.gate_up(h, w["gate"], w["up"], None, None)
        q, k, v = (op["linear"](h, w[i], w[f"{i}_bias"]).reshape(self.rows, -1, DIM) for i in "qkv")
        op["rope_and_append"](q, k, v, self.cos, self.sin, w["keys"], w["values"], self.row, self.column)
        return q

    def bytes_of(self, name: str) -> int:
        w = self.layers[0]
        if name == "attention":
            return 2 * self.rows * GROUPS * LIVE * DIM * 2
        names = {"qkv": ("q", "k", "v"), "o": ("o",), "gate_up": ("gate", "up"), "down": ("down",)}.get(name, ())
        return sum(int(w[i].nbytes) for i in names) or int(self.head.nbytes)


def timed(cupy: Any, call: Callable[[int], Any], count: int) -> float:
    """Microseconds per call: a graph of `count` calls, the best of several replays."""
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        for n in range(count):
            call(n)
        stream.synchronize()
        stream.begin_capture()
        for n in range(count):
            call(n)
        graph = stream.end_capture()
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        found = []
        for _ in range(12):
            begin.record(stream)
            graph.launch(stream)
            end.record(stream)
            end.synchronize()
            found.append(1e3 * cupy.cuda.get_elapsed_time(begin, end) / count)
    return float(min(found))


def bits(cupy: Any, array: Any) -> Any:
    return cupy.ascontiguousarray(array).view(np.uint8)


def equal(cupy: Any, made: Layers, name: str) -> bool:
    """Fused and plain, bit for bit; of qkv the appended columns as well."""
    w = made.layers[1]
    ours = getattr(made, name)(1)
    caches = [w["keys"].copy(), w["values"].copy()]
    for cache in (w["keys"], w["values"]):
        cache.view(np.uint16)[:, :, LIVE - 1] = 0
    theirs = made.plain(name, 1)
    same = bool((bits(cupy, ours) == bits(cupy, theirs)).all())
    if name == "qkv":
        pairs = zip(caches, (w["keys"], w["values"]), strict=True)
        same = same and all(bool((bits(cupy, a) == bits(cupy, b)).all()) for a, b in pairs)
    return same


def measured(cupy: Any, made: Layers, name: str) -> dict[str, Any]:
    line: dict[str, Any] = {"kernel": name, "rows": made.rows}
    count = LAYERS if name != "lm_head" else 4
    if name != "attention":
        line["same bits"] = equal(cupy, made, name)
        line["plain us"] = round(timed(cupy, partial(made.plain, name), count), 2)
    line["us"] = us = round(timed(cupy, getattr(made, name), count), 2)
    line["GB/s"] = round(made.bytes_of(name) / us / 1e3)
    return line


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8, 32])
    args = parser.parse_args()
    import cupy

    found: list[dict[str, Any]] = []
    for rows in args.rows:
        made = Layers(cupy, rows)
        for name in KERNELS:
            found.append(measured(cupy, made, name))
            print(found[-1], flush=True)
        (args.out / "decode.json").write_text(json.dumps(found, indent=1) + "\n")
    return int(not all(line.get("same bits", True) for line in found))


if __name__ == "__main__":
    raise SystemExit(main())
