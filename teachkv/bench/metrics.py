"""From a sample's stamps to its figures. Rates in tokens per second, times in seconds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from teachkv.bench.samples import Sample, Served

PERCENTILES = (50, 90, 99)


@dataclass(frozen=True, slots=True)
class Figures:
    """tok_s: output tokens over the whole cell; prefill_tok_s, decode_tok_s: over the steps' own seconds, a mixed step
    split by its tokens. ttft, tpot, itl: percentile -> seconds. bytes_s: weights once per step and live KV columns.
    run_mean, run_max: sequences in a step. cached: share of prompt tokens that a prefix cache supplied."""

    tok_s: float
    prefill_tok_s: float
    decode_tok_s: float
    ttft: Mapping[int, float]
    tpot: Mapping[int, float]
    itl: Mapping[int, float]
    step_s: float
    bytes_s: float
    run_mean: float
    run_max: int
    wait_max: int
    cached: float
    peak_bytes: int
    ops_per_token: float | None
    tokens: int
    seconds: float


def figures(sample: Sample) -> Figures:
    """Requests that failed take their time and give their tokens, but their latencies count for nobody."""
    good = [one for one in sample.served if one.error is None and one.times]
    tokens = sum(len(one.times) for one in sample.served if one.error is None)
    steps = sample.steps
    prefill, decode = rates(sample)
    seconds = sum(step.seconds for step in steps)
    taken = duration(sample)
    facts = sample.facts
    moved = facts.weight_bytes * len(steps) + facts.kv_token_bytes * sum(step.kv_tokens for step in steps)
    return Figures(
        tok_s=tokens / taken if taken else 0.0,
        prefill_tok_s=prefill,
        decode_tok_s=decode,
        ttft=percentiles([ttft(one) for one in good]),
        tpot=percentiles([tpot(one) for one in good if len(one.times) > 1]),
        itl=percentiles([gap for one in good for gap in gaps(one)]),
        step_s=percentile(sorted(step.seconds for step in steps), 50),
        bytes_s=moved / seconds if seconds else 0.0,
        run_mean=sum(step.running for step in steps) / len(steps) if steps else 0.0,
        run_max=max((step.running for step in steps), default=0),
        wait_max=max((step.waiting for step in steps), default=0),
        cached=sum(one.cached for one in sample.served) / max(sum(one.prompt for one in sample.served), 1),
        peak_bytes=facts.peak_bytes,
        ops_per_token=None if facts.op_calls is None or not tokens else facts.op_calls / tokens,
        tokens=tokens,
        seconds=taken,
    )


def duration(sample: Sample) -> float:
    """From the first intended arrival to the last token. That failures may shorten it is why guards refuse them."""
    ends = [one.times[-1] for one in sample.served if one.times]
    return max(ends, default=0.0) - min((one.due for one in sample.served), default=0.0)


def ttft(one: Served) -> float:
    # guard[intended-arrival]: a client that waits for the engine before it sends hides the queue that it waited in
    # mutant[intended-arrival/from-sending]:
    #   - return one.times[0] - one.due
    #   + return one.times[0] - one.sent
    return one.times[0] - one.due


def tpot(one: Served) -> float:
    """Mean time per output token after the first."""
    return (one.times[-1] - one.times[0]) / (len(one.times) - 1)


def gaps(one: Served) -> list[float]:
    """Times between tokens that follow one another, as a reader sees them."""
    return [later - earlier for earlier, later in zip(one.times, one.times[1:], strict=False)]


def rates(sample: Sample) -> tuple[float, float]:
    """(prefill, decode) tokens per second: a sum of both is no rate that any client ever sees."""
    taken, given, taking, giving = 0, 0, 0.0, 0.0
    for step in sample.steps:
        tokens = step.prefill + step.decode
        if tokens:
            taking += step.seconds * step.prefill / tokens
            giving += step.seconds * step.decode / tokens
            taken, given = taken + step.prefill, given + step.decode
    return (taken / taking if taking else 0.0, given / giving if giving else 0.0)


def percentiles(values: Sequence[float]) -> dict[int, float]:
    ordered = sorted(values)
    return {which: percentile(ordered, which) for which in PERCENTILES} if ordered else {}


def percentile(ordered: Sequence[float], which: int) -> float:
    """The smallest value that `which` per cent do not exceed: one that was really seen, never a mean of two."""
    return ordered[max(ceil(which / 100 * len(ordered)), 1) - 1] if ordered else 0.0


# name -> (how to read it, whether more is better)
METRICS: dict[str, tuple[Callable[[Figures], float], bool]] = {
    "tok_s": (lambda f: f.tok_s, True),
    "prefill_tok_s": (lambda f: f.prefill_tok_s, True),
    "decode_tok_s": (lambda f: f.decode_tok_s, True),
    "ttft_p50": (lambda f: f.ttft.get(50, 0.0), False),
    "itl_p99": (lambda f: f.itl.get(99, 0.0), False),
}
