"""From a plan to what the model eats: one flat token axis, decode rows first, then prompt chunks."""

from collections.abc import Mapping
from collections.abc import Sequence as Run
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
    """

    sequence: Sequence
    start: int
    count: int
    draw: bool
    drafts: tuple[int, ...] = ()
    unseen: bool = False

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


@dataclass(slots=True)
class Wanted:
    """Rows [first, first + count) of the logits belong to sequence `id`; the first was computed at `position`.

    draw: the row `draws_at`, and one more for each draft, is drawn from.
    """

    id: int
    first: int
    count: int
    position: int
    draw: bool
    drafts: tuple[int, ...]

    @property
    def draws_at(self) -> int:
        return self.first + self.count - 1 - len(self.drafts)


@dataclass(frozen=True, slots=True)
class StepInputs:
    """tokens [T]; parts in order; logits_at [M] = flat token indices; `wanted` says whose they are.

    unseen: (flat token index, sequence id) of tokens that are still being drawn.
    """

    tokens: NDArray[np.int32]
    parts: tuple[Part, ...]
    logits_at: NDArray[np.int32]
    wanted: tuple[Wanted, ...]
    unseen: tuple[tuple[int, int], ...] = ()


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
    wanted: list[Wanted] = []
    unseen: list[tuple[int, int]] = []
    for kind, view in views.items():
        offsets = [0]
        for chunk in chunks[kind]:
            if chunk.unseen:
                unseen.append((len(tokens), chunk.sequence.id))
            tokens += chunk.tokens
            offsets.append(offsets[-1] + chunk.count)
            want_logits(chunk, len(tokens), logits_at, wanted)
        prompt_lens = np.array([c.sequence.prompt_len for c in chunks[kind]], dtype=np.int32)
        parts.append(Part(kind, np.array(offsets, dtype=np.int32), view, prompt_lens=prompt_lens))
    return StepInputs(
        tokens=np.array(tokens, dtype=np.int32),
        parts=tuple(parts),
        logits_at=np.array(logits_at, dtype=np.int32),
        wanted=tuple(wanted),
        unseen=tuple(unseen),
    )


def handed_over(xp: Any, tokens: Array, unseen: Run[tuple[int, int]], drawn: Array) -> Array:
    """tokens [T] where the kernels run. `unseen` = (place, row) takes the token at place from row of drawn [B], which
    may still be on its way: nothing passes through the host."""
    if not unseen:
        return tokens
    places, rows = [place for place, _ in unseen], [row for _, row in unseen]
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


def want_logits(chunk: Chunk, end: int, logits_at: list[int], wanted: list[Wanted]) -> None:
    """Note which logits rows this chunk needs; `end` is the flat index after its last token."""
    # guard[last-real-token]: logits are read at each row's own last token, never at a common last column
    # mutant[last-real-token/one-early]:
    #   - needed = chunk.count if chunk.wants_all else (1 + len(chunk.drafts)) * chunk.draw
    #   + needed = chunk.count if chunk.wants_all else (2 + len(chunk.drafts)) * chunk.draw
    needed = chunk.count if chunk.wants_all else (1 + len(chunk.drafts)) * chunk.draw
    if needed:
        position = chunk.start + chunk.count - needed
        wanted.append(Wanted(chunk.sequence.id, len(logits_at), needed, position, chunk.draw, chunk.drafts))
        logits_at.extend(range(end - needed, end))
