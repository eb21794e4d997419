"""Readers under damaged files for as long as they are given: TEACHKV_FUZZ_SECONDS, two minutes by default.

Seeded damage of whole models: bytes changed, dropped, repeated; numbers replaced by those that break readers. What a
run finds becomes a test of its own beside the reader: line breaks within names were found this way.
"""

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from teachkv.checkpoint import load_model
from teachkv.errors import TeachKVError
from tests.gguf_toys import tiny_gguf
from tests.toys import write_tiny

pytestmark = pytest.mark.slow
SECONDS = float(os.environ.get("TEACHKV_FUZZ_SECONDS", "120"))
SEED = int(os.environ.get("TEACHKV_FUZZ_SEED", "0"))
HEADER = 4500  # bytes of a file that hold its structure
ODD = [b"0", b"-1", b"1e999", b"9" * 20, b"18446744073709551616", b"null", b"true", b"[]", b"{}", b'""', b"NaN", b"\n"]
ODD += [b"\x00", b"\xff", b"\x80", b'"default"', b"1.5"]


def damaged(raw: bytes, draw: random.Random) -> bytes:
    found = bytearray(raw)
    for _ in range(draw.randint(1, 6)):
        at = draw.randrange(min(len(found), HEADER)) if found else 0
        kind = draw.randrange(6)
        if kind == 0 and found:
            found[at] = draw.randrange(256)
        elif kind == 1 and found:
            found[at] ^= 1 << draw.randrange(8)
        elif kind == 2:
            del found[at : at + draw.randint(1, 16)]
        elif kind == 3:
            found[at:at] = draw.choice(ODD)
        elif kind == 4 and found:
            begin = draw.randrange(min(len(found), HEADER))
            found[at:at] = found[begin : begin + draw.randint(1, 60)]
        else:
            start = next((place for place in range(at, min(len(found), HEADER)) if chr(found[place]).isdigit()), at)
            stop = next((place for place in range(start, len(found)) if not chr(found[place]).isdigit()), start)
            found[start:stop] = draw.choice(ODD)
    return bytes(found)


def targets(root: Path) -> list[tuple[Path, Path, bytes]]:
    """(what to load, which file of it to damage, its whole content)."""
    llama3 = {"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    one = write_tiny(
        root / "one",
        "qwen2",
        num_hidden_layers=1,
        use_sliding_window=True,
        sliding_window=4,
        max_window_layers=0,
        rope_scaling=llama3,
        generation={"eos_token_id": [1, 2]},
    )
    two = write_tiny(root / "two", "qwen3", num_hidden_layers=1, shards=2, rope_parameters={"rope_theta": 1e4})
    found = [(folder, path, path.read_bytes()) for folder in (one, two) for path in sorted(folder.iterdir())]
    for family in ("llama", "qwen3"):
        raw = tiny_gguf(family, "Q8_0", hidden_size=32, intermediate_size=32, head_dim=8, num_hidden_layers=1)[0]
        found += [(root / f"{family}.gguf", root / f"{family}.gguf", raw)] * 3
    return [item for item in found if "token" not in item[1].name]


def runs(root: Path) -> Iterator[Path]:
    """Damage one file, hand out the model, repair it."""
    draw, choices, end = random.Random(SEED), targets(root), time.monotonic() + SECONDS
    while time.monotonic() < end:
        place, file, raw = draw.choice(choices)
        file.write_bytes(damaged(raw, draw))
        yield place
        file.write_bytes(raw)


def test_damaged_models_load_or_are_refused_in_one_line(tmp_path: Path) -> None:
    refused = 0
    for place in runs(tmp_path):
        try:
            load_model(place)
        except TeachKVError as problem:
            refused += check_one_line(problem)
    assert refused > 10 * SECONDS


def check_one_line(problem: TeachKVError) -> int:
    assert "\n" not in str(problem)
    assert len(str(problem)) < 600
    return 1
