"""linear and lm_head over the plan that this machine's BLAS allows for each (N, K)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Literal

import numpy as np

from cuda_kernels.common.types import F32, Array
from cuda_kernels.linear.spec import epilogue
from cuda_kernels.reference.crowd import crowd
from cuda_kernels.reference.invariance import BEST_EFFORT, find_plan, plain, require
from cuda_kernels.reference.products import Plan
from cuda_kernels.reference.threads import by_rows


class Products:
    """Plans by (N, K). Shapes given at the start are tested at once, others at first use.

    invariance  True: the cheapest plan with equal bits, best effort where there is none. "required": NotInvariant
                there. False: the fastest form for each row count.
    """

    def __init__(self, shapes: Iterable[tuple[int, int]], invariance: bool | Literal["required"]) -> None:
        self.invariance = invariance
        self._plans: dict[tuple[int, int], Plan] = {}
        for outs, width in sorted(set(shapes)):
            self.plan(outs, width)

    def plan(self, outs: int, width: int) -> Plan:
        """The plan for weights [outs, width]."""
        found = self._plans.get((outs, width))
        if found is None:
            found = self._plans[outs, width] = self._choose(outs, width)
        return found

    def _choose(self, outs: int, width: int) -> Plan:
        tested = _tested(outs, width)
        if self.invariance is False:
            return plain(tested)
        if self.invariance == "required":
            return require(tested, outs, width)
        return tested or BEST_EFFORT

    def linear(
        self,
        x: Array,
        w: Array,
        bias: Array | None = None,
        gate: Array | None = None,
        residual: Array | None = None,
    ) -> Array:
        """x [T, K], w [N, K], bias [N], gate [T, N], residual [T, N] -> [T, N]; see linear/spec.py."""
        y = self.lm_head(x, w)
        if bias is not None or gate is not None or residual is not None:
            by_rows(len(y), lambda a, b: finish(y[a:b], bias, _cut(gate, a, b), _cut(residual, a, b)))
        return y.astype(x.dtype, copy=False)

    def lm_head(self, x: Array, w: Array) -> F32:
        """x [T, K], w [V, K] -> float32 [T, V]."""
        return self._products(x, [w])[0]

    def linears(self, x: Array, weights: Sequence[Array], biases: Sequence[Array | None]) -> list[Array]:
        """x [T, K] through several linear layers [N, K] at once -> [T, N] each, with the bits of `linear`."""
        ys = self._products(x, weights)
        for y, bias in zip(ys, biases, strict=True):
            if bias is not None:
                finish(y, bias, None, None)
        return [y.astype(x.dtype, copy=False) for y in ys]

    def gate_up(self, x: Array, gate: Array, up: Array, gate_bias: Array | None, up_bias: Array | None) -> Array:
        """x [T, K], gate and up [F, K] -> silu(gate(x)) * up(x), [T, F], with the bits of `linear` twice."""
        g, y = self._products(x, (gate, up))
        if gate_bias is not None:
            g += gate_bias
        g = g.astype(x.dtype, copy=False)
        by_rows(len(y), lambda a, b: finish(y[a:b], up_bias, g[a:b], None))
        return y.astype(x.dtype, copy=False)

    def _products(self, x: Array, weights: Sequence[Array]) -> list[F32]:
        """In one go if all have one plan, else one by one."""
        wide, ws = np.asarray(x, np.float32), [np.asarray(w, np.float32) for w in weights]
        plans = [self.plan(*w.shape) for w in ws]
        if plans.count(plans[0]) == len(plans):
            return crowd.products(wide, ws, plans[0])
        return [crowd.products(wide, [w], plan)[0] for w, plan in zip(ws, plans, strict=True)]

    def notes(self) -> tuple[str, ...]:
        """One line per class of shapes, and a warning where equal bits cannot be had."""
        classes = Counter(plan.name for plan in self._plans.values())
        return tuple(f"linear: {count} shapes as {name}" for name, count in sorted(classes.items()))


def finish(y: F32, bias: Array | None, gate: Array | None, residual: Array | None) -> None:
    """The epilogue, in place on y."""
    epilogue(y, bias, gate, residual)


def _cut(array: Array | None, start: int, stop: int) -> Array | None:
    return None if array is None else array[start:stop]


@cache
def _tested(outs: int, width: int) -> Plan | None:
    return find_plan(outs, width)
