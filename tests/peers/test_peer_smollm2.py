"""SmolLM2-135M-Instruct against transformers in float32: every position of 20 prompts, and greedy continuations."""

from pathlib import Path

import numpy as np
import pytest
from hf import Peer
from tokenizers import Tokenizer

from teachkv.checkpoint.pull import cached_dir
from teachkv.model import Model
from tests.model.packed import Bench, load, whole

pytestmark = [pytest.mark.peers, pytest.mark.model]
CHAT = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
PROMPTS = [
    "The capital of France is",
    "Once upon a time, there was a small village at the foot of a mountain where nobody ever",
    "def fibonacci(n):\n    ",
    "1, 2, 3, 5, 8, 13,",
    "Water boils at",
    "Die Hauptstadt von Deutschland ist",
    "SELECT name, COUNT(*) FROM orders WHERE",
    "日本の首都は",
    "a",
    "\n\n\n",
    "To be, or not to be, that is the question: " * 4,
    "The quick brown fox jumps over the lazy dog. " * 20,
    '{"name": "Ada", "age": 36, "langs": ["',
    CHAT.format("Name three primary colours."),
    CHAT.format("What is a key-value cache? Answer in one sentence."),
    CHAT.format("Write a haiku about the sea."),
    CHAT.format("Translate 'good morning' to Spanish."),
    CHAT.format("Why is the sky blue?" + " Explain it simply." * 10),
    "".join(chr(33 + i % 90) for i in range(300)),
    "In 1969, " + ", then ".join(f"step {i} happened" for i in range(60)),
]


@pytest.fixture(scope="module")
def folder() -> Path:
    found = cached_dir("smollm2")
    if found is None:
        pytest.skip("SmolLM2 is not pulled: run 'teachkv pull smollm2'")
    return found


@pytest.fixture(scope="module")
def peer(folder: Path) -> Peer:
    return Peer(folder)


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    return load(folder)


@pytest.fixture(scope="module")
def prompts(folder: Path) -> list[list[int]]:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return [tokenizer.encode(text).ids for text in PROMPTS]


def test_logits_at_every_position(model: Model, peer: Peer, prompts: list[list[int]]) -> None:
    gaps = [float(np.abs(whole(model, ids) - peer.logits(ids)).max()) for ids in prompts]
    print(f"largest gap {max(gaps):.2e} over {sum(map(len, prompts))} positions")
    assert max(gaps) <= 2e-3


def test_greedy_continuations_agree_wherever_the_peer_is_sure(
    model: Model, peer: Peer, prompts: list[list[int]]
) -> None:
    """All 20 decode together; a continuation is compared up to the first margin under 1e-2."""
    bench = Bench(model, len(prompts), max(map(len, prompts)) + 64)
    last = {row: int(bench.step({row: ids}, "prefill")[row][-1].argmax()) for row, ids in enumerate(prompts)}
    longest = max(map(len, prompts))
    tokens = {row: [token] for row, token in last.items()}
    for row, ids in enumerate(prompts):  # move the rows so that all end at one column
        for k, v in bench.layers:
            for cache in (k, v):
                cache[row, :, longest - len(ids) : longest] = cache[row, :, : len(ids)].copy()
                cache[row, :, : longest - len(ids)] = np.nan
        bench.pads[row] = longest - len(ids)
    for _ in range(63):
        logits = bench.step({row: tokens[row][-1:] for row in tokens})
        for row in tokens:
            tokens[row].append(int(logits[row][-1].argmax()))
    compared = 0
    for row, ids in enumerate(prompts):
        want, margins = peer.greedy(ids, 64)
        unsure = next((i for i, margin in enumerate(margins) if margin <= 1e-2), 64)
        assert tokens[row][:unsure] == want[:unsure], PROMPTS[row]
        compared += unsure
    print(f"{compared} of {64 * len(prompts)} greedy tokens compared")
    assert compared > 32 * len(prompts)
