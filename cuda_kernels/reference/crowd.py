"""Few rows beside another program that holds a core.

OpenBLAS's threads wait for each other awake. If one of them finds no free core, all wait for the scheduler's next turn,
and a product of 0.3 ms takes 8 or 16. Our own threads sleep while they wait and lose only what the other program takes.
So after a late product few rows go to our own threads for a while; `invariance` has seen that the bits are the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from cuda_kernels.common.types import F32
from cuda_kernels.reference.framed import FRAME
from cuda_kernels.reference.products import Plan, products

GRACE = 1e-3  # seconds
SLOWEST = 4e-9  # seconds per weight: ten times what a product of few rows takes on two cores of 2.4 GHz
WHILE = 1.0  # seconds until BLAS's threads are tried again, at the price of a late product


class Crowd:
    """Remembers a late product for a while."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock, self._until = clock, -1.0

    def products(self, x: F32, ws: Sequence[F32], plan: Plan) -> list[F32]:
        """x [T, K], each w [N, K] -> [T, N]: `products` with the same bits."""
        began, together = self._clock(), plan.together and x.shape[0] <= FRAME
        if together and began < self._until:
            return products(x, ws, replace(plan, together=False))
        ys, ended = products(x, ws, plan), self._clock()
        if together and ended - began > GRACE + SLOWEST * sum(w.size for w in ws):
            self._until = ended + WHILE
        return ys


crowd = Crowd()
