"""From logits to tokens, for a whole step: processors and log-probs per request, then one op for all rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cuda_kernels.sample import spec
from teachkv.errors import NonFiniteLogits
from teachkv.sample.logprobs import TokenLogprobs, log_softmax, report
from teachkv.sample.params import SamplingParams
from teachkv.sample.state import SampleState, random_numbers


@dataclass(slots=True)
class Draw:
    """What one row gave: a token (-1 with an `error`), and its log-probs if the request asked for them."""

    token: int
    logprobs: TokenLogprobs | None = None
    error: NonFiniteLogits | None = None


class SamplingOps(Protocol):
    """The part of a backend (`cuda_kernels.Ops`) that drawing uses."""

    @property
    def xp(self) -> Any: ...

    @property
    def sample(self) -> Any: ...


@dataclass(slots=True)
class Drawing:
    """B rows whose tokens are being drawn: `tokens` [B] lie where the kernels run, perhaps only soon.

    places: index of each token among the generated ones of its request. fetch: waits for the tokens, gives them on the
    host. raw and processed [B, V] must stand until `finish_draw` has looked at them.
    """

    states: Sequence[SampleState]
    places: Sequence[int]
    raw: Any
    processed: Any
    tokens: Any
    fetch: Callable[[], NDArray[np.int32]]


def sample_batch(ops: SamplingOps, logits: Any, states: Sequence[SampleState]) -> list[Draw]:
    """Draw the next token for each of B rows, and wait for it.

    logits [B, V] float32 on the backend's device; they are not changed. states: B, one per row. A row whose logits
    are not finite yields a Draw with `error`, so that the other rows of the step are not lost. `accept` is left to the
    caller, since a drawn token need not be appended.
    """
    if not states:
        return []
    return finish_draw(ops, begin_draw(ops, logits, states, [state.index for state in states]))


def begin_draw(ops: SamplingOps, logits: Any, states: Sequence[SampleState], places: Sequence[int]) -> Drawing:
    """Start the draw of generated token `places[b]` of row b, B >= 1. The host waits for nothing unless it must
    process logits itself (SampleState.processor_at)."""
    if logits.shape[0] != len(states):
        raise ValueError(f"{logits.shape[0]} rows of logits for {len(states)} states")
    processed = _processed(ops, logits, states, places)
    tokens = ops.sample(processed, *_settings(ops, states, places))
    return Drawing(states, places, logits, processed, tokens, lambda: to_host(ops, tokens))


def finish_draw(ops: SamplingOps, drawing: Drawing) -> list[Draw]:
    """Wait for the tokens; one Draw per row."""
    tokens = drawing.fetch().tolist()
    silent = [state.params.logprobs is None for state in drawing.states]
    return [
        Draw(token) if silent[b] and token != spec.NOT_FINITE else _finish(ops, drawing, token, b)
        for b, token in enumerate(tokens)
    ]


def _processed(ops: SamplingOps, logits: Any, states: Sequence[SampleState], places: Sequence[int]) -> Any:
    """The logits the draw sees. Rows that nothing changes are not copied one by one; without any, nothing is."""
    changed = [b for b, state in enumerate(states) if not state.plain and state.processor_at(places[b]) is not None]
    if not changed:
        return logits
    # guard[raw-stays-raw]: log-probs are read from `logits` after this; processing in place would change them
    # mutant[raw-stays-raw/in-place]:
    #   - processed = logits.copy()
    #   + processed = logits
    processed = logits.copy()
    for b in changed:
        row = np.array(to_host(ops, logits[b]), np.float32)
        states[b].process(row)
        processed[b] = ops.xp.asarray(row)
    return processed


def _settings(ops: SamplingOps, states: Sequence[SampleState], places: Sequence[int]) -> tuple[Any, ...]:
    """temperature, top_k, top_p, min_p, uniform, each [B], on the device."""
    settings = settings_there(ops.xp, b"".join([state.words for state in states]))
    if all(state.greedy for state in states):
        return *settings, no_numbers_there(ops.xp, len(states))
    return *settings, ops.xp.asarray(random_numbers(states, places))


@lru_cache(maxsize=16)
def settings_there(xp: Any, words: bytes) -> tuple[Any, Any, Any, Any]:
    """temperature, top_k, top_p, min_p of `SampleState.words`, for reading only. They are sent once: a cohort keeps its
    settings from step to step."""
    columns = np.frombuffer(words, np.float32).reshape(-1, 4).T
    temperature, top_p, min_p, top_k = (xp.asarray(np.ascontiguousarray(column)) for column in columns)
    return temperature, top_k.view(np.int32), top_p, min_p


@lru_cache(maxsize=16)
def no_numbers_there(xp: Any, count: int) -> Any:
    """Greedy rows look at no random number: zeros [B], for reading only."""
    return xp.zeros(count, np.float64)


def _finish(ops: SamplingOps, drawing: Drawing, token: int, b: int) -> Draw:
    """The Draw of a row of which something must be said: then its logits are fetched."""
    params = drawing.states[b].params
    if token == spec.NOT_FINITE:
        return Draw(token, error=_non_finite(drawing.places[b], to_host(ops, drawing.raw[b])))
    assert params.logprobs is not None, "a row of which nothing must be said"
    processed = params.logprobs_mode.startswith("processed")
    row = to_host(ops, (drawing.processed if processed else drawing.raw)[b])
    return Draw(token, report(reported_values(row, params), token, params.logprobs, drawing.states[b].decode))


def reported_values(row: NDArray[np.float32], params: SamplingParams) -> NDArray[np.float32]:
    """row [V] (raw logits, or those after penalties and bias) -> the values that `logprobs_mode` names, [V]."""
    values = row
    if params.logprobs_mode.startswith("processed") and not params.greedy:
        values = _filtered(row, params)
    return log_softmax(values) if params.logprobs_mode.endswith("logprobs") else values


def _filtered(row: NDArray[np.float32], params: SamplingParams) -> NDArray[np.float32]:
    """Logits after temperature, with -inf where top-k, top-p or min-p forbids the token."""
    scaled = spec.scale(row, params.temperature)
    ids = spec.kept(scaled, max(params.top_k, 0), params.top_p, params.min_p)
    if ids is None:
        return scaled
    values = np.full_like(scaled, -np.inf)
    values[ids] = scaled[ids]
    return values


def _non_finite(place: int, row: NDArray[np.float32]) -> NonFiniteLogits:
    if np.isnan(row).any():
        what, advice = "NaN", "check the weights"
    elif np.isposinf(row).any():
        what, advice = "infinity", "check the weights"
    else:
        what, advice = "no token that may be drawn", "check logit_bias, min_tokens and the weights"
    return NonFiniteLogits(f"logits of generated token {place} hold {what}; {advice}")


def to_host(ops: SamplingOps, array: Any) -> NDArray[Any]:
    return np.asarray(ops.xp.asnumpy(array) if hasattr(ops.xp, "asnumpy") else array)
