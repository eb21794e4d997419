"""The raw kernels on a GPU, on the inputs that the host build and the simulator get."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cuda_kernels.registry import OPS, get
from tests.kernels.numba.cases import case
from tests.kernels.raw.cases import DTYPES, LIMIT

pytestmark = pytest.mark.gpu
COPIES = {"embed", "kv_align", "kv_strip", "kv_gather", "kv_scatter", "sample"}


def on_both(op: str, dtype: str) -> list[list[Any]]:
    """Result and arrays of one call, by the spec on the host and by the raw kernel on the device."""
    cupy = pytest.importorskip("cupy")
    arguments = case(op, np.random.default_rng(3), DTYPES[dtype])
    moved = {id(a): cupy.asarray(a) for a in arguments if isinstance(a, np.ndarray)}
    host = {id(a): a.copy() for a in arguments if isinstance(a, np.ndarray)}
    sides = []
    for telling, place in (("spec", host), ("raw", moved)):
        there = [place.get(id(a), a) for a in arguments]
        out = get(op, telling)(*there)
        arrays = [a for a in there if hasattr(a, "dtype")]
        sides.append([cupy.asnumpy(a) for a in ([out] if out is not None else []) + arrays])
    return sides


@pytest.mark.parametrize("dtype", list(DTYPES))
@pytest.mark.parametrize("op", OPS)
def test_raw_op_on_the_device_is_its_spec(op: str, dtype: str) -> None:
    for wanted, got in zip(*on_both(op, dtype), strict=True):
        assert got.dtype == wanted.dtype
        a, b = (np.asarray(side, np.float64) for side in (wanted, got))
        assert (np.isnan(a) == np.isnan(b)).all()
        if op in COPIES or wanted.dtype.kind == "i":
            assert np.array_equal(a, b, equal_nan=True)
        else:
            live = ~np.isnan(a)
            assert np.linalg.norm(a[live] - b[live]) <= LIMIT[dtype] * max(np.linalg.norm(a[live]), 1e-30)


def test_a_fused_step_on_the_device_has_the_bits_of_the_operations_it_joins() -> None:
    pytest.importorskip("cupy")
    from tools.device.checks import Report
    from tools.device.tiny import fused_step

    report = Report()
    fused_step(report, np.random.default_rng(0))
    assert report.cells == 3
    assert report.failures == []
