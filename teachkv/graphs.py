"""Decode steps as CUDA graphs: the same pass as in model.py, recorded once per class of batch size and replayed.

One Python launch costs about ten microseconds, and a decode step has some three hundred of them. A graph replays them
all for the price of one. It holds pointers, so everything it reads lies in buffers that never move: the weights, the
KV rows (made once on a device) and a `Desk`, which is filled anew before each replay.

Recording takes several times as long as a step. So `record_ahead` does it at load (teachkv/warmup.py) for every class
that the seats allow; a step records only what could not be known then: graphs over buffers that are made anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from teachkv.desk import LINES, Desk
from teachkv.kv.view import Array, Geometry, IntArray, LayerView
from teachkv.masks import CausalByKernel
from teachkv.model import Model
from teachkv.placing import Part, Placed, PlacedLayer, judge

CLASSES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)


def class_of(rows: int) -> int:
    """The smallest class that holds so many rows, at most CLASSES[-1]."""
    return next(size for size in CLASSES if size >= rows)


def silent(line: str) -> None:
    """Where nobody listens."""


@dataclass(frozen=True, eq=False)
class Recorded:
    """A graph, the desk it reads and the logits [B, V] it writes."""

    graph: Any
    desk: Desk
    logits: Array


class GraphedModel(Model):
    """A `Model` whose plain decode steps are replayed. Everything else goes the ordinary way, with the same bits.

    turns: graphs of one class that take turns: 2 if a step is launched before the last one is settled.
    tell: takes one line if a graph cannot be recorded. No other is tried then; steps without one run kernel by kernel.

    All graphs have one pool and are recorded on one stream: they run one after another, so that the intermediate arrays
    of one may lie where those of another lay. Desks and logits stay in use, and are nobody else's.
    """

    def __init__(self, model: Model) -> None:
        super().__init__(model.config, model.weights, model.ops)
        self.inner = model
        self.decode_path = f"{model.decode_path}, as CUDA graphs"
        self.recorded: dict[tuple[int, ...], Recorded] = {}
        self.replays, self.turns, self.failed = 0, 1, False
        self.tell: Callable[[str], None] = silent
        self.pool: Any = None
        self.stream: Any = None

    def forward(self, tokens: IntArray, parts: Sequence[Part], logits_at: IntArray) -> Array:
        """As in Model; the logits of a replay are overwritten by the next one but `turns` - 1."""
        recorded = self.recorded_for(parts[0], len(tokens)) if self.takes(parts, logits_at) else None
        if recorded is None:
            return super().forward(tokens, parts, logits_at)
        part = parts[0]
        for geometry, window in {(id(v.geometry), w): (v.geometry, w) for v, w in self.layers(part)}.values():
            judge(part, geometry, window)  # what the masker refuses is refused here too
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

    def record_ahead(self, part: Part, rows: int) -> None:
        """Record every class that steps of at most `rows` rows need over the buffers of this part, for each turn. The
        large ones come first: the arrays of the others then fit into theirs. The part itself has no rows."""
        for size in reversed(CLASSES[: CLASSES.index(class_of(min(rows, CLASSES[-1]))) + 1]):
            for turn in range(self.turns):
                self.found_or_made(part, size, turn)

    def recorded_for(self, part: Part, rows: int) -> Recorded | None:
        """The graph for the next step, of this many rows over these buffers; None where none can be recorded."""
        size = class_of(rows)
        # guard[graphs-in-turn]: what the step before has drawn from, and its desk, stand until it has been settled
        # mutant[graphs-in-turn/one-for-all]:
        #   - turn = self.replays % self.turns
        #   + turn = 0
        turn = self.replays % self.turns
        return self.found_or_made(part, size, turn)

    def found_or_made(self, part: Part, size: int, turn: int) -> Recorded | None:
        """Recorded the first time it is asked for. What fails then is told once and costs no step."""
        # guard[graph-pointers]: a graph writes where its buffers lay when it was recorded
        # mutant[graph-pointers/by-size-only]:
        #   - key = (size, turn, *(pointer(layer.k) for layer in part.cache.layers))
        #   + key = (size, turn)
        key = (size, turn, *(pointer(layer.k) for layer in part.cache.layers))
        if key not in self.recorded and not self.failed:
            try:
                self.recorded[key] = self.record(part, size)
            except Exception as error:  # of the driver, of a compiler, of memory: the same step runs without a graph
                self.give_up(size, error)
        return self.recorded.get(key)

    def give_up(self, size: int, error: Exception) -> None:
        """Record nothing more. Steps whose graph is there already go on with it."""
        self.failed = True
        sizes = sorted({key[0] for key in self.recorded})
        rest = f"as CUDA graphs of {sizes[0]} .. {sizes[-1]} rows" if sizes else "without CUDA graphs"
        self.decode_path = f"{self.inner.decode_path}, {rest}"
        why = " ".join(str(error).split()) or "no reason given"
        self.tell(
            f"note: no CUDA graph of {size} rows could be recorded ({type(error).__name__}: {why}); "
            f"decode steps run {rest}, all others kernel by kernel"
        )

    def record(self, part: Part, size: int) -> Recorded:
        """Run once so that every kernel is compiled and every buffer has its place, then run again while recording.

        Every row is padding: nothing is written to the caches.
        """
        cupy = import_module("cupy")
        desk = Desk(self.ops.xp, size, self.config.head_dim // 2)
        desk.line(desk.there, "row").fill(-1)
        placed = [self.on_desk(part, desk)]
        tokens, tables = desk.line(desk.there, "tokens"), (desk.table(desk.there, 0), desk.table(desk.there, 1))
        everywhere = slice(0, size)  # a slice takes no copy; the logits of every row are wanted
        if self.pool is None:
            self.pool, self.stream = cupy.cuda.MemoryPool(), cupy.cuda.Stream(non_blocking=True)
        pool, stream = self.pool, self.stream
        cupy.cuda.runtime.deviceSynchronize()
        with cupy.cuda.using_allocator(pool.malloc), stream:
            self.compute(tokens, *tables, placed, everywhere)
            stream.synchronize()
            stream.begin_capture()
            try:
                logits = self.compute(tokens, *tables, placed, everywhere)
            except BaseException:
                with suppress(Exception):
                    stream.end_capture()  # what was recorded of it is of no use
                raise
            graph = stream.end_capture()
            graph.upload(stream)  # or the first replay would do it
            stream.synchronize()
        return Recorded(graph, desk, logits)

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
