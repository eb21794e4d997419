"""From a plan to what the model eats: one flat token axis, decode rows first, then prompt chunks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
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
    """Tokens [start, start + count) of one sequence; of a decoder (start None) its last token, which may still be being
    drawn, and `drafts` that are guessed to follow.

    draw: a token is drawn after the last one that is certain (and after each draft that comes true).
    rows, first_row: rows [first_row, first_row + rows) of the step's logits are those of its last `rows` tokens.
    draws_at: the row that is drawn from first; one more for each draft follows.
    """

    sequence: Sequence
    start: int | None
    count: int
    draw: bool
    drafts: tuple[int, ...] = ()
    rows: int = 0
    first_row: int = 0
    draws_at: int = 0

    @property
    def tokens(self) -> list[int]:
        """A token that is still being drawn is 0 here."""
        if self.start is None:
            return [0 if self.sequence.unseen else self.sequence.tokens[-1], *self.drafts]
        return self.sequence.tokens[self.start : self.start + self.count]

    @property
    def wants_all(self) -> bool:
        """Prompt log-probs need the logits of every prompt position."""
        sequence = self.sequence
        return sequence.wants_prompt_logprobs and self.start is not None and self.start < sequence.prompt_len


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
    """A decoder computes its last drawn token, the only one without KV, and what has been guessed to follow it.

    Without guesses these chunks say nothing that changes from step to step: they serve as long as the same decode.
    """
    guessed = {id: tuple(guesses) for id, guesses in (drafts or {}).items()}
    rows = [(id, guessed.get(id, ())) for id in plan.decode]
    return [Chunk(sequences[id], None, 1 + len(few), True, few, 1, b, b) for b, (id, few) in enumerate(rows)]


def prefill_chunks(plan: Plan, sequences: Mapping[int, Sequence]) -> list[Chunk]:
    return [Chunk(sequences[c.id], c.start, c.count, c.last) for c in plan.prefill]


@dataclass(slots=True)
class FlatAxis:
    """The lists of StepInputs while they grow."""

    tokens: list[int] = field(default_factory=list)
    logits_at: list[int] = field(default_factory=list)
    wanted: list[Chunk] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)

    def add(self, chunks: list[Chunk]) -> list[int]:
        """Where each chunk begins, counted from the first, and the end of the last."""
        offsets = [0]
        for chunk in chunks:
            if chunk.start is None and chunk.sequence.unseen:
                self.places.append(len(self.tokens))
                self.ids.append(chunk.sequence.id)
            self.tokens += chunk.tokens
            offsets.append(offsets[-1] + chunk.count)
            rows = want_logits(chunk, len(self.tokens), len(self.logits_at))
            if rows:
                self.logits_at += rows
                self.wanted.append(chunk)
        return offsets

    def begin(self, decoders: list[Chunk]) -> list[int]:
        """The same for decoders without drafts at the beginning of the axis: row b is that of chunk b."""
        who, rows = [chunk.sequence for chunk in decoders], list(range(len(decoders)))
        self.tokens = [0 if sequence.unseen else sequence.tokens[-1] for sequence in who]
        self.places = [b for b, sequence in enumerate(who) if sequence.unseen]
        self.ids = [who[b].id for b in self.places]
        self.logits_at, self.wanted = rows, list(decoders)
        return [*rows, len(rows)]


def build_inputs(chunks: Mapping[Kind, list[Chunk]], views: Mapping[Kind, CacheView]) -> StepInputs:
    """`views` holds a CacheView for each part that has chunks, decode first."""
    flat, parts = FlatAxis(), []
    for kind, view in views.items():
        plain = kind == "decode" and len(view.positions) == len(chunks[kind])
        offsets = flat.begin(chunks[kind]) if plain else flat.add(chunks[kind])
        prompt_lens = np.array([c.sequence.prompt_len for c in chunks[kind]], dtype=np.int32)
        parts.append(Part(kind, np.array(offsets, dtype=np.int32), view, prompt_lens=prompt_lens))
    return StepInputs(
        tokens=np.array(flat.tokens, dtype=np.int32),
        parts=tuple(parts),
        logits_at=np.array(flat.logits_at, dtype=np.int32),
        wanted=tuple(flat.wanted),
        unseen=(flat.places, flat.ids),
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
    chunk.rows, chunk.first_row, chunk.draws_at = needed, first_row, first_row + needed - 1 - len(chunk.drafts)
    return range(end - needed, end)
