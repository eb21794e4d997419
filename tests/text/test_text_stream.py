"""Joined pieces equal the whole text, at every length, for every tokenizer (E16, E17)."""

import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_text import byte_level, ours, sentencepiece, unigram, word_level

from teachkv.text import ByteTokenizer, Detokenizer, TextStream

MAKERS = {"byte_level": byte_level, "sentencepiece": sentencepiece, "unigram": unigram, "word_level": word_level}


@functools.cache
def made(kind):
    return ByteTokenizer() if kind == "bytes" else ours(MAKERS[kind]())


def streamed(tokenizer, ids, **more):
    stream = TextStream(tokenizer, **more)
    pieces = [stream.push(token) for token in ids]
    return [*pieces, stream.finish("length")]


@pytest.mark.parametrize("kind", [*MAKERS, "bytes"])
@given(data=st.data())
@pytest.mark.kills("whole-characters/each-token-alone", "flush-bytes/forgotten", "whole-characters/drops-invalid")
def test_pieces_equal_the_whole_at_every_length(kind, data):
    tokenizer = made(kind)
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=10))
    for length in range(len(ids) + 1):
        pieces = streamed(tokenizer, ids[:length])
        raw = b"".join(tokenizer.token_bytes(i) for i in ids[:length] if not tokenizer.is_special(i))
        whole = raw.decode("utf-8", "replace")
        assert "".join(pieces) == tokenizer.decode(ids[:length])
        assert "".join(pieces) == (whole.removeprefix(" ") if tokenizer.strips_first else whole)


@given(raw=st.binary(max_size=24))
@pytest.mark.kills("whole-characters/each-token-alone", "flush-bytes/forgotten")
@pytest.mark.case("antonellof/ferrox#124")
def test_random_bytes(raw):
    assert "".join(streamed(ByteTokenizer(), raw)) == raw.decode("utf-8", "replace")


@pytest.mark.kills("whole-characters/each-token-alone")
@pytest.mark.case("antonellof/ferrox#124")
def test_an_emoji_over_four_tokens_comes_out_once_and_whole():
    assert streamed(ByteTokenizer(), "a👩b".encode()) == ["a", "", "", "", "👩", "b", ""]


@pytest.mark.kills("flush-bytes/forgotten")
def test_a_text_cut_inside_a_character_says_so():
    for length in (1, 2, 3):
        assert "".join(streamed(ByteTokenizer(), "👩".encode()[:length])) == "\ufffd"


@pytest.mark.kills("whole-characters/drops-invalid", "open-character/forgotten")
@pytest.mark.case("antonellof/ferrox#124")
def test_invalid_bytes_give_one_replacement_each_and_do_not_block():
    assert streamed(ByteTokenizer(), b"\xffA\xfe\xfdB") == ["\ufffd", "A", "\ufffd", "\ufffd", "B", ""]
    assert streamed(ByteTokenizer(), b"\xe2\x82A") == ["", "", "\ufffdA", ""]


@pytest.mark.kills("first-space/every-piece", "first-space/never")
@pytest.mark.case("huggingface/tokenizers#1141")
def test_word_starts_keep_their_space_except_the_very_first():
    tokenizer = made("sentencepiece")
    ids = tokenizer.encode("a b c")
    assert "".join(streamed(tokenizer, ids)) == "a b c"
    assert streamed(tokenizer, ids)[:3] == ["a", " b", " c"]


@pytest.mark.kills("first-space/every-piece")
def test_after_a_prompt_the_text_goes_on_in_mid_sentence():
    tokenizer = made("sentencepiece")
    prompt, more = tokenizer.encode("a b"), tokenizer.encode("c a")
    assert "".join(streamed(tokenizer, more, prompt_ids=prompt)) == " c a"
    assert tokenizer.decode(prompt + more) == "a b c a"
    bos = tokenizer.special_tokens["<s>"]
    assert "".join(streamed(tokenizer, more, prompt_ids=[bos])) == "c a"


@given(text=st.text(min_size=1, max_size=8), data=st.data())
def test_a_prompt_may_end_in_mid_character(text, data):
    raw = text.encode()
    cut = data.draw(st.integers(0, len(raw)))
    prompt, more = raw[:cut], raw[cut:]
    shown = "".join(streamed(ByteTokenizer(), more, prompt_ids=list(prompt)))
    begun = len(prompt) - len(prompt.decode("utf-8", "ignore").encode())
    whole_from = cut - begun
    assert shown == raw[whole_from:].decode()


def test_a_prompts_broken_end_is_not_shown_with_the_answer():
    assert "".join(streamed(ByteTokenizer(), b"abc", prompt_ids=[0xE2, 0x82])) == "abc"
    assert "".join(streamed(ByteTokenizer(), b"", prompt_ids=[0xE2, 0x82])) == ""


def test_special_tokens_are_left_out_or_shown():
    tokenizer = ByteTokenizer()
    ids = [104, 257, 105, 258]
    assert "".join(streamed(tokenizer, ids)) == "hi"
    assert "".join(streamed(tokenizer, ids, skip_special=False)) == "h<|im_start|>i<|im_end|>"
    assert "".join(streamed(tokenizer, [0xC3, 257, 0xA9])) == "é"


def test_long_prompts_are_not_decoded_again():
    tokenizer = ByteTokenizer()
    asked = []
    tokenizer.token_bytes = lambda token: asked.append(token) or bytes([token])
    Detokenizer(tokenizer, [97] * 10_000)
    assert len(asked) <= 8
