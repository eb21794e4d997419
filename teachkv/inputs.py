"""From a plan to what the model eats: one flat token axis, decode rows first, then prompt chunks."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from teachkv.kv import CacheView
from teachkv.model import Part
from teachkv.schedule import Plan
from teachkv.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Wanted:
    """A run of logits rows that belongs to one sequence. `draw` = the last of them is sampled from."""

    id: int
    first: int
    count: int
    draw: bool
    position: int


@dataclass(frozen=True, slots=True)
class StepInputs:
    """tokens [T]; parts in order; logits_at [M] = flat token indices; `wanted` says whose they are."""

    tokens: NDArray[np.int32]
    parts: tuple[Part, ...]
    logits_at: NDArray[np.int32]
    wanted: tuple[Wanted, ...]
    prefill_tokens: int
    decode_tokens: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens [start, stop) of one sequence; `draw` = a token is drawn after the last of them."""

    sequence: Sequence
    start: int
    stop: int
    draw: bool

    @property
    def wants_all(self) -> bool:
        """Prompt log-probs need the logits of every prompt position, once."""
        return self.sequence.wants_prompt_logprobs and self.start < self.sequence.prompt_len


def decode_chunks(plan: Plan, sequences: Mapping[int, Sequence]) -> list[Chunk]:
    """A decoder computes its last drawn token, the only one without KV."""
    members = [sequences[id] for id in plan.decode]
    return [Chunk(s, len(s.tokens) - 1, len(s.tokens), True) for s in members]


def prefill_chunks(plan: Plan, sequences: Mapping[int, Sequence]) -> list[Chunk]:
    return [Chunk(sequences[c.id], c.start, c.start + c.count, c.last) for c in plan.prefill]


def build_inputs(decode: list[Chunk], prefill: list[Chunk], views: Mapping[str, CacheView]) -> StepInputs:
    """`views` holds a CacheView for each part that has chunks ("decode", "prefill")."""
    tokens: list[int] = []
    parts: list[Part] = []
    logits_at: list[int] = []
    wanted: list[Wanted] = []
    for kind, chunks in (("decode", decode), ("prefill", prefill)):
        if not chunks:
            continue
        offsets = [0]
        for chunk in chunks:
            tokens += chunk.sequence.tokens[chunk.start : chunk.stop]
            offsets.append(offsets[-1] + chunk.stop - chunk.start)
            want_logits(chunk, len(tokens), logits_at, wanted)
        prompt_lens = np.array([c.sequence.prompt_len for c in chunks], dtype=np.int32)
        parts.append(Part(kind, np.array(offsets, dtype=np.int32), views[kind], prompt_lens=prompt_lens))
    return StepInputs(
        tokens=np.array(tokens, dtype=np.int32),
        parts=tuple(parts),
        logits_at=np.array(logits_at, dtype=np.int32),
        wanted=tuple(wanted),
        prefill_tokens=sum(c.stop - c.start for c in prefill),
        decode_tokens=len(decode),
    )


def want_logits(chunk: Chunk, end: int, logits_at: list[int], wanted: list[Wanted]) -> None:
    """Note which logits rows this chunk needs; `end` is the flat index after its last token."""
    # guard[last-real-token]: logits are read at each row's own last token, never at a common last column
    # mutant[last-real-token/one-early]:
    #   - first = end - (chunk.stop - chunk.start if chunk.wants_all else int(chunk.draw))
    #   + first = end - (chunk.stop - chunk.start if chunk.wants_all else 2 * int(chunk.draw))
    first = end - (chunk.stop - chunk.start if chunk.wants_all else int(chunk.draw))
    if first == end:
        return
    wanted.append(Wanted(chunk.sequence.id, len(logits_at), end - first, chunk.draw, chunk.stop - (end - first)))
    logits_at.extend(range(first, end))
