"""Who goes when memory is short: the longest unused, leaves first, never what is held."""

import random

import pytest
from prefix_rows import POSITION_BYTES, check_inside, hit_length, path_to, store, stored_blocks

from teachkv.errors import OptionError, PrefixCacheError
from teachkv.prefix import PrefixCache


def cache(blocks: int, block_tokens: int = 1) -> PrefixCache:
    """A cache with room for so many blocks and half of one more."""
    return PrefixCache(block_tokens, blocks * block_tokens * POSITION_BYTES + POSITION_BYTES // 2, b"model")


def beginnings(prefix: PrefixCache) -> set[tuple[int, ...]]:
    return {path_to(block) for block in stored_blocks(prefix)}


@pytest.mark.case("GeeeekExplorer/nano-vllm#163")
@pytest.mark.kills("prefix-unindex/removed")
def test_an_evicted_block_cannot_be_found() -> None:
    # nano-vllm#163: X, then Y in its place, then X again
    prefix = cache(2)
    store(prefix, [1, 2], coverage=2)
    store(prefix, [3, 4], coverage=2)
    check_inside(prefix)
    assert hit_length(prefix, [1, 2, 9]) == 0
    assert hit_length(prefix, [3, 4, 9]) == 2
    assert store(prefix, [1, 2], coverage=2) == 2
    assert hit_length(prefix, [1, 2, 9]) == 2
    check_inside(prefix)


@pytest.mark.case("ml-explore/mlx-lm#1495")
def test_a_hit_makes_a_block_recent() -> None:
    # mlx-lm#1495: A and B stored, A used, C added: B goes
    prefix = cache(2)
    store(prefix, [1], coverage=1)
    store(prefix, [2], coverage=1)
    hit_length(prefix, [1, 9])
    store(prefix, [3], coverage=1)
    assert beginnings(prefix) == {(1,), (3,)}


@pytest.mark.case("ml-explore/mlx-lm#1495")
@pytest.mark.kills("prefix-recency/removed")
def test_publishing_what_is_known_makes_it_recent() -> None:
    prefix = cache(2)
    store(prefix, [1], coverage=1)
    store(prefix, [2], coverage=1)
    store(prefix, [1], coverage=1)
    store(prefix, [3], coverage=1)
    assert beginnings(prefix) == {(1,), (3,)}


@pytest.mark.case("ml-explore/mlx-lm#1495")
def test_only_the_half_that_matched_becomes_recent() -> None:
    # mini-sglang#124
    prefix = cache(5)
    store(prefix, [1, 2, 3, 4], coverage=4)
    store(prefix, [5], coverage=1)
    hit_length(prefix, [1, 2, 9])
    store(prefix, [6, 7], coverage=2)
    assert beginnings(prefix) == {(1,), (1, 2), (5,), (6,), (6, 7)}


@pytest.mark.case("llm-d/llm-d-inference-sim#705")
@pytest.mark.kills("prefix-leaves-first/root-first")
def test_leaves_go_before_their_parents() -> None:
    prefix = cache(4)
    store(prefix, [1, 2, 3, 4], coverage=4)
    for newcomers in range(1, 4):
        store(prefix, [10 + newcomers], coverage=1)
        check_inside(prefix)
        assert hit_length(prefix, [1, 2, 3, 4, 9]) == 4 - newcomers
        # Ask for the newcomers last, so that the old chain is always the colder one.
        for n in range(1, newcomers + 1):
            hit_length(prefix, [10 + n, 9])


@pytest.mark.case("sgl-project/mini-sglang#52")
@pytest.mark.kills("prefix-pin/starts-at-the-parent")
def test_the_leaf_of_a_held_path_stays() -> None:
    # mini-sglang#52
    prefix = cache(2)
    store(prefix, [1, 2], coverage=2)
    hit = prefix.match([1, 2, 9])
    assert store(prefix, [3, 4], coverage=2) == 0
    assert beginnings(prefix) == {(1,), (1, 2)}
    assert all(block.layers for block in hit.blocks)
    prefix.release(hit)
    assert store(prefix, [3, 4], coverage=2) == 2
    check_inside(prefix)


@pytest.mark.case("sgl-project/mini-sglang#52")
def test_a_path_that_two_hold_stays_until_both_let_go() -> None:
    prefix = cache(2)
    store(prefix, [1, 2], coverage=2)
    first, second = prefix.match([1, 2, 9]), prefix.match([1, 8, 9])
    prefix.release(first)
    assert store(prefix, [3, 4], coverage=2) == 1
    assert beginnings(prefix) == {(1,), (3,)}
    prefix.release(second)
    assert prefix.stats().pins == 0
    check_inside(prefix)


@pytest.mark.case("sgl-project/mini-sglang#52")
@pytest.mark.kills("prefix-release-once/removed")
def test_a_hit_is_released_once() -> None:
    prefix = cache(2)
    store(prefix, [1, 2], coverage=2)
    first, second = prefix.match([1, 2, 9]), prefix.match([1, 2, 9])
    prefix.release(first)
    refusals = []
    try:
        prefix.release(first)
    except PrefixCacheError as error:
        refusals.append(str(error))
    assert prefix.stats().pins == 2
    assert refusals == ["prefix cache: a hit of 2 tokens was released that is not held"]
    prefix.release(second)
    check_inside(prefix)


def test_a_hit_of_nothing_needs_no_release_and_bears_any() -> None:
    prefix = cache(2)
    hit = prefix.match([1, 2])
    prefix.release(hit)
    prefix.release(hit)
    check_inside(prefix)


@pytest.mark.kills("prefix-budget/removed")
@pytest.mark.kills("prefix-budget/forgets-the-newcomer")
def test_a_block_larger_than_the_budget_is_not_stored() -> None:
    prefix = PrefixCache(4, 4 * POSITION_BYTES - 1, b"model")
    assert store(prefix, list(range(9))) == 0
    assert prefix.stats().bytes_used == 0
    roomy = PrefixCache(4, 4 * POSITION_BYTES, b"model")
    assert store(roomy, list(range(9))) == 1
    assert roomy.stats().bytes_used == 4 * POSITION_BYTES


def test_a_long_sequence_keeps_its_beginning() -> None:
    prefix = cache(3)
    assert store(prefix, [1, 2, 3, 4, 5], coverage=5) == 3
    assert hit_length(prefix, [1, 2, 3, 4, 5]) == 3


def test_a_smaller_budget_evicts_at_once_but_not_what_is_held() -> None:
    prefix = cache(4)
    store(prefix, [1, 2], coverage=2)
    store(prefix, [3, 4], coverage=2)
    hit = prefix.match([1, 2, 9])
    prefix.set_budget(0)
    assert beginnings(prefix) == {(1,), (1, 2)}
    prefix.release(hit)
    prefix.set_budget(0)
    assert prefix.stats().blocks == prefix.stats().bytes_used == 0
    with pytest.raises(OptionError, match="byte_budget -1"):
        prefix.set_budget(-1)


def test_clearing_leaves_what_is_held() -> None:
    prefix = cache(4)
    store(prefix, [1, 2], coverage=2)
    store(prefix, [3, 4], coverage=2)
    hit = prefix.match([3, 9])
    prefix.clear()
    assert beginnings(prefix) == {(3,)}
    prefix.release(hit)
    prefix.clear()
    assert stored_blocks(prefix) == []


@pytest.mark.case("GeeeekExplorer/nano-vllm#163")
@pytest.mark.kills("prefix-budget/removed")
@pytest.mark.kills("prefix-budget/forgets-the-newcomer")
@pytest.mark.parametrize("seed", [1, 2])
def test_ten_thousand_random_requests_keep_the_budget(seed: int) -> None:
    rng, prefix, held = random.Random(seed), PrefixCache(4, 300 * POSITION_BYTES, b"model"), []
    hits = 0
    for number in range(5_000):
        # Prompts share beginnings: a few system prompts, then free tokens.
        tokens = [rng.randrange(6)] * rng.randrange(12) + [rng.randrange(1000) for _ in range(rng.randrange(1, 12))]
        held.append(prefix.match(tokens))
        hits += held[-1].length
        if rng.random() < 0.9:
            store(prefix, tokens)
        while len(held) > 4 or (held and rng.random() < 0.5):
            prefix.release(held.pop(rng.randrange(len(held))))
        assert prefix.stats().bytes_used <= 300 * POSITION_BYTES
        if number % 250 == 0:
            check_inside(prefix)
    for hit in held:
        prefix.release(hit)
    check_inside(prefix)
    stats = prefix.stats()
    assert stats.pins == 0
    assert all(block.pins == 0 for block in stored_blocks(prefix))
    # The run must have been tight and useful, or it has shown nothing.
    assert stats.evicted_blocks > 1_000
    assert hits > 1_000
