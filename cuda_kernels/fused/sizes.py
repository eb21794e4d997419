"""How the fused kernels are cut into blocks, and what shared memory that takes. None of it changes a bit.

A unit is 8 outputs (of gate_up: 8 gates and 8 ups; of qkv: 8 dims and their partners).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from cuda_kernels.raw.limits import SHARED_LIMIT
from cuda_kernels.raw.product import MMA_ARCH, chunk_of
from cuda_kernels.raw.shapes import ceil_div, padded

MULTIPROCESSORS = 132
BLOCK_WARPS, PAIR_WARPS = 16, 24
NEAR_STEPS = 4  # 32 k at once where x lies in shared memory
FAR_STEPS = {8: 6, 16: 6, 32: 4}  # by tokens, where x comes from L2 into registers
HEAD_STEPS, HEAD_SLOTS = 4, 4  # lm_head: 32 k at once, and how many such rounds are in flight


@dataclass(frozen=True)
class Plan:
    """Tokens, warps and units of a block, steps of 32 k in a round, bytes of shared memory."""

    tokens: int
    warps: int
    units: int
    steps: int
    shared: int


def qkv(hidden: int, heads: tuple[int, int, int], rows: int, arch: int) -> Plan:
    """heads: (H, G, D)."""
    chunks = [chunk_of(n * heads[2], hidden) for n in heads[:2]]
    warps, steps = 2 * max(ceil_div(hidden, chunk) for chunk in chunks), steps_of(NEAR_STEPS, *chunks)

    def shared(tokens: int) -> int:
        return room(hidden, 16, steps) + sums(warps, tokens) + normed(hidden, min(rows, tokens))

    tokens = tokens_for(rows, shared(32), arch)
    return Plan(tokens, warps, 1, steps, shared(tokens))


def gate_up(hidden: int, width: int, rows: int, arch: int) -> Plan:
    """As large a block as PAIR_WARPS and shared memory allow: every block norms the tokens anew."""
    chunk = chunk_of(width, hidden)
    warps, steps = 2 * ceil_div(hidden, chunk), steps_of(NEAR_STEPS, chunk)

    def shared(tokens: int, units: int) -> int:
        # The sums take the place of the weights.
        return max(room(hidden, 16 * units, steps), sums(warps * units, tokens)) + normed(hidden, min(rows, tokens))

    tokens = tokens_for(rows, shared(32, 1), arch)
    most = min(PAIR_WARPS // warps, ceil_div(width, 8))
    fitting = [u for u in range(2, most + 1) if shared(tokens, u) <= SHARED_LIMIT[arch] * 1024]
    units = max(fitting, default=1)
    return Plan(tokens, warps * units, units, steps, shared(tokens, units))


def add(width: int, outputs: int, rows: int) -> Plan:
    """Full blocks where enough of them are left for all multiprocessors."""
    chunk = chunk_of(outputs, width)
    warps, tokens = ceil_div(width, chunk), 8 if rows <= 8 else (16 if rows <= 16 else 32)
    units = max(1, min(BLOCK_WARPS // warps, ceil_div(outputs, 8) // MULTIPROCESSORS))
    steps = steps_of(FAR_STEPS[tokens], chunk)
    return Plan(tokens, warps * units, units, steps, room(width, 8 * units, steps) + sums(warps * units, tokens))


def head(hidden: int, rows: int, arch: int) -> Plan:
    """A block per multiprocessor, which goes from strip to strip."""

    def shared(tokens: int) -> int:
        return BLOCK_WARPS * head_slots(hidden) * HEAD_STEPS * 512 + normed(hidden, min(rows, tokens))

    tokens = tokens_for(rows, shared(32), arch)
    return Plan(tokens, BLOCK_WARPS, 1, HEAD_STEPS, shared(tokens))


def head_slots(hidden: int) -> int:
    """At most as many rounds in flight as a strip has."""
    return min(HEAD_SLOTS, ceil_div(hidden, 32 * HEAD_STEPS))


def refusal(hidden: int, width: int, vocabulary: int, heads: tuple[int, int, int], arch: int) -> str | None:
    """Why decode steps of this shape cannot run fused, or None. heads: (H, G, D)."""
    if arch < MMA_ARCH:
        return f"they need sm_{MMA_ARCH}, this is sm_{arch}"
    if hidden % 8 or width % 8 or heads[2] % 16:
        return f"hidden {hidden} and intermediate {width} must divide by 8, head dim {heads[2]} by 16"
    if chunk_of(vocabulary, hidden) < hidden:
        return f"lm_head of {vocabulary} x {hidden} is cut into chunks"
    plans = qkv(hidden, heads, 16, arch), gate_up(hidden, width, 16, arch), add(heads[0] * heads[2], hidden, 16)
    wanted = max(plan.shared for plan in (*plans, add(width, hidden, 16), head(hidden, 16, arch)))
    if wanted > SHARED_LIMIT[arch] * 1024:
        return f"they want {wanted} bytes of shared memory, sm_{arch} has {SHARED_LIMIT[arch] * 1024} per block"
    return None


def tokens_for(rows: int, shared: int, arch: int) -> int:
    """8, 16 or 32 tokens per block; `shared` is what 32 of them need."""
    if rows <= 8:
        return 8
    return 32 if rows > 16 and shared <= SHARED_LIMIT[arch] * 1024 else 16


def steps_of(limit: int, *chunks: int) -> int:
    """The most steps of 32 k, up to `limit`, that cut all chunks evenly."""
    common = math.gcd(*chunks) // 32
    return max(s for s in range(1, limit + 1) if common % s == 0)


def room(width: int, outputs: int, steps: int) -> int:
    """Bytes for `outputs` rows of weights, as kStripRoom in common/decode_linear.cuh: a row ends with a whole round."""
    return ceil_div(width, 32 * steps) * 32 * steps * outputs * 2


def sums(warps: int, tokens: int) -> int:
    """Bytes for every warp's sums."""
    return warps * tokens * 8 * 4


def normed(hidden: int, tokens: int) -> int:
    """Bytes for normed rows and the norm's weights."""
    return tokens * ((hidden + 31) // 64 * 64 + 32) * 2 + padded(hidden * 2)
