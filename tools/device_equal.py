"""A request's logits are the same bits wherever and however they are computed: counted on this machine.

    python -m tools.device_equal --out FOLDER [--shape qwen2.5-0.5b] [--placements 10000] [--backend raw]

Writes equal.json: machine, versions, and per check how many logits, positions or requests differ. Ends with 1 if any.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from teachkv.fused import fused
from teachkv.graphs import GraphedModel
from teachkv.model import Model
from tools.device.engines import engine_of, machine, random_model
from tools.device.paths import by_engine, by_position
from tools.device.placements import Requests, Sizes, decode_placements, prefill_placements


def ways(model: Model) -> dict[str, Model]:
    """How this machine can run a decode step; the first is what the engine does."""
    if model.ops.xp is np:
        return {"plain": model}
    plain = Model(model.config, model.weights, model.ops)
    joined = fused(plain)
    return {"fused, graph": GraphedModel(joined), "fused": joined, "plain, graph": GraphedModel(plain), "plain": plain}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--shape", default="qwen2.5-0.5b")
    parser.add_argument("--layers", type=int, help="the first layers only")
    parser.add_argument("--backend", default="raw")
    parser.add_argument("--placements", type=int, default=10_000, help="of decode steps; a fifth as many of prefill")
    parser.add_argument("--texts", type=int, default=24, help="texts through every path")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng, began = np.random.default_rng(args.seed), time.perf_counter()
    loaded = random_model(args.shape, args.layers)
    record: dict[str, Any] = machine() | {"shape": args.shape, "backend": args.backend, "seed": args.seed}
    with engine_of(loaded, backend=args.backend, max_model_len=1024, max_num_seqs=4) as llm:
        found, model = ways(llm._alive().engine.model), llm._alive().engine.model
        record |= {"dtype": str(model.weights.embed.dtype), "layers": model.config.num_layers}
        sizes = Sizes() if args.placements >= 1000 else Sizes(requests=24, longest=100, rows=16, pack=300)
        requests = Requests(model, sizes, rng)
        checks = decode_placements(found, requests, args.placements, rng)
        checks.append(prefill_placements(model, requests, args.placements // 5, rng))
        del requests
        checks += by_position(next(iter(found.values())), args.texts, 5 * sizes.longest // 6, rng)
    checks += by_engine(loaded, args.backend, args.texts, rng)
    record |= {"checks": checks, "seconds": round(time.perf_counter() - began, 1)}
    (args.out / "equal.json").write_text(json.dumps(record, indent=1) + "\n")
    bad = [check for check in checks if check["different"]]
    print(json.dumps({"bad": bad, "seconds": record["seconds"]}))
    return int(bool(bad))


if __name__ == "__main__":
    raise SystemExit(main())
