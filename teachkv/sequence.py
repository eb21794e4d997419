"""The record of one running sample, from its prompt to its end."""

import time
from dataclasses import dataclass, field

from teachkv.errors import TeachKVError
from teachkv.outputs import CompletionOutput, FinishReason
from teachkv.prompts import ParsedPrompt
from teachkv.sample import SampleState, SamplingParams, TokenLogprobs
from teachkv.text import TextStream


@dataclass(slots=True, eq=False)
class Request:
    """What a caller asked for. Its `n` samples run as `n` sequences that share nothing but the prompt."""

    index: int
    prompt: ParsedPrompt
    params: SamplingParams
    arrival: float = field(default_factory=time.monotonic)
    prompt_logprobs: list[TokenLogprobs | None] | None = None


@dataclass(slots=True, eq=False)
class Sequence:
    """State is keyed by `id`, never by a row number: rows move, ids do not.

    `tokens` holds the prompt and what was drawn; the last drawn token has no KV until the next step computes it.
    unseen: tokens that are being drawn and are not in `tokens` yet, while a further step is prepared (0 or 1).
    in_flight: positions computed by a step whose tokens nobody has looked at yet.
    most: tokens that it may come to have; 0 = not asked yet (finish.Limits).
    """

    id: int
    request: Request
    sample_index: int
    state: SampleState
    text: TextStream
    tokens: list[int]
    cached: int = 0
    unseen: int = 0
    in_flight: int = 0
    most: int = 0
    logprobs: list[TokenLogprobs] | None = None
    first_token_at: float | None = None
    finished_at: float | None = None
    finish_reason: FinishReason | None = None
    stop_reason: int | str | None = None
    error: TeachKVError | None = None
    prompt_len: int = field(init=False)
    wants_prompt_logprobs: bool = field(init=False)

    def __post_init__(self) -> None:
        self.prompt_len = len(self.request.prompt.ids)
        self.wants_prompt_logprobs = self.request.params.prompt_logprobs is not None and self.sample_index == 0

    @property
    def generated(self) -> list[int]:
        return self.tokens[self.prompt_len :]

    @property
    def num_generated(self) -> int:
        return len(self.tokens) - self.prompt_len

    @property
    def finished(self) -> bool:
        return self.finish_reason is not None

    def completion(self) -> CompletionOutput:
        total = None
        if self.logprobs is not None:
            total = sum(entry[token].logprob for entry, token in zip(self.logprobs, self.generated, strict=True))
        return CompletionOutput(
            index=self.sample_index,
            text=self.text.text,
            token_ids=self.generated,
            cumulative_logprob=total,
            logprobs=self.logprobs,
            finish_reason=self.finish_reason,
            stop_reason=self.stop_reason,
            error=self.error,
        )
