"""What may be said about two arms. Everything that may not is *unresolved*, whichever way it points."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Literal

Pair = tuple[float, float]
READABLE = 0.10  # below this a ladder says nothing: the arms arrive at a rung in different states
ENOUGH = 5  # samples per arm for a small difference
STEADY = 0.10  # a host whose own speed strays by less says nothing against a claim


@dataclass(frozen=True, slots=True)
class Claim:
    """delta: the arm against the base, +0.2 = 20 % more. spread: how far A strayed from A in the same call, or None.

    resolved: it may be said. refused: it may not even be asked (no A/A pair, no common rounds).
    """

    status: Literal["resolved", "unresolved", "refused"]
    delta: float
    spread: float | None
    samples: int
    reason: str

    def __str__(self) -> str:
        if self.status == "refused":
            return f"refused: {self.reason}"
        against = "no A/A" if self.spread is None else f"A/A within {self.spread:.1%}"
        told = f"{self.delta:+.1%} ({self.samples} per arm, {against})"
        return told if self.status == "resolved" else f"unresolved: {told}, {self.reason}"


def claim(
    base: Sequence[float], arm: Sequence[float], null: Sequence[Pair], *, ladder: bool, pulses: Sequence[float] = ()
) -> Claim:
    """base, arm: one figure per round, in the order of rounds; null: (A, A again) of every round that has both.
    pulses: what the host's own fixed work took around each of these samples.

    The delta is the geometric mean of the ratios round by round, so that what drifts over the run falls out.
    """
    if not base or len(base) != len(arm):
        return Claim("refused", 0.0, None, 0, "the arms have no rounds in common")
    delta, noise = gain(base, arm), spread(null)
    if noise is None:
        # guard[null]: without A against A in the same call nobody knows what no difference looks like
        # mutant[null/not-needed]:
        #   - return Claim("refused", delta, None, len(base), "no A/A pair in this call")
        #   + noise = 0.0
        return Claim("refused", delta, None, len(base), "no A/A pair in this call")
    verdict = unsteady(delta, pulses) or doubt(delta, noise, len(base), ladder)
    return Claim("unresolved" if verdict else "resolved", delta, noise, len(base), verdict)


def unsteady(delta: float, pulses: Sequence[float]) -> str:
    """Why the machine's own speed forbids the claim; empty if it does not."""
    strayed = max(pulses) / min(pulses) if pulses else 1.0
    # guard[steady-machine]: an arm whose samples fell on slow cores lost 40 % to one that did the same work
    # mutant[steady-machine/not-asked]:
    #   - if strayed > 1 + STEADY and 1 / strayed <= 1 + delta <= strayed:
    #   + if False:
    # mutant[steady-machine/gains-only]:
    #   - if strayed > 1 + STEADY and 1 / strayed <= 1 + delta <= strayed:
    #   + if strayed > 1 + STEADY and 1 <= 1 + delta <= strayed:
    if strayed > 1 + STEADY and 1 / strayed <= 1 + delta <= strayed:
        return f"the machine itself was up to {strayed:.2f} times slower in some of these samples"
    return ""


def doubt(delta: float, noise: float, samples: int, ladder: bool) -> str:
    """Why the delta cannot be claimed; empty if it can."""
    # guard[null-spread]: the base arm differs from itself by as much
    # mutant[null-spread/half]:
    #   - if abs(delta) <= noise:
    #   + if abs(delta) <= noise / 2:
    # mutant[null-spread/gains-only]:
    #   - if abs(delta) <= noise:
    #   + if 0 <= delta <= noise:
    if abs(delta) <= noise:
        return "inside the A/A spread"
    # guard[isolation]: the same binary read 1075-1130 inside a ladder and 1186-1212 alone
    # mutant[isolation/claims-small-ladder-delta]:
    #   - if ladder and abs(delta) < READABLE:
    #   + if False:
    # mutant[isolation/gains-only]:
    #   - if ladder and abs(delta) < READABLE:
    #   + if ladder and 0 < delta < READABLE:
    if ladder and abs(delta) < READABLE:
        return f"under {READABLE:.0%} and from a ladder; measure it isolated"
    # guard[enough-samples]: two runs can agree by chance
    # mutant[enough-samples/two]:
    #   - if abs(delta) < READABLE and samples < ENOUGH:
    #   + if abs(delta) < READABLE and samples < 2:
    if abs(delta) < READABLE and samples < ENOUGH:
        return f"under {READABLE:.0%} from {samples} samples per arm; take at least {ENOUGH}"
    return ""


def gain(base: Sequence[float], arm: Sequence[float]) -> float:
    """Geometric mean of arm/base, minus 1."""
    if min([*base, *arm]) <= 0:
        return -1.0 if min(base) > 0 else 0.0
    return exp(sum(log(b / a) for a, b in zip(base, arm, strict=True)) / len(base)) - 1


def spread(null: Sequence[Pair]) -> float | None:
    """max(abs(A/A ratio - 1)); None without a pair."""
    ratios = [again / base for base, again in null if base > 0]
    # guard[spread]: the largest, not the mean: noise that points both ways would cancel, and a loss counts like a gain
    # mutant[spread/mean]:
    #   - return max((abs(ratio - 1) for ratio in ratios), default=None)
    #   + return abs(sum(ratio - 1 for ratio in ratios) / len(ratios)) if ratios else None
    # mutant[spread/gains-only]:
    #   - return max((abs(ratio - 1) for ratio in ratios), default=None)
    #   + return max((ratio - 1 for ratio in ratios), default=None)
    return max((abs(ratio - 1) for ratio in ratios), default=None)
