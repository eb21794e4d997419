"""The cache folder: whole models only. A model appears there by one rename, after everything in it is written."""

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from teachkv.errors import PullError

ENVIRONMENT = "TEACHKV_CACHE"
MANIFEST = "teachkv.json"  # names and sizes of the files, written last


def cache_root() -> Path:
    """$TEACHKV_CACHE, or the user's cache folder."""
    stated = os.environ.get(ENVIRONMENT)
    if stated:
        return Path(stated).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("teachkv")


def find(key: str) -> Path | None:
    """The folder kept under `key`, if it is there and no file of it is missing or cut short."""
    folder = cache_root() / key
    try:
        sizes = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
        whole = all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    # guard[cache-whole]: a file cut short by hand or by a full disk must be fetched anew, not loaded
    # mutant[cache-whole/trusting]:
    #   - return folder if whole else None
    #   + return folder
    return folder if whole else None


@contextmanager
def lock(key: str) -> Iterator[None]:
    """One pull per model at a time; a second one waits and then finds the first one's result."""
    root = _made(cache_root())
    with (root / f".{key}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def workspace(key: str) -> Iterator[Path]:
    """A folder beside the result, on the same disk; gone afterwards, however it ended. Call with the lock held."""
    root = _made(cache_root())
    for left in root.glob(f".{key}.part-*"):  # of a pull that was killed; the lock says that none is running
        shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{key}.part-", dir=root))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def keep(folder: Path, key: str, origin: str) -> Path:
    """Make a finished folder of the workspace visible under `key`, in one step."""
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    manifest = json.dumps({"origin": origin, "files": sizes}, indent=2)
    (folder / MANIFEST).write_text(manifest + "\n", encoding="utf-8")
    target = cache_root() / key
    if target.exists():
        target.rename(folder.parent / "replaced")
    folder.rename(target)
    return target


def require_space(count: int) -> None:
    """Raises PullError if the cache's disk has fewer than `count` bytes left."""
    root = _made(cache_root())
    free = shutil.disk_usage(root).free
    if free < count:
        need = f"needs {count >> 20} MiB, {free >> 20} MiB are free"
        raise PullError(f"{root}: {need}; make room or set {ENVIRONMENT} to another disk")


def _made(root: Path) -> Path:
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise PullError(f"{root}: cannot be made ({problem.strerror}); set {ENVIRONMENT} to another folder") from None
    return root
