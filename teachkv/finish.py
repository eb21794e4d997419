"""What happens to a sequence when a token has been drawn: append, record, decide whether that was the end."""

import time
from dataclasses import dataclass

from teachkv.errors import TeachKVError
from teachkv.outputs import FinishReason
from teachkv.sample import Draw
from teachkv.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Limits:
    """What ends a sequence apart from its own parameters."""

    max_model_len: int
    eos_ids: frozenset[int]

    def left(self, sequence: Sequence) -> int:
        """Tokens that the sequence may still draw."""
        wanted, most = sequence.request.params.max_tokens, self.max_model_len
        if wanted is not None and sequence.prompt_len + wanted < most:
            most = sequence.prompt_len + wanted
        return most - len(sequence.tokens)


def accept(sequence: Sequence, draw: Draw, limits: Limits) -> str:
    """Append the drawn token and return the text that may now be streamed.

    Order: end-of-sequence and stop tokens, stop strings, then the length limits, so that a stop found on the very last
    token is reported as a stop. The stop token is kept in the ids and left out of the text.
    """
    if sequence.first_token_at is None:
        sequence.first_token_at = time.monotonic()
    sequence.tokens.append(draw.token)
    sequence.state.accept(draw.token)
    if sequence.logprobs is not None and draw.logprobs is not None:
        sequence.logprobs.append(draw.logprobs)
    params = sequence.request.params
    if draw.token in params.stop_token_ids:
        return finish(sequence, "stop", stop_reason=draw.token)
    if draw.token in limits.eos_ids and not params.ignore_eos:
        return finish(sequence, "stop")
    text = sequence.text.push(draw.token)
    if sequence.text.stopped is not None:
        return text + finish(sequence, "stop", stop_reason=sequence.text.stopped)
    if limits.left(sequence) <= 0:
        return text + finish(sequence, "length")
    return text


def finish(
    sequence: Sequence,
    reason: FinishReason,
    *,
    stop_reason: int | str | None = None,
    error: TeachKVError | None = None,
) -> str:
    """End the sequence, once; returns the text that was held back and is now certain."""
    # guard[ends-once]: a sequence that has ended keeps its first reason, whatever is done to it afterwards
    # mutant[ends-once/overwritten]:
    #   - if sequence.finished:
    #   + if False:
    if sequence.finished:
        return ""
    sequence.finish_reason, sequence.stop_reason, sequence.error = reason, stop_reason, error
    sequence.finished_at = time.monotonic()
    return sequence.text.finish(reason)
