"""What one request asks of the sampler. Names and meanings are vLLM's; differences are said field by field."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from teachkv.errors import OptionError
from teachkv.sample.options import names_near_misses, refuse_unknown

LogprobsMode = Literal["raw_logprobs", "processed_logprobs", "raw_logits", "processed_logits"]
LOGPROBS_MODES: tuple[str, ...] = get_args(LogprobsMode)
MAX_SEED = 2**64
MAX_TOP_K = 2**31 - 1  # kernels count in 32 bits; far above any vocabulary


@names_near_misses
@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """How the tokens of one request are drawn, when it ends, and what is reported.

    n: completions per prompt, each with its own random numbers; with temperature 0 all would be equal: refused.
    temperature: divides the logits, default 1.0 as in vLLM; 0 is greedy.
    top_k: exactly k tokens stay, ties to the lowest id; 0 or -1 is off.
    top_p: the smallest set whose mass reaches p stays, 0 < p <= 1; 1 is off.
    min_p: tokens of at least this share of the largest probability stay; 0 is off.
    seed: 0 .. 2**64-1; None takes one from (engine seed, request id).
    max_tokens: most tokens to generate, default 16 as in vLLM; 0 generates nothing; None fills the context.
    min_tokens: no eos, stop token or stop string ends the text before that many tokens.
    stop: strings that end the text.
    stop_token_ids: token ids that end the text, whether or not they are the model's.
    ignore_eos: the model's own eos ids do not end the text; `stop` and `stop_token_ids` still do.
    presence_penalty: subtracted once from every token generated so far, -2 .. 2.
    frequency_penalty: subtracted per occurrence among the generated tokens, -2 .. 2.
    repetition_penalty: divides positive and multiplies negative logits of tokens in prompt or output, once per token.
    logit_bias: token id -> -100 .. 100 added to its logit, or -inf to forbid it.
    logprobs: report the n likeliest tokens and always the drawn one; -1 the whole vocabulary; None is off.
    prompt_logprobs: the same for every prompt token but the first.
    logprobs_mode: raw values (before penalties, the default) or processed ones (what the draw saw).
    skip_special_tokens: leave control tokens out of the text.
    include_stop_str_in_output: keep the stop string that ended the text.

    Raises OptionError for a value out of range, UnknownOption for a name that is none of these.
    """

    n: int = 1
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None
    max_tokens: int | None = 16
    min_tokens: int = 0
    stop: str | list[str] | tuple[str, ...] | None = None
    stop_token_ids: list[int] | tuple[int, ...] = ()
    ignore_eos: bool = False
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: Mapping[int, float] | None = None
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    logprobs_mode: LogprobsMode = "raw_logprobs"
    skip_special_tokens: bool = True
    include_stop_str_in_output: bool = False

    def __post_init__(self) -> None:
        self._check_drawing()
        self._check_ending()
        self._check_reporting()
        # Owned copies: a list that the caller changes later must not change a running request.
        object.__setattr__(self, "stop", self.stop_strings)
        object.__setattr__(self, "stop_token_ids", tuple(self.stop_token_ids or ()))
        object.__setattr__(self, "logit_bias", {int(t): float(b) for t, b in (self.logit_bias or {}).items()})

    def __hash__(self) -> int:
        return hash(
            (self.stop, self.stop_token_ids, self.seed, self.temperature, self.top_k, self.top_p, self.max_tokens)
        )

    def _check_drawing(self) -> None:
        _integer("n", self.n, 1)
        _number("temperature", self.temperature, 0.0)
        _integer("top_k", self.top_k, -1, MAX_TOP_K)
        _number("top_p", self.top_p, 0.0, 1.0, open_low=True)
        _number("min_p", self.min_p, 0.0, 1.0)
        _number("presence_penalty", self.presence_penalty, -2.0, 2.0)
        _number("frequency_penalty", self.frequency_penalty, -2.0, 2.0)
        _number("repetition_penalty", self.repetition_penalty, 0.0, open_low=True)
        if self.seed is not None:
            _integer("seed", self.seed, 0, MAX_SEED - 1)
        if self.n > 1 and self.temperature == 0:
            raise OptionError(
                f"n={self.n} with temperature=0 gives {self.n} equal texts; set n=1 or a temperature above 0"
            )

    def _check_ending(self) -> None:
        _collection("stop", self.stop, (str, list, tuple))
        _collection("stop_token_ids", self.stop_token_ids, (list, tuple))
        if self.max_tokens is not None:
            _integer("max_tokens", self.max_tokens, 0)
        _integer("min_tokens", self.min_tokens, 0)
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise OptionError(
                f"min_tokens={self.min_tokens} is above max_tokens={self.max_tokens}; lower one or raise the other"
            )
        if not all(isinstance(text, str) and text for text in self.stop_strings):
            raise OptionError(f"stop={self.stop!r}: every stop must be a non-empty string")
        for token in self.stop_token_ids or ():  # None is tolerated, as in vLLM
            _integer("stop_token_ids", token, 0)

    def _check_reporting(self) -> None:
        _collection("logit_bias", self.logit_bias, (Mapping,))
        for name in ("ignore_eos", "skip_special_tokens", "include_stop_str_in_output"):
            if not isinstance(getattr(self, name), bool):
                raise OptionError(f"{name}={getattr(self, name)!r} must be True or False")
        for name in ("logprobs", "prompt_logprobs"):
            if getattr(self, name) is not None:
                _integer(name, getattr(self, name), -1)
        if self.logprobs_mode not in LOGPROBS_MODES:
            raise OptionError(f"logprobs_mode={self.logprobs_mode!r} is unknown; known: {', '.join(LOGPROBS_MODES)}")
        for token, bias in (self.logit_bias or {}).items():
            _integer("logit_bias token", token, 0)
            if bias != -math.inf:
                _number(f"logit_bias[{token}]", bias, -100.0, 100.0)

    @property
    def stop_strings(self) -> tuple[str, ...]:
        """`stop` as a tuple, whichever way it was given."""
        if self.stop is None:
            return ()
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    @classmethod
    def from_dict(cls, options: Mapping[str, Any]) -> "SamplingParams":
        """Build from a mapping (a JSON body, a command line). Raises UnknownOption, OptionError."""
        refuse_unknown(options, (field.name for field in fields(cls)), cls.__name__)
        return cls(**options)


def _collection(name: str, value: object, kinds: tuple[type, ...]) -> None:
    if value is not None and not isinstance(value, kinds):
        raise OptionError(f"{name}={value!r} must be {' or '.join(kind.__name__.lower() for kind in kinds)}, or None")


def _integer(name: str, value: object, low: int, high: int | None = None) -> None:
    bounds = f"at least {low}" if high is None else f"from {low} to {high}"
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise OptionError(f"{name}={value!r} must be an integer, {bounds}")
    number = value.__index__()
    if number < low or (high is not None and number > high):
        raise OptionError(f"{name}={value!r} must be {bounds}")


def _number(name: str, value: object, low: float, high: float = math.inf, *, open_low: bool = False) -> None:
    bounds = f"{'above' if open_low else 'at least'} {low:g}" + (f" and at most {high:g}" if high < math.inf else "")
    if isinstance(value, bool) or not hasattr(value, "__float__") or isinstance(value, str):
        raise OptionError(f"{name}={value!r} must be a number, {bounds}")
    number = float(value)
    if not math.isfinite(number) or number < low or number > high or (open_low and number == low):
        raise OptionError(f"{name}={value!r} must be {bounds}")
