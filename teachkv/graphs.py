"""Decode steps as CUDA graphs: the same pass as in model.py, recorded once per class of batch size and replayed.

One Python launch costs about ten microseconds, and a decode step has some three hundred of them. A graph replays them
all for the price of one. It holds pointers, so everything it reads lies in buffers that never move: the weights, the
KV rows (made once on a device) and the `Desk` below, which is filled anew before each replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from teachkv.arrivals import pinned
from teachkv.kv.view import Array, Geometry, IntArray, LayerView
from teachkv.masks import CausalByKernel
from teachkv.model import Model
from teachkv.placing import Part, Placed, PlacedLayer, judge

CLASSES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
LINES = ("tokens", "row", "lead_pad", "end", "column")


class Desk:
    """What changes from step to step, in one device buffer that is filled by one copy.

    Five lines of B int32 (LINES), then cos and sin, B * D/2 float32 each.
    """

    def __init__(self, xp: Any, rows: int, half: int) -> None:
        words = rows * (len(LINES) + 2 * half)
        self.host = pinned(xp, words, np.int32)
        self.there = xp.zeros(words, dtype=np.int32)
        self.cu_seqlens = xp.arange(rows + 1, dtype=np.int32)
        self.rows, self.half = rows, half
        self.sent = xp.cuda.Event(disable_timing=True)
        self.lines = {name: self.line(self.host, name) for name in LINES}
        self.tables = [self.table(self.host, which) for which in (0, 1)]

    def line(self, buffer: Array, name: str) -> Array:
        at = LINES.index(name) * self.rows
        return buffer[at : at + self.rows]

    def table(self, buffer: Array, which: int) -> Array:
        """cos (0) or sin (1) as float32 [B, D/2]."""
        start = self.rows * (len(LINES) + which * self.half)
        return buffer[start : start + self.rows * self.half].view(np.float32).reshape(self.rows, self.half)

    def fill(self, tokens: Array, geometry: Geometry, cos: Array, sin: Array) -> None:
        """Rows that the step does not use are padding: buffer row -1, which kernels skip. Tokens that lie on the device
        are copied there, in the same stream: nobody need know them yet."""
        self.sent.synchronize()  # after a step that broke off the last copy may still be reading
        count = len(tokens)
        pads = 0 if geometry.lead_pad is None else geometry.lead_pad
        values = {"row": geometry.row, "lead_pad": pads, "end": geometry.end, "column": geometry.column}
        self.host[:] = 0
        self.lines["row"][count:] = -1
        here = isinstance(tokens, np.ndarray)
        if here:
            self.lines["tokens"][:count] = tokens
        for name, value in values.items():
            self.lines[name][:count] = value
        self.tables[0][:count] = cos
        self.tables[1][:count] = sin
        self.there.data.copy_from_host_async(self.host.ctypes.data, self.there.nbytes)
        self.sent.record()
        if not here:  # the line of tokens comes first
            self.there.data.copy_from_device_async(tokens.data, tokens.nbytes)


@dataclass(frozen=True, eq=False)
class Recorded:
    """A graph, the desk it reads and the logits [B, V] it writes. `pool` keeps its intermediate arrays alive."""

    graph: Any
    desk: Desk
    logits: Array
    pool: Any


class GraphedModel(Model):
    """A `Model` whose plain decode steps are replayed. Everything else goes the ordinary way, with the same bits."""

    def __init__(self, model: Model) -> None:
        super().__init__(model.config, model.weights, model.ops)
        self.inner = model
        self.decode_path = f"{model.decode_path}, as CUDA graphs"
        self.recorded: dict[tuple[int, ...], Recorded] = {}
        self.replays = 0
        self.turns = 1  # graphs of one class that take turns: 2 if a step is launched before the last one is settled

    def forward(self, tokens: IntArray, parts: Sequence[Part], logits_at: IntArray) -> Array:
        """As in Model; the logits of a replay are overwritten by the next one but `turns` - 1."""
        if not self.takes(parts, logits_at):
            return super().forward(tokens, parts, logits_at)
        part = parts[0]
        for geometry, window in {(id(v.geometry), w): (v.geometry, w) for v, w in self.layers(part)}.values():
            judge(part, geometry, window)  # what the masker refuses is refused here too
        recorded = self.recorded_for(part, len(tokens))
        cos, sin = self.angles(parts)
        recorded.desk.fill(tokens, part.cache.layers[0].geometry, cos, sin)
        recorded.graph.launch()
        self.replays += 1
        return recorded.logits[: len(tokens)]

    def compute(
        self, tokens: Array, cos: Array, sin: Array, parts: Sequence[Placed], logits_at: Array | slice
    ) -> Array:
        """The pass of the model that was given, plain or fused."""
        return self.inner.compute(tokens, cos, sin, parts, logits_at)

    def takes(self, parts: Sequence[Part], logits_at: IntArray) -> bool:
        """One part of one-token rows, all layers of one geometry, one row of logits per token."""
        if len(parts) != 1 or parts[0].kind != "decode" or parts[0].bias is not None:
            return False
        part, rows = parts[0], len(parts[0].cu_seqlens) - 1
        shared = all(layer.geometry is part.cache.layers[0].geometry for layer in part.cache.layers)
        return shared and int(part.cu_seqlens[-1]) == rows == len(logits_at) <= CLASSES[-1]

    def layers(self, part: Part) -> list[tuple[LayerView, int | None]]:
        return list(zip(part.cache.layers, self.config.windows, strict=True))

    def recorded_for(self, part: Part, rows: int) -> Recorded:
        """The graph for this many rows over these buffers; recorded the first time."""
        size = next(c for c in CLASSES if c >= rows)
        # guard[graphs-in-turn]: what the step before has drawn from, and its desk, stand until it has been settled
        # mutant[graphs-in-turn/one-for-all]:
        #   - turn = self.replays % self.turns
        #   + turn = 0
        turn = self.replays % self.turns
        # guard[graph-pointers]: a graph writes where its buffers lay when it was recorded
        # mutant[graph-pointers/by-size-only]:
        #   - key = (size, turn, *(pointer(layer.k) for layer in part.cache.layers))
        #   + key = (size, turn)
        key = (size, turn, *(pointer(layer.k) for layer in part.cache.layers))
        if key not in self.recorded:
            self.recorded[key] = self.record(part, size)
        return self.recorded[key]

    def record(self, part: Part, size: int) -> Recorded:
        """Run once so that every kernel is compiled and every buffer has its place, then run again while recording."""
        cupy = import_module("cupy")
        desk = Desk(self.ops.xp, size, self.config.head_dim // 2)
        desk.line(desk.there, "row").fill(-1)
        placed = [self.on_desk(part, desk)]
        tokens, tables = desk.line(desk.there, "tokens"), (desk.table(desk.there, 0), desk.table(desk.there, 1))
        everywhere = slice(0, size)  # a slice takes no copy; the logits of every row are wanted
        pool = cupy.cuda.MemoryPool()
        stream = cupy.cuda.Stream(non_blocking=True)
        cupy.cuda.runtime.deviceSynchronize()
        with cupy.cuda.using_allocator(pool.malloc), stream:
            self.compute(tokens, *tables, placed, everywhere)
            stream.synchronize()
            stream.begin_capture()
            logits = self.compute(tokens, *tables, placed, everywhere)
            graph = stream.end_capture()
        return Recorded(graph, desk, logits, pool)

    def on_desk(self, part: Part, desk: Desk) -> Placed:
        """The part over the desk's lines. Kernels are told the lead pads in any case; zeros say what no pads say."""
        line = {name: desk.line(desk.there, name) for name in LINES}
        where = Geometry(line["row"], line["lead_pad"], line["end"], line["column"])
        layers = tuple(
            PlacedLayer(LayerView(view.k, view.v, where), line["row"], CausalByKernel(line["lead_pad"], window))
            for view, window in self.layers(part)
        )
        return Placed("decode", slice(0, desk.rows), desk.cu_seqlens, layers)


def pointer(array: Any) -> int:
    """Where a device array lies."""
    return int(array.data.ptr)
