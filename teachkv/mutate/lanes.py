"""Other lanes: the same pytest once more, in an environment in which compiled kernels are plain Python."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from teachkv.mutate import restart
from teachkv.mutate.errors import MutateError
from teachkv.mutate.report import Report, read_report

VARIABLE = "TEACHKV_MUTATE_LANE"
ENVIRONMENTS = {"numba-nojit": {"NUMBA_DISABLE_JIT": "1"}, "numba-sim": {"NUMBA_ENABLE_CUDASIM": "1"}}


def current_lane() -> str:
    """The lane of this process: python, unless it was started for another one."""
    return os.environ.get(VARIABLE, "python")


def run_lane(config: pytest.Config, lane: str) -> Report:
    """Runs one lane in a process of its own and reads its report."""
    if lane not in ENVIRONMENTS:
        raise MutateError(f"--mutate-lane={lane}: the lane needs raw kernels, and this version cannot run them yet")
    with tempfile.TemporaryDirectory(prefix="mutate-lane-") as name:
        spec, report = Path(name) / "spec.json", Path(name) / "report.json"
        restart.write_spec(spec, {})
        args = [*config.invocation_params.args, f"--mutate-lane={lane}", f"--mutate-report=json:{report}"]
        command = [*restart.interpreter(), str(restart.BOOT), str(spec), *args]
        environment = {**os.environ, **ENVIRONMENTS[lane], VARIABLE: lane}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if not report.exists():
            tail = (done.stdout + done.stderr).strip().splitlines()[-1:]
            raise MutateError(f"lane {lane}: pytest left with exit code {done.returncode} and no report: {tail}")
        return read_report(report)
