"""What reaches the driver: a stand-in for cuLaunchKernelEx reads the memory that it is given, as the driver would."""

from __future__ import annotations

import ctypes
import gc
import importlib
import sys
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest


class Array:
    """Stands in for cupy.ndarray: an address."""

    def __init__(self, address: int) -> None:
        self.data = SimpleNamespace(ptr=address)


class Driver:
    """Copies what a launch says, and returns `status`."""

    def __init__(self, driver: Any, parameters: int) -> None:
        self.status, self.seen = 0, []
        self.config, self.parameters = driver._Config, parameters
        prototype = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
        self.call = prototype(self.read)

    def read(self, config: int, function: int, places: int, extra: int | None) -> int:
        told = self.config.from_address(config)
        addresses = (ctypes.c_void_p * self.parameters).from_address(places)
        words = [ctypes.c_uint64.from_address(int(address or 0)).value for address in addresses]
        attributes = [told.attributes[i].id for i in range(told.count)]
        self.seen.append((function, [*told.grid], [*told.block], told.shared, told.stream, attributes, words, extra))
        return self.status


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    stream = SimpleNamespace(ptr=77)
    fake = SimpleNamespace(ndarray=Array, cuda=SimpleNamespace(get_current_stream=lambda: stream))
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.delitem(sys.modules, "cuda_kernels.raw.driver", raising=False)
    yield importlib.import_module("cuda_kernels.raw.driver")
    del sys.modules["cuda_kernels.raw.driver"]


ARRAYS = (Array(2**47 + 16), None)
SCALARS = (np.int32(-2), np.uint32(2**32 - 1), np.int64(-(2**40)), np.float32(1.5))
COUNT = len(ARRAYS) + len(SCALARS)


@pytest.mark.parametrize(("early", "attributes"), [(False, []), (True, [6])])
def test_a_launch_says_all_it_was_told(
    early: bool, attributes: list[int], driver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The low bytes of each word are the parameter: the kernel reads as many as it declares."""
    stand_in = Driver(driver, COUNT)
    monkeypatch.setattr(driver, "_launch", lambda: stand_in.call)
    driver.Launch(4096, (3, 2, 1), (128, 1, 1), 512, len(ARRAYS), SCALARS, early=early)(ARRAYS)
    (seen,) = stand_in.seen
    assert seen[:6] == (4096, [3, 2, 1], [128, 1, 1], 512, 77, attributes)
    address, nothing, *numbers = seen[6]
    assert (address, nothing, seen[7]) == (2**47 + 16, 0, None)
    kinds = ("<i4", "<u4", "<i8", "<f4")
    told = [np.array([number], "<u8").view(kind)[0] for number, kind in zip(numbers, kinds, strict=True)]
    assert told == [-2, 2**32 - 1, -(2**40), 1.5]


def test_a_launch_says_the_arrays_and_the_stream_of_now(driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is made once, and used with other arrays on another stream."""
    stand_in = Driver(driver, COUNT)
    monkeypatch.setattr(driver, "_launch", lambda: stand_in.call)
    launch = driver.Launch(1, (1, 1, 1), (1, 1, 1), 0, len(ARRAYS), SCALARS, early=False)
    launch(ARRAYS)
    driver.cupy.cuda.get_current_stream().ptr = 78
    launch((None, Array(48)))
    assert [(seen[4], seen[6][:2]) for seen in stand_in.seen] == [(77, [2**47 + 16, 0]), (78, [0, 48])]
    assert stand_in.seen[0][6][2:] == stand_in.seen[1][6][2:]


def test_a_launch_keeps_no_array_alive(driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_launch", lambda: lambda *_: 0)
    array = Array(16)
    gone = weakref.ref(array)
    launch = driver.Launch(1, (1, 1, 1), (1, 1, 1), 0, 1, (), early=False)
    launch((array,))
    del array
    gc.collect()
    assert gone() is None


def test_a_kernel_without_parameters_can_be_launched(driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = Driver(driver, 0)
    monkeypatch.setattr(driver, "_launch", lambda: stand_in.call)
    driver.Launch(1, (1, 1, 1), (1, 1, 1), 0, 0, (), early=False)(())
    assert stand_in.seen[0][6] == []


def test_what_the_driver_refuses_is_an_error_with_its_number(driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = Driver(driver, COUNT)
    stand_in.status = 701
    monkeypatch.setattr(driver, "_launch", lambda: stand_in.call)
    launch = driver.Launch(1, (9, 1, 1), (1024, 1, 1), 64, len(ARRAYS), SCALARS, early=False)
    with pytest.raises(RuntimeError, match=r"error 701 for grid \(9, 1, 1\), block \(1024, 1, 1\), 64 bytes shared"):
        launch(ARRAYS)
