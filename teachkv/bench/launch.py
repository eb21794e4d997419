"""One job, one fresh process: nothing of an earlier sample can help or harm the next."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from teachkv.bench.samples import Facts, Sample

Launcher = Callable[[dict[str, Any]], list[Sample]]
BOOT = Path(__file__).resolve().parent / "boot.py"


def launch(job: dict[str, Any]) -> list[Sample]:
    """The job's samples. A process that dies, hangs or answers nothing leaves failed ones, which are measured again."""
    with tempfile.TemporaryDirectory(prefix="teachkv-bench-") as folder:
        place, log = Path(folder), Path(folder) / "log"
        answer = place / "answer.json"
        (place / "job.json").write_text(json.dumps({**job, "answer": str(answer)}), encoding="utf-8")
        with log.open("wb") as out:
            code = run(
                [sys.executable, "-P", str(BOOT), str(place / "job.json")], out, job["limit"] * len(job["cells"]) * 2
            )
        found = json.loads(answer.read_text(encoding="utf-8")) if answer.exists() else {}
        tail = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
    if code == 0 and "samples" in found:
        return [Sample.from_json(sample) for sample in found["samples"]]
    why = found.get("failed") or (tail[0] if tail else "no word")
    return failed(job, code, f"the process ended with {code}: {why}")


def run(command: list[str], out: Any, limit: float) -> int:
    """The exit code; the process never outlives this call."""
    process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        return 124
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def failed(job: dict[str, Any], code: int, why: str) -> list[Sample]:
    """A place-holder per cell, so that a hole in the table has a reason."""
    return [
        Sample(
            arm=job["arm"]["label"],
            cell=cell,
            round=job["round"],
            position=job["position"],
            ladder=len(job["cells"]) > 1,
            kind=job["kind"],
            facts=Facts(),
            exit_code=code,
            failed=why,
        )
        for cell in job["cells"]
    ]
