"""The same inputs on a GPU: every op in the dtypes that NumPy knows; bfloat16 is checked by tools/device_numba.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import case, copied
from test_against_spec import EXACT, TOLERANCE

from cuda_kernels.registry import OPS, get

pytestmark = pytest.mark.gpu


@pytest.mark.case("numba/numba#2655")
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("op", OPS)
def test_op_on_the_device_is_its_spec(op: str, dtype: Any) -> None:
    cupy = pytest.importorskip("cupy")
    arguments = case(op, np.random.default_rng(3), dtype)
    host = copied(arguments)
    moved = {id(a): cupy.asarray(a) for a in arguments if isinstance(a, np.ndarray)}
    device = tuple(moved.get(id(a), a) for a in arguments)
    results = [get(op, "spec")(*host), get(op, "numba")(*device)]
    sides = [
        [out] * (out is not None) + [a for a in side if hasattr(a, "dtype")]
        for out, side in zip(results, (host, device), strict=True)
    ]
    for a, b in zip(*sides, strict=True):
        got = cupy.asnumpy(b)
        assert got.dtype == a.dtype
        bound = 0.0 if op in EXACT or a.dtype.kind == "i" else TOLERANCE if dtype == np.float32 else 2.0**-9
        np.testing.assert_allclose(got.astype(np.float64), a.astype(np.float64), rtol=bound, atol=bound, equal_nan=True)


def test_arrays_of_two_kinds_are_refused() -> None:
    cupy = pytest.importorskip("cupy")
    with pytest.raises(TypeError, match="a NumPy array among CuPy arrays"):
        get("rms_norm", "numba")(cupy.ones((1, 8), np.float32), np.ones(8, np.float32), 1e-6)
