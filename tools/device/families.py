"""Whole models on the device against transformers on the same card: logits, and greedy tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from teachkv import LLM, SamplingParams
from tools.device.engines import relative

# ||logits - theirs|| / ||theirs||, and how far below the best logit a drawn one may lie, in deviations of the row.
LOGITS = {"float32": 2e-5, "float16": 5e-3, "bfloat16": 5e-2}
MARGIN = {"float32": 1e-3, "float16": 2e-2, "bfloat16": 2e-1}


def peer_of(source: Path | dict[str, Any], dtype: str) -> Any:
    """A model of transformers on the card, if there is one: a folder's, or a config's, for weights to come."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    kind = getattr(torch, dtype)
    if isinstance(source, Path):
        peer = AutoModelForCausalLM.from_pretrained(source, dtype=kind)
    else:
        peer = AutoModelForCausalLM.from_config(AutoConfig.for_model(**source), dtype=kind)
    return peer.to("cuda" if torch.cuda.is_available() else "cpu").eval()


def peer_logits(peer: Any, ids: list[int]) -> Any:
    """Logits [T, V] in float32 of one text."""
    import torch

    with torch.no_grad():
        return peer(torch.tensor([ids]).to(peer.device), use_cache=False).logits[0].float().cpu().numpy()


def compare(name: str, llm: LLM, peer: Any, prompts: list[list[int]], count: int) -> list[dict[str, Any]]:
    """`llm` on its backend against the peer, prompts together in one ragged batch, `count` tokens each."""
    stats = llm._alive().engine.model
    dtype, backend = str(stats.weights.embed.dtype), stats.ops.backend
    same = {"model": name, "backend": backend, "dtype": dtype}
    longest = max(prompts, key=len)
    error = relative(llm.forward(longest), peer_logits(peer, longest))
    rows = [{"check": "logits", **same, "tokens": len(longest), "error": error, "limit": LOGITS[dtype]}]
    wanted = SamplingParams(max_tokens=count, temperature=0, ignore_eos=True)
    equal = drawn = 0
    worst = 0.0
    for prompt, output in zip(prompts, llm.generate(prompts, wanted), strict=True):
        ids = list(output.outputs[0].token_ids)
        theirs = peer_logits(peer, [*prompt, *ids[:-1]])[len(prompt) - 1 :]
        below = (theirs.max(axis=1) - theirs[np.arange(len(ids)), ids]) / theirs.std(axis=1)
        equal, drawn, worst = equal + int((below == 0).sum()), drawn + len(ids), max(worst, float(below.max()))
    rows.append({"check": "greedy", **same, "tokens": drawn, "equal": equal, "error": worst, "limit": MARGIN[dtype]})
    for row in rows:
        print(row, flush=True)
    return rows


def between(name: str, raw: LLM, numba: LLM, prompts: list[list[int]]) -> dict[str, Any]:
    """Logits of the two tellings on the longest prompt."""
    longest = max(prompts, key=len)
    dtype = str(raw._alive().engine.model.weights.embed.dtype)
    error = relative(numba.forward(longest), raw.forward(longest))
    row = {"check": "raw = numba", "model": name, "dtype": dtype, "error": error, "limit": LOGITS[dtype]}
    print(row, flush=True)
    return row
