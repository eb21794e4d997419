"""Launches are made once and used again: with the text, the architecture and the arrays of now."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from cuda_kernels.errors import KernelUnavailable
from cuda_kernels.host import build
from cuda_kernels.host.module import HostModule, recording
from cuda_kernels.raw import source
from cuda_kernels.registry import get
from tests.kernels.raw.cases import forgotten


def test_a_remembered_launch_is_of_the_text_that_is_served_now() -> None:
    x = np.ones((1, 4), np.float32)
    norm = get("rms_norm", "raw")
    before = norm(x, x[0], 0.0)
    source.override("rms_norm/raw_kernel.cu", source.read("rms_norm/raw_kernel.cu") + "\n#error other text\n")
    try:
        with pytest.raises(KernelUnavailable, match="other text"):
            norm(x, x[0], 0.0)
    finally:
        source.override("rms_norm/raw_kernel.cu", None)
    assert (norm(x, x[0], 0.0) == before).all()


def test_a_remembered_launch_is_for_the_architecture_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = np.ones((2, 8), np.float16), np.ones((8, 8), np.float16)
    with recording() as seen:
        for arch in ("90", "75", "90"):
            monkeypatch.setenv(build.ARCH, arch)
            get("linear", "raw")(x, w)
    assert [launch[0] for launch in seen] == ["linear_rows", "linear_simple", "linear_rows"]


def test_a_remembered_launch_is_made_once_and_keeps_no_array(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    prepare = HostModule.prepare
    monkeypatch.setattr(
        HostModule, "prepare", lambda self, entry, *a, **k: made.append(entry) or prepare(self, entry, *a, **k)
    )
    with forgotten():
        for _ in range(3):
            x, w = np.ones((2, 8), np.float16), np.ones((8, 8), np.float16)
            gone = [weakref.ref(array) for array in (x, w)]
            get("linear", "raw")(x, w)
            del x, w
            gc.collect()
            assert [ref() for ref in gone] == [None, None]
    assert made == ["linear_rows"]
