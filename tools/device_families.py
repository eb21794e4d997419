"""All four families and SmolLM2 on a GPU, raw and Numba kernels, against transformers on the same card.

    python -m tools.device_families --out FOLDER [--smollm2 FILE.gguf]

Writes families.json. The families have random weights; each dtype is compared with transformers in that dtype.
"""

import argparse
import json
import tempfile
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from teachkv import LLM
from teachkv.checkpoint.shapes import SHAPES
from tests.toys import FAMILIES, write_tiny
from tools.device.engines import load_into, machine
from tools.device.families import between, compare, peer_of

BACKENDS, DTYPES = ["raw", "numba"], ["float32", "float16", "bfloat16"]
SIZE: dict[str, Any] = {
    "hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 4, "num_attention_heads": 8,
    "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 1024,
}  # fmt: skip
WINDOWS: dict[str, dict[str, Any]] = {"mistral": {"sliding_window": 100}}
TEXTS = (
    "The river rises in the mountains and", "Once upon a time there was a king who", "In 1905 a clerk in Bern",
    "def fibonacci(n):", "Water boils at", "The three primary colours are", "A good proof is",
    "Dear Sir, I write to you because", "List the planets in order:", "The recipe needs two eggs,",
)  # fmt: skip


def quiet(line: str) -> None:
    """Path lines are kept out of the comparison's output."""


def families(found: list[dict[str, Any]]) -> None:
    rng = np.random.default_rng(0)
    lengths = [600, 1, 7, 64, 65, 300, 129, 33]
    prompts = [rng.integers(2, 97, n).tolist() for n in lengths]
    with tempfile.TemporaryDirectory() as folder:
        for family in FAMILIES:
            path = write_tiny(Path(folder) / family, family, **SIZE, **WINDOWS.get(family, {}))
            for dtype in DTYPES:
                all_backends(found, family, str(path), dtype, peer_of(path, dtype), prompts, 32)


def all_backends(
    found: list[dict[str, Any]], name: str, path: str, dtype: str, peer: Any, prompts: list[list[int]], count: int
) -> None:
    """Every backend against the peer; with two of them, the second against the first as well."""
    options: dict[str, Any] = {"dtype": dtype, "log": quiet, "max_num_seqs": 32, "kv_budget": 4 << 30}
    with ExitStack() as stack:
        engines = [stack.enter_context(LLM(path, backend=backend, **options)) for backend in BACKENDS]
        for engine in engines:
            found += compare(name, engine, peer, prompts, count)
        found += [between(name, *pair, prompts) for pair in pairwise(engines)]


def smollm2(found: list[dict[str, Any]], path: str) -> None:
    """The real model; transformers gets the weights that we read from the file."""
    for dtype in DTYPES:
        peer = peer_of(SHAPES["smollm2-135m"], dtype)
        with LLM(path, backend="reference", log=quiet) as llm:
            load_into(peer, llm._alive().assembly.loaded)
            prompts = [llm._alive().assembly.tokenizer.encode(text) for text in TEXTS]
        prompts.append([token for prompt in prompts for token in prompt] * 4)
        all_backends(found, "SmolLM2-135M-Instruct", path, dtype, peer, prompts, 64)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--backends", nargs="+", default=BACKENDS)
    parser.add_argument("--dtypes", nargs="+", default=DTYPES)
    parser.add_argument("--smollm2", help="the GGUF file; left out, only the families run")
    args = parser.parse_args()
    BACKENDS[:], DTYPES[:] = args.backends, args.dtypes
    import transformers

    found: list[dict[str, Any]] = []
    record = machine() | {"transformers": transformers.__version__, "checks": found}
    began = time.perf_counter()
    families(found)
    (args.out / "families.json").write_text(json.dumps(record, indent=1) + "\n")
    if args.smollm2:
        smollm2(found, args.smollm2)
    record["seconds"] = round(time.perf_counter() - began, 1)
    (args.out / "families.json").write_text(json.dumps(record, indent=1) + "\n")
    bad = [row for row in found if not row["error"] <= row["limit"]]
    print(json.dumps({"bad": bad, "seconds": record["seconds"]}))
    return int(bool(bad))


if __name__ == "__main__":
    raise SystemExit(main())
