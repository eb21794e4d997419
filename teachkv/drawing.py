"""From a step's logits to what each sequence gained: drawn tokens and text, or the error that ends it."""

import time
from dataclasses import dataclass, field

import numpy as np

from cuda_kernels.registry import Ops
from teachkv.errors import NonFiniteLogits, TeachKVError
from teachkv.finish import Limits, accept
from teachkv.inputs import Chunk
from teachkv.kv.view import Array
from teachkv.sample import Draw, Drawing, begin_draw, finish_draw, log_softmax, sample_batch
from teachkv.sample.logprobs import report
from teachkv.sequence import Sequence


@dataclass(slots=True)
class Outcome:
    """What a step did for one sequence: tokens drawn and appended, the text that may be shown now, or an error (then
    the rest may be there as well)."""

    sequence: Sequence
    tokens: list[int] = field(default_factory=list)
    text: str = ""
    error: TeachKVError | None = None


@dataclass(slots=True)
class FirstRound:
    """The draw that a step begins at once, before anybody has looked at a token: row b is of `chunks[b]`."""

    chunks: list[Chunk]
    drawing: Drawing

    @property
    def tokens(self) -> Array:
        """[B] int32 where the kernels run."""
        tokens: Array = self.drawing.tokens
        return tokens

    def rows_of(self, ids: list[int]) -> list[int]:
        """Rows of these sequences' tokens in `tokens`."""
        own = [chunk.sequence.id for chunk in self.chunks]
        if ids == own:
            return list(range(len(own)))
        row = {id: b for b, id in enumerate(own)}
        return [row[id] for id in ids]

    def wait(self) -> float:
        """Until the tokens are on the host; returns the seconds that took."""
        began = time.perf_counter()
        tokens = self.drawing.fetch()
        self.drawing.fetch = lambda: tokens
        return time.perf_counter() - began


def begin_round(ops: Ops, logits: Array, wanted: tuple[Chunk, ...]) -> FirstRound | None:
    """Start the draws of all sequences that draw; None if there are none. logits [M, V] as for `draw_tokens`."""
    going = [chunk for chunk in wanted if chunk.draw]
    if not going:
        return None
    states = [chunk.sequence.state for chunk in going]
    places = [chunk.sequence.state.index + chunk.sequence.unseen for chunk in going]
    rows = rows_at(logits, [chunk.draws_at for chunk in going])
    return FirstRound(going, begin_draw(ops, rows, states, places))


def draw_tokens(
    ops: Ops, logits: Array, wanted: tuple[Chunk, ...], limits: Limits, first: FirstRound | None
) -> list[Outcome]:
    """One outcome per sequence that draws and is still here. logits [M, V] are rows of the chunks `wanted`.

    Without drafts there is one round, the `first`. With drafts, round i looks at the rows whose first i drafts have all
    come true.
    """
    draws = iter([] if first is None else finish_draw(ops, first.drawing))
    outcomes: list[Outcome] = []
    going: list[tuple[Outcome, Chunk]] = []
    for chunk in wanted:
        draw, sequence = next(draws) if chunk.draw else None, chunk.sequence
        # guard[surplus-dropped]: it ended with the token before, which nobody knew when this one was asked for
        # mutant[surplus-dropped/ended-goes-on]:
        #   - if sequence.finished:
        #   + if False:
        if sequence.finished:
            continue
        outcome = Outcome(sequence)
        if sequence.wants_prompt_logprobs and chunk.wants_all:
            outcome.error = note_prompt_logprobs(sequence, logits, chunk)
        if draw is not None or outcome.error is not None:
            outcomes.append(outcome)
        if draw is not None and outcome.error is None and goes_on(outcome, chunk, draw, limits):
            going.append((outcome, chunk))
    while going:
        rows = rows_at(logits, [chunk.draws_at + len(outcome.tokens) for outcome, chunk in going])
        more = sample_batch(ops, rows, [outcome.sequence.state for outcome, _ in going])
        going = [pair for pair, draw in zip(going, more, strict=True) if goes_on(*pair, draw, limits)]
    return outcomes


def rows_at(logits: Array, rows: list[int]) -> Array:
    """logits [M, V] -> [B, V]; the array itself where that is all of it."""
    picked: Array = logits if rows == list(range(len(logits))) else logits[rows]
    return picked


def goes_on(outcome: Outcome, chunk: Chunk, draw: Draw, limits: Limits) -> bool:
    """Take the draw in; True if a draft stood here and was right, so that the next position counts too."""
    sequence = outcome.sequence
    # guard[error-ends-request]: an arg-max over NaN is an index like any other, and text made of it reads like text
    # origin: ninfer-3090#23
    # mutant[error-ends-request/drawn-anyway]:
    #   - if draw.error is not None:
    #   + if draw.error is not None and draw.token >= 0:
    if draw.error is not None:
        outcome.error = NonFiniteLogits(f"request {sequence.request.index}: {draw.error}")
        return False
    left = limits.left(sequence)
    if left <= 0:
        return False
    outcome.text += accept(sequence, draw, last=left == 1)
    outcome.tokens.append(draw.token)
    if not chunk.drafts:
        return False
    place = len(outcome.tokens) - 1
    # guard[draft-accepted]: a draft counts only if plain decoding would have drawn it here with its own random number
    # mutant[draft-accepted/always]:
    #   - return not sequence.finished and chunk.drafts[place : place + 1] == (draw.token,)
    #   + return not sequence.finished and place < len(chunk.drafts)
    # mutant[draft-accepted/past-the-end]:
    #   - return not sequence.finished and chunk.drafts[place : place + 1] == (draw.token,)
    #   + return chunk.drafts[place : place + 1] == (draw.token,)
    return not sequence.finished and chunk.drafts[place : place + 1] == (draw.token,)


def note_prompt_logprobs(sequence: Sequence, logits: Array, chunk: Chunk) -> NonFiniteLogits | None:
    """Each of the rows speaks of the prompt token that follows it; said once, not again when a preempted request is
    computed anew. Returns the error that ends the request if a row is not finite."""
    request, params, start = sequence.request, sequence.request.params, chunk.start or 0
    known = request.prompt_logprobs = request.prompt_logprobs or [None]
    for index in range(chunk.rows):
        at, row = start + chunk.count - chunk.rows + index + 1, logits[chunk.first_row + index]
        # guard[said-once]: a prompt that is computed again after a shortage has reported these positions already
        # mutant[said-once/again]:
        #   - if at != len(known) or at >= sequence.prompt_len:
        #   + if at >= sequence.prompt_len:
        if at != len(known) or at >= sequence.prompt_len:
            continue
        if not np.isfinite(row).all():
            where = f"request {request.index}: logits of prompt position {at - 1}"
            return NonFiniteLogits(f"{where} are not finite; check the weights")
        values = log_softmax(row) if params.logprobs_mode.endswith("logprobs") else row
        known.append(report(values, sequence.tokens[at], params.prompt_logprobs or 0, sequence.state.decode))
    return None
