"""Outputs on a device start as NaN if they are to be poisoned. With a stand-in for CuPy."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from cuda_kernels.raw import arrays


@pytest.mark.parametrize("poisoned", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_outputs_on_a_device_are_poisoned_if_asked(poisoned: bool, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = np.zeros(3, dtype)
    there = SimpleNamespace(dtype=memory.dtype)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(uint8=np.uint8, empty=lambda *_: memory))
    monkeypatch.setattr(arrays, "POISONED", poisoned)
    assert arrays.empty(there, (3,)) is memory
    assert (memory.view(np.uint8) == (0xFF if poisoned else 0)).all()


def test_the_tests_ask_for_poison() -> None:
    """tests/conftest.py sets the variable before anything is imported."""
    assert arrays.POISONED
