"""The probe of each guard on a GPU, and here on arrays that were moved in the same way within the host."""

from __future__ import annotations

import numpy as np
import pytest

from cuda_kernels.host.module import HostError
from cuda_kernels.raw import arrays, source
from tests.kernels.raw.moved import BESIDE, Place, move_probes
from tests.kernels.raw.probes import KILLS
from tests.kernels.raw.test_kills import MUTANTS

HOST = Place(np.copy, np.copy)
READS_ONLY = "dead-words/tail-removed"  # reads past the end what it then masks: only a memory that is checked sees that
CLAIMS = [pytest.param(name, marks=[pytest.mark.kills(name)] if name != READS_ONLY else []) for name in KILLS]


@pytest.fixture
def on_host(monkeypatch: pytest.MonkeyPatch) -> None:
    move_probes(monkeypatch, HOST)


@pytest.fixture
def on_device(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = pytest.importorskip("cupy")
    monkeypatch.setattr(arrays, "POISONED", True)  # as the host build does
    move_probes(monkeypatch, Place(cupy.asarray, cupy.asnumpy))


@pytest.mark.gpu
@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("mutant", CLAIMS)
def test_the_kernel_passes_on_the_device(mutant: str) -> None:
    KILLS[mutant]()


@pytest.mark.usefixtures("on_host")
@pytest.mark.parametrize("mutant", KILLS)
def test_the_moved_probe_passes_and_kills_its_mutant(mutant: str) -> None:
    KILLS[mutant]()
    path, text = MUTANTS[mutant]
    source.override(path, text)
    try:
        with pytest.raises((AssertionError, HostError)):
            KILLS[mutant]()
    finally:
        source.override(path, None)


def test_arrays_come_back_changed_and_one_given_twice_stays_one() -> None:
    x = np.arange(3.0)

    def swap(a: np.ndarray, pair: tuple[np.ndarray, None]) -> np.ndarray:
        a[0], pair[0][2] = 7, 8
        return a + 1

    assert HOST.call(swap)(x, (x, None)).tolist() == [8, 2, 9]
    assert x.tolist() == [7, 1, 8]


@pytest.mark.parametrize(("index", "where"), [(-1, "before"), (3, "behind")])
def test_what_is_beside_an_array_reads_as_zero_and_a_write_is_seen(index: int, where: str) -> None:
    def beside(a: np.ndarray, value: float) -> float:
        found = float(a.base[BESIDE + index])
        a.base[BESIDE + index] = value
        return found

    x = np.ones(3)
    assert HOST.call(beside)(x, 0.0) == 0
    with pytest.raises(AssertionError, match=f"written {where} an array"):
        HOST.call(beside)(x, 5.0)
