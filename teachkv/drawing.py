"""From a step's logits to what each sequence gained: drawn tokens and text, or the error that ends it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from cuda_kernels.registry import Ops
from teachkv.errors import NonFiniteLogits, TeachKVError
from teachkv.finish import Limits, accept
from teachkv.inputs import Wanted
from teachkv.kv.view import Array
from teachkv.sample import Draw, log_softmax, sample_batch
from teachkv.sample.logprobs import report
from teachkv.sequence import Sequence


@dataclass(slots=True)
class Outcome:
    """Tokens drawn and appended, the text that may be shown, or an error (then the rest may be there as well)."""

    sequence: Sequence
    tokens: list[int] = field(default_factory=list)
    text: str = ""
    error: TeachKVError | None = None


def draw_tokens(
    ops: Ops, logits: Array, wanted: tuple[Wanted, ...], sequences: Mapping[int, Sequence], limits: Limits
) -> list[Outcome]:
    """One outcome per sequence that draws. logits [M, V]; `wanted` says whose rows they are.

    Without drafts there is one round. With drafts, round i looks at the rows whose first i drafts have all come true.
    """
    outcomes: list[Outcome] = []
    going: list[tuple[Outcome, Wanted]] = []
    for want in wanted:
        outcome = Outcome(sequences[want.id])
        if outcome.sequence.wants_prompt_logprobs:
            outcome.error = note_prompt_logprobs(outcome.sequence, logits, want)
        if want.draw or outcome.error is not None:
            outcomes.append(outcome)
        if want.draw and outcome.error is None:
            going.append((outcome, want))
    while going:
        rows = [want.draws_at + len(outcome.tokens) for outcome, want in going]
        picked = logits if rows == list(range(len(logits))) else logits[rows]
        draws = sample_batch(ops, picked, [outcome.sequence.state for outcome, _ in going])
        going = [pair for pair, draw in zip(going, draws, strict=True) if goes_on(*pair, draw, limits)]
    return outcomes


def goes_on(outcome: Outcome, want: Wanted, draw: Draw, limits: Limits) -> bool:
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
    if limits.left(sequence) <= 0:
        return False
    outcome.text += accept(sequence, draw, limits)
    outcome.tokens.append(draw.token)
    place = len(outcome.tokens) - 1
    # guard[draft-accepted]: a draft counts only if plain decoding would have drawn it here with its own random number
    # mutant[draft-accepted/always]:
    #   - return not sequence.finished and want.drafts[place : place + 1] == (draw.token,)
    #   + return not sequence.finished and place < len(want.drafts)
    # mutant[draft-accepted/past-the-end]:
    #   - return not sequence.finished and want.drafts[place : place + 1] == (draw.token,)
    #   + return want.drafts[place : place + 1] == (draw.token,)
    return not sequence.finished and want.drafts[place : place + 1] == (draw.token,)


def note_prompt_logprobs(sequence: Sequence, logits: Array, want: Wanted) -> NonFiniteLogits | None:
    """Each of the rows speaks of the prompt token that follows it; said once, not again when a preempted request is
    computed anew. Returns the error that ends the request if a row is not finite."""
    request, params = sequence.request, sequence.request.params
    known = request.prompt_logprobs = request.prompt_logprobs or [None]
    for index in range(want.count):
        at, row = want.position + index + 1, logits[want.first + index]
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
