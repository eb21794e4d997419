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


def run_child(
    program: Path, entry: str, grid: Size, block: Size, shared: int, arguments: Sequence[Any]
) -> str:
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
    name = entry.encode()
    head = struct.pack("<i", len(name)) + name + struct.pack("<6Iqi", *grid, *block, shared, len(arguments))
    body = []
    for value in arguments:
        raw = b"" if value is None else np.asarray(value).tobytes()
        body.append(struct.pack("<q", -1 if value is None else len(raw)) + raw)
    return head + b"".join(body)


def _decode(raw: bytes, arguments: Sequence[Any]) -> None:
    at = 0
    for value in arguments:
        if value is None:
            continue
        size = np.asarray(value).nbytes
        if isinstance(value, np.ndarray) and value.flags.writeable and size:
            value.view(np.uint8).reshape(-1)[:] = np.frombuffer(raw, np.uint8, size, at)
        at += size


def _first_report(stderr: str) -> str:
    """The lines that name the fault and its place."""
    lines = stderr.splitlines()
    wanted = [i for i, line in enumerate(lines) if "WARNING: ThreadSanitizer" in line or "ERROR: AddressSanitizer" in line]
    if not wanted:
        wanted = [i for i, line in enumerate(lines) if "runtime error:" in line]
    return "\n".join(lines[wanted[0] : wanted[0] + 24]) if wanted else stderr[-2000:]
