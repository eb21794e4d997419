"""A solution of ex14_overlap."""

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
    path = write_file(tmp_path / "bad.safetensors", a=(0, 12), b=(8, 16))
    with pytest.raises(CheckpointError):
        read_header(path)
