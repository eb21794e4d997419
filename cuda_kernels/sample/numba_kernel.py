"""sample, told in Numba: one block per row of logits; the pieces are in numba_tools/choice.py.

Whatever top-k, top-p and min-p keep is a prefix of one order: likelier first, equal values by ascending id. So a row is
reduced to a cut: all tokens nearer to the best than `key`, and the first `ties` of those on it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cuda_kernels.common.types import F32, F64, IntArray
from cuda_kernels.numba_tools.choice import (
    BINS,
    NO_CUT,
    SLACK,
    THREADS,
    best_of,
    draw,
    first_reaching,
    mass_of_key,
    whole_mass,
)
from cuda_kernels.numba_tools.launch import launch
from cuda_kernels.numba_tools.words import cuda
from cuda_kernels.raw.arrays import empty, integers, same

NOT_FINITE = -1


@cuda.jit
def sample_row(logits: Any, temperature: Any, top_k: Any, top_p: Any, min_p: Any, uniform: Any, tokens: Any) -> None:
    """logits [B, V], settings [B] -> tokens [B]."""
    b, me = cuda.blockIdx.x, cuda.threadIdx.x
    bins = cuda.shared.array(BINS, np.int64)
    answer = cuda.shared.array(2, np.int64)
    best = best_of(logits, b)
    top = logits[b, best]
    # guard[numba-finite-logits]: argmax of NaN is an index and looks like a token; so does one of nothing but -inf
    # mutant[numba-finite-logits/nan-only]:
    #   - if not abs(top) < np.float32(np.inf):
    #   + if top != top:
    # mutant[numba-finite-logits/removed]:
    #   - if not abs(top) < np.float32(np.inf):
    #   + if False:
    if not abs(top) < np.float32(np.inf):
        if me == 0:
            tokens[b] = NOT_FINITE
        return
    if not temperature[b] > 0:
        if me == 0:
            tokens[b] = best
        return

    heat = max(temperature[b], np.float32(1e-30))
    key, ties = cut(logits, b, top, heat, top_k[b], top_p[b], bins, answer)
    # guard[numba-min-p-alone]: min-p works whether or not top-p does
    # mutant[numba-min-p-alone/needs-top-p]:
    #   - least = np.float32(np.float64(min_p[b]) * (1.0 - SLACK)) if min_p[b] > 0 else np.float32(0.0)
    #   + least = np.float32(np.float64(min_p[b]) * (1.0 - SLACK)) if top_p[b] < 1 else np.float32(0.0)
    least = np.float32(np.float64(min_p[b]) * (1.0 - SLACK)) if min_p[b] > 0 else np.float32(0.0)
    token = draw(logits, b, top, heat, key, ties, least, uniform[b], bins, answer)
    if me == 0:
        tokens[b] = token


@cuda.jit(device=True)
def cut(logits: Any, b: Any, top: Any, heat: Any, top_k: Any, top_p: Any, bins: Any, answer: Any) -> Any:
    """(key, ties) of what top-k and top-p leave, whichever is tighter."""
    key, ties = NO_CUT, NO_CUT
    if 0 < top_k < logits.shape[1]:
        key, nearer = first_reaching(logits, b, top, heat, False, np.int64(top_k), NO_CUT, bins, answer)
        # guard[numba-topk-ties]: a tie at the k-th place is cut by id, or k tokens become more
        # mutant[numba-topk-ties/all]:
        #   - ties = top_k - nearer
        #   + ties = NO_CUT
        ties = top_k - nearer
    if top_p < 1:
        whole = whole_mass(logits, b, top, heat, key, ties, answer)
        target = max(np.int64(1), np.int64(np.float64(whole) * np.float64(top_p) * (1.0 - SLACK)))
        p_key, nearer = first_reaching(logits, b, top, heat, True, target, key, bins, answer)
        each = max(np.int64(1), mass_of_key(p_key))
        # guard[numba-topp-crossing]: the token that carries the sum across p stays
        # mutant[numba-topp-crossing/dropped]:
        #   - p_ties = -((nearer - target) // each)
        #   + p_ties = (target - nearer) // each
        p_ties = -((nearer - target) // each)
        if p_key < key or (p_key == key and p_ties < ties):
            key, ties = p_key, p_ties
    return key, ties


def sample(logits: F32, temperature: F32, top_k: IntArray, top_p: F32, min_p: F32, uniform: F64) -> IntArray:
    """logits [B, V] float32, settings [B] (uniform float64) -> tokens [B] int32; -1 where no logit is finite."""
    rows = logits.shape[0]
    same("logits", logits, logits.shape, np.float32)
    integers("top_k", top_k, rows)
    for name, array in (("temperature", temperature), ("top_p", top_p), ("min_p", min_p)):
        same(name, array, (rows,), np.float32)
    same("uniform", uniform, (rows,), np.float64)
    tokens: IntArray = empty(logits, (rows,), np.int32)
    threads = THREADS if logits.shape[1] > THREADS else 32
    launch(sample_row, (rows, 1, 1), threads, logits, temperature, top_k, top_p, min_p, uniform, tokens)
    return tokens
