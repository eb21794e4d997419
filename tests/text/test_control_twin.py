"""The twin in which control tokens have secret names: for all other text it is the same tokenizer (G21)."""

import functools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
from toy_text import SPECIALS, byte_level, ours, sentencepiece, unigram, word_level

from teachkv.text.control import ControlTwin


def llama3_like() -> Tokenizer:
    """Splits digits by threes, and takes whole words from the vocabulary whatever the merges say (ignore_merges)."""
    data = json.loads(byte_level().to_str())
    data["model"]["ignore_merges"] = True
    data["model"]["vocab"]["Ġwhole"] = len(data["model"]["vocab"]) + len(SPECIALS)
    inner = Tokenizer.from_str(json.dumps(data))
    pattern = Regex(r"(?i:'s|'t|'re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+")
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(pattern, "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    return inner


def normalising() -> Tokenizer:
    inner = byte_level()
    inner.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    return inner


def metaspace_first() -> Tokenizer:
    inner = sentencepiece()
    inner.normalizer = None
    inner.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    return inner


def unknowing() -> Tokenizer:
    """Characters that it does not know become its unknown token, which is a control token too."""
    inner = Tokenizer(models.BPE({"<unk>": 0, "a": 1, "b": 2, "ab": 3}, [("a", "b")], unk_token="<unk>"))
    inner.add_special_tokens(["<unk>", "<eos>"])
    return inner


MAKERS = [byte_level, sentencepiece, unigram, word_level, llama3_like, normalising, metaspace_first, unknowing]


@functools.cache
def pair(make):
    inner = make()
    tokenizer = ours(inner)
    return inner, tokenizer, ControlTwin(json.loads(inner.to_str()), tokenizer.special_tokens, "test")


@pytest.mark.parametrize("make", MAKERS)
@given(text=st.text(max_size=16) | st.sampled_from(["3333 12345", "it's IT'S", " whole  x", "a\n\nb", "१२३४", "ab ab"]))
def test_the_twin_reads_all_other_text_alike(make, text):
    inner, tokenizer, twin = pair(make)
    if not tokenizer.spells_control(text):
        assert twin.encode(text) == inner.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("make", MAKERS)
@given(
    pieces=st.lists(st.sampled_from(["<|im_start|>", "<s>", "</s>", "[END]", "<eos>", "ab", " ", "a b"]), max_size=6)
)
def test_marked_text_without_a_mark_is_what_the_package_reads(make, pieces):
    """Control tokens that a template writes are found by their secret names just where the package finds the plain
    ones.
    """
    inner, tokenizer, twin = pair(make)
    text = "".join(pieces)
    assert twin.encode_marked(text, "123") == inner.encode(text, add_special_tokens=False).ids
    assert tokenizer.encode_marked(text, "123") == twin.encode_marked(text, "123")


@pytest.mark.parametrize("make", MAKERS)
def test_secret_names_differ_from_process_to_process_and_never_come_out(make):
    inner, tokenizer, twin = pair(make)
    other = ControlTwin(json.loads(inner.to_str()), tokenizer.special_tokens, "test")
    assert other.word != twin.word
    for control in tokenizer.special_tokens:
        assert other.encode(f"a{control}") == twin.encode(f"a{control}")


def test_whitespace_that_a_control_token_swallows_is_swallowed_in_the_twin_too():
    from tokenizers import AddedToken

    inner = byte_level(specials=())
    inner.add_special_tokens([AddedToken("<|user|>", rstrip=True, lstrip=True, special=True, normalized=False)])
    tokenizer = ours(inner)
    twin = ControlTwin(json.loads(inner.to_str()), tokenizer.special_tokens, "test")
    for text in ("a <|user|> \n b", "<|user|>", " <|user|><|user|> x"):
        assert twin.encode_marked(text, "123") == inner.encode(text, add_special_tokens=False).ids
