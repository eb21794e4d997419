"""From a step's logits to one outcome per sequence: a drawn token, or the error that ends it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cuda_kernels.registry import Ops
from teachkv.errors import NonFiniteLogits, TeachKVError
from teachkv.inputs import Wanted
from teachkv.sample import Draw, log_softmax, sample_batch
from teachkv.sample.logprobs import report
from teachkv.sequence import Sequence

Logits = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Exactly one of `draw` and `error` is set."""

    sequence: Sequence
    draw: Draw | None = None
    error: TeachKVError | None = None


def draw_tokens(
    ops: Ops, logits: Logits, wanted: tuple[Wanted, ...], sequences: Mapping[int, Sequence]
) -> list[Outcome]:
    """One outcome per wanted sequence that draws. logits [M, V]; `wanted` says whose rows they are."""
    outcomes: list[Outcome] = []
    drawing: list[tuple[Sequence, int]] = []
    for want in wanted:
        sequence = sequences[want.id]
        rows = slice(want.first, want.first + want.count)
        error = note_prompt_logprobs(sequence, logits[rows], want.position) if sequence.wants_prompt_logprobs else None
        if error is not None:
            outcomes.append(Outcome(sequence, error=error))
        elif want.draw:
            drawing.append((sequence, rows.stop - 1))
    if drawing:
        draws = sample_batch(ops, logits[[row for _, row in drawing]], [sequence.state for sequence, _ in drawing])
        outcomes += [outcome_of(sequence, draw) for (sequence, _), draw in zip(drawing, draws, strict=True)]
    return outcomes


def outcome_of(sequence: Sequence, draw: Draw) -> Outcome:
    # guard[error-ends-request]: an arg-max over NaN is an index like any other, and the text made of it reads like text
    # origin: ninfer-3090#23
    # mutant[error-ends-request/drawn-anyway]:
    #   - if draw.error is None:
    #   + if draw.token >= -1:
    if draw.error is None:
        return Outcome(sequence, draw=draw)
    return Outcome(sequence, error=NonFiniteLogits(f"request {sequence.request.index}: {draw.error}"))


def note_prompt_logprobs(sequence: Sequence, logits: Logits, position: int) -> NonFiniteLogits | None:
    """Row i of `logits` was computed at position + i and speaks of the prompt token that follows; said once, not again
    when a preempted request is computed anew. Returns the error that ends the request if a row is not finite."""
    request, params = sequence.request, sequence.request.params
    known = request.prompt_logprobs = request.prompt_logprobs or [None]
    for row, at in zip(logits, range(position + 1, position + 1 + len(logits)), strict=True):
        if at != len(known) or at >= sequence.prompt_len:
            continue
        if not np.isfinite(row).all():
            where = f"request {request.index}: logits of prompt position {at - 1}"
            return NonFiniteLogits(f"{where} are not finite; check the weights")
        values = log_softmax(row) if params.logprobs_mode.endswith("logprobs") else row
        known.append(report(values, sequence.tokens[at], params.prompt_logprobs or 0, sequence.state.decode))
    return None
