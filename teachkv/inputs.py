"""From a plan to what the model eats: one flat token axis, decode rows first, then prompt chunks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from teachkv.attention import Kind
from teachkv.kv import CacheView
from teachkv.kv.view import Array
from teachkv.placing import Part
from teachkv.schedule import Plan
from teachkv.sequence import Sequence


@dataclass(slots=True)
class Chunk:
    """Tokens [start, start + count) of one sequence, the last `len(drafts)` of them guessed.

    draw: a token is drawn after the last one that is certain (and after each draft that comes true).
    unseen: its one token is still being drawn by the step before; the host writes 0 in its place.
    rows, first_row: rows [first_row, first_row + rows) of the step's logits are those of its last `rows` tokens.
    """

    sequence: Sequence
    start: int
    count: int
    draw: bool
    drafts: tuple[int, ...] = ()
    unseen: bool = False
    rows: int = 0
    first_row: int = 0

    @property
    def tokens(self) -> list[int]:
        if self.unseen:
            return [0]
        known = self.sequence.tokens[self.start : self.start + self.count - len(self.drafts)]
        return [*known, *self.drafts]

    @property
    def wants_all(self) -> bool:
        """Prompt log-probs need the logits of every prompt position."""
        return self.sequence.wants_prompt_logprobs and self.start < self.sequence.prompt_len

    @property
    def draws_at(self) -> int:
        """The row that is drawn from first; one more for each draft follows."""
        return self.first_row + self.rows - 1 - len(self.drafts)


@dataclass(frozen=True, slots=True)
class StepInputs:
    """tokens [T]; parts in order; logits_at [M] = flat token indices; `wanted` are the chunks whose they are.

    unseen: (flat token indices, sequence ids) of tokens that are still being drawn.
    """

    tokens: NDArray[np.int32]
    parts: tuple[Part, ...]
    logits_at: NDArray[np.int32]
    wanted: tuple[Chunk, ...]
    unseen: tuple[list[int], list[int]] = ([], [])


def decode_chunks(
    plan: Plan, sequences: Mapping[int, Sequence], drafts: Mapping[int, list[int]] | None = None
) -> list[Chunk]:
    """A decoder computes its last drawn token, the only one without KV, and what has been guessed to follow it."""
    chunks = []
    for id in plan.decode:
        sequence, guessed = sequences[id], tuple((drafts or {}).get(id, ()))
        start, unseen = len(sequence.tokens) - 1 + sequence.unseen, sequence.unseen > 0
        chunks.append(Chunk(sequence, start, 1 + len(guessed), True, guessed, unseen))
    return chunks


def prefill_chunks(plan: Plan, sequences: Mapping[int, Sequence]) -> list[Chunk]:
    return [Chunk(sequences[c.id], c.start, c.count, c.last) for c in plan.prefill]


def build_inputs(chunks: Mapping[Kind, list[Chunk]], views: Mapping[Kind, CacheView]) -> StepInputs:
    """`views` holds a CacheView for each part that has chunks."""
    tokens: list[int] = []
    parts: list[Part] = []
    logits_at: list[int] = []
    wanted: list[Chunk] = []
    places: list[int] = []
    ids: list[int] = []
    for kind, view in views.items():
        offsets = [0]
        for chunk in chunks[kind]:
            if chunk.unseen:
                places.append(len(tokens))
                ids.append(chunk.sequence.id)
            tokens += chunk.tokens
            offsets.append(offsets[-1] + chunk.count)
            rows = want_logits(chunk, len(tokens), len(logits_at))
            if rows:
                logits_at += rows
                wanted.append(chunk)
        prompt_lens = np.array([c.sequence.prompt_len for c in chunks[kind]], dtype=np.int32)
        parts.append(Part(kind, np.array(offsets, dtype=np.int32), view, prompt_lens=prompt_lens))
    return StepInputs(
        tokens=np.array(tokens, dtype=np.int32),
        parts=tuple(parts),
        logits_at=np.array(logits_at, dtype=np.int32),
        wanted=tuple(wanted),
        unseen=(places, ids),
    )


def handed_over(xp: Any, tokens: Array, places: list[int], rows: list[int], drawn: Array) -> Array:
    """tokens [T] where the kernels run; the one at places[i] is drawn[rows[i]] of drawn [B], which may still be on its
    way: nothing passes through the host."""
    if not places:
        return tokens
    # guard[failed-draw]: a draw that failed is no token; its row ends when that is seen, and must do no harm until then
    # mutant[failed-draw/looked-up]:
    #   - drawn = xp.maximum(drawn, 0)
    #   + pass
    drawn = xp.maximum(drawn, 0)
    if places == rows == list(range(len(tokens))) and len(drawn) == len(tokens):
        return drawn
    there: Array = xp.array(tokens)
    there[xp.asarray(places)] = drawn[xp.asarray(rows)]
    return there


def want_logits(chunk: Chunk, end: int, first_row: int) -> range:
    """The flat token indices whose logits this chunk needs, noted in it as rows from `first_row` on; `end` is the flat
    index after its last token."""
    # guard[last-real-token]: logits are read at each row's own last token, never at a common last column
    # mutant[last-real-token/one-early]:
    #   - needed = chunk.count if chunk.wants_all else (1 + len(chunk.drafts)) * chunk.draw
    #   + needed = chunk.count if chunk.wants_all else (2 + len(chunk.drafts)) * chunk.draw
    needed = chunk.count if chunk.wants_all else (1 + len(chunk.drafts)) * chunk.draw
    chunk.rows, chunk.first_row = needed, first_row
    return range(end - needed, end)
