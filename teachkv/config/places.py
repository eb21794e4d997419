"""Where the files of a model may lie: in its own folder, or in the blobs folder of a hub cache it links to."""

import os
import stat
from pathlib import Path

from teachkv.errors import ConfigError, TeachKVError


def inside(folder: Path, name: str, *, error: type[TeachKVError] = ConfigError) -> Path:
    """The path of file `name` of a model folder. Raises `error` if it is absent, not a plain file, or lies elsewhere.

    A hub cache keeps `models--X/snapshots/<revision>/name` as links into `models--X/blobs`; those are followed.
    """
    # guard[plain-name]: a name from an index is foreign; joined unchecked it reads any file (transformers#47176)
    # mutant[plain-name/removed]:
    #   - if not _is_plain(name):
    #   + if False:
    if not _is_plain(name):
        raise error(f"{folder}: file name {name[:80]!r} leaves the model directory; refused")
    path = folder / name
    # guard[regular-file]: opening a pipe or a device waits or never ends
    # mutant[regular-file/removed]:
    #   - if not is_regular(path):
    #   + if not path.exists():
    if not is_regular(path):
        raise error(f"{path}: is missing or not a regular file; fetch the model again")
    home, target = folder.resolve(), path.resolve()
    # guard[link-stays]: a link is a path as good as "../": it must end in this model's own folders
    # mutant[link-stays/removed]:
    #   - if target.parent != home and not _is_hub_blob(home, target):
    #   + if False:
    # mutant[link-stays/no-hub]:
    #   - if target.parent != home and not _is_hub_blob(home, target):
    #   + if target.parent != home:
    if target.parent != home and not _is_hub_blob(home, target):
        raise error(f"{path}: links to {target}, outside the model directory; copy the file in")
    return path


def _is_plain(name: str) -> bool:
    """A name within one folder. Unprintable characters are refused too: a message with them is not one line."""
    return name not in ("", ".", "..") and not set(name) & {"/", "\\"} and len(name) <= 255 and name.isprintable()


def _is_hub_blob(home: Path, target: Path) -> bool:
    """`home` is a snapshot or a folder in one."""
    return any(
        place.parent.name == "snapshots" and target.parent == place.parent.parent / "blobs"
        for place in (home, home.parent)
    )


def is_regular(path: Path) -> bool:
    """True for a file one can read to its end; links are followed."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False
