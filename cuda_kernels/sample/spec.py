"""sample: temperature, top-k, top-p, min-p and the draw, one row at a time.

B rows, V vocabulary. Ties go to the lowest id everywhere: in the argmax, at the k-th place and where p is crossed.
Penalties, bias and bans have been applied by the caller.

Probability mass is counted in whole numbers (units of 2**-40 of the likeliest token): sums of integers do not depend on
their order, so a parallel telling that adds in another order draws the same token.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cuda_kernels.common.types import F32, F64, IntArray

Ids = NDArray[np.int64]
Mass = NDArray[np.int64]

UNIT = np.float32(2.0**40)
# Logits are float32: ln 0.5 and ln 0.3 do not come back as exactly 0.5 and 0.3. A limit counts as reached within this
# part of it, or the token that stands exactly on the limit would depend on rounding.
SLACK = 2.0**-20
NOT_FINITE = -1


def sample(logits: F32, temperature: F32, top_k: IntArray, top_p: F32, min_p: F32, uniform: F64) -> IntArray:
    """logits [B, V] float32, settings [B] -> tokens [B] int32.

    temperature 0: argmax. top_k <= 0, top_p >= 1, min_p <= 0: off. uniform: float64 in [0, 1), unused by greedy rows.
    A row whose largest logit is not finite (a NaN anywhere, +inf, or nothing but -inf) gives -1; the caller raises.
    """
    tokens: IntArray = logits.argmax(axis=1).astype(np.int32)
    best = logits[np.arange(len(tokens)), tokens]
    # guard[finite-logits]: argmax of NaN is an index and looks like a token; so does one of nothing but -inf
    # origin: Don-Chad/ninfer-3090#23, flashinfer-ai/flashinfer#1178
    # mutant[finite-logits/removed]:
    #   - tokens[~np.isfinite(best)] = NOT_FINITE
    #   + pass
    # mutant[finite-logits/nan-only]:
    #   - tokens[~np.isfinite(best)] = NOT_FINITE
    #   + tokens[np.isnan(best)] = NOT_FINITE
    tokens[~np.isfinite(best)] = NOT_FINITE
    for b in np.flatnonzero((temperature > 0) & (tokens != NOT_FINITE)):
        scaled = scale(logits[b], float(temperature[b]))
        ids = kept(scaled, int(top_k[b]), float(top_p[b]), float(min_p[b]))
        tokens[b] = draw(scaled, ids, float(uniform[b]))
    return tokens


def scale(row: F32, temperature: float) -> F32:
    """row [V] -> (row - max) / temperature. The maximum is 0 at any temperature, so nothing overflows upwards."""
    with np.errstate(over="ignore"):
        scaled: F32 = (row - row.max()) / np.float32(max(temperature, 1e-30))
    return scaled


def kept(scaled: F32, top_k: int, top_p: float, min_p: float) -> Ids | None:
    """Ids that may be drawn, ascending; None stands for all V. `scaled` [V] has its maximum at 0."""
    ids = None
    if 0 < top_k < len(scaled):
        ids = largest(scaled, top_k)
    if top_p < 1:
        ids = nucleus(scaled, top_p) if ids is None else ids[nucleus(scaled[ids], top_p)]
    if min_p > 0:
        every = np.arange(len(scaled)) if ids is None else ids
        # guard[min-p-alone]: min-p works whether or not top-p does; an early return for "no top-p" once skipped it
        # mutant[min-p-alone/needs-top-p]:
        #   - ids = every[np.exp(scaled[every]) >= min_p * (1 - SLACK)]
        #   + ids = every[np.exp(scaled[every]) >= min_p * (1 - SLACK)] if top_p < 1 else ids
        # mutant[min-p-alone/strict]:
        #   - ids = every[np.exp(scaled[every]) >= min_p * (1 - SLACK)]
        #   + ids = every[np.exp(scaled[every]) > min_p * (1 + SLACK)]
        ids = every[np.exp(scaled[every]) >= min_p * (1 - SLACK)]
    return ids


def largest(scaled: F32, k: int) -> Ids:
    """The k ids of the largest values, ascending: exactly k, equal values from the lowest id up."""
    last = np.partition(scaled, len(scaled) - k)[len(scaled) - k]
    above = np.flatnonzero(scaled > last)
    # guard[topk-exact]: a tie at the k-th place is cut by id, or k=2 lets three tokens through
    # origin: flashinfer-ai/flashinfer#3774
    # mutant[topk-exact/by-value]:
    #   - level = np.flatnonzero(scaled == last)[: k - len(above)]
    #   + level = np.flatnonzero(scaled == last)
    # mutant[topk-exact/highest-id]:
    #   - level = np.flatnonzero(scaled == last)[: k - len(above)]
    #   + level = np.flatnonzero(scaled == last)[len(above) - k :]
    level = np.flatnonzero(scaled == last)[: k - len(above)]
    return np.sort(np.concatenate([above, level]))


def nucleus(scaled: F32, top_p: float) -> Ids:
    """The smallest set of likeliest ids whose mass reaches top_p of the whole, ascending; at least one id."""
    masses = mass(scaled)
    whole = int(masses.sum())
    target = max(1, int(whole * top_p * (1 - SLACK)))
    # Sorting V values is slow. Tokens below this share have less than 1 - top_p together, so none of them is needed.
    ids = np.flatnonzero(masses >= int(whole * (1 - top_p) / len(masses)))
    ids = ids[np.argsort(-scaled[ids], kind="stable")]
    after = np.cumsum(masses[ids])
    before = np.concatenate([[0], after[:-1]])
    # guard[topp-crossing]: the token that carries the sum across p stays; without it less than p is kept, or nothing
    # origin: rasbt/reasoning-from-scratch#164
    # mutant[topp-crossing/dropped]:
    #   - chosen = ids[before < target]
    #   + chosen = ids[after <= target]
    # mutant[topp-crossing/one-more]:
    #   - chosen = ids[before < target]
    #   + chosen = ids[: int((before < target).sum()) + 1]
    chosen = ids[before < target]
    return np.sort(chosen)


def draw(scaled: F32, ids: Ids | None, uniform: float) -> int:
    """Inverse of the cumulative mass, in ascending order of id: one uniform number, one token."""
    running = np.cumsum(mass(scaled if ids is None else scaled[ids]))
    target = min(int(uniform * int(running[-1])), int(running[-1]) - 1)
    # guard[draw-side]: a target that falls on a boundary belongs to the next token, or one of no mass could be drawn
    # mutant[draw-side/left]:
    #   - place = int(np.searchsorted(running, target, side="right"))
    #   + place = int(np.searchsorted(running, target, side="left"))
    place = int(np.searchsorted(running, target, side="right"))
    return place if ids is None else int(ids[place])


def mass(scaled: F32) -> Mass:
    """exp(scaled) in whole units of 2**-40; the likeliest token has 2**40, and 2**23 tokens fit an int64."""
    return (np.exp(scaled) * UNIT).astype(np.int64)
