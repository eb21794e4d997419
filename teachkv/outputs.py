"""What a request gives back. Names and fields follow vLLM's offline API where they coincide."""

from dataclasses import dataclass, field
from typing import Literal

from teachkv.errors import TeachKVError
from teachkv.sample import Logprob, TokenLogprobs

FinishReason = Literal["stop", "length", "abort", "error"]


__all__ = ["CompletionOutput", "FinishReason", "Logprob", "RequestMetrics", "RequestOutput", "StreamChunk"]


@dataclass(slots=True)
class CompletionOutput:
    """One sample of a request. `token_ids` holds the ids as drawn, a stop token included; `text` leaves it out."""

    index: int
    text: str
    token_ids: list[int]
    cumulative_logprob: float | None
    logprobs: list[TokenLogprobs] | None
    finish_reason: FinishReason | None
    stop_reason: int | str | None = None
    error: TeachKVError | None = None


@dataclass(frozen=True, slots=True)
class RequestMetrics:
    """Seconds on the monotonic clock; `first_token` is None if none was drawn."""

    arrival: float
    first_token: float | None
    finished: float

    @property
    def time_to_first_token(self) -> float | None:
        return None if self.first_token is None else self.first_token - self.arrival


@dataclass(slots=True)
class RequestOutput:
    """A finished request: its prompt as the model saw it, and `n` completions."""

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    prompt_logprobs: list[TokenLogprobs | None] | None
    outputs: list[CompletionOutput]
    num_cached_tokens: int
    metrics: RequestMetrics
    finished: bool = True

    @property
    def error(self) -> TeachKVError | None:
        """The first error among the completions, if any ended by one."""
        return next((o.error for o in self.outputs if o.error is not None), None)


@dataclass(slots=True)
class StreamChunk:
    """One piece of a running request: text that will never be taken back, and the tokens drawn since the last piece."""

    request: int
    index: int
    text: str
    token_ids: list[int] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    output: RequestOutput | None = None
