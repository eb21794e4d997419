"""What the host build catches, each with a small kernel that does it, and the sanitizer lanes with their canaries."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from cuda_kernels.host.module import HostError, recording
from cuda_kernels.raw import loader, source
from tests.kernels.raw import probes

HEAD = '#include "common/reduce.cuh"\nextern "C" __global__ void toy(global_ptr<float> out, int n) {\n'
PATH = "toy/raw_kernel.cu"
needs_gcc = pytest.mark.skipif(shutil.which("g++") is None, reason="sanitizers need the system compiler")


def run(body: str, threads: int = 32, size: int = 64, shared: int = 0) -> Any:
    source.override(PATH, HEAD + body + "\n}\n")
    out = np.full(size, np.nan, np.float32)
    toy = loader.kernel(PATH, "toy", loader.place_of(out), {"TKV_DTYPE": 0})
    toy((1, 1, 1), (threads, 1, 1), (out, threads), shared=shared)
    return out


@pytest.fixture(autouse=True)
def without_toy() -> Iterator[None]:
    yield
    source.override(PATH, None)


INDEX = "const offset_t i = threadIdx.x;\n"


@pytest.mark.case("numba/numba#2655")
@pytest.mark.parametrize("body", ["out[i + n] = 1.0f;", "out[i - 1] = 1.0f;", "out[i] = out[i + 63];"])
def test_a_global_access_outside_its_array_is_named(body: str) -> None:
    with pytest.raises(HostError, match=r"array 'out': element -?\d+ \(4 bytes\) lies outside its 256 bytes"):
        run(INDEX + body, threads=64)


def test_a_misaligned_vector_access_is_an_error() -> None:
    with pytest.raises(HostError, match="not aligned to 16 bytes"):
        run("vec_put(out, 1LL, make_float4(0.0f, 0.0f, 0.0f, 0.0f));", threads=1)


def test_shared_memory_starts_as_nan_is_bounded_and_counted() -> None:
    taken = "SHARED_POOL(pool);\nauto s = pool.take<float>(32);\n" + INDEX
    assert np.isnan(run(taken + "out[i] = s[i];", shared=128)[:32]).all()
    with pytest.raises(HostError, match="takes 128 bytes, the launch gave 64"):
        run(taken, shared=64)
    with pytest.raises(HostError, match="lies outside a piece of 32 elements"):
        run(taken + "s[i + 1] = 0.0f;", shared=128)


@pytest.mark.case("numba/numba#2655")
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("if (i < 7) __syncthreads();", r"toy/raw_kernel.cu:4: __syncthreads reached by 7 of 64 threads"),
        ("if (i < 7) return;\n__syncthreads();", r"toy/raw_kernel.cu:5: __syncthreads reached by 57 .* 7 have left"),
        ("if (i < 3) out[i] = warp_sum(1.0f);", r"common/reduce.cuh:\d+: warp exchange reached by 3 of 64"),
        ("if (i < 7) __syncthreads();\nelse __syncthreads();", r"__syncthreads reached by 7 of 64"),
    ],
)  # fmt: skip
def test_a_barrier_that_not_all_reach_names_its_line(body: str, message: str) -> None:
    """numba#2655: a simulator forgives a barrier in a branch, hardware does not."""
    with pytest.raises(HostError, match=message):
        run(INDEX + body, threads=64)


def test_reductions_shuffles_and_votes() -> None:
    body = (
        INDEX
        + "out[i] = warp_sum(static_cast<float>(i));\n"
        + "out[i + 32] = static_cast<float>(__ballot_sync(kAllLanes, i < 5));"
    )
    out = run(body)
    assert (out[:32] == 496).all()
    assert (out[32:] == 31).all()


def test_a_comparison_of_int_with_unsigned_does_not_compile() -> None:
    from cuda_kernels.errors import KernelUnavailable

    with pytest.raises(KernelUnavailable, match="sign-compare"):
        run("if (n - 1 < threadIdx.x) out[0LL] = 1.0f;")


def test_reads_and_writes_are_recorded_per_thread() -> None:
    with recording() as seen:
        run(INDEX + "out[i + 1] = 1.0f;\nout[0LL] = out[i + 1];", threads=2)
    entry, _, _, names, accesses = seen[0]
    assert (entry, names) == ("toy", ("out",))
    assert [(int(a["thread"]), int(a["write"]), int(a["offset"])) for a in accesses] == [
        (0, 1, 4), (0, 0, 4), (0, 1, 0), (1, 1, 8), (1, 0, 8), (1, 1, 0)
    ]  # fmt: skip


EXCHANGE = (
    "SHARED_POOL(pool);\nauto s = pool.take<float>(32);\n"
    + INDEX
    + "s[i] = 1.0f;\n{barrier}\nout[i] = s[(i + 1) % 32];"
)


@needs_gcc
@pytest.mark.parametrize("attempt", range(5))
def test_the_race_lane_sees_a_dropped_barrier_every_time(attempt: int) -> None:
    with probes.variant("thread"):
        assert (run(EXCHANGE.format(barrier="__syncthreads();"), shared=128)[:32] == 1).all()
        with pytest.raises(HostError, match="data race"):
            run(EXCHANGE.format(barrier=";"), shared=128)


@needs_gcc
def test_a_thread_that_runs_ahead_orders_nobody() -> None:
    """Write after a barrier, read by a slower thread before the next one: a race, barriers or not."""
    body = "__syncthreads();\nif (i == 0) out[0LL] = 1.0f;\nif (i == 1) out[1LL] = out[0LL];\n__syncthreads();"
    with probes.variant("thread"), pytest.raises(HostError, match="data race"):
        run(INDEX + body)


@needs_gcc
def test_the_address_lane_sees_a_write_past_shared_memory() -> None:
    body = "float tile[4];\nfor (int k = 0; k <= n; ++k) tile[k % 8] = 1.0f;\nout[0LL] = tile[n % 4];"
    with probes.variant("address"):
        assert run("out[0LL] = 2.0f;", threads=1)[0] == 2
        with pytest.raises(HostError, match="AddressSanitizer"):
            run(body, threads=32)


@pytest.mark.case("vllm-project/vllm#1486")
@needs_gcc
def test_the_undefined_lane_sees_an_overflowing_product() -> None:
    with probes.variant("undefined"):
        assert run("out[0LL] = 2.0f;", threads=1)[0] == 2
        with pytest.raises(HostError, match="signed integer overflow"):
            run("const int wide = n * 100000000;\nout[0LL] = static_cast<float>(wide);")


@needs_gcc
@pytest.mark.parametrize("name", ["address", "undefined"])
def test_the_kernels_are_clean_under_the_sanitizers(name: str) -> None:
    with probes.variant(name):
        probes.decode_tail()
        probes.prefill_causality()
        probes.linear_tail()
