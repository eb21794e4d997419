"""Every kernel compiles for a device, in every dtype. No GPU is needed, only the compiler's libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import case

from cuda_kernels.numba_tools import launch as launching
from cuda_kernels.registry import OPS, get

NOTEBOOK, DATA_CENTRE = (7, 5), (9, 0)


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Compile what is launched, to PTX. Skips where NVVM is not installed (wheel nvidia-nvvm)."""
    from numba import cuda, typeof
    from numba.cuda import dispatcher

    if launching.simulated():
        pytest.skip("Numba's simulator is on: it has no compiler")
    texts: list[str] = []

    class Device:
        compute_capability = (9, 0)

    monkeypatch.setattr(dispatcher, "get_current_device", lambda: Device)

    def compile_it(kernel: Any, grid: Any, block: Any, arguments: Any) -> None:
        signature = tuple(typeof(a) for a in arguments)
        small = any(getattr(a, "dtype", None) == np.float16 for a in arguments)
        for cc in (NOTEBOOK, DATA_CENTRE) if small else (DATA_CENTRE,):
            Device.compute_capability = cc
            texts.append(cuda.compile_ptx(kernel.py_func, signature, cc=cc)[0])

    monkeypatch.setattr("cuda_kernels.numba_tools.stepper.step", compile_it)
    try:
        cuda.compile_ptx(lambda: None, (), cc=(9, 0))
    except Exception as error:
        pytest.skip(f"no compiler for device code here: {error}")
    return texts


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint16])
@pytest.mark.parametrize("op", OPS)
def test_compiles(op: str, dtype: Any, compiler: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = case(op, np.random.default_rng(0))
    if op != "sample":
        swap = {id(a): np.zeros(a.shape, dtype) for a in arguments if getattr(a, "dtype", None) == np.float32}
        exact = {id(a) for a in arguments[3:5]} if op == "rope_and_append" else set()
        arguments = tuple(a if id(a) in exact else swap.get(id(a), a) for a in arguments)
    get(op, "numba")(*arguments)
    assert compiler
    assert all(".entry" in text for text in compiler)
    # Float64 arithmetic runs at a fraction of the speed, and a Python float in a kernel brings it in unseen.
    if op not in ("sample",):
        assert not any("fma.rn.f64" in text or "mul.f64" in text or "add.f64" in text for text in compiler)


def test_numba_does_not_warn_of_every_decode_step(monkeypatch: pytest.MonkeyPatch) -> None:
    from numba.cuda.core import config

    from cuda_kernels.numba_tools.words import small_grids_are_meant

    monkeypatch.delenv("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", raising=False)
    assert config.CUDA_LOW_OCCUPANCY_WARNINGS == 0
    monkeypatch.setattr(config, "CUDA_LOW_OCCUPANCY_WARNINGS", 1)
    monkeypatch.setenv("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "1")
    small_grids_are_meant()
    assert config.CUDA_LOW_OCCUPANCY_WARNINGS == 1, "the caller asked for them"
    monkeypatch.delenv("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS")
    small_grids_are_meant()
    assert config.CUDA_LOW_OCCUPANCY_WARNINGS == 0
