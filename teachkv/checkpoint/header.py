"""The header of a safetensors file, checked whole before anything looks at the data.

File: 8 bytes length n (little-endian), n bytes JSON {name: {dtype, shape, data_offsets: [begin, end]}}, then the data.
The `safetensors` package validates as well, but hands out copies; a view into a mapping needs the offsets, so the
header is read here. Tests hold both readers against each other.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from teachkv.config.reading import parse_json
from teachkv.errors import CheckpointError

HEADER_LIMIT = 4 << 20
DTYPE_BYTES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1,
    "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor: `begin` and `end` are byte positions in the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def read_header(path: Path) -> tuple[Entry, ...]:
    """All tensors of the file in the order of their data. Raises CheckpointError for any contradiction."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            prefix = file.read(8)
            length = int.from_bytes(prefix, "little")
            # guard[header-fits]: the length is foreign; believed, it reads past the end or fills the memory
            # mutant[header-fits/removed]:
            #   - if len(prefix) < 8 or length > min(size - 8, HEADER_LIMIT):
            #   + if False:
            if len(prefix) < 8 or length > min(size - 8, HEADER_LIMIT):
                raise _damaged(path, f"header of {length} bytes in a file of {size} (limit {HEADER_LIMIT})")
            raw = file.read(length)
    except OSError as problem:
        raise CheckpointError(f"{path}: cannot be read ({problem.strerror}); check its permissions") from None
    table = parse_json(raw, f"{path}: header", limit=HEADER_LIMIT, error=CheckpointError)
    _check_metadata(path, table.pop("__metadata__", None))
    entries = [_entry(path, name, value, 8 + length, size) for name, value in table.items()]
    entries.sort(key=lambda entry: (entry.begin, entry.end))
    _check_cover(path, entries, 8 + length, size)
    return tuple(entries)


def _damaged(path: Path, what: str) -> CheckpointError:
    return CheckpointError(f"{path}: {what}; the file is damaged, fetch it again")


def _check_metadata(path: Path, metadata: Any) -> None:
    if metadata is None:
        return
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise _damaged(path, "__metadata__ must hold strings")


def _entry(path: Path, name: str, value: Any, data_start: int, size: int) -> Entry:
    where = f"tensor {name[:80]!r}"
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise _damaged(path, f"{where} must have exactly dtype, shape and data_offsets")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    # guard[dtype-known]: of an unknown dtype neither size nor meaning can be checked (imp#1603)
    # mutant[dtype-known/removed]:
    #   - if not isinstance(dtype, str) or dtype not in DTYPE_BYTES:
    #   + if False:
    if not isinstance(dtype, str) or dtype not in DTYPE_BYTES:
        raise CheckpointError(f"{path}: {where} has dtype {str(dtype)[:40]!r}; known are {', '.join(DTYPE_BYTES)}")
    if not _whole_numbers(shape) or not _whole_numbers(offsets) or len(offsets) != 2 or len(shape) > 8:
        raise _damaged(path, f"{where} has shape {shape!r:.60} and data_offsets {offsets!r:.60}")
    begin, end = offsets
    # guard[range-in-file]: consistent offsets can still end past a truncated file (mlx#3410)
    # mutant[range-in-file/removed]:
    #   - if begin > end or data_start + end > size:
    #   + if False:
    if begin > end or data_start + end > size:
        raise _damaged(path, f"{where} lies at {begin}..{end}, but there are {size - data_start} bytes of data")
    # guard[size-is-shape]: a view of shape x dtype over fewer bytes reads what follows (mlx#3364)
    # mutant[size-is-shape/removed]:
    #   - if end - begin != math.prod(shape) * DTYPE_BYTES[dtype]:
    #   + if False:
    if end - begin != math.prod(shape) * DTYPE_BYTES[dtype]:
        raise _damaged(path, f"{where} of shape {shape} and dtype {dtype} cannot have {end - begin} bytes")
    return Entry(name, dtype, tuple(shape), data_start + begin, data_start + end)


def _whole_numbers(value: Any) -> bool:
    """A list of integers below 2**63, none negative; Python integers, so that no product wraps."""
    return isinstance(value, list) and all(
        isinstance(item, int) and not isinstance(item, bool) and 0 <= item < 2**63 for item in value
    )


def _check_cover(path: Path, entries: list[Entry], start: int, size: int) -> None:
    """The data must be covered exactly once: the format allows no holes, and two tensors over one place is damage."""
    place = start
    for entry in entries:
        # guard[no-overlap]: overlapping tensors and hidden bytes both pass every check on a single entry
        # mutant[no-overlap/removed]:
        #   - if entry.begin != place:
        #   + if False:
        # mutant[no-overlap/holes-only]:
        #   - if entry.begin != place:
        #   + if entry.begin > place:
        if entry.begin != place:
            kind = "overlaps the one before it" if entry.begin < place else f"leaves {entry.begin - place} bytes unused"
            raise _damaged(path, f"tensor {entry.name[:80]!r} {kind}")
        place = entry.end
    if place != size:
        raise _damaged(path, f"{size - place} bytes after the last tensor belong to none")
