"""The stepper finds, in every run, what a GPU shows once in a thousand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import attention, case, ints
from numba import cuda

from cuda_kernels.numba_tools.launch import launch
from cuda_kernels.numba_tools.memory import StepError
from cuda_kernels.numba_tools.stepper import recording
from cuda_kernels.registry import get


@cuda.jit(device=True)
def neighbour(values: Any, i: Any, n: Any) -> Any:
    return values[(i + 1) % n]


@cuda.jit
def rotate(x: Any) -> None:
    shared = cuda.shared.array(8, np.float32)
    i = cuda.threadIdx.x
    shared[i] = x[i]
    cuda.syncthreads()
    x[i] = neighbour(shared, i, 8)


@cuda.jit
def rotate_without_barrier(x: Any) -> None:
    shared = cuda.shared.array(8, np.float32)
    i = cuda.threadIdx.x
    shared[i] = x[i]
    x[i] = neighbour(shared, i, 8)


@cuda.jit
def half_waits(x: Any) -> None:
    if cuda.threadIdx.x < 4:
        cuda.syncthreads()
    x[cuda.threadIdx.x] = 0.0


@cuda.jit
def two_barriers(x: Any) -> None:
    if cuda.threadIdx.x < 4:
        cuda.syncthreads()
    else:
        cuda.syncthreads()
    x[cuda.threadIdx.x] = 0.0


@cuda.jit
def past_the_end(x: Any) -> None:
    x[cuda.threadIdx.x - 1] = 0.0


@cuda.jit
def all_write_one(x: Any) -> None:
    x[0] = cuda.threadIdx.x


@cuda.jit
def blocks_meet(x: Any) -> None:
    x[0] = x[0] + cuda.blockIdx.x


@cuda.jit
def count(x: Any, total: Any) -> None:
    cuda.atomic.add(total, 0, x[cuda.threadIdx.x])


@cuda.jit
def reads_shared_first(x: Any) -> None:
    shared = cuda.shared.array(8, np.float32)
    x[cuda.threadIdx.x] = shared[cuda.threadIdx.x]


def eight() -> Any:
    return np.arange(8, dtype=np.float32)


def test_threads_meet_at_barriers_in_every_block() -> None:
    x = eight()
    launch(rotate, (1, 1, 1), 8, x)
    assert x.tolist() == [1, 2, 3, 4, 5, 6, 7, 0]


@pytest.mark.case("numba/numba#2655")
@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        (rotate_without_barrier, "race on shared memory|written by"),
        (half_waits, "never reach it"),
        (two_barriers, "wait at different barriers"),
        (past_the_end, r"x\[-1\] lies outside shape \(8,\)"),
        (all_write_one, "race on x\\[0\\]"),
    ],
)
def test_a_broken_kernel_is_named(kernel: Any, says: str) -> None:
    with pytest.raises(StepError, match=says) as caught:
        launch(kernel, (1, 1, 1), 8, eight())
    assert kernel.__name__ in str(caught.value)
    assert "test_stepper.py:" in str(caught.value)


def test_blocks_are_never_ordered() -> None:
    with pytest.raises(StepError, match="race on x"):
        launch(blocks_meet, (2, 1, 1), 1, eight())


def test_atomics_do_not_race() -> None:
    total = np.zeros(1, np.float32)
    launch(count, (1, 1, 1), 8, eight(), total)
    assert total[0] == 28


def test_shared_memory_starts_as_nan() -> None:
    x = eight()
    launch(reads_shared_first, (1, 1, 1), 8, x)
    assert np.isnan(x).all()


def test_a_launch_is_recorded_access_by_access() -> None:
    with recording() as launches:
        launch(rotate, (1, 1, 1), 8, eight())
    (record,) = launches
    assert record.kernel == "rotate"
    assert [a.offset for a in record.accesses if a.write] == list(range(8))
    assert [a.thread for a in record.accesses if not a.write] == list(range(8))


@pytest.mark.case("cupy/cupy#9750")
def test_strided_arrays_are_refused() -> None:
    with pytest.raises(ValueError, match="C-contiguous"):
        launch(rotate, (1, 1, 1), 8, np.zeros(16, np.float32)[::2])


@pytest.mark.kills(
    "numba-norm-barrier/removed", "numba-tile-filled/removed", "numba-tile-used/removed", "numba-weights/no-barrier",
    "numba-query-shared/removed", "numba-answer/removed", "numba-argmax-barrier/removed",
)  # fmt: skip
@pytest.mark.parametrize("op", ["rms_norm", "linear", "attention_prefill", "attention_decode_ragged", "sample"])
def test_no_kernel_races(op: str) -> None:
    get(op, "numba")(*case(op, np.random.default_rng(0)))


@pytest.mark.kills("numba-shift-barrier/removed")
def test_a_shift_does_not_race() -> None:
    cache = np.zeros((1, 1, 40, 8), np.float32)
    get("kv_align", "numba")(cache, ints(0), ints(0), cache, ints(0), ints(1), ints(30))


def test_moves_outside_a_buffer_are_refused() -> None:
    cache = np.zeros((1, 1, 9, 4), np.float32)
    with pytest.raises(StepError, match="lies outside shape"):
        get("kv_align", "numba")(cache, ints(0), ints(4), cache, ints(0), ints(0), ints(6))


@pytest.mark.case("Dao-AILab/flash-attention#1745")
def test_attention_in_poisoned_columns_touches_only_what_is_visible() -> None:
    q, k, v, cu, row, end, lead, _, scale = attention(np.random.default_rng(1), (5,), (1,), pads=(67,))
    with recording() as launches:
        get("attention_prefill", "numba")(q, k, v, cu, row, end, lead, None, scale)
    (record,) = launches
    number = [name for name, *_ in record.arrays].index("k_cache")
    columns = {np.unravel_index(a.offset, k.shape)[2] for a in record.accesses if a.array == number}
    assert columns == set(range(67, 72))
