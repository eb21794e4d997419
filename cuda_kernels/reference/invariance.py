"""Which plan multiplies an (N, K) with equal bits for every row count and position: found by trying, at load.

Nothing is assumed of the BLAS below. A plan is accepted only if no tried company changes a bit of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from cuda_kernels.common.types import F32
from cuda_kernels.errors import NotInvariant
from cuda_kernels.reference.framed import FRAME, MOST
from cuda_kernels.reference.products import Plan, product

COUNTS = (1, 2, 3, 4, 8, 12, 13, 16, 17, 24, 32, 33, 40, 64, 96, 104, 128, 200, 257, 344, 512)
GROUPS = 576  # outputs: a whole number of groups of each kind
LARGE = 1 << 23  # weights; beyond, whole products are tried and used with fewer rows
SMALL = Plan("small products", "small")
FRAMED = Plan("framed products", "framed", most=MOST)
TOGETHER = replace(FRAMED, name="framed products, few rows in one", together=True)
BEST_EFFORT = Plan("rows padded to 8, NOT invariant on this machine", "weights first", least=8)

Product = Callable[[F32, F32, Plan], F32]


def candidates(most: int = MOST) -> Iterator[Plan]:
    """Plans from cheapest to dearest for few rows; the last one repeats one shape and can hardly fail."""
    yield SMALL
    yield FRAMED
    for least in (8, 16):
        for form in ("weights first", "rows first"):
            yield Plan(f"rows padded to {least}, {form}", form, least=least, most=most)
    yield Plan("tiles of 8 rows", "weights first", least=8, most=8)


def find_plan(outs: int, width: int, multiply: Product = product) -> Plan | None:
    """The first plan under which all tried row counts and positions agree for w [outs, width]; None if none does."""
    generator = np.random.default_rng(outs * 1_000_003 + width)
    most = MOST if outs * width < LARGE else 64
    x = generator.standard_normal((MOST, width), dtype=np.float32)
    # Products cut by their outputs do not know of N: a few groups of outputs and the odd rest stand for all.
    some = generator.standard_normal((min(outs, GROUPS + outs % GROUPS), width), dtype=np.float32)
    w = np.resize(some, (outs, width))
    for plan in candidates(most):
        cut = plan in (SMALL, FRAMED)
        if holds(x if cut else x[:most], some if cut else w, plan, multiply):
            return TOGETHER if plan is FRAMED and few_agree(x, w, multiply) else plan
    return None


def few_agree(x: F32, w: F32, multiply: Product = product) -> bool:
    """True if few rows in one product have the bits of framed products: BLAS may cut the outputs badly."""
    return all(multiply(x[:n], w, TOGETHER).tobytes() == multiply(x[:n], w, FRAMED).tobytes() for n in (1, 3, FRAME))


def holds(x: F32, w: F32, plan: Plan, multiply: Product = product) -> bool:
    """True if each tried slice of x gives the bits that these rows have in the product of all of x."""
    whole = multiply(x[: max(plan.most, 64)], w, plan)
    for count in (c for c in COUNTS if c <= min(plan.most, len(whole))):
        start = (7 * count) % (len(whole) - count + 1)
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
    fast = tested if tested is SMALL else Plan("", "weights first")
    return replace(fast, name="plain, not invariant", gemv=True)


def require(plan: Plan | None, outs: int, width: int) -> Plan:
    """Raises NotInvariant if no plan was found."""
    if plan is None:
        raise NotInvariant(
            f"no form of a product with weights [{outs}, {width}] gives equal bits for all row counts on this machine; "
            "use invariance=True for best effort or invariance=False"
        )
    return plan
