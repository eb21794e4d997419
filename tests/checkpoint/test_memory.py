"""Loading float32 costs no memory of its own: a file of over 1 GB is mapped, and anonymous memory shows it.

The file is sparse, so the test needs neither the disk nor the time of a real one; the reader cannot tell.
"""

import json
import resource
import sys
from pathlib import Path

import pytest

from teachkv.checkpoint.names import expected
from teachkv.config import ModelConfig
from tests.toys import peak_growth, tiny_config

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads memory by kind from /proc")
BIG = {"hidden_size": 4096, "intermediate_size": 18432, "head_dim": 128, "num_attention_heads": 32}
BIG |= {"num_key_value_heads": 8, "num_hidden_layers": 1, "tie_word_embeddings": True}


def sparse_model(folder: Path) -> int:
    """A model directory of zeros; returns the bytes of its weights."""
    allowed = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if allowed != resource.RLIM_INFINITY and allowed < 2 << 30:
        pytest.skip(f"files may not exceed {allowed} bytes here")
    config = tiny_config(**BIG)
    (folder / "config.json").write_text(json.dumps(config))
    header, place = {}, 0
    for item in list(expected(ModelConfig.from_dict(config), "hf"))[:-1]:
        size = 4
        for extent in item.shape:
            size *= extent
        header[item.name] = {"dtype": "F32", "shape": list(item.shape), "data_offsets": [place, place + size]}
        place += size
    raw = json.dumps(header).encode()
    raw += b" " * (-len(raw) % 8)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(raw).to_bytes(8, "little") + raw)
        file.truncate(8 + len(raw) + place)
    return place


SETUP = """
import time
from teachkv.checkpoint import load_model
def anonymous():
    return int(open("/proc/self/status").read().split("RssAnon:")[1].split()[0])
"""


def test_a_file_of_over_1_gb_loads_without_memory_and_without_time(tmp_path: Path) -> None:
    size = sparse_model(tmp_path)
    assert size > 1_000_000_000
    work = (
        "at, start = anonymous(), time.perf_counter()\n"
        "loaded = load_model(sys.argv[1])\n"
        "assert time.perf_counter() - start < 1.0\n"
        "assert loaded.report.copied == 0\n"
        f"assert loaded.report.mapped == loaded.weights.nbytes == {size}\n"
        "assert anonymous() - at < 10_000, anonymous() - at\n"
    )
    assert peak_growth(SETUP, work, str(tmp_path)) < 50_000  # KiB; the weights are a million


def test_reading_a_mapped_tensor_takes_pages_of_the_file_not_memory(tmp_path: Path) -> None:
    sparse_model(tmp_path)
    work = (
        "loaded = load_model(sys.argv[1])\n"
        "at = anonymous()\n"
        "assert float(loaded.weights.layers[0].gate.max()) == 0.0\n"
        "assert anonymous() - at < 10_000, anonymous() - at\n"
    )
    grown = peak_growth(SETUP, work, str(tmp_path))
    assert 250_000 < grown < 600_000  # the tensor's own 295,000 KiB, as pages that the kernel may drop
