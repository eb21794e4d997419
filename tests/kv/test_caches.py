"""Both batch caches: what attention is shown, and what each sequence gets back."""

from collections.abc import Callable
from typing import Any

import pytest
from kvfake import OPS, check_live, decode, prefill, spec, started, write

from teachkv.errors import GeometryError, OptionError, PlanRefused, SlotError
from teachkv.kv import IncrementalBatchCache, LiveLayer, LiveRows, RebuildBatchCache

Make = Callable[..., Any]


@pytest.fixture(params=["rebuild", "eager", "incremental", "preallocated"])
def cache(request: pytest.FixtureRequest) -> Make:
    def make(**shape: Any) -> Any:
        if request.param in ("rebuild", "eager"):
            strip = "deferred" if request.param == "rebuild" else "eager"
            return RebuildBatchCache(spec(**shape), OPS, strip=strip, poison=True)  # type: ignore[arg-type]
        return IncrementalBatchCache(
            spec(**shape), OPS, rows=3 if request.param == "preallocated" else None, poison=True
        )

    return make


def test_uniform_cohort_decodes_behind_one_column(cache: Make) -> None:
    c = started(cache(), {1: 5, 2: 5})
    for step in range(3):
        view = decode(c, [1, 2])
        assert view.layers[0].geometry.end.tolist() == [6 + step] * 2
        assert view.layers[0].geometry is view.layers[1].geometry
    for request_id in (1, 2):
        check_live(c, request_id, 8, (None, None))


@pytest.mark.kills("reader-run/from-column-zero")
@pytest.mark.case("ndif-team/nnsight#673")
def test_ragged_cohort_shows_each_row_its_own_keys(cache: Make) -> None:
    c = started(cache(), {1: 9, 2: 4, 3: 1})
    for _ in range(3):
        view = decode(c, [1, 2, 3])
    assert view.layers[0].geometry.lead_pad is not None
    assert view.layers[0].geometry.lead_pad.tolist() == [0, 5, 8]
    for request_id, length in ((1, 12), (2, 7), (3, 4)):
        check_live(c, request_id, length, (None, None))


@pytest.mark.case("lablup/mlxcel#76")
def test_prompts_of_unequal_length_share_a_part(cache: Make) -> None:
    c = cache()
    for request_id in (1, 2):
        c.add(request_id)
    prefill(c, [1, 2], [7, 2])
    prefill(c, [2, 1], [3, 1])
    check_live(c, 1, 8, (None, None))
    check_live(c, 2, 5, (None, None))


@pytest.mark.kills("geometry/stores-live-length")
def test_pad_stays_true_while_the_batch_grows(cache: Make) -> None:
    c = started(cache(), {1: 6, 2: 3})
    pads = [decode(c, [1, 2]).layers[0].geometry.lead_pad for _ in range(3)]
    assert [pad.tolist() for pad in pads if pad is not None] == [[0, 3]] * 3


@pytest.mark.case("huggingface/transformers#22382")
@pytest.mark.parametrize("pad", [0, 1, 7, 31, 32, 33])
def test_positions_count_a_rows_own_tokens_whatever_lies_before_them(cache: Make, pad: int) -> None:
    """The array itself: pure rope would hide a shift that is the same for a whole row."""
    c = cache()
    for request_id, length in ((1, 4), (2, 4 + pad)):
        c.add(request_id)
        prefill(c, [request_id], [length])
    for step in range(3):
        view = decode(c, [1, 2])
        assert view.positions.tolist() == [4 + step, 4 + pad + step]
        where = view.layers[0].geometry
        lead = [0, 0] if where.lead_pad is None else where.lead_pad.tolist()
        assert lead == [pad, 0]
        assert where.column.tolist() == [4 + pad + step] * 2, "one column, two positions"


@pytest.mark.case("ml-explore/mlx-examples#977")
@pytest.mark.kills("reader-strip/removed")
def test_reader_gets_sixty_rows_where_sixty_are_real(cache: Make) -> None:
    c = started(cache(maximum=128), {1: 63, 2: 59})
    decode(c, [1, 2])
    rows = c.live_rows(2)
    assert rows.layers[0].k.shape[1] == 60
    check_live(c, 2, 60, (None, None))


@pytest.mark.kills("stale-cohort/removed")
def test_same_ids_are_not_the_same_content_after_a_truncation(cache: Make) -> None:
    c = started(cache(), {1: 6, 2: 6})
    decode(c, [1, 2])
    c.truncate(2, 3)
    decode(c, [1, 2])
    check_live(c, 2, 4, (None, None))
    check_live(c, 1, 8, (None, None))


@pytest.mark.kills("epoch/removed")
def test_rows_of_an_old_epoch_are_refused(cache: Make) -> None:
    c = started(cache(), {1: 6, 2: 3, 3: 9})
    old = decode(c, [1, 2])
    c.live_rows(2, old.epoch)
    decode(c, [3, 2])
    with pytest.raises(GeometryError, match="stale"):
        c.live_rows(2, old.epoch)


@pytest.mark.kills("commit/pad-not-grown")
def test_unequal_commit_moves_rows_to_the_common_end(cache: Make) -> None:
    c = started(cache(), {1: 6, 2: 3})
    decode(c, [1, 2], [4, 4], kept=[1, 3])
    view = decode(c, [1, 2], [2, 2], kept=[2, 1])
    assert view.layers[0].geometry.lead_pad is not None
    assert view.layers[0].geometry.lead_pad.tolist() == [2, 3]
    check_live(c, 1, 9, (None, None))
    check_live(c, 2, 7, (None, None))


def cache_is_fixed(c: Any) -> bool:
    return isinstance(c, IncrementalBatchCache) and c.batch.preallocated is not None


def test_batch_grows_by_blocks_and_to_the_last_column(cache: Make) -> None:
    c = started(cache(layers=1, maximum=515), {1: 511, 2: 2})
    for length in range(512, 516):
        view = decode(c, [1, 2])
        assert view.layers[0].k.shape[2] in (512 if length <= 512 else 515, 515 if cache_is_fixed(c) else 0)
    with pytest.raises(PlanRefused, match="no room"):
        c.open_decode([1, 2])
    check_live(c, 1, 515, (None,))


def test_failed_step_leaves_every_row_as_of_its_last_close(cache: Make) -> None:
    c = started(cache(), {1: 6, 2: 3, 3: 2})
    decode(c, [1, 2])
    view = c.open_decode([1, 2])
    view.layers[0].k[0, :, view.layers[0].geometry.column[0]] = 7.0
    c.open_prefill([3], [2])
    c.invalidate()
    with pytest.raises(GeometryError, match="not open"):
        c.close(view)
    decode(c, [1, 2])
    check_live(c, 1, 8, (None, None))
    check_live(c, 3, 2, (None, None))


def test_ring_layers_decode_uniform_cohorts(cache: Make) -> None:
    rings = (None, 4)
    c = started(cache(rings=rings), {1: 3, 2: 3})
    for _ in range(12):
        decode(c, [1, 2])
    check_live(c, 1, 15, rings)
    check_live(c, 2, 15, rings)


def test_loaded_rows_are_the_rows_that_were_read(cache: Make) -> None:
    c = started(cache(), {1: 6, 2: 3})
    decode(c, [1, 2])
    rows = c.live_rows(2)
    c.drop(2)
    c.add(2)
    c.load_rows(2, rows)
    check_live(c, 2, 4, (None, None))
    decode(c, [1, 2])
    check_live(c, 2, 5, (None, None))


def test_blocks_are_loaded_to_the_first_columns(cache: Make) -> None:
    c = started(cache(), {1: 8})
    rows = c.live_rows(1)
    blocks = [[(layer.k[:, i : i + 4], layer.v[:, i : i + 4]) for layer in rows.layers] for i in (0, 4)]
    c.drop(1)
    c.add(1)
    c.load_blocks(1, blocks)
    check_live(c, 1, 8, (None, None))
    with pytest.raises(GeometryError, match="already holds"):
        c.load_blocks(1, blocks)


@pytest.mark.kills("one-open-view/removed")
def test_one_view_of_a_kind_may_be_open(cache: Make) -> None:
    c = started(cache(), {1: 6, 2: 3, 3: 5})
    decoding = c.open_decode([1])
    assert opening(lambda: c.open_decode([2])) is GeometryError
    prompt = c.open_prefill([2], [1])
    assert opening(lambda: c.open_prefill([3], [1])) is GeometryError
    assert opening(lambda: c.trim()) in (GeometryError, None)
    write(decoding, [1], [1], (None, None))
    write(prompt, [2], [1], (None, None))
    c.close(prompt)
    c.close(decoding)
    check_live(c, 1, 7, (None, None))
    check_live(c, 2, 4, (None, None))


def opening(act: Callable[[], Any]) -> type[Exception] | None:
    try:
        act()
    except Exception as error:
        return type(error)
    return None


def test_dropping_a_member_voids_the_open_view(cache: Make) -> None:
    """An abort between open and close: the others are as of their last close and go on."""
    c = started(cache(), {1: 6, 2: 3})
    view = c.open_decode([1, 2])
    write(view, [1, 2], [1, 1], (None, None))
    c.drop(1)
    assert opening(lambda: c.close(view)) is GeometryError
    check_live(c, 2, 3, (None, None))
    decode(c, [2])
    check_live(c, 2, 4, (None, None))


@pytest.mark.kills("loadable/removed")
def test_rows_that_do_not_make_up_their_length_are_not_loaded(cache: Make) -> None:
    rings = (None, 4)
    c = started(cache(rings=rings), {1: 9})
    rows = c.live_rows(1)
    full, ring = rows.layers
    c.add(2)
    for layers in (
        (LiveLayer(full.k[:, 1:], full.v[:, 1:], 1), ring),
        (LiveLayer(full.k[:, :8], full.v[:, :8], 0), ring),
        (full, LiveLayer(ring.k[:, 1:], ring.v[:, 1:], 6)),
        (full,),
    ):
        assert opening(lambda: c.load_rows(2, LiveRows(9, layers))) is SlotError  # noqa: B023
        assert c.length(2) == 0
    c.drop(1)
    c.add(1)
    c.load_rows(1, rows)
    decode(c, [1])
    check_live(c, 1, 10, rings)


@pytest.mark.case("mybigday/llama.rn#396")
@pytest.mark.kills("ring-rows-rollback/removed")
def test_truncation_is_refused_where_a_ring_has_dropped_positions(cache: Make) -> None:
    rings = (None, 4)
    c = started(cache(rings=rings), {1: 3, 2: 9})
    decode(c, [1])
    for request_id, wrong in ((1, 5), (1, -1), (2, 8)):
        assert opening(lambda: c.truncate(request_id, wrong)) is SlotError  # noqa: B023
        assert (c.length(1), c.length(2)) == (4, 9)
    c.truncate(2, 9)
    c.truncate(1, 2)
    check_live(c, 1, 2, rings)
    check_live(c, 2, 9, rings)


def test_misuse_is_named(cache: Make) -> None:
    c = started(cache(), {1: 6, 2: 3})
    with pytest.raises(OptionError, match="strip"):
        RebuildBatchCache(spec(), OPS, strip="later")  # type: ignore[arg-type]
    with pytest.raises(GeometryError, match="already"):
        c.add(1)
    with pytest.raises(GeometryError, match="not in the cache"):
        c.open_decode([9])
    with pytest.raises(GeometryError, match="different sequences"):
        c.open_decode([1, 1])
    view = c.open_decode([1, 2])
    with pytest.raises(GeometryError, match="close the open"):
        c.open_decode([1])
    with pytest.raises(GeometryError, match="close the open"):
        c.open_prefill([2], [1])
    with pytest.raises(GeometryError, match="close the open"):
        c.truncate(1, 2)
    with pytest.raises(GeometryError, match="cannot keep"):
        c.close(view, [1, 2])


@pytest.mark.case("EricLBuehler/mistral.rs#246", "ggml-org/llama.cpp#18727")
@pytest.mark.parametrize("total", [3, 4, 5, 8, 9])
def test_a_prompt_around_its_window_splits_anywhere(cache: Make, total: int) -> None:
    """Window 4, every chunk size, a ring beside a full layer (mistral.rs#246, llama.cpp#18727)."""
    rings = (4, None)
    for chunk in range(1, total + 1):
        c, done = cache(rings=rings), 0
        c.add(1)
        while done < total:
            prefill(c, [1], [min(chunk, total - done)])
            done = c.length(1)
        check_live(c, 1, total, rings)
        for _ in range(5):
            decode(c, [1])
        check_live(c, 1, total + 5, rings)


@pytest.mark.case("ml-explore/mlx-lm#983")
@pytest.mark.parametrize("late", range(11))
def test_rows_with_wrapped_rings_merge_when_they_are_equally_long(cache: Make, late: int) -> None:
    """Window 4; a row joins after `late` steps of the other, however often either ring went round (mlx-lm#983)."""
    rings = (4, None)
    c = started(cache(rings=rings), {1: 3})
    for _ in range(late):
        decode(c, [1])
    started(c, {2: 3 + late})
    for _ in range(5):
        decode(c, [2, 1])
    for request_id in (1, 2):
        check_live(c, request_id, 8 + late, rings)


def test_a_row_that_left_its_cohort_is_as_it_was_and_comes_back(cache: Make) -> None:
    """What the bucketed policy does all the time: two cohorts take turns."""
    c = started(cache(), {1: 6, 2: 6, 3: 9})
    for _ in range(4):
        decode(c, [1, 2])
        decode(c, [3])
    for request_id, length in ((1, 10), (2, 10), (3, 13)):
        check_live(c, request_id, length, (None, None))
    view = decode(c, [3, 1, 2])
    assert view.positions.tolist() == [13, 10, 10]
