"""Two tensors in one place

A weight file begins with a table: for each tensor the range of bytes where it lies. Each entry can be right by
itself while two of them lie in one place, or bytes lie in none. Such a file is damaged or made to deceive.
`read_header(path)` must raise CheckpointError for both.

Your task: kill the mutant that no longer looks, and the one that looks for holes only.
"""

import json

import pytest

from teachkv.checkpoint.header import read_header
from teachkv.errors import CheckpointError


def write_file(path, **ranges):
    """A file of float32 tensors, each (begin, end) in bytes of the data; the data end where the last tensor ends."""
    table = {
        name: {"dtype": "F32", "shape": [(end - begin) // 4], "data_offsets": [begin, end]}
        for name, (begin, end) in ranges.items()
    }
    raw = json.dumps(table).encode()
    size = max(end for _, end in ranges.values())
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + bytes(size))
    return path


def test_a_header_covers_its_data_once(tmp_path):
    path = write_file(tmp_path / "good.safetensors", a=(0, 8), b=(8, 16))
    assert [entry.name for entry in read_header(path)] == ["a", "b"]
