"""Which plan multiplies an (N, K) with equal bits for every row count and position: found by trying, at load.

Nothing is assumed of the BLAS below. A plan is accepted only if no tried company changes a bit of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from cuda_kernels.common.types import F32
from cuda_kernels.errors import NotInvariant
from cuda_kernels.reference.products import Plan, blas_chunks, product

CHUNK_SIZES = (448, 384, 320, 512, 352, 256, 640, 768)  # K-ranges of OpenBLAS by core type, most common first
COUNTS = (1, 2, 3, 8, 9, 15, 16, 17, 24, 31, 40, 64, 96, 97, 104, 128, 200, 256, 344)
LARGE = 1 << 23  # weights; beyond, fewer row counts are tried and used
BEST_EFFORT = Plan("rows padded to 8, NOT invariant on this machine")

Product = Callable[[F32, F32, Plan], F32]


def candidates(width: int, most: int) -> Iterator[Plan]:
    """Plans from cheapest to dearest for few rows; the last one repeats one shape and can hardly fail."""
    seen = set()
    for size in CHUNK_SIZES:
        chunks = blas_chunks(width, size)
        if chunks not in seen:
            seen.add(chunks)
            yield Plan(f"small products, {len(chunks)} K-chunks", chunks=chunks, most=most)
    yield Plan("rows padded to 8", most=most)
    yield Plan("rows padded to 8, weights first", turn=most, most=most)
    yield Plan("rows padded to 8, rows first", turn=0, most=most)
    yield Plan("rows padded to 16, weights first", least=16, turn=most, most=most)
    yield Plan("rows padded to 16, rows first", least=16, turn=0, most=most)
    yield Plan("tiles of 8 rows", turn=8, most=8)


def find_plan(outs: int, width: int, multiply: Product = product) -> Plan | None:
    """The first plan under which all tried row counts and positions agree for w [outs, width]; None if none does."""
    generator = np.random.default_rng(outs * 1_000_003 + width)
    most = 512 if outs * width < LARGE else 64
    x = generator.standard_normal((most, width), dtype=np.float32)
    some = generator.standard_normal((min(outs, 2048), width), dtype=np.float32)
    w = np.resize(some, (outs, width))
    for plan in candidates(width, most):
        if holds(x, w, plan, multiply):
            return plan
    return None


def holds(x: F32, w: F32, plan: Plan, multiply: Product = product) -> bool:
    """True if each tried slice of x gives the bits that these rows have in the product of all of x."""
    most = min(plan.most, len(x))
    whole: F32 | None = None
    for count in (c for c in COUNTS if c <= most):
        start = (7 * count) % (len(x) - count + 1)
        if whole is None:
            whole = multiply(x, w, plan)
        part = multiply(x[start : start + count], w, plan)
        # guard[invariance-check]: equality of bits, so that -0.0 and 0.0 count as different
        # mutant[invariance-check/tolerance]:
        #   - if part.tobytes() != whole[start : start + count].tobytes():
        #   + if not np.allclose(part, whole[start : start + count], rtol=1e-4, atol=1e-4):
        if part.tobytes() != whole[start : start + count].tobytes():
            return False
    return True


def plain(tested: Plan | None) -> Plan:
    """The fastest form per row count, from what was tested: one row as a vector, no padding of large products."""
    chunks = None if tested is None else tested.chunks
    return Plan("plain, not invariant", chunks=chunks, least=1, gemv=True)


def require(plan: Plan | None, outs: int, width: int) -> Plan:
    """Raises NotInvariant if no plan was found."""
    if plan is None:
        raise NotInvariant(
            f"no form of a product with weights [{outs}, {width}] gives equal bits for all row counts on this machine; "
            "use invariance=True for best effort or invariance=False"
        )
    return plan
