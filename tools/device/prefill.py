"""How fast prompts go through a whole model: one packed step, uniform and spread at equal tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from teachkv.model import Model
from teachkv.placing import place
from tools.device.shelf import Shelf, ints, last_tokens

ROWS, LENGTH = 32, 275


def operations(model: Model, lengths: Any) -> float:
    """2 x non-embedding parameters x tokens, and 4 H D per pair of positions that see each other, per layer."""
    config, weights = model.config, model.weights
    parameters = sum(array.size for name, array in weights.named() if array.ndim == 2)
    parameters -= weights.embed.size + (0 if weights.tied else weights.lm_head.size)
    pairs = float(np.sum(lengths * (lengths + 1) / 2))
    attention = 4.0 * config.num_layers * config.num_heads * config.head_dim * pairs
    return 2.0 * parameters * float(np.sum(lengths)) + attention


def prefill_speed(model: Model, lengths: Any) -> dict[str, Any]:
    """One packed step, the head on each row's last token: the best of five with the host and all that it does, and the
    best of five replays of its kernels as one graph, where the device waits for nobody."""
    import cupy

    lengths = ints(lengths)
    shelf = Shelf(model, len(lengths), int(lengths.max()) + 1)
    part = shelf.part("prefill", np.arange(len(lengths)), np.zeros(len(lengths)), np.zeros(len(lengths)), lengths)
    tokens = ints(np.random.default_rng(0).integers(0, model.config.vocab_size, int(lengths.sum())))
    whole = best_ms(lambda: model.forward(tokens, [part], last_tokens(lengths)))
    cos, sin = map(cupy.asarray, model.angles([part]))
    placed, wanted = place([part], model.config.windows, cupy.asarray), cupy.asarray(last_tokens(lengths))
    given = (cupy.asarray(tokens), cos, sin, placed, wanted)
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        model.compute(*given)  # the first pass on a stream makes what is counted to zero there
        stream.synchronize()
        stream.begin_capture()
        held = model.compute(*given)
        graph = stream.end_capture()
        alone = best_ms(lambda: graph.launch(stream))
        del held
    work = operations(model, lengths.astype(np.float64)) / 1e9
    row = {"check": "prefill", "rows": len(lengths), "tokens": len(tokens), "ms": round(whole, 2)}
    row |= {"TFLOP/s": round(work / whole, 1), "tokens_per_s": round(1e3 * len(tokens) / whole)}
    return row | {"graph_ms": round(alone, 2), "graph TFLOP/s": round(work / alone, 1)}


def best_ms(call: Callable[[], Any]) -> float:
    """The best of five on the current stream, after one that is not counted."""
    import cupy

    begin, end, found = cupy.cuda.Event(), cupy.cuda.Event(), []
    for _ in range(6):
        begin.record()
        call()
        end.record()
        end.synchronize()
        found.append(float(cupy.cuda.get_elapsed_time(begin, end)))
    return min(found[1:])


def prefill_speeds(model: Model) -> list[dict[str, Any]]:
    """32 prompts of 275, and the same number of tokens in prompts of 16..534."""
    spread = np.linspace(16, 534, ROWS).astype(int)
    spread[-1] += ROWS * LENGTH - spread.sum()
    return [
        prefill_speed(model, np.full(ROWS, LENGTH)) | {"prompts": "275"},
        prefill_speed(model, spread) | {"prompts": "16..534"},
    ]
