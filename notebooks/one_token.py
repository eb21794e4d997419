"""For the first lesson: a recorder between the model and its operations, and a twin of the whole pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from room import Room

from cuda_kernels.registry import OPS
from teachkv.checkpoint.builtin import tiny
from teachkv.checkpoint.loaded import LoadedModel
from teachkv.observe.scenes import Scene, op_scene

F64 = NDArray[np.float64]
# What a layer computes, in the order of the model: the name of each operation's result.
LAYER = (
    "attention norm", "q", "k", "v", "rotate and append", "attention", "attention out",
    "mlp norm", "gate", "up", "down",
)  # fmt: skip


@dataclass(frozen=True)
class Step:
    """One operation: its input arrays as they were before it, and its result."""

    op: str
    name: str
    inputs: tuple[Any, ...]
    output: Any


class Recorder:
    """A room whose model writes down every operation of a pass."""

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded, self.room = loaded, Room(loaded)
        self.ops, self.steps = self.room.model.ops, list[Step]()
        layers = [f"layer {i} {name}" for i in range(loaded.config.num_layers) for name in LAYER]
        self.names = ["embedding", *layers, "last norm", "logits"]
        watched = {op: self._watched(op) for op in OPS if not op.startswith("kv_")}
        self.room.model.ops = replace(self.ops, **watched, joined=None)  # every layer on its own

    def run(self, text: Sequence[int]) -> Any:
        """Logits [1, V] after the last token of one prompt."""
        return np.stack([self.room.prefill({0: list(text)})[0]])

    def find(self, name: str) -> Step:
        return next(step for step in self.steps if step.name == name)

    def _watched(self, op: str) -> Callable[..., Any]:
        plain = getattr(self.ops, op)

        def call(*args: Any, **options: Any) -> Any:
            before = tuple(arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args)
            result = plain(*args, **options)
            name = self.names[len(self.steps)]
            shown = args[0] if result is None else result  # rotation works in place, on the queries
            self.steps.append(Step(op, name, before, shown.copy()))
            return result

        return call


def twin_pass(loaded: LoadedModel, text: Sequence[int]) -> dict[str, F64]:
    """The same pass in float64 for one sequence of T tokens, from the formulas; tensors by the recorder's names.

    Written for rope without scaling and full attention, as in `tiny`.
    """
    config, weights = loaded.config, loaded.weights
    heads, groups, dim = config.num_heads, config.num_kv_heads, config.head_dim
    told: dict[str, F64] = {}

    def norm(x: F64, weight: Any) -> F64:
        return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + config.rms_eps) * np.asarray(weight, np.float64)

    def dense(x: F64, weight: Any, bias: Any = None) -> F64:
        y = x @ np.asarray(weight, np.float64).T
        return y if bias is None else y + np.asarray(bias, np.float64)

    def turn(x: F64) -> F64:
        """x [T, heads, D]: each pair (i, i + D/2) turns by position / theta^(2i/D)."""
        angle = np.arange(len(x))[:, None] / config.rope.theta ** (np.arange(0, dim, 2) / dim)
        cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
        a, b = x[..., : dim // 2], x[..., dim // 2 :]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    x = told["embedding"] = np.asarray(weights.embed, np.float64)[list(text)]
    for index, layer in enumerate(weights.layers):
        here = f"layer {index} "
        h = told[here + "attention norm"] = norm(x, layer.input_norm)
        q, k, v = (
            told.setdefault(here + name, dense(h, getattr(layer, name), getattr(layer, f"{name}_bias")))
            for name in "qkv"
        )
        q, k, v = (part.reshape(len(x), -1, dim) for part in (q, k, v))
        q, k = turn(q), turn(k)
        mixed = np.zeros_like(q)
        for head in range(heads):
            group = head // (heads // groups)
            scores = q[:, head] @ k[:, group].T / np.sqrt(dim)
            scores[np.triu_indices(len(x), 1)] = -np.inf
            shares = np.exp(scores - scores.max(axis=1, keepdims=True))
            mixed[:, head] = shares / shares.sum(axis=1, keepdims=True) @ v[:, group]
        told[here + "attention"] = mixed
        x = told[here + "attention out"] = x + dense(mixed.reshape(len(x), -1), layer.o, layer.o_bias)
        h = told[here + "mlp norm"] = norm(x, layer.post_norm)
        gate = told[here + "gate"] = dense(h, layer.gate)
        h = told[here + "up"] = gate / (1 + np.exp(-gate)) * dense(h, layer.up)
        x = told[here + "down"] = x + dense(h, layer.down)
    last = told["last norm"] = norm(x[-1:], weights.norm)
    told["logits"] = dense(last, weights.lm_head)
    return told


def played(text: Sequence[int]) -> Scene:
    """The pass of `tiny` over one prompt beside its twin, for the player."""
    recorder = Recorder(tiny())
    recorder.run(text)
    return op_scene([(step.op, step.name, step.output) for step in recorder.steps], twin_pass(recorder.loaded, text))
