"""A model that says the alphabet: the next token is the last one plus one. Everything around it is real."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from teachkv import LLM


class Markov:
    """Stands in for `Model`: logits of a token t are one-hot at `follow(t)`, and writes nothing into the caches."""

    def __init__(self, real: Any, follow: Callable[[int], int]) -> None:
        self.config, self.ops, self.follow = real.config, real.ops, follow
        self.passes: list[list[int]] = []

    def forward(
        self, tokens: NDArray[np.int32], parts: Sequence[Any], logits_at: NDArray[np.int32]
    ) -> NDArray[np.float32]:
        self.passes.append(tokens.tolist())
        for part in parts:
            for layer in part.cache.layers:
                at = layer.geometry
                rows = np.repeat(at.row, np.diff(part.cu_seqlens))
                layer.k[rows, :, at.column] = layer.v[rows, :, at.column] = 1.0
        logits = np.zeros((len(logits_at), self.config.vocab_size), dtype=np.float32)
        logits[np.arange(len(logits_at)), [self.follow(int(t)) for t in tokens[logits_at]]] = 8.0
        return logits


def alphabet(follow: Callable[[int], int] = lambda t: t + 1, **options: Any) -> tuple[LLM, Markov]:
    """An LLM over bytes whose greedy answer to "a" is "bcdef..."."""
    llm = LLM("tiny", **options)
    engine = llm._alive().engine
    engine.model = Markov(engine.model, follow)  # type: ignore[assignment]
    return llm, engine.model  # type: ignore[return-value]
