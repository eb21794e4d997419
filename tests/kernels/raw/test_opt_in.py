"""Shared memory above 48 KiB, against a function that refuses as a device does."""

from __future__ import annotations

import pytest

from cuda_kernels.raw.opt_in import OptIn

KIB = 1024


class Function:
    """Launches only what it was told of: 48 KiB at first. `told` counts the calls of the driver."""

    def __init__(self) -> None:
        self._most, self.told = 48 * KIB, 0

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        return self._most

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, size: int) -> None:
        self._most, self.told = size, self.told + 1

    def launch(self, shared: int) -> bool:
        return shared <= self._most


@pytest.mark.case("cupy/cupy#2118")
@pytest.mark.kills("shared-opt-in/never", "shared-opt-in/one-for-all")
def test_every_launch_is_allowed_what_it_uses_whatever_came_before() -> None:
    opt_in, functions = OptIn(), {"prefill": Function(), "decode": Function()}
    for entry, size in (("prefill", 100), ("decode", 64), ("prefill", 30), ("prefill", 200), ("decode", 65)):
        opt_in.ask(entry, functions[entry], size * KIB)
        assert functions[entry].launch(size * KIB), (entry, size)


def test_the_driver_is_asked_only_for_more_than_it_granted() -> None:
    opt_in, function = OptIn(), Function()
    for size in (0, 48, 49, 49, 48, 20):
        opt_in.ask("prefill", function, size * KIB)
    assert (function.told, function.max_dynamic_shared_size_bytes) == (1, 49 * KIB)
