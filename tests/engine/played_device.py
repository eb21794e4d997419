"""A device played by NumPy, graphs included: recorded are the calls of operations, and a replay makes them again.

Arrays tell where they lie, as CuPy's do. Between `begin_capture` and `end_capture` every operation is noted with its
arguments and what it returned; `launch` calls it again with the same arrays and writes into the ones it returned.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cuda_kernels.common.signatures import Joined
from cuda_kernels.registry import OPS, Ops
from teachkv import LLM

Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], Any]


class Data:
    """What CuPy's `array.data` offers of a device array."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.ptr = array, array.ctypes.data

    def copy_from_host_async(self, source: int, nbytes: int) -> None:
        np.ctypeslib.ctypes.memmove(self.ptr, source, nbytes)


class Lying(np.ndarray):
    """An array that says where it lies."""

    @property
    def data(self) -> Any:
        return Data(self)

    def get(self, out: np.ndarray, blocking: bool = True) -> None:
        out[:] = self


def lying(array: Any) -> Any:
    return np.asarray(array).view(Lying)


class Module(SimpleNamespace):
    """Names of a module; it is a key, as modules are."""

    __hash__ = object.__hash__


@dataclass
class Graph:
    """The calls of one recorded pass."""

    device: "Device"
    calls: list[Call]

    def upload(self, stream: Any) -> None:
        self.device.uploads += 1

    def launch(self) -> None:
        self.device.launches += 1
        for op, args, named, out in self.calls:
            made = op(*args, **named)
            for old, new in zip(arrays(out), arrays(made), strict=True):
                old[...] = new


def arrays(made: Any) -> list[Any]:
    """The arrays that an operation returned: none, one or several."""
    return [] if made is None else list(made) if isinstance(made, list | tuple) else [made]


@dataclass
class Device:
    """CuPy as far as the engine uses it, and counts of what was done. refuses: called as a recording begins."""

    refuses: Callable[["Device"], None] = lambda device: None
    recorded: int = 0
    uploads: int = 0
    launches: int = 0
    pools: int = 0
    compiled: set[str] = field(default_factory=set)
    calls: list[Call] | None = None

    def begin(self) -> None:
        assert self.calls is None, "two recordings at a time"
        self.calls = []
        self.refuses(self)

    def end(self) -> Graph:
        assert self.calls is not None, "nothing is being recorded"
        calls, self.calls = self.calls, None
        self.recorded += 1
        return Graph(self, calls)

    def noting(self, name: str, op: Callable[..., Any]) -> Callable[..., Any]:
        """The operation; its kernel is compiled by the first call, which must be none that is recorded."""

        def called(*args: Any, **named: Any) -> Any:
            assert self.calls is None or name in self.compiled, f"{name} would be compiled while a graph is recorded"
            self.compiled.add(name)
            made = op(*args, **named)
            out = None if made is None else [lying(a) for a in made] if isinstance(made, list) else lying(made)
            if self.calls is not None:
                self.calls.append((op, args, named, out))
            return out

        return called

    def ops(self, real: Ops) -> Ops:
        named: dict[str, Any] = {name: self.noting(name, getattr(real, name)) for name in OPS}
        if real.joined is not None:
            linears, gate_up = real.joined.linears, real.joined.gate_up
            named["joined"] = Joined(self.noting("linears", linears), self.noting("gate_up", gate_up))
        return replace(real, xp=self.xp(), **named)

    def xp(self) -> Any:
        makers = ("zeros", "full", "arange", "asarray", "array", "empty", "stack", "maximum", "concatenate")
        made = {name: (lambda maker: lambda *a, **k: lying(maker(*a, **k)))(getattr(np, name)) for name in makers}
        event = SimpleNamespace(synchronize=lambda: None, record=lambda: None)
        cuda = SimpleNamespace(Event=lambda **_: event)
        return Module(**made, cuda=cuda, dtype=np.dtype, asnumpy=np.asarray, int32=np.int32)

    def cupy(self) -> Any:
        def pool() -> Any:
            self.pools += 1
            return SimpleNamespace(malloc=None, total_bytes=lambda: 3 << 20)

        cuda = SimpleNamespace(
            MemoryPool=pool,
            using_allocator=lambda malloc: Stream(self),
            Stream=lambda **_: Stream(self),
            runtime=SimpleNamespace(deviceSynchronize=lambda: None, memGetInfo=lambda: (1 << 26, 1 << 34)),
        )
        return SimpleNamespace(cuda=cuda)


@dataclass
class Stream:
    """A stream, and any other context that only has to be entered."""

    device: Device

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def synchronize(self) -> None:
        assert self.device.calls is None, "one cannot wait for a stream that records"

    def begin_capture(self) -> None:
        self.device.begin()

    def end_capture(self) -> Graph:
        return self.device.end()


def engine_on(device: Device, monkeypatch: pytest.MonkeyPatch, **options: Any) -> LLM:
    """An LLM "tiny" whose backend lives on that device."""
    from teachkv import assembly

    build = assembly.build_ops
    monkeypatch.setitem(sys.modules, "cupy", device.cupy())
    monkeypatch.setitem(sys.modules, "cupyx", SimpleNamespace(zeros_pinned=np.zeros))
    with monkeypatch.context() as patch:
        patch.setattr(assembly, "build_ops", lambda *given: device.ops(build(*given)))
        return LLM("tiny", **options)
