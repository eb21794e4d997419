"""Products with equal bits: the plans, the test that chooses among them, and what happens where it fails."""

import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from cuda_kernels.common.types import F32
from cuda_kernels.errors import NotInvariant
from cuda_kernels.reference import invariance, threads
from cuda_kernels.reference.blas_threads import Single, setter_of, single
from cuda_kernels.reference.crowd import Crowd
from cuda_kernels.reference.framed import MOST, evenly, frame, inside, pieces_of
from cuda_kernels.reference.linear import Products
from cuda_kernels.reference.products import Plan, cover, most_rows, outs_of, product
from cuda_kernels.registry import make_ops

SHAPES = [(64, 32), (97, 32), (16, 48), (192, 576), (320, 700), (1100, 128)]
ROOT = Path(__file__).resolve().parents[3]


def random(rows: int, width: int, seed: int = 0) -> F32:
    return np.random.default_rng(seed).standard_normal((rows, width), dtype=np.float32)


@pytest.mark.case("kekzl/imp#1314")
@pytest.mark.parametrize(("outs", "width"), SHAPES)
def test_a_row_has_the_same_bits_in_every_count_and_position(outs: int, width: int) -> None:
    products = Products([], True)
    x, w = random(140, width), random(outs, width, 1)
    alone = [products.lm_head(x[i : i + 1], w).tobytes() for i in range(140)]
    assert len(set(alone)) == 140
    for count in range(1, 141):
        start = (count * 5) % (141 - count)
        got = products.lm_head(x[start : start + count], w)
        assert [row.tobytes() for row in got] == alone[start : start + count], count
    np.testing.assert_allclose(products.lm_head(x, w), x.astype(np.float64) @ w.T.astype(np.float64), atol=1e-4)


@pytest.mark.parametrize("plan", [*invariance.candidates(64), invariance.plain(None), invariance.BEST_EFFORT])
@pytest.mark.parametrize("rows", [0, 1, 2, 8, 15, 16, 17, 64, 65, 130])
def test_every_plan_is_the_product(plan: Plan, rows: int) -> None:
    x, w = random(rows, 700), random(150, 700, 1)
    got = product(x, w, plan)
    assert got.shape == (rows, 150)
    assert got.flags.c_contiguous
    np.testing.assert_allclose(got, x.astype(np.float64) @ w.T.astype(np.float64), atol=1e-4)


def test_rows_that_nearly_fill_a_tile_take_one_product() -> None:
    assert [cover(rows, 64) for rows in (1, 3, 8, 9)] == [[(2, 1)], [(4, 1)], [(8, 1)], [(16, 1)]]


@pytest.mark.kills("row-padding/removed")
def test_small_products_stay_small_and_come_in_six_shapes() -> None:
    for width in (32, 576, 1536, 4864, 18944):
        shapes = set()
        for rows in range(1, 400):
            tiles = cover(rows, most_rows(width))
            covered = sum(tile * count for tile, count in tiles)
            assert rows <= covered < rows + max(16, rows)
            shapes |= {tile for tile, _ in tiles}
        assert shapes == {2**i for i in range(1, 7) if 2**i <= most_rows(width)}
        for tile in shapes:
            assert outs_of(tile, width) >= 2
            assert tile * outs_of(tile, width) <= 1024
            assert tile * outs_of(tile, width) * width <= 1 << 18


@pytest.mark.parametrize("outs", [65, 97, 127])
def test_an_odd_output_costs_no_invariance(outs: int) -> None:
    """Where small products hold for 64 outputs, they hold for one more, which must not become a vector of its own."""
    x, w = random(MOST, 32), random(128, 32, 1)
    if not invariance.holds(x, w[:64], invariance.SMALL):
        pytest.skip("this machine's BLAS has no small products")
    assert invariance.holds(x, w[:outs], invariance.SMALL)


@pytest.mark.kills("odd-outputs/narrow")
@pytest.mark.parametrize("outs", [65, 97, 127])
def test_no_small_product_is_narrower_than_the_others(outs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same on every machine, by the shapes that reach BLAS."""
    widths: set[int] = set()
    matmul = np.matmul

    def spy(rows: F32, block: F32, out: F32) -> None:
        widths.add(block.shape[-1])
        matmul(rows, block, out=out)

    monkeypatch.setattr(np, "matmul", spy)
    got = product(random(4, 32), random(outs, 32, 1), invariance.SMALL)
    monkeypatch.undo()
    assert widths == {64}
    np.testing.assert_allclose(got, random(4, 32) @ random(outs, 32, 1).T, atol=1e-4)


@pytest.mark.kills("row-frame/removed", "row-frame/none-behind")
@pytest.mark.parametrize("rows", [9, 13, 16, 17, 24, 256])
def test_many_columns_lie_between_eight_rows_of_zeros(rows: int) -> None:
    full, before = frame(random(rows, 5))
    assert before == 8
    assert len(full) % 8 == 0
    assert len(full) - before - rows >= 8
    assert np.array_equal(full[before : before + rows], random(rows, 5))
    assert not full[:before].any()
    assert not full[before + rows :].any()


@pytest.mark.kills("output-frame/removed", "output-frame/none-behind")
@pytest.mark.parametrize("outs", [17, 32, 97, 192, 193, 576, 1537])
def test_outputs_of_many_rows_lie_between_eight_that_nobody_reads(outs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each product answers NaN at its ends, as if it added otherwise there."""
    matmul = np.matmul

    def otherwise(x: F32, w: F32, out: F32) -> F32:
        assert x.shape[0] % 12 == 0
        assert w.shape[1] % 8 == 0
        y = matmul(x, w, out=out)
        y[:, :8] = y[:, -8:] = np.nan
        return y

    x, w = random(13, 40), random(outs, 40, 1)
    monkeypatch.setattr(np, "matmul", otherwise)
    got = product(x, w, invariance.FRAMED)
    monkeypatch.undo()
    np.testing.assert_allclose(got, x @ w.T, atol=1e-4)


def test_a_row_more_than_one_product_takes_has_the_same_bits() -> None:
    x, w = random(MOST + 1, 96), random(24, 96, 1)
    if not invariance.holds(x, w, invariance.FRAMED):
        pytest.skip("this machine's BLAS adds otherwise")
    assert product(x, w, invariance.FRAMED)[MOST:].tobytes() == product(x[MOST:], w, invariance.FRAMED).tobytes()


@pytest.mark.parametrize("outs", [0, 1, 31, 32, 33, 191, 192, 1000])
@pytest.mark.parametrize("pieces", [0, 1, 3])
def test_inner_outputs_have_neighbours_and_are_cut_without_rest(outs: int, pieces: int) -> None:
    span = inside(outs)
    assert span.stop <= outs
    assert not span or (span.start >= 8 and span.stop <= outs - 8)
    cuts = evenly(span.start, span.stop, pieces, 8)
    assert [i for cut in cuts for i in range(cut.start, cut.stop)] == list(span)
    assert all((cut.stop - cut.start) % 8 == 0 for cut in cuts)
    assert len(cuts) <= max(pieces, 1)


def test_few_rows_are_only_filled_up() -> None:
    assert frame(random(8, 5))[0].shape == (8, 5)
    full, before = frame(random(3, 5).reshape(1, 3, 5))
    assert (full.shape, before) == ((1, 8, 5), 0)


@pytest.mark.parametrize("outs", [1, 11, 12, 13, 191, 192, 193, 500])
def test_pieces_cover_all_outputs_in_whole_units(outs: int) -> None:
    for pieces in (pieces_of(outs, 192), pieces_of(outs, outs, 48)):
        assert [i for _, end, own in pieces for i in range(own, end)] == list(range(outs))
        assert all(begin <= own and ((end - begin) % 12 == 0 or outs < 12) for begin, end, own in pieces)
    assert pieces[0][1] % 48 == 0 or outs < 48


@pytest.mark.kills("blas-threads/early")
def test_blas_gets_its_threads_back_when_the_last_product_is_done() -> None:
    class Library:
        threads = 6

        def get_num_threads(self) -> int:
            return self.threads

        def set_num_threads(self, count: int) -> None:
            self.threads = count

    library = Library()
    alone = Single([library])
    with alone.hold():
        with suppress(ZeroDivisionError), alone.hold():
            raise ZeroDivisionError
        assert library.threads == 1
    assert library.threads == 6


@pytest.mark.kills("blas-any-thread/first-only")
def test_blas_is_held_to_one_thread_whichever_thread_asks() -> None:
    """threadpoolctl 3.8 lets one thread set the count, the first that did; for all others it does nothing."""
    libraries, seen = ThreadpoolController().select(user_api="blas").lib_controllers, []

    def ask() -> None:
        with single().hold():
            seen.append([library.get_num_threads() for library in libraries])

    before = [library.get_num_threads() for library in libraries]
    try:
        for library in libraries:
            setter_of(library)(2)  # where tests run on one thread each, nothing would have to be set
        ask()
        other = threading.Thread(target=ask)
        other.start()
        other.join()
        assert seen == [[1] * len(libraries)] * 2
        assert [library.get_num_threads() for library in libraries] == [2] * len(libraries)
    finally:
        for library, count in zip(libraries, before, strict=True):
            setter_of(library)(count)


def test_few_rows_in_one_product_are_used_only_where_they_agree() -> None:
    """A BLAS whose threads cut the outputs badly: the plan without them stays."""

    def cut(x: F32, w: F32, plan: Plan) -> F32:
        y = product(x, w, plan)
        return np.nextafter(y, np.float32(np.inf)) if plan.together else y

    x, w = random(MOST, 32), random(192, 32, 1)
    if not invariance.holds(x, w, invariance.FRAMED):
        pytest.skip("this machine's BLAS adds otherwise")
    assert not invariance.few_agree(x, w, cut)


def test_a_late_product_sends_few_rows_to_our_own_threads_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now, late, asked = [0.0], [False], [0]

    def few_rows_at_once(x: F32, w: F32) -> F32:
        asked[0] += 1
        now[0] += 0.016 if late[0] else 0.0003
        return x @ w.T

    monkeypatch.setattr("cuda_kernels.reference.products.few_rows_at_once", few_rows_at_once)
    crowd, x, w = Crowd(lambda: now[0]), random(3, 32), random(192, 32, 1)
    for now[0], late[0], times in ((6, False, 1), (7, True, 2), (7.5, True, 2), (8.5, False, 3), (8.6, False, 4)):
        np.testing.assert_allclose(crowd.products(x, [w], invariance.TOGETHER)[0], x @ w.T, atol=1e-4)
        assert asked[0] == times
    crowd.products(random(9, 32), [w], invariance.TOGETHER)
    assert asked[0] == 4


def test_few_rows_do_not_depend_on_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = random(5, 300), random(1000, 300, 1)
    results = set()
    for count in ("1", "2", "3"):
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", count)
        monkeypatch.setattr(threads.os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
        threads.team.cache_clear()
        results.add(product(x, w, invariance.SMALL).tobytes())
        assert threads.team().size == int(count)
    threads.team.cache_clear()
    assert len(results) == 1


@pytest.mark.kills("invariance-check/tolerance")
def test_a_plan_that_moves_one_bit_is_refused() -> None:
    """A BLAS that rounds differently from 9 rows on: every plan that uses both sides must be refused."""

    def fickle(x: F32, w: F32, plan: Plan) -> F32:
        y = product(x, w, plan)
        if plan.form != "small" and plan.most == 8:
            return y
        return np.nextafter(y, np.float32(np.inf)) if len(x) > 8 else y

    found = invariance.find_plan(64, 32, fickle)
    assert found is not None
    assert found.name == "tiles of 8 rows"


@pytest.mark.case("kekzl/imp#1314")
def test_no_plan_at_all_is_said_and_refused_where_required(monkeypatch: pytest.MonkeyPatch) -> None:
    def hopeless(x: F32, w: F32, plan: Plan) -> F32:
        return product(x, w, plan) + np.float32(len(x))

    assert invariance.find_plan(64, 32, hopeless) is None
    monkeypatch.setattr("cuda_kernels.reference.linear._tested", lambda outs, width: None)
    assert make_ops("reference", shapes=[(64, 32)]).notes == (
        "linear: 1 shapes as rows padded to 8, NOT invariant on this machine",
    )
    with pytest.raises(NotInvariant, match=r"weights \[64, 32\]"):
        make_ops("reference", shapes=[(64, 32)], invariance="required")


def test_without_invariance_one_row_goes_as_a_vector() -> None:
    x, w = random(1, 576), random(192, 576, 1)
    assert np.array_equal(Products([], False).lm_head(x, w)[0], w @ x[0])


def test_an_error_in_a_thread_reaches_the_caller_and_the_team_lives_on() -> None:
    crew = threads.Team(2)

    def bad() -> None:
        raise ZeroDivisionError

    done: list[int] = []
    with pytest.raises(ZeroDivisionError):
        crew.run([lambda: done.append(1), bad])
    crew.run([lambda: done.append(2), lambda: done.append(3)])
    assert sorted(done) == [1, 2, 3]


def test_a_team_that_is_busy_runs_the_job_on_the_caller() -> None:
    crew = threads.Team(2)
    done: list[int] = []

    def nested() -> None:
        crew.run([lambda: done.append(1), lambda: done.append(2)])

    crew.run([nested, lambda: done.append(3)])
    assert sorted(done) == [1, 2, 3]


@pytest.mark.skipif(sys.platform != "linux", reason="OPENBLAS_CORETYPE is read by NumPy's Linux builds")
@pytest.mark.parametrize("core", ["Haswell", "SkylakeX", "Zen", "Sandybridge", "Prescott"])
def test_equal_bits_on_other_core_types(core: str) -> None:
    """The same check in a process whose BLAS is told to use another core's routines."""
    env = os.environ | {"OPENBLAS_CORETYPE": core, "OPENBLAS_NUM_THREADS": "2", "PYTHONPATH": str(ROOT)}
    script = Path(__file__).with_name("core_type_check.py")
    done = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True, timeout=120)
    if done.returncode == -4:
        pytest.skip(f"this processor cannot run {core} code")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip().endswith("equal")
