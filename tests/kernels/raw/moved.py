"""Kernel calls on arrays that live elsewhere: moved there before a call, back behind it.

Each array lies there between zeros. What a kernel reads past an end is then a number, whatever the memory held before,
and what it writes past an end is seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cuda_kernels.fused import launch
from cuda_kernels.fused.joined import JOINED
from cuda_kernels.registry import get
from tests.kernels.raw import cases, probes

BESIDE = 1024  # elements before and behind: as well aligned as the array itself


class Place:
    """`to` takes a NumPy array there, `back` brings it home."""

    def __init__(self, to: Callable[[Any], Any], back: Callable[[Any], Any]) -> None:
        self._to, self._back = to, back

    def call(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function for NumPy arrays; those that it changes are changed here too."""

        def run(*given: Any, **named: Any) -> Any:
            known: dict[int, tuple[Any, Any]] = {}
            out = function(*self._over(given, known), **{name: self._over(a, known) for name, a in named.items()})
            for home, room in known.values():
                brought = self._back(room)
                assert not brought[:BESIDE].any(), "written before an array"
                assert not brought[BESIDE + home.size :].any(), "written behind an array"
                home[...] = _inner(brought, home)
            return None if out is None else self._back(out)

        return run

    def _over(self, value: Any, known: dict[int, tuple[Any, Any]]) -> Any:
        """An array's twin there, the same one each time; in tuples and records too."""
        if isinstance(value, np.ndarray):
            if id(value) not in known:
                room = np.zeros(value.size + 2 * BESIDE, value.dtype)
                _inner(room, value)[...] = value
                known[id(value)] = value, self._to(room)
            return _inner(known[id(value)][1], value)
        if isinstance(value, tuple):
            return tuple(self._over(part, known) for part in value)
        if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **{f.name: self._over(getattr(value, f.name), known) for f in fields(value)})
        return value


def _inner(room: Any, array: Any) -> Any:
    return room[BESIDE : BESIDE + array.size].reshape(array.shape)


def move_probes(monkeypatch: pytest.MonkeyPatch, place: Place) -> None:
    """From now on the raw kernels of the probes run there."""

    def moved(op: str, telling: str) -> Any:
        return place.call(get(op, telling)) if telling == "raw" else get(op, telling)

    monkeypatch.setattr(probes, "get", moved)
    monkeypatch.setattr(cases, "get", moved)
    fused = SimpleNamespace(QKV=launch.QKV, qkv=place.call(launch.qkv), gate_up=place.call(launch.gate_up))
    monkeypatch.setattr(probes, "launch", fused)
    monkeypatch.setattr(probes, "JOINED", SimpleNamespace(gate_up=place.call(JOINED.gate_up)))
