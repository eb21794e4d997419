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
        if not sequence.most:
            wanted = sequence.request.params.max_tokens
            whole = self.max_model_len if wanted is None else sequence.prompt_len + wanted
            sequence.most = min(whole, self.max_model_len)
        return sequence.most - len(sequence.tokens)


def accept(sequence: Sequence, draw: Draw, *, last: bool) -> str:
    """Append the drawn token and return the text that may now be streamed. last: none may follow it.

    Order: end-of-sequence and stop tokens, stop strings, then the length limits, so that a stop found on the very last
    token is reported as a stop. The stop token is kept in the ids and left out of the text.
    """
    if sequence.first_token_at is None:
        sequence.first_token_at = time.monotonic()
    token, state = draw.token, sequence.state
    sequence.tokens.append(token)
    state.accept(token)
    if sequence.logprobs is not None and draw.logprobs is not None:
        sequence.logprobs.append(draw.logprobs)
    if token in state.endings:
        asked_for = token in sequence.request.params.stop_token_ids
        return finish(sequence, "stop", stop_reason=token if asked_for else None)
    text = sequence.text.push(token)
    if sequence.text.stopped is not None:
        return text + finish(sequence, "stop", stop_reason=sequence.text.stopped)
    if last:
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
