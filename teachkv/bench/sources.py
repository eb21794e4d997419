"""Which code ran: content hashes and versions, read from disk and from the running interpreter."""

import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path

PACKAGES = ("teachkv", "cuda_kernels")
KINDS = (".py", ".cu", ".cuh", ".cpp", ".h")
ASKED = ("numpy", "numba", "cupy", "cupy-cuda12x", "cupy-cuda13x", "numba-cuda", "safetensors", "tokenizers", "gguf")


def packages_hash(root: Path) -> str:
    """sha256 over path and content of all source files of the engine; the harness itself (bench) is left out."""
    files = (path for package in PACKAGES for path in (root / package).rglob("*"))
    return hash_files(root, (path for path in files if (root / "teachkv" / "bench") not in path.parents))


def harness_hash(root: Path) -> str:
    """The same of the harness alone."""
    return hash_files(root, (root / "teachkv" / "bench").rglob("*"))


def hash_files(root: Path, files: Iterable[Path]) -> str:
    total = hashlib.sha256()
    for path in sorted(path for path in files if path.suffix in KINDS):
        total.update(f"{path.relative_to(root)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def versions(more: Iterable[str] = ()) -> dict[str, str]:
    """Python and the packages that are installed here."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": sys.version.split()[0]}
    for name in (*ASKED, *more):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
