"""What the lanes need, and the two that are the same pytest once more, where compiled kernels are plain Python."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from teachkv.mutate import restart
from teachkv.mutate.errors import MutateError
from teachkv.mutate.report import Report, read_report
from teachkv.mutate.settings import Settings

VARIABLE = "TEACHKV_MUTATE_LANE"
KERNEL_LANES = ("host", "tsan", "gpu")  # kernel text in children of this process; gpu: never by fork
COMPILERS = ("g++", "clang++", "c++")
ENVIRONMENTS = {"numba-nojit": {"NUMBA_DISABLE_JIT": "1"}, "numba-sim": {"NUMBA_ENABLE_CUDASIM": "1"}}


def current_lane() -> str:
    """The lane of this process: python, unless it was started for another one."""
    return os.environ.get(VARIABLE, "python")


def check_tools(lane: str, settings: Settings) -> None:
    """Raises MutateError, in one line, where a lane lacks what it needs."""
    named = os.environ.get("CXX", "")
    found = any(map(shutil.which, (*filter(None, [named]), *COMPILERS))) or importlib.util.find_spec("ziglang")
    if lane in ("host", "tsan") and not found:
        raise MutateError(f"--mutate-lane={lane}: needs a C++ compiler; install g++ or pip install ziglang")
    if lane in KERNEL_LANES and not settings.kernel_override:
        text = "set [tool.teachkv-mutate] kernel_override to the variable that the kernel loader reads"
        raise MutateError(f"--mutate-lane={lane}: {text}")
    if lane == "gpu" and importlib.util.find_spec("cupy") is None:
        raise MutateError("--mutate-lane=gpu: needs a device and CuPy; pip install 'teachkv[cuda12]'")


def run_lane(config: pytest.Config, lane: str) -> Report:
    """Runs one lane in a process of its own and reads its report."""
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
