"""Batch invariance of a whole model: requests at random places of random batches, logits compared as integers.

Each request's logits alone (one row, no lead pad, row 0) are the reference, of its decode step and of its prefill. A
placement is a request in a batch of 1..128 with random mates, in a random row, behind a random lead pad of 0..70.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from teachkv.model import Model
from teachkv.sample.sampler import to_host
from tools.device.shelf import Shelf, ints, last_tokens, run

TEETH = 4  # fewer distinct answers than that prove nothing
PADS = 71  # lead pads 0..70


@dataclass(frozen=True)
class Sizes:
    """requests: how many, of 1..longest tokens; rows of the batch; pack: most tokens of a packed prefill."""

    requests: int = 192
    longest: int = 640
    rows: int = 128
    pack: int = 2048

    @property
    def columns(self) -> int:
        return self.longest + PADS + 1


class Requests:
    """Prompts, their KV rows as prefilled alone, and the logits that each must always have."""

    def __init__(self, model: Model, sizes: Sizes, rng: np.random.Generator) -> None:
        self.sizes = sizes
        self.lengths = ints(rng.integers(1, sizes.longest + 1, sizes.requests))
        self.prompts = [rng.integers(0, model.config.vocab_size, n).tolist() for n in self.lengths]
        self.shelf, alone = Shelf(model, sizes.requests, sizes.longest + 1), []
        for index, prompt in enumerate(self.prompts):
            part = self.shelf.part("prefill", [index], [0], [0], [len(prompt)])
            alone.append(run(model, part, prompt, [len(prompt) - 1])[0])
        self.prefilled = model.ops.xp.stack(alone)
        self.drawn = answers(model, self.prefilled)

    def desk(self, model: Model) -> Shelf:
        """The batch that requests are placed in."""
        return Shelf(model, self.sizes.rows, self.sizes.columns)

    def decoded_alone(self, model: Model) -> Any:
        """Logits [N, V] of every request's decode step by itself."""
        desk, alone = self.desk(model), []
        for index, length in enumerate(self.lengths):
            desk.take(self.shelf, [index], [0], [0], [length])
            part = desk.part("decode", [0], [0], [length], [1])
            alone.append(run(model, part, self.drawn[[index]], [0])[0])
        return model.ops.xp.stack(alone)


def decode_placements(
    ways: Mapping[str, Model], requests: Requests, count: int, rng: np.random.Generator
) -> list[dict[str, Any]]:
    """At least `count` placements in decode steps, the same ones for every way to run them."""
    first = next(iter(ways.values()))
    alone, desk, most = requests.decoded_alone(first), requests.desk(first), requests.sizes.rows
    placed, wrong = 0, dict.fromkeys(ways, 0)
    while placed < count:
        B = int(rng.integers(1, most + 1))
        who, rows = rng.permutation(len(alone))[:B], rng.permutation(most)[:B]
        pads, lengths = rng.integers(0, PADS, B), requests.lengths[who]
        for name, model in ways.items():
            desk.poison()
            desk.take(requests.shelf, who, rows, pads, lengths)
            part = desk.part("decode", rows, pads, lengths, np.ones(B))
            found = run(model, part, requests.drawn[who], np.arange(B))
            wrong[name] += int((found != alone[who]).sum())
        placed += B
    distinct = len(set(answers(first, alone).tolist()))
    return [line(f"decode, {name}", placed, wrong[name], distinct) for name in ways]


def prefill_placements(model: Model, requests: Requests, count: int, rng: np.random.Generator) -> dict[str, Any]:
    """At least `count` placements in packed prefill."""
    desk, sizes = requests.desk(model), requests.sizes
    placed = wrong = 0
    while placed < count:
        who = rng.permutation(sizes.requests)[: int(rng.integers(2, sizes.rows + 1))]
        who = who[np.cumsum(requests.lengths[who]) <= sizes.pack]
        if not len(who):
            continue
        lengths, rows, pads = (
            requests.lengths[who],
            rng.permutation(sizes.rows)[: len(who)],
            rng.integers(0, PADS, len(who)),
        )
        desk.poison()
        part = desk.part("prefill", rows, pads, np.zeros(len(who)), lengths)
        tokens = [token for index in who for token in requests.prompts[index]]
        found = run(model, part, tokens, last_tokens(lengths))
        wrong += int((found != requests.prefilled[who]).sum())
        placed += len(who)
    return line("prefill, packed", placed, wrong, len(set(requests.drawn.tolist())))


def answers(model: Model, logits: Any) -> Any:
    """The likeliest token [N] of logits [N, V] held as integers."""
    return ints(to_host(model.ops, logits.view(np.float32).argmax(axis=1)))


def line(name: str, placed: int, wrong: int, distinct: int) -> dict[str, Any]:
    found: dict[str, Any] = {"check": "placements", "of": name, "placements": placed, "different": wrong}
    found["distinct answers"] = distinct
    if distinct < TEETH:
        found |= {"different": -1, "verdict": "CANNOT-ANSWER: fewer than four distinct answers"}
    print(found, flush=True)
    return found
