"""Inside a measuring process: make the target, run the job's cells, write the samples."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from teachkv.bench.arms import Arm
from teachkv.bench.drive import Driver, Probe
from teachkv.bench.samples import Sample
from teachkv.bench.target import Target
from teachkv.bench.workloads import cell
from teachkv.errors import TeachKVError


def work(job: dict[str, Any]) -> int:
    """Returns the exit code. What cannot be done is told in the answer, and the code is 2."""
    answer = Path(job["answer"])
    try:
        samples = run_job(job, target_of(job))
    except (TeachKVError, MemoryError, ImportError) as error:
        answer.write_text(json.dumps({"failed": f"{type(error).__name__}: {error}"}), encoding="utf-8")
        return 2
    answer.write_text(json.dumps({"samples": [sample.to_json() for sample in samples]}), encoding="utf-8")
    return 0


def run_job(job: dict[str, Any], target: Target) -> list[Sample]:
    """All cells of the job on one target, in order: one is isolated, several are a ladder."""
    driver = Driver(target, job["limit"])
    probe = Probe(**job["probe"]) if job["probe"] else None
    ladder = len(job["cells"]) > 1
    samples = []
    for name in job["cells"]:
        sample = driver.cell(cell(name), job["round"], warmup=job["warmup"], probe=probe, kind=job["kind"])
        samples.append(replace(sample, arm=job["arm"]["label"], position=job["position"], ladder=ladder))
    return samples


def target_of(job: dict[str, Any]) -> Target:
    """The engine that the job's arm means, made from the arm alone."""
    arm = Arm.from_json(job["arm"])
    if arm.kind == "fake":
        from teachkv.bench.fake import FakeTarget

        return FakeTarget(arm.script, job["round"], job["position"], job["serial"])
    if arm.kind == "peer":
        from teachkv.bench.peers import peer

        return peer(arm.source, job["model"], arm.options)
    from teachkv.bench.engine_target import EngineTarget

    return EngineTarget(job["model"], job["shape"], arm.options, Path(job["root"]))
