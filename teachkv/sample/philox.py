"""Philox4x32-10: random numbers as a function of (key, counter), with no state that a batch could disturb.

Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011, section 3.3 and table 2.
"""

import numpy as np
from numpy.typing import NDArray

ROUNDS = 10
MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
WEYL = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))
LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)
# The last counter word tells the uses apart, so that a derived seed never equals a draw of the same key.
FOR_TOKENS, FOR_SEEDS = 0, 1

Words = NDArray[np.uint64]


def philox4x32(counter: Words, key: Words) -> NDArray[np.uint32]:
    """Blocks of four random words.

    counter: [..., 4] and key: [..., 2], 32-bit words held in uint64 (products need the room); both broadcast.
    Returns [..., 4] uint32.
    """
    words = [np.asarray(counter, np.uint64)[..., i] & LOW for i in range(4)]
    keys = [np.asarray(key, np.uint64)[..., i] & LOW for i in range(2)]
    for _ in range(ROUNDS):
        first, second = words[0] * MULTIPLIERS[0], words[2] * MULTIPLIERS[1]
        words = [(second >> HALF) ^ words[1] ^ keys[0], second & LOW, (first >> HALF) ^ words[3] ^ keys[1], first & LOW]
        keys = [(keys[0] + WEYL[0]) & LOW, (keys[1] + WEYL[1]) & LOW]
    return np.stack(np.broadcast_arrays(*words), axis=-1).astype(np.uint32)


def uniform(seed: int | Words, sample: int | Words, index: int | Words) -> NDArray[np.float64]:
    """The random number of generated token `index` of completion `sample` of a request with this `seed`.

    Arguments broadcast. Returns float64 in [0, 1), a multiple of 2**-53. The 64-bit key is the seed; the completion
    has a counter word of its own, so n completions of one seed never share a number.
    """
    block = philox4x32(_counter(index, sample, FOR_TOKENS), _halves(seed))
    high, low = block[..., 0].astype(np.uint64) >> np.uint64(5), block[..., 1].astype(np.uint64) >> np.uint64(6)
    return np.asarray((high * np.uint64(2**26) + low).astype(np.float64) * 2.0**-53)


def derived_seed(engine_seed: int, request_id: int) -> int:
    """The 64-bit seed of a request that brought none: a function of the engine's seed and the request's id."""
    block = philox4x32(_counter(request_id, 0, FOR_SEEDS), _halves(engine_seed))
    return (int(block[1]) << 32) | int(block[0])


def _halves(number: int | Words) -> Words:
    wide = np.asarray(number, np.uint64)
    return np.stack([wide & LOW, wide >> HALF], axis=-1)


def _counter(index: int | Words, sample: int | Words, use: int) -> Words:
    parts = np.broadcast_arrays(
        _halves(index)[..., 0], _halves(index)[..., 1], np.asarray(sample, np.uint64), np.uint64(use)
    )
    return np.stack(parts, axis=-1)
