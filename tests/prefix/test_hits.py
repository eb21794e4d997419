"""How long a hit is: floor(min(longest common prefix, coverage, len - 1) / block) * block."""

import pytest
from prefix_rows import POSITION_BYTES, check_inside, hit_length, live, store, stored_blocks

from teachkv.errors import OptionError, PrefixCacheError
from teachkv.prefix import PrefixCache, Tags


def cache(block_tokens: int = 4) -> PrefixCache:
    return PrefixCache(block_tokens, 1 << 20, b"model")


@pytest.mark.case("GeeeekExplorer/nano-vllm#144")
@pytest.mark.kills("prefix-leaves-one/removed")
@pytest.mark.kills("prefix-leaves-one/one-too-many")
def test_a_prompt_of_whole_blocks_leaves_its_last_one_and_no_more() -> None:
    prefix, tokens = cache(), list(range(9))
    store(prefix, tokens, coverage=9)
    assert hit_length(prefix, tokens[:8]) == 4
    assert hit_length(prefix, tokens) == 8


@pytest.mark.case("GeeeekExplorer/nano-vllm#144")
@pytest.mark.parametrize("block", [1, 2, 4])
@pytest.mark.parametrize("length", range(1, 14))
def test_a_prompt_asked_twice_leaves_one_token_to_compute(length: int, block: int) -> None:
    # nano-vllm#144: all lengths around multiples of the block, with every position covered
    prefix, tokens = cache(block), list(range(100, 100 + length))
    store(prefix, tokens, coverage=length)
    assert hit_length(prefix, tokens) == (length - 1) // block * block
    assert hit_length(prefix, tokens) == (length - 1) // block * block


def test_an_empty_prompt_and_an_empty_cache_find_nothing() -> None:
    prefix = cache()
    assert hit_length(prefix, []) == 0
    assert hit_length(prefix, [1, 2, 3, 4, 5]) == 0
    assert prefix.publish([], 0, lambda: pytest.fail("nothing is new, so nothing may be read")) == 0


@pytest.mark.kills("prefix-coverage/counts-tokens")
def test_a_block_that_ends_with_the_last_token_drawn_is_not_stored() -> None:
    prefix, tokens = cache(), list(range(8))
    assert store(prefix, tokens) == 1
    assert hit_length(prefix, [*tokens, 50]) == 4


@pytest.mark.parametrize("length", range(1, 14))
def test_the_last_token_drawn_has_no_row_to_find(length: int) -> None:
    # A follow-up turn repeats the whole answer, its end token too, and goes on.
    prefix, tokens = cache(), list(range(length))
    store(prefix, tokens)
    assert hit_length(prefix, [*tokens, 50, 51, 52, 53, 54]) == (length - 1) // 4 * 4


@pytest.mark.parametrize("shared", range(13))
def test_a_hit_ends_where_the_tokens_part(shared: int) -> None:
    prefix, stored = cache(), list(range(12))
    store(prefix, stored, coverage=12)
    assert hit_length(prefix, [*stored[:shared], *range(100, 120)]) == shared // 4 * 4


@pytest.mark.case("ml-explore/mlx-lm#1495")
def test_one_token_is_a_prefix_too() -> None:
    # mlx-lm#1495
    prefix = cache(1)
    store(prefix, [5], coverage=1)
    assert hit_length(prefix, [5, 6]) == 1
    assert hit_length(prefix, [6, 5]) == 0


@pytest.mark.case("llm-d/llm-d-inference-sim#705")
@pytest.mark.kills("prefix-hole/skipped")
def test_blocks_behind_a_missing_one_do_not_count() -> None:
    # llm-d-inference-sim#705: A and B are stored one behind the other; between them in the question stands X
    prefix = cache(1)
    store(prefix, [1, 2], coverage=2)
    assert hit_length(prefix, [1, 9, 2, 3]) == 1
    assert hit_length(prefix, [1, 2, 3]) == 2


@pytest.mark.case("vllm-project/vllm#12621")
@pytest.mark.kills("prefix-compare/hash-decides")
@pytest.mark.kills("prefix-compare/tokens-only")
def test_answers_stay_right_when_every_hash_is_the_same() -> None:
    # vllm#12621
    prefix = PrefixCache(2, 1 << 20, b"model", digest=lambda _: b"constant")
    sequences = [[a, b, c, d, 0] for a in (1, 2) for b in (1, 2) for c in (1, 2) for d in (1, 2)]
    for tokens in sequences[::2]:
        store(prefix, tokens)
    for tokens in sequences:
        # All 16 beginnings of four tokens differ; every second one is stored, every first half of two is.
        assert hit_length(prefix, tokens) == (4 if tokens in sequences[::2] else 2)
        assert hit_length(prefix, tokens, Tags(salt="other")) == 0
    check_inside(prefix)
    assert prefix.stats().compared > 100


@pytest.mark.case("vllm-project/vllm#12621")
def test_prompts_that_a_rolling_hash_confuses_are_kept_apart() -> None:
    prefix = cache(2)
    store(prefix, [10, 20], coverage=2)
    assert hit_length(prefix, [41, 19, 0]) == hit_length(prefix, [9, 51, 0]) == 0
    # Tokens are digested in eight bytes each, so none can spell its neighbour.
    store(prefix, [1, 2**32], coverage=2)
    assert hit_length(prefix, [1 + 2**32, 0, 0]) == 0


@pytest.mark.case("vllm-project/vllm#29387", "GeeeekExplorer/nano-vllm#219")
def test_equal_prompts_that_miss_together_are_stored_once() -> None:
    # vllm#29387, nano-vllm#219: all ask before any has computed; nobody may be shown what is not there yet
    prefix, tokens = cache(1), [[1, 2, 3, 4], [1, 2, 3, 5], [1, 2, 3, 4]]
    hits = [prefix.match(prompt) for prompt in tokens]
    assert [hit.length for hit in hits] == [0, 0, 0]
    assert [store(prefix, prompt, coverage=4) for prompt in tokens] == [4, 1, 0]
    for hit in hits:
        prefix.release(hit)
    check_inside(prefix)
    assert len(stored_blocks(prefix)) == 5
    assert hit_length(prefix, [1, 2, 3, 4, 9]) == 4


def test_a_known_sequence_is_not_read_again() -> None:
    prefix, tokens = cache(), list(range(9))
    store(prefix, tokens)
    assert prefix.publish(tokens, 8, lambda: pytest.fail("nothing is new, so nothing may be read")) == 0


def test_a_longer_answer_goes_on_from_the_blocks_of_its_prompt() -> None:
    prefix, tokens = cache(), list(range(13))
    assert store(prefix, tokens[:9]) == 2
    assert store(prefix, tokens) == 1
    assert hit_length(prefix, tokens) == 12


@pytest.mark.parametrize("coverage", [-1, 4])
def test_rows_of_tokens_that_are_not_there_are_refused(coverage: int) -> None:
    with pytest.raises(PrefixCacheError, match=f"coverage {coverage} of 3 tokens"):
        cache().publish([1, 2, 3], coverage, lambda: live([1, 2, 3, 4], 4))


@pytest.mark.parametrize(("block_tokens", "budget"), [(0, 10), (-1, 10), (1, -1)])
def test_options_out_of_range_are_refused(block_tokens: int, budget: int) -> None:
    with pytest.raises(OptionError, match="prefix cache"):
        PrefixCache(block_tokens, budget, b"model")


def test_counts_tell_how_much_was_saved() -> None:
    prefix, tokens = cache(), list(range(9))
    store(prefix, tokens)
    hit_length(prefix, tokens)
    hit_length(prefix, [7, 7])
    stats = prefix.stats()
    assert (stats.lookups, stats.asked_tokens, stats.hit_tokens, stats.stored_blocks) == (2, 11, 8, 2)


@pytest.mark.kills("prefix-limit/ignored")
def test_a_position_beyond_the_limit_is_not_stored_although_it_was_computed() -> None:
    prefix, tokens = cache(), list(range(13))
    assert prefix.publish(tokens, 12, lambda: live(tokens, 12), limit=11) == 2


@pytest.mark.parametrize(("limit", "stored"), [(None, 12), (12, 12), (11, 8), (3, 0), (0, 0), (99, 12)])
def test_positions_beyond_a_limit_are_not_shared(limit: int | None, stored: int) -> None:
    # The reader shows all that was computed; only the beginning may be stored.
    prefix, tokens = cache(), list(range(13))
    prefix.publish(tokens, 12, lambda: live(tokens, 12), limit=limit)
    assert hit_length(prefix, tokens) == stored


def test_the_version_changes_with_the_content_and_only_then() -> None:
    prefix = PrefixCache(1, 2 * POSITION_BYTES, b"model")
    versions = [prefix.version]
    for action in (
        lambda: store(prefix, [1, 2], coverage=2),
        lambda: store(prefix, [3], coverage=1),
        lambda: prefix.clear(),
    ):
        action()
        versions.append(prefix.version)
    assert len(set(versions)) == 4
    hit_length(prefix, [1, 2, 3])
    store(prefix, [], coverage=0)
    assert prefix.version == versions[-1]
