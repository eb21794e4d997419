"""Fuzz every reader of foreign files: python -m tests.fuzz --seconds 120 --seed 0

Prints what ran and what it found, saves each finding, and ends with 1 if there is one. `--replay FILE` reads a saved
finding again. Address space is bounded, so an input that fills the memory is a finding.
"""

import argparse
import contextlib
import faulthandler
import json
import logging
import os
import platform
import random
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.fuzz.guided import Course, fuzz, how_it_ends
from tests.fuzz.readers import all_readers

MEMORY = 512 << 20  # bytes beyond what is mapped when the readers are ready


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, help="run for so long")
    parser.add_argument("--rounds", type=int, help="or for so many inputs per reader: the same ones for the same seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reader", action="append", help="only this one (may be repeated)")
    parser.add_argument("--findings", type=Path, default=Path("build/fuzz"), metavar="DIR")
    parser.add_argument("--out", type=Path, metavar="JSON", help="write a record, anew every minute")
    parser.add_argument("--replay", type=Path, metavar="FILE")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    silence_panics()
    with tempfile.TemporaryDirectory() as root:
        readers = [r for r in all_readers(Path(root)) if not options.reader or r.name in options.reader]
        if options.replay is not None:
            return replay(options.replay, readers)
        seconds = 120.0 if options.seconds is None and options.rounds is None else options.seconds
        return run([Course(reader) for reader in readers], options, seconds)


def silence_panics() -> None:
    """The tokenizers package writes its panics on stderr by itself; each one is judged here by its exception."""
    sys.stderr = os.fdopen(os.dup(2), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def replay(file: Path, readers: list[Any]) -> int:
    raw, code = file.read_bytes(), 0
    for reader in readers:
        if file.stem.rsplit("-", 1)[0] == reader.name.replace(" ", "-"):
            ending = how_it_ends(reader, raw)
            print(f"{reader.name}: {ending}")
            code |= ending not in ("read", "refused")
    return code


def run(courses: list[Course], options: argparse.Namespace, seconds: float | None) -> int:
    bound_memory()
    print(f"seed {options.seed}; readers: {', '.join(course.reader.name for course in courses)}", flush=True)
    options.findings.mkdir(parents=True, exist_ok=True)
    lasts = [keep_last(course, options.findings) for course in courses]
    begun = saved = time.monotonic()

    def alive() -> None:
        nonlocal saved
        expect_life()
        if time.monotonic() - saved > 60:
            saved = time.monotonic()
            save(courses, options, saved - begun)

    with contextlib.suppress(KeyboardInterrupt):  # ends the run as the clock does
        fuzz(courses, random.Random(options.seed), seconds=seconds, rounds=options.rounds, alive=alive)
    faulthandler.cancel_dump_traceback_later()
    for last in lasts:
        last.unlink()
    return tell(courses, options, time.monotonic() - begun)


def save(courses: list[Course], options: argparse.Namespace, used: float) -> None:
    """The findings as files, and the record."""
    for course in courses:
        for finding in course.findings.values():
            (options.findings / finding.name).write_bytes(finding.raw)
    if options.out is not None:
        options.out.write_text(json.dumps(summary(courses, options.seed, used), indent=1) + "\n")


def tell(courses: list[Course], options: argparse.Namespace, used: float) -> int:
    save(courses, options, used)
    for course in courses:
        counts = f"{course.rounds} inputs, {course.refused} refused, {len(course.inputs)} kept"
        print(f"{course.reader.name:<18} {counts}, {len(course.reached)} steps")
        for finding in course.findings.values():
            print(f"  FOUND {finding.what}\n    python -m tests.fuzz --replay {options.findings / finding.name}")
    found = sum(len(course.findings) for course in courses)
    print(f"{used:.0f} s, {sum(course.rounds for course in courses)} inputs, {found} findings")
    return 1 if found else 0


def keep_last(course: Course, folder: Path) -> Path:
    """Keep the input being read in a file, for the case that it ends the process."""
    path = folder / f"{course.reader.name.replace(' ', '-')}-last.bin"
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)

    def note(raw: bytes) -> None:
        os.pwrite(file, raw, 0)
        os.truncate(file, len(raw))

    course.note = note
    return path


def expect_life() -> None:
    """End the process with a traceback if no Python signal reaches what hangs. A batch takes seconds; a machine may be
    put to sleep for minutes.
    """
    faulthandler.dump_traceback_later(1200, exit=True, file=sys.stderr)


def bound_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
    if pages:
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, resource.RLIM_INFINITY))


def summary(courses: list[Course], seed: int, used: float) -> dict[str, Any]:
    return {
        "command": "python -m tests.fuzz",
        "seed": seed,
        "seconds": round(used),
        "cpu_seconds": round(time.process_time()),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
        "memory_bound_mib": MEMORY >> 20,
        "readers": {
            course.reader.name: {
                "inputs": course.rounds,
                "refused": course.refused,
                "kept": len(course.inputs),
                "steps_reached": len(course.reached),
            }
            for course in courses
        },
        "findings": [finding.what for course in courses for finding in course.findings.values()],
    }


if __name__ == "__main__":
    sys.exit(main())
