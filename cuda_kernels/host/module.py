"""A kernel's host build, called on NumPy arrays: in this process, or under a sanitizer in a child."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from cuda_kernels.host.build import build
from cuda_kernels.host.child import run_child
from cuda_kernels.raw.source import Source

VARIANT = "TEACHKV_HOST_VARIANT"
Size = tuple[int, int, int]


class HostError(RuntimeError):
    """A kernel broke a rule on the host: out of bounds, misaligned, a barrier that not all threads reach, a race."""


class _Argument(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("bytes", ctypes.c_longlong))


class _Launch(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_longlong),
        ("kernel", ctypes.c_char_p),
        ("error", ctypes.c_char_p),
    )


ACCESS = np.dtype(
    [
        ("block", "i4"),
        ("thread", "i4"),
        ("array", "i4"),
        ("write", "i4"),
        ("offset", "i8"),
        ("bytes", "i8"),
        ("order", "i8"),
    ]
)
Recorded = list[tuple[str, Size, Size, tuple[str, ...], "np.ndarray[Any, Any]"]]
_recorder: Recorded | None = None


@contextmanager
def recording() -> Iterator[Recorded]:
    """Every host launch inside appends (kernel, grid, block, array names, accesses [n] of dtype ACCESS)."""
    global _recorder
    before, _recorder = _recorder, []
    try:
        yield _recorder
    finally:
        _recorder = before


class HostModule:
    """All kernels of one source file, compiled for this CPU."""

    def __init__(self, text: Source, defines: dict[str, int]) -> None:
        self._text, self._defines = text, defines
        self._libraries: dict[str, ctypes.CDLL] = {}

    def prepare(
        self, entry: str, grid: Size, block: Size, shared: int, arrays: int, scalars: Sequence[Any], *, early: bool
    ) -> Callable[[Sequence[Any]], None]:
        """A launch that waits for its arrays. Kernels never overlap here."""
        return lambda given: self.run(entry, grid, block, shared, [*given, *scalars])

    def run(self, entry: str, grid: Size, block: Size, shared: int, arguments: Sequence[Any]) -> None:
        """Run every block to its end. Raises HostError with the kernel's file and line."""
        variant = os.environ.get(VARIANT, "plain")
        if variant != "plain":
            message = run_child(build(self._text, entry, self._defines, variant), entry, grid, block, shared, arguments)
        else:
            message = self._here(entry, grid, block, shared, arguments)
        if message:
            raise HostError(message)

    def _here(self, entry: str, grid: Size, block: Size, shared: int, arguments: Sequence[Any]) -> str:
        library = self._libraries.get(entry)
        if library is None:
            library = self._libraries[entry] = ctypes.CDLL(str(build(self._text, entry, self._defines)))
        error = ctypes.create_string_buffer(1024)
        launch = _Launch(grid, block, shared, entry.encode(), ctypes.cast(error, ctypes.c_char_p))
        packed, keep = pack(arguments)
        library.host_trace(1 if _recorder is not None else 0)
        failed = getattr(library, f"host_run_{entry}")(packed, ctypes.byref(launch))
        if _recorder is not None:
            names = tuple(p.name for p in self._text.kernels[entry].parameters if p.code is None)
            _recorder.append((entry, grid, block, names, _accesses(library)))
        del keep
        return error.value.decode() if failed else ""


def _accesses(library: ctypes.CDLL) -> np.ndarray[Any, Any]:
    """What the last launch recorded."""
    library.host_trace_size.restype = ctypes.c_longlong
    library.host_trace_data.restype = ctypes.c_void_p
    size = library.host_trace_size() * ACCESS.itemsize
    raw = ctypes.string_at(library.host_trace_data(), size) if size else b""
    return np.frombuffer(raw, ACCESS).copy()


def pack(arguments: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Arguments as the runtime's Argument records, and what must stay alive meanwhile."""
    packed = (_Argument * len(arguments))()
    keep: list[Any] = []
    for slot, value in zip(packed, arguments, strict=True):
        if value is None:
            continue
        array = np.atleast_1d(np.asarray(value))
        keep.append(array)
        slot.data, slot.bytes = array.ctypes.data, array.nbytes
    return packed, keep
