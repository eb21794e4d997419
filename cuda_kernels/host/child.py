"""One launch in a program of its own, built with a sanitizer. Arrays travel through a file and come back changed."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

Size = tuple[int, int, int]
OPTIONS = {
    "TSAN_OPTIONS": "exitcode=66:halt_on_error=0:report_signal_unsafe=0",
    "ASAN_OPTIONS": "detect_leaks=0:exitcode=67",
    "UBSAN_OPTIONS": "print_stacktrace=1:exitcode=68",
}
SECONDS = 120


def run_child(program: Path, entry: str, grid: Size, block: Size, shared: int, arguments: Sequence[Any]) -> str:
    """Run one kernel; arrays are updated in place. Returns "" or what the runtime or the sanitizer said."""
    with tempfile.TemporaryDirectory() as folder:
        inputs, outputs = Path(folder) / "in", Path(folder) / "out"
        inputs.write_bytes(_encode(entry, grid, block, shared, arguments))
        done = subprocess.run(
            [*_without_aslr(), str(program), str(inputs), str(outputs)],
            env=dict(os.environ) | OPTIONS,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        if done.returncode != 0:
            return _first_report(done.stderr) or f"{program.name} ended with {done.returncode}: {done.stderr[-2000:]}"
        _decode(outputs.read_bytes(), arguments)
    return ""


def _without_aslr() -> tuple[str, ...]:
    """ThreadSanitizer's memory map does not fit every kernel's address randomisation."""
    return ("setarch", os.uname().machine, "-R") if shutil.which("setarch") else ()


def _encode(entry: str, grid: Size, block: Size, shared: int, arguments: Sequence[Any]) -> bytes:
    """Arguments as sizes and bytes; -1 is an absent array, -2 - i the same memory as argument i."""
    name = entry.encode()
    head = struct.pack("<i", len(name)) + name + struct.pack("<6Iqi", *grid, *block, shared, len(arguments))
    body = []
    for value, same in zip(arguments, _aliases(arguments), strict=True):
        raw = b"" if value is None or same >= 0 else np.asarray(value).tobytes()
        size = -1 if value is None else -2 - same if same >= 0 else len(raw)
        body.append(struct.pack("<q", size) + raw)
    return head + b"".join(body)


def _aliases(arguments: Sequence[Any]) -> list[int]:
    """For each argument the earlier one that is the same memory, or -1."""
    seen: dict[int, int] = {}
    found = []
    for i, value in enumerate(arguments):
        known = isinstance(value, np.ndarray) and value.size > 0
        found.append(seen.setdefault(value.ctypes.data, i) if known else i)
    return [first if first != i else -1 for i, first in enumerate(found)]


def _decode(raw: bytes, arguments: Sequence[Any]) -> None:
    """Arrays come back in order, shared memory once."""
    at = 0
    for value, same in zip(arguments, _aliases(arguments), strict=True):
        if value is None or same >= 0:
            continue
        size = np.asarray(value).nbytes
        if isinstance(value, np.ndarray) and value.flags.writeable and size:
            value.view(np.uint8).reshape(-1)[:] = np.frombuffer(raw, np.uint8, size, at)
        at += size


def _first_report(stderr: str) -> str:
    """The lines that name the fault and its place."""
    lines = stderr.splitlines()
    wanted = [
        i for i, line in enumerate(lines) if "WARNING: ThreadSanitizer" in line or "ERROR: AddressSanitizer" in line
    ]
    if not wanted:
        wanted = [i for i, line in enumerate(lines) if "runtime error:" in line]
    return "\n".join(lines[wanted[0] : wanted[0] + 24]) if wanted else stderr[-2000:]
