"""Pieces of the sample kernel. Each works on one row of logits [B, V] with all threads of one block.

scaled = (logit - best) / temperature is never above 0. Its bits without the sign are the `key`: 0 for the best token,
larger the less likely. Mass is counted in whole units of 2**-40 of the best token, so sums have no order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cuda_kernels.numba_tools.words import bits_of, cuda, exp32, float_of

THREADS = 1024
BINS = 2048
NO_CUT = 0x7FFFFFFF
UNIT = np.float32(2.0**40)
SLACK = 2.0**-20  # a limit counts as reached within this part of it, as in the spec


@cuda.jit(device=True)
def key_of(scaled: Any) -> Any:
    """Distance from the best token as an int32; the sign is dropped, so -0 is 0."""
    return bits_of(scaled) & 0x7FFFFFFF


@cuda.jit(device=True)
def mass_of(scaled: Any) -> Any:
    """exp(scaled) in whole units."""
    return np.int64(exp32(scaled) * UNIT)


@cuda.jit(device=True)
def mass_of_key(key: Any) -> Any:
    """The mass of a token with this key."""
    return mass_of(-float_of(key))


@cuda.jit(device=True)
def best_of(logits: Any, b: Any) -> Any:
    """The id of the largest logit, ties to the lowest; a NaN counts as largest."""
    me, threads, vocabulary = cuda.threadIdx.x, cuda.blockDim.x, logits.shape[1]
    values = cuda.shared.array(THREADS, np.float32)
    ids = cuda.shared.array(THREADS, np.int32)
    value, best = np.float32(-np.inf), vocabulary - 1
    for i in range(me, vocabulary, threads):
        other = logits[b, i]
        if value == value and (other != other or other > value):
            value, best = other, i
    values[me], ids[me] = value, best
    cuda.syncthreads()
    step = threads // 2
    while step > 0:
        if me < step:
            value, best, other = values[me], ids[me], values[me + step]
            # guard[numba-argmax-ties]: equal logits go to the lowest id, or the answer depends on the thread count
            # mutant[numba-argmax-ties/any]:
            #   - level = other == value and ids[me + step] < best
            #   + level = other == value
            level = other == value and ids[me + step] < best
            if value == value and (other != other or other > value or level):
                values[me], ids[me] = other, ids[me + step]
        # guard[numba-argmax-barrier]: a level of the tree starts when the one below is done
        # mutant[numba-argmax-barrier/removed]:
        #   - cuda.syncthreads()
        #   + pass
        cuda.syncthreads()
        step //= 2
    return ids[0]


@cuda.jit(device=True)
def first_reaching(
    logits: Any, b: Any, top: Any, heat: Any, by_mass: Any, target: Any, limit: Any, bins: Any, answer: Any
) -> Any:
    """The smallest key whose tokens, with all nearer ones, weigh `target`; and what the nearer ones weigh.

    A token weighs its mass, or 1. Tokens past the key `limit` are known not to be needed.

    A radix select: the key is found 11, then 10, then 10 bits at a time, each time from a histogram of the tokens that
    share the bits so far. The first 11 bits are the exponent and three more: with fewer, most tokens of a row would
    share two bins, and threads that add to one bin wait for each other.
    """
    me, threads, vocabulary = cuda.threadIdx.x, cuda.blockDim.x, logits.shape[1]
    key, nearer = np.int64(0), np.int64(0)
    for digit in range(3):
        shift = 20 - 10 * digit
        for i in range(me, BINS, threads):
            bins[i] = np.int64(0)
        cuda.syncthreads()
        for i in range(me, vocabulary, threads):
            scaled = (logits[b, i] - top) / heat
            mine = np.int64(key_of(scaled))
            if mine <= limit and (digit == 0 or mine >> (shift + 10) == key >> (shift + 10)):
                cuda.atomic.add(bins, (mine >> shift) - (key >> shift), mass_of(scaled) if by_mass else np.int64(1))
        cuda.syncthreads()
        if me == 0:
            place, weight = np.int64(0), nearer
            while place < BINS - 1 and weight + bins[place] < target:
                weight += bins[place]
                place += 1
            answer[0], answer[1] = place, weight
        # guard[numba-answer]: one thread reads the histogram, all go on with what it found
        # mutant[numba-answer/removed]:
        #   - cuda.syncthreads()
        #   + pass
        cuda.syncthreads()
        key += answer[0] << shift
        nearer = answer[1]
    return key, nearer


@cuda.jit(device=True)
def whole_mass(logits: Any, b: Any, top: Any, heat: Any, key: Any, ties: Any, answer: Any) -> Any:
    """The mass of all tokens nearer than `key`, and of `ties` tokens on it."""
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        answer[0] = np.int64(0) if key == NO_CUT else mass_of_key(key) * ties
    cuda.syncthreads()
    mine = np.int64(0)
    for i in range(cuda.threadIdx.x, logits.shape[1], cuda.blockDim.x):
        scaled = (logits[b, i] - top) / heat
        if key_of(scaled) < key:
            mine += mass_of(scaled)
    cuda.atomic.add(answer, 0, mine)
    cuda.syncthreads()
    return answer[0]


@cuda.jit(device=True)
def kept(scaled: Any, rank: Any, key: Any, ties: Any, least: Any) -> Any:
    """Is this token in the cut? `rank` counts the tokens on the key with a lower id."""
    mine = key_of(scaled)
    return (mine < key or (mine == key and rank < ties)) and exp32(scaled) >= least


@cuda.jit(device=True)
def ties_before_strip(logits: Any, b: Any, top: Any, heat: Any, key: Any, first: Any, last: Any, bins: Any) -> Any:
    """How many tokens on the key have an id below `first`, where this thread's strip begins."""
    on_key = np.int64(0)
    for i in range(first, last):
        if key_of((logits[b, i] - top) / heat) == key:
            on_key += 1
    bins[cuda.threadIdx.x] = on_key
    cuda.syncthreads()
    ties_before = np.int64(0)
    for t in range(cuda.threadIdx.x):
        ties_before += bins[t]
    cuda.syncthreads()
    return ties_before


@cuda.jit(device=True)
def draw(
    logits: Any, b: Any, top: Any, heat: Any, key: Any, ties: Any, least: Any, uniform: Any, bins: Any, answer: Any
) -> Any:
    """Inverse of the cumulative mass, in ascending order of id. Each thread owns a strip of neighbouring ids."""
    me, threads, vocabulary = cuda.threadIdx.x, cuda.blockDim.x, logits.shape[1]
    strip = (vocabulary + threads - 1) // threads
    first, last = me * strip, min(me * strip + strip, vocabulary)

    ties_before = ties_before_strip(logits, b, top, heat, key, first, last, bins)
    mine, rank = np.int64(0), ties_before
    for i in range(first, last):
        scaled = (logits[b, i] - top) / heat
        if kept(scaled, rank, key, ties, least):
            mine += mass_of(scaled)
        if key_of(scaled) == key:
            rank += 1
    bins[me] = mine
    cuda.syncthreads()
    before, total = np.int64(0), np.int64(0)
    for t in range(threads):
        if t < me:
            before += bins[t]
        total += bins[t]
    target = min(np.int64(uniform * np.float64(total)), total - 1)

    # Exactly one strip holds the target: its thread walks on to the token.
    if before <= target < before + mine:
        running, rank = before, ties_before
        for i in range(first, last):
            scaled = (logits[b, i] - top) / heat
            if kept(scaled, rank, key, ties, least):
                running += mass_of(scaled)
            # guard[numba-draw-side]: a target on a boundary belongs to the next token, or one of no mass could be drawn
            # mutant[numba-draw-side/left]:
            #   - if running > target:
            #   + if running >= target:
            if running > target:
                answer[0] = np.int64(i)
                break
            if key_of(scaled) == key:
                rank += 1
    cuda.syncthreads()
    return answer[0]
