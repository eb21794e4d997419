"""A lane's verdicts as a record, beside those of the lanes that judge the same kernels without a device.

pytest --mutate --mutate-lane=gpu tests/kernels --mutate-report=json:gpu.json      # where there is a device
pytest --mutate --mutate-lane=host,tsan tests/kernels --mutate-report=json:host.json
python tests/mutate/lane_record.py gpu.json host.json "one NVIDIA H200, ..." docs/evidence/mutation-gpu-lane.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from teachkv.bench.record import save_json

RACE = "a dropped barrier: on a device it is luck whether threads meet the fault"
READS_ONLY = "it reads past the array what it then masks, which only a checked memory sees"
NO_INPUT = "no device test of this run had an input that shows it"


def why(result: dict[str, Any]) -> str:
    """Why a survivor on the device is no gap: another lane kills it."""
    if result["id"].startswith("sync-"):
        return RACE
    return READS_ONLY if result["id"] == "dead-words/tail-removed" else NO_INPUT


def record(device: dict[str, Any], host: dict[str, Any], machine: str) -> dict[str, Any]:
    """Verdicts by mutant; of a survivor also why, and the lane and test that kill it. ValueError if none does."""
    others = {result["id"]: result for result in host["results"]}
    rows = []
    for result in device["results"]:
        row = {"id": result["id"], "verdict": result["verdict"], "killer": result["killer"]}
        if not result["killer"]:
            other = others[result["id"]]
            if not other["killer"]:
                raise ValueError(f"{result['id']} survives in every lane; that is a gap")
            row |= {"why": why(result), "elsewhere": [other["lane"], other["verdict"], other["killer"]]}
        rows.append(row)
    return {
        "command": "pytest --mutate --mutate-lane=gpu tests/kernels --mutate-report=json:gpu.json",
        "machine": machine,
        "tests": device["controls"]["baseline"],
        "mutants": len(rows),
        "killed": sum(bool(row["killer"]) for row in rows),
        "survived": sum(not row["killer"] for row in rows),
        "killed_without_a_device": sum(bool(result["killer"]) for result in host["results"]),
        "verdicts": rows,
    }


def main() -> None:
    device, host = (json.loads(Path(name).read_text()) for name in sys.argv[1:3])
    save_json(record(device, host, sys.argv[3]), Path(sys.argv[4]))


if __name__ == "__main__":
    main()
