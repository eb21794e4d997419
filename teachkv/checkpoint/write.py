"""Writes model folders: float32 tensors in the order the forward pass uses them, one at a time."""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from teachkv.checkpoint.names import Expected
from teachkv.weights import Array

DATA_ALIGNMENT = 4096  # a page, so that no tensor's first page is shared with the header


def write_safetensors(
    path: Path, wanted: Iterable[Expected], fetch: Callable[[Expected], Array], progress: Callable[[int], None]
) -> None:
    """Write the tensors `wanted` (names in Hugging Face style) as float32. `progress` is told the bytes written.

    Only one tensor is in memory at a time. Spaces pad the header up to a page; the format allows no other gap.
    """
    items = list(wanted)
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    place = 0
    for item in items:
        size = 4
        for extent in item.shape:
            size *= extent
        header[item.name] = {"dtype": "F32", "shape": list(item.shape), "data_offsets": [place, place + size]}
        place += size
    raw = json.dumps(header, separators=(",", ":")).encode()
    raw += b" " * (-(len(raw) + 8) % DATA_ALIGNMENT)
    with path.open("wb") as file:
        file.write(len(raw).to_bytes(8, "little") + raw)
        for item in items:
            array = fetch(item)
            assert array.shape == item.shape, item.name
            file.write(array.astype("<f4", copy=False).data)
            progress(array.nbytes)


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
