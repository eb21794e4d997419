"""What sets two requests with equal tokens apart, and what must not."""

import itertools

import pytest
from prefix_rows import hit_length, store

from teachkv.prefix import PrefixCache, Tags, model_fingerprint
from teachkv.prefix.keys import root_key

TOKENS = list(range(20))


def cache() -> PrefixCache:
    return PrefixCache(4, 1 << 20, b"model")


ASSIGNMENTS = [
    (fingerprint, Tags(adapter, version, salt))
    for fingerprint in (b"m", b"n")
    for adapter, version, salt in itertools.product(
        (None, "", "a", "ab", "x"), (None, "", "b", "x"), (None, "", "c", "x")
    )
]


@pytest.mark.case("vllm-project/vllm#44701")
@pytest.mark.kills("prefix-key-fields/untagged")
@pytest.mark.kills("prefix-key-fields/none-is-empty")
def test_every_assignment_of_the_fields_has_a_key_of_its_own() -> None:
    assert len({root_key(fingerprint, tags) for fingerprint, tags in ASSIGNMENTS}) == len(ASSIGNMENTS)


@pytest.mark.case("vllm-project/vllm#44701")
@pytest.mark.kills("prefix-key-fields/no-lengths")
def test_a_value_that_spells_the_next_field_is_still_one_value() -> None:
    one = Tags(adapter="p", adapter_version="qversion\1r")
    other = Tags(adapter="pversion\1q", adapter_version="r")
    assert root_key(b"m", one) != root_key(b"m", other)


@pytest.mark.case("vllm-project/vllm#44701")
@pytest.mark.kills("prefix-key-fields/untagged")
def test_a_salt_that_spells_an_adapters_name_finds_nothing_of_it() -> None:
    # vllm#44701
    prefix = cache()
    store(prefix, TOKENS, Tags(adapter="x"))
    assert hit_length(prefix, TOKENS, Tags(salt="x")) == 0
    assert hit_length(prefix, TOKENS, Tags(adapter="x")) == 16


@pytest.mark.case("vllm-project/vllm#44701")
@pytest.mark.parametrize(
    "other",
    [
        pytest.param(Tags(adapter="b"), marks=pytest.mark.kills("prefix-key/no-adapter")),
        pytest.param(Tags(adapter_version="2"), marks=pytest.mark.kills("prefix-key/no-adapter-version")),
        pytest.param(Tags(salt="s"), marks=pytest.mark.kills("prefix-key/no-salt")),
    ],
)
def test_each_tag_alone_keeps_requests_apart(other: Tags) -> None:
    prefix = cache()
    store(prefix, TOKENS)
    assert hit_length(prefix, TOKENS, other) == 0
    store(prefix, TOKENS, other)
    assert hit_length(prefix, TOKENS, other) == 16
    assert hit_length(prefix, TOKENS) == 16


@pytest.mark.case("vllm-project/vllm#30931")
def test_an_adapter_that_is_loaded_again_under_its_name_starts_cold() -> None:
    # vllm#30931
    prefix = cache()
    store(prefix, TOKENS, Tags(adapter="a", adapter_version="load 1"))
    assert hit_length(prefix, TOKENS, Tags(adapter="a", adapter_version="load 2")) == 0


@pytest.mark.case("vllm-project/vllm#30931")
@pytest.mark.kills("prefix-key/no-fingerprint")
def test_two_models_share_nothing() -> None:
    prefix = cache()
    store(prefix, TOKENS)
    prefix.fingerprint = b"the same tokens, other weights"
    assert hit_length(prefix, TOKENS) == 0


@pytest.mark.case("vllm-project/vllm#30931")
def test_the_fingerprint_tells_configs_and_loads_apart() -> None:
    assert model_fingerprint("rope=default", b"1") == model_fingerprint("rope=default", b"1")
    assert model_fingerprint("rope=default", b"1") != model_fingerprint("rope=linear", b"1")
    assert model_fingerprint("rope=default", b"1") != model_fingerprint("rope=default", b"2")
    assert model_fingerprint("rope=default") != model_fingerprint("rope=default")


def test_tags_that_are_not_valid_unicode_are_still_tags() -> None:
    prefix = cache()
    store(prefix, TOKENS, Tags(salt="\ud800"))
    assert hit_length(prefix, TOKENS, Tags(salt="\ud800")) == 16
    assert hit_length(prefix, TOKENS, Tags(salt="\ud801")) == 0
