"""What the player plays besides the steps of an engine: a pass operation by operation, a kernel thread by thread.

A scene is plain data whose `kind` names the view (player/ops.js, player/threads.js), with a line of text per frame.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from teachkv.errors import OptionError

COLUMNS = 64  # of a tensor's last axis are drawn


@dataclass(frozen=True)
class Scene:
    """`data` for the player, `lines` for whoever has no scripts: one per frame."""

    data: dict[str, Any]
    lines: tuple[str, ...]


def op_scene(steps: Sequence[tuple[str, str, NDArray[Any]]], twin: Mapping[str, NDArray[Any]]) -> Scene:
    """(op, name, result) of every operation, against the twin's tensor of the same name where it has one.

    Tensors are [T, ...]; drawn are the first 64 of the other axes laid out in one. Values are rounded to what a picture
    shows. Raises OptionError for no operation, and for a twin's tensor of another shape.
    """
    if not steps:
        raise OptionError("op_scene: no operation was recorded; run the pass first")
    ops = [_operation(op, name, np.asarray(result), twin.get(name)) for op, name, result in steps]
    return Scene({"kind": "ops", "ops": ops}, tuple(_op_line(op) for op in ops))


def _operation(op: str, name: str, result: NDArray[Any], right: NDArray[Any] | None) -> dict[str, Any]:
    flat = result.reshape(len(result), -1).astype(np.float64)
    told: dict[str, Any] = {
        "op": op,
        "name": name,
        "shape": list(result.shape),
        "cells": rounded(flat),
        "diff": None,
        "off": None,
    }
    if right is not None:
        if np.size(right) != flat.size:
            raise OptionError(f"op_scene: {name} is {result.shape}, the twin's {right.shape}")
        off = np.abs(flat - np.asarray(right, np.float64).reshape(flat.shape))
        told |= {"diff": float(f"{off.max():.1e}"), "off": rounded(off)}
    return told


def rounded(flat: NDArray[np.float64]) -> list[list[float]]:
    return [[float(f"{value:.1e}") for value in row[:COLUMNS]] for row in flat]


def _op_line(op: Mapping[str, Any]) -> str:
    told = "not in the twin" if op["diff"] is None else f"off by {op['diff']:.1e}"
    return f"{op['name']} ({op['op']}): {told}"


def thread_scene(
    trace: Mapping[str, Any], blocks: Sequence[int] | None = None, arrays: Sequence[str] | None = None
) -> Scene:
    """A kernel's trace (KernelTrace.to_dict()), one frame per turn: what one thread touches before another one does.

    `blocks`, `arrays`: of these blocks, of the arrays so named only. Raises OptionError if nothing is touched then.
    """
    frames, launches = [], []
    for number, launch in enumerate(trace["launches"]):
        launches.append({key: launch[key] for key in ("kernel", "grid", "block", "arrays")})
        wanted = {i for i, one in enumerate(launch["arrays"]) if arrays is None or one["name"] in arrays}
        kept = (t for t in launch["touches"] if t[2] in wanted and (blocks is None or t[0] in blocks))
        for (block, thread), touches in groupby(kept, key=lambda touch: (touch[0], touch[1])):
            told = [[touch[2], int(touch[3]), touch[4], touch[5]] for touch in touches]
            frames.append({"launch": number, "block": block, "thread": thread, "touches": told})
    if not frames:
        limits = f"blocks {blocks}, arrays {arrays}"
        raise OptionError(f"thread_scene: nothing of {trace['op']} is touched in {limits}; leave them out to see all")
    lines = tuple(_turn_line(launches[frame["launch"]], frame) for frame in frames)
    return Scene({"kind": "threads", "launches": launches, "live": list(trace["live"]), "frames": frames}, lines)


def _turn_line(launch: Mapping[str, Any], frame: Mapping[str, Any]) -> str:
    counts: dict[str, int] = {}
    for array, write, _, length in frame["touches"]:
        key = f"{'writes' if write else 'reads'} {launch['arrays'][array]['name']}"
        counts[key] = counts.get(key, 0) + length
    told = ", ".join(f"{key} ({count} numbers)" for key, count in counts.items())
    return f"{launch['kernel']}, block {frame['block']}, thread {frame['thread']}: {told}"
