"""The one loader: signatures, scalars, strides, limits. Public faults of kind h that a launcher can prevent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cuda_kernels.errors import KernelUnavailable
from cuda_kernels.host import build
from cuda_kernels.raw import attention, limits, loader, source
from tests.kernels.raw.cases import forgotten

ECHO = """
#include "common/element.cuh"
extern "C" __global__ void echo(global_ptr<double> out, float a, int b, offset_t c, unsigned d) {
    out[0LL] = a, out[1LL] = b, out[2LL] = c, out[3LL] = d;
}
"""


@pytest.fixture
def echo() -> Any:
    source.override("echo/raw_kernel.cu", ECHO)
    yield lambda beside: loader.kernel("echo/raw_kernel.cu", "echo", loader.place_of(beside), {"TKV_DTYPE": 0})
    source.override("echo/raw_kernel.cu", None)


ONE = ((1, 1, 1), (1, 1, 1))


@pytest.mark.case("cupy/cupy#8485")
@pytest.mark.kills("scalar-type/uncast")
def test_python_numbers_arrive_as_the_type_the_kernel_declares(echo: Any) -> None:
    """cupy#8485: 0.5 as a double and 3 as 64 bits, read as float and int."""
    out = np.zeros(4)
    echo(out)(*ONE, (out, 0.5, -3, 2**40 + 1, 2**32 - 1))
    assert out.tolist() == [0.5, -3, 2**40 + 1, 2**32 - 1]
    with pytest.raises(OverflowError):
        echo(out)(*ONE, (out, 0.5, 2**40, 0, 0))


@pytest.mark.case("cupy/cupy#9750")
def test_wrong_counts_types_and_strides_are_named(echo: Any) -> None:
    out = np.zeros(8)
    with pytest.raises(TypeError, match="echo takes 5 arguments, got 4"):
        echo(out)(*ONE, (out, 1.0, 1, 1))
    with pytest.raises(TypeError, match="out must be float64, got float32"):
        echo(out)(*ONE, (out.astype(np.float32), 1.0, 1, 1, 1))
    with pytest.raises(ValueError, match="out must be C-contiguous"):
        echo(out)(*ONE, (out[::2], 1.0, 1, 1, 1))


@pytest.mark.case("Dao-AILab/flash-attention#1786")
@pytest.mark.kills("grid-limit/unchecked")
def test_grids_beyond_the_limits_are_refused_not_dropped(echo: Any) -> None:
    """flash-attention#1786, flashinfer#4536: y and z end at 65535, in some stacks without a word."""
    out = np.zeros(4)
    for grid in ((1, 65536, 1), (1, 1, 65536), (2**31, 1, 1)):
        with pytest.raises(ValueError, match="larger than"):
            echo(out)(grid, (1, 1, 1), (out, 1.0, 1, 1, 1))
    limits.check_shape("echo", (2**31 - 1, 65535, 65535), (1, 1, 1), 0, 90)
    with pytest.raises(ValueError, match="threads per block"):
        echo(out)((1, 1, 1), (1025, 1, 1), (out, 1.0, 1, 1, 1))


@pytest.mark.case("Dao-AILab/flash-attention#1786")
def test_batch_lies_on_the_long_axis_of_every_attention_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """65536 rows of one head are a legal batch: the shapes of the launch are looked at, nothing runs."""
    seen: list[tuple[int, int, int]] = []

    class Fake:
        def launch(self, grid: Any, block: Any, scalars: Any, *, shared: int = 0, early: bool = False) -> Any:
            limits.check_shape("fake", grid, block, shared, 90)
            seen.append(grid)
            return lambda *_: None

    monkeypatch.setattr(loader, "kernel", lambda *_: Fake())
    rows = 65536
    q = np.zeros((rows, 1, 8), np.float16)
    geometry: Any = (np.zeros(rows + 1, np.int32), *(np.zeros(rows, np.int32) for _ in range(3)))
    call = attention.Call(q, None, None, geometry, None, 1.0)
    sizes = attention.Sizes(rows, 1, 1, 1, 8)
    with forgotten():
        attention.decode(call, sizes), attention.prefill(call, sizes)
        attention.simple("attention_prefill", call, sizes)
    assert [grid[0] >= rows for grid in seen] == [True, True, True]


@pytest.mark.case("Dao-AILab/flash-attention#1786")
def test_a_grid_with_a_zero_launches_nothing(echo: Any) -> None:
    out = np.full(4, 5.0)
    echo(out)((0, 1, 1), (1, 1, 1), (out, 1.0, 1, 1, 1))
    assert (out == 5).all()


@pytest.mark.case("cupy/cupy#2118")
@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize("arch", sorted(limits.SHARED_LIMIT))
def test_shared_memory_is_chosen_to_fit_every_architecture(head_dim: int, arch: int) -> None:
    """cupy#2118: the size depends on head dim; it is known before the launch."""
    limit = limits.SHARED_LIMIT[arch] * 1024
    chosen = attention.prefill_shared(head_dim, arch)
    assert chosen is None or chosen[1] <= limit
    if attention.fits(head_dim, arch):
        assert attention.decode_shared(head_dim, attention.decode_segments(head_dim, arch)) <= limit


@pytest.mark.case("cupy/cupy#2118")
def test_shared_memory_beyond_the_limit_is_an_error_with_the_numbers(echo: Any) -> None:
    out = np.zeros(4)
    limits.check_shape("k", *ONE, 227 * 1024, 90)
    with pytest.raises(ValueError, match="232464 bytes of shared memory, sm_90 has 232448"):
        echo(out)(*ONE, (out, 1.0, 1, 1, 1), shared=227 * 1024 + 16)


@pytest.mark.case("numba/numba#8708")
def test_fast_math_is_off_everywhere() -> None:
    """numba#8708: with it, tests for NaN and infinity vanish."""
    flags = " ".join((*limits.FLAGS, *build.FLAGS, *build.STRICT))
    assert "fast" not in flags.replace("-ffp-contract=off", "")


@pytest.mark.case("vllm-project/vllm#1486")
def test_no_text_multiplies_ints_into_an_offset() -> None:
    """vllm#1486: an int product wraps past 2^31 elements. The host build refuses an int where an offset belongs."""
    text = ECHO.replace("out[0LL] = a", "out[b * 2] = a")
    source.override("echo/raw_kernel.cu", text)
    try:
        out = np.zeros(4)
        kernel = loader.kernel("echo/raw_kernel.cu", "echo", loader.place_of(out), {"TKV_DTYPE": 0})
        with pytest.raises(KernelUnavailable, match="deleted"):
            kernel(*ONE, (out, 1.0, 1, 1, 1))
    finally:
        source.override("echo/raw_kernel.cu", None)


def test_an_array_behind_a_scalar_is_refused() -> None:
    text = 'extern "C" __global__ void odd(int n, global_ptr<float> out) {}'
    source.override("odd/raw_kernel.cu", text)
    try:
        with pytest.raises(KernelUnavailable, match="arrays before its scalars"):
            loader.kernel("odd/raw_kernel.cu", "odd", loader.place_of(np.zeros(1)), {})
    finally:
        source.override("odd/raw_kernel.cu", None)


def test_unknown_files_kernels_and_parameters_are_errors() -> None:
    with pytest.raises(KernelUnavailable, match="is not there"):
        source.load("nothing/raw_kernel.cu")
    with pytest.raises(KernelUnavailable, match="has no kernel 'other'"):
        loader.kernel("embed/raw_kernel.cu", "other", loader.place_of(np.zeros(1)), {})
    source.override("odd/raw_kernel.cu", 'extern "C" __global__ void odd(float* raw) {}')
    try:
        with pytest.raises(KernelUnavailable, match="write global_ptr"):
            source.load("odd/raw_kernel.cu")
    finally:
        source.override("odd/raw_kernel.cu", None)


def test_the_cache_key_covers_text_and_flags(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(build.CACHE, str(tmp_path))
    monkeypatch.setattr(build, "_compile", lambda *_, **__: None)
    monkeypatch.setattr(build, "_runtime", lambda _: ())
    text = source.load("embed/raw_kernel.cu")
    other = source.Source(text.path, text.text + "\n", text.kernels)
    defines = {"TKV_DTYPE": 0, "TKV_VEC": 4}
    names = {
        build.build(text, "embed", defines), build.build(text, "embed", defines | {"TKV_VEC": 1}),
        build.build(other, "embed", defines), build.build(text, "embed", defines, "thread"),
    }  # fmt: skip
    assert len(names) == 4
    assert build.build(text, "embed", defines) in names
