"""What is stored: owned copies of live rows, whole or not at all."""

import hashlib
from typing import Any

import numpy as np
import pytest
from prefix_rows import Layer, Rows, check_inside, hit_length, live, store, stored_blocks

from teachkv.errors import GeometryError
from teachkv.prefix import PrefixCache

SIXTY = list(range(61))


def cache(block_tokens: int = 4) -> PrefixCache:
    return PrefixCache(block_tokens, 1 << 20, b"model")


def checksum(prefix: PrefixCache) -> str:
    sides = (side for block in stored_blocks(prefix) for pair in block.layers for side in pair)
    return hashlib.sha256(b"".join(side.tobytes() for side in sides)).hexdigest()


@pytest.mark.case("ml-explore/mlx-examples#977")
@pytest.mark.kills("prefix-strip/removed")
@pytest.mark.kills("prefix-strip/stores-on-failure")
def test_a_dead_prefix_is_refused_and_nothing_is_stored() -> None:
    # The seed's figures: 64 columns where 60 are real. Without the check the first block is four dead columns.
    prefix, refusals = cache(), []
    try:
        prefix.publish(SIXTY, 60, lambda: live(SIXTY, 60, dead=4))
    except GeometryError as error:
        refusals.append(str(error))
    assert hit_length(prefix, SIXTY) == 0
    assert stored_blocks(prefix) == []
    assert refusals == ["prefix cache: layer 0 shows [64] rows where 60 are real; nothing is stored"]


@pytest.mark.case("ml-explore/mlx-examples#977")
def test_slack_behind_the_rows_is_refused() -> None:
    # mlx-examples#977: a prompt of 3 in a buffer of 8
    prefix = cache(1)
    with pytest.raises(GeometryError, match=r"\[8\] rows where 3 are real"):
        prefix.publish([1, 2, 3], 3, lambda: live([1, 2, 3], 3, slack=5))
    assert stored_blocks(prefix) == []


def test_one_layer_that_differs_is_named() -> None:
    rows = live(SIXTY, 60)
    rows.layers[1].v = rows.layers[1].v[:, :59]
    with pytest.raises(GeometryError, match=r"layer 1 shows \[59, 60\]"):
        cache().publish(SIXTY, 60, lambda: rows)


@pytest.mark.parametrize("known", [0, 8])
def test_a_reader_that_fails_leaves_everything_as_it_was(known: int) -> None:
    prefix = cache()
    store(prefix, SIXTY[: known + 1])
    before = prefix.stats(), checksum(prefix)

    def cannot_strip() -> Rows:
        raise GeometryError("the rows moved")

    with pytest.raises(GeometryError, match="the rows moved"):
        prefix.publish(SIXTY, 60, cannot_strip)
    assert (prefix.stats().blocks, prefix.stats().pins) == (before[0].blocks, 0)
    assert checksum(prefix) == before[1]
    check_inside(prefix)


class FailingCopy(np.ndarray[Any, Any]):
    """Rows whose second block cannot be copied: memory ran out."""

    def __array_function__(self, function: Any, types: Any, given: Any, named: Any) -> Any:
        first = given[0][0]
        if first.flat[0] == first.base.flat[4 * first.shape[2]]:
            raise MemoryError
        return function([np.asarray(side) for side in given[0]], *given[1:], **named)


@pytest.mark.kills("prefix-after-rows/registers-first")
def test_memory_that_runs_out_in_the_middle_leaves_whole_blocks_only() -> None:
    prefix, rows = cache(), live(SIXTY, 60)
    broken = Rows([Layer(layer.k.view(FailingCopy), layer.v) for layer in rows.layers])
    with pytest.raises(MemoryError):
        prefix.publish(SIXTY, 60, lambda: broken)
    check_inside(prefix)
    assert prefix.stats().pins == 0
    assert hit_length(prefix, SIXTY) == 4
    assert store(prefix, SIXTY) == 14
    assert hit_length(prefix, SIXTY) == 60


@pytest.mark.case("MemTensor/MemOS#2301")
@pytest.mark.kills("prefix-owned/view")
def test_what_is_stored_does_not_change_with_the_buffer_it_came_from() -> None:
    # MemOS#2301
    prefix, rows = cache(), live(SIXTY, 60)
    prefix.publish(SIXTY, 60, lambda: rows)
    before = checksum(prefix)
    for layer in rows.layers:
        layer.k[:] = np.nan
        layer.v[:] = np.nan
    assert checksum(prefix) == before
    assert hit_length(prefix, SIXTY) == 60


@pytest.mark.case("MemTensor/MemOS#2301")
@pytest.mark.kills("prefix-owned/view")
@pytest.mark.kills("prefix-owned/writable")
def test_who_gets_a_hit_cannot_write_into_it() -> None:
    prefix = cache()
    store(prefix, SIXTY)
    for block in prefix.match(SIXTY).blocks:
        for side in (side for pair in block.layers for side in pair):
            assert side.base.flags.owndata
            assert side.base.nbytes == block.nbytes, "no more is held than is counted"
            assert not side.flags.writeable


@pytest.mark.case("MemTensor/MemOS#2301")
def test_two_requests_that_share_a_prompt_do_not_meet_in_its_blocks() -> None:
    prefix = cache()
    store(prefix, SIXTY[:9])
    before = checksum(prefix)
    for answer in ([70, 71, 72, 73, 74], [80, 81, 82, 83, 84]):
        hit = prefix.match([*SIXTY[:9], *answer])
        for block in hit.blocks:
            for k, v in block.layers:
                mine = k.copy(), v.copy()
                mine[0][:] = mine[1][:] = np.nan
        prefix.release(hit)
        assert checksum(prefix) == before
        store(prefix, [*SIXTY[:9], *answer])
        before = checksum(prefix)


@pytest.mark.case("ROCm/ATOM#902")
def test_a_hit_after_everything_was_let_go_finds_the_same_rows() -> None:
    # ROCm/ATOM#902: what was let go and is asked for again is not fresh memory
    prefix = cache()
    store(prefix, SIXTY)
    before = checksum(prefix)
    for _ in range(3):
        assert hit_length(prefix, SIXTY) == 60
        assert checksum(prefix) == before


@pytest.mark.case("mybigday/llama.rn#396")
@pytest.mark.kills("prefix-ring/removed")
@pytest.mark.parametrize("divergence", range(13))
def test_a_window_that_dropped_positions_is_not_stored(divergence: int) -> None:
    # llama.rn#396: window 4, prompt of 12; wherever the next prompt parts from it, all is computed again
    prefix, tokens = cache(1), list(range(12))
    full, ring = live(tokens, 12).layers
    ring = Layer(ring.k[:, 8:], ring.v[:, 8:], first=8)
    assert prefix.publish(tokens, 12, lambda: Rows([full, ring])) == 0
    asked = prefix.match([*tokens[:divergence], *range(50, 60)])
    assert asked.length == 0


def test_a_window_that_still_holds_everything_is_stored() -> None:
    prefix, tokens = cache(1), list(range(4))
    store(prefix, tokens, coverage=4)
    assert hit_length(prefix, [*tokens, 9]) == 4
