"""Linear layers of one x in one go: the bits they have one by one, and pieces that cover everything once."""

import threading
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from cuda_kernels.common.types import F32
from cuda_kernels.reference import invariance, threads
from cuda_kernels.reference.linear import Products
from cuda_kernels.reference.products import Plan, product, products
from cuda_kernels.reference.scratch import scratch
from cuda_kernels.registry import make_ops
from tests.kernels.host_threads import three_threads

PLANS = [*invariance.candidates(64), invariance.TOGETHER, invariance.plain(None)]
OUTS = [(576, 192, 192), (65, 1), (1, 64, 13), (500, 500)]


def random(*shape: int) -> F32:
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)
@pytest.mark.parametrize("outs", OUTS)
@pytest.mark.parametrize("rows", [1, 2, 8, 9, 40])
def test_products_together_have_the_bits_of_each_alone(plan: Plan, outs: tuple[int, ...], rows: int) -> None:
    x, ws = random(rows, 576), [random(n, 576) for n in outs]
    with three_threads():
        together = products(x, ws, plan)
        for w, y in zip(ws, together, strict=True):
            assert y.tobytes() == product(x, w, plan).tobytes()


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("rows", [1, 8, 300])
def test_joined_layers_are_linear_layer_by_layer(biased: bool, rows: int) -> None:
    ops = make_ops("reference")
    alone = replace(ops, joined=None)
    x, ws = random(rows, 128), (random(320, 128), random(64, 128), random(1, 128))
    biases = tuple(random(len(w)) if biased else None for w in ws)
    for one, other in zip(ops.linears(x, ws, biases), alone.linears(x, ws, biases), strict=True):
        assert one.tobytes() == other.tobytes()
    gate, up = random(500, 128), random(500, 128) * 2
    bias = random(500) if biased else None
    assert ops.gate_up(x, gate, up, bias, bias).tobytes() == alone.gate_up(x, gate, up, bias, bias).tobytes()


def test_layers_of_different_plans_go_one_by_one() -> None:
    layers = Products([(64, 32), (65, 32)], True)
    layers._plans[64, 32] = invariance.BEST_EFFORT
    x, ws = random(3, 32), (random(64, 32), random(65, 32))
    got = layers.linears(x, ws, (None, None))
    assert [y.tobytes() for y in got] == [layers.lm_head(x, w).tobytes() for w in ws]


@pytest.mark.parametrize("lead", [0, 1, 5])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 24, 100])
def test_every_piece_is_run_once_and_the_caller_takes_its_lead(count: int, lead: int) -> None:
    runs: list[tuple[int, int]] = []
    with three_threads():
        threads.spread(count, lambda start, stop: runs.append((start, stop)), lead)
    assert Counter(i for start, stop in runs for i in range(start, stop)) == dict.fromkeys(range(count), 1)
    sizes = [stop - start for start, stop in sorted(runs)]
    if count >= 24:
        assert sizes[0] - min(sizes) >= lead
        assert sizes[0] - max(sizes[1:]) <= lead + 1


@pytest.mark.parametrize("count", [0, 1, 2, 3, 50])
def test_every_item_is_shared_out_once_and_an_error_reaches_the_caller(count: int) -> None:
    done: Counter[int] = Counter()
    with three_threads():
        threads.share(range(count), lambda item: done.update([item]))
        with pytest.raises(ZeroDivisionError):
            threads.share(range(count + 1), lambda item: done.update([1 // (item - count)]))
    assert all(done[item] >= 1 for item in range(count))


def test_memory_is_kept_for_the_next_call_of_the_same_thread() -> None:
    first = scratch("test", (3, 4))
    assert np.shares_memory(first, scratch("test", (2, 5)))
    assert not np.shares_memory(first, scratch("another", (3, 4)))
    assert scratch("test", (2, 2), np.float16).dtype == np.float16
    others: list[F32] = []
    thread = threading.Thread(target=lambda: others.append(scratch("another", (3, 4))))
    thread.start()
    thread.join()
    assert not np.shares_memory(others[0], scratch("another", (3, 4)))


@pytest.mark.parametrize("work", [0, 1 << 20, 1 << 40])
@pytest.mark.parametrize("counts", [(5,), (0, 3), (9, 3, 3), (1, 1, 1, 1), ()])
def test_ranges_spread_together_are_each_covered_once(counts: tuple[int, ...], work: int) -> None:
    seen: Counter[tuple[int, int]] = Counter()

    def job(which: int, start: int, stop: int) -> None:
        seen.update((which, i) for i in range(start, stop))

    with three_threads():
        threads.spread_each(counts, work, job)
    assert seen == {(which, i): 1 for which, count in enumerate(counts) for i in range(count)}


@pytest.mark.kills("one-writer/both", "own-outputs/neighbours-too")
@pytest.mark.parametrize(("plan", "rows"), [(invariance.SMALL, 200), (invariance.FRAMED, 5)], ids=["small", "framed"])
def test_every_output_is_written_by_one_product(plan: Plan, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each product answers with its own number: 12 or 64 outputs of the last one belong to the one before."""
    calls: list[int] = []

    def numbered(a: F32, b: F32, out: F32 | None = None) -> F32:
        calls.append(len(calls) + 1)
        y = np.empty((*a.shape[:-1], b.shape[-1]), np.float32) if out is None else out
        y[...] = len(calls)
        return y

    monkeypatch.setattr(np, "matmul", numbered)
    outs, last = (97, 64) if plan is invariance.SMALL else (31, 24)
    x, w = np.zeros((rows, 32), np.float32), np.zeros((outs, 32), np.float32)
    y = product(x, w, plan)
    earlier = calls[-1] // 2  # the second half of the calls is the narrow group or piece
    assert y[:, :last].max() <= earlier < y[:, last:].min()
