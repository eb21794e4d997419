"""On what was measured: commit, versions, processor, GPU and its clocks, who else is there, environment."""

import hashlib
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from teachkv.bench.arms import PEERS
from teachkv.bench.sources import packages_hash, versions
from teachkv.bench.trees import git
from teachkv.errors import OptionError

VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
    "NUMBA_ENABLE_CUDASIM",
    "TEACHKV_POISON",
    "PYTHONHASHSEED",
)
GPU_FIELDS = ("name", "driver_version", "clocks.sm", "clocks.mem", "clocks.max.sm", "temperature.gpu", "memory.total")


def describe(home: Path) -> dict[str, Any]:
    """Plain data for the record."""
    return {
        "tree": tree(home),
        "versions": versions((*PEERS, "torch", "llama-cpp-python")),
        "processor": {"name": processor(), "cores": os.cpu_count(), "load": list(os.getloadavg())},
        "platform": platform.platform(),
        "gpus": gpus(),
        "environment": {name: os.environ[name] for name in VARIABLES if name in os.environ},
    }


def tree(home: Path) -> dict[str, Any]:
    """Commit and hash of what differs from it; outside a checkout the content hash alone names the code."""
    sources = packages_hash(home)
    try:
        difference = git(home, "diff", "HEAD", "--", "teachkv", "cuda_kernels")
        new = git(home, "ls-files", "--others", "--exclude-standard", "--", "teachkv", "cuda_kernels")
        dirty = hashlib.sha256(f"{difference}\0{new}".encode()).hexdigest() if difference or new else None
        return {"commit": git(home, "rev-parse", "HEAD"), "dirty": dirty, "sources": sources}
    except OptionError:
        return {"commit": None, "dirty": None, "sources": sources}


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def gpus() -> list[dict[str, str]]:
    """One dict per GPU; `exclusive` is "no" when another process computes on any of them."""
    rows = nvidia_smi(f"--query-gpu={','.join(GPU_FIELDS)}")
    others = nvidia_smi("--query-compute-apps=pid")
    exclusive = "no" if others else "yes"
    return [
        {**dict(zip(GPU_FIELDS, (part.strip() for part in row.split(",")), strict=False)), "exclusive": exclusive}
        for row in rows
    ]


def nvidia_smi(question: str) -> list[str]:
    try:
        asked = ["nvidia-smi", question, "--format=csv,noheader"]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [line for line in done.stdout.splitlines() if line.strip()] if done.returncode == 0 else []
