"""Ids in and out, against the `tokenizers` package itself; control tokens that text cannot spell (F11, F03, G16,
G21).
"""

import functools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_text import SPECIALS, byte_level, edited, ours, sentencepiece, unigram, word_level

from teachkv.errors import TokenizerError
from teachkv.text import ByteTokenizer, ChatTemplate, Tokenizer, load_tokenizer
from teachkv.text.control import ControlTwin
from teachkv.text.sources import Folder

CORPUS = [
    "",
    "hello world",
    "3333",
    "it's",
    "  x",
    "a\n\nb",
    "१२३ ٤٥",
    "日本語 テスト",
    "e\u0301",
    "\x00\x7f",
    "👩‍👩‍👧",
    " a b c ",
]

MAKERS = {"byte_level": byte_level, "sentencepiece": sentencepiece, "unigram": unigram, "word_level": word_level}


@functools.cache
def made(kind):
    """(the package's tokenizer, ours over it); built once, since Hypothesis asks a hundred times."""
    inner = MAKERS[kind]()
    return inner, ours(inner)


@pytest.mark.parametrize("kind", MAKERS)
def test_ids_equal_the_reference(kind):
    inner, tokenizer = made(kind)
    for text in CORPUS:
        for add in (True, False):
            assert tokenizer.encode(text, add_special=add) == inner.encode(text, add_special_tokens=add).ids
            with_specials = text + SPECIALS[2] + "</s>" + text
            reference = inner.encode(with_specials, add_special_tokens=add).ids
            assert tokenizer.encode(with_specials, add_special=add, parse_special=True) == reference


@pytest.mark.parametrize("kind", MAKERS)
@given(text=st.text(max_size=20))
def test_text_comes_back_as_the_reference_gives_it_back(kind, text):
    inner, tokenizer = made(kind)
    ids = tokenizer.encode(text, add_special=False)
    assert tokenizer.decode(ids) == inner.decode(ids, skip_special_tokens=True)
    if kind == "byte_level":
        assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("kind", ["byte_level", "sentencepiece"])
@given(data=st.data())
def test_any_ids_decode_to_what_their_bytes_spell(kind, data):
    inner, tokenizer = made(kind)
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=12))
    raw = b"".join(tokenizer.token_bytes(i) for i in ids if not tokenizer.is_special(i))
    text = raw.decode("utf-8", "replace")
    if kind == "byte_level":
        assert tokenizer.decode(ids) == text == inner.decode(ids, skip_special_tokens=True)
    else:
        assert tokenizer.decode(ids) == text.removeprefix(" ")


def test_one_token_by_itself_is_shown_with_its_space_and_by_name():
    tokenizer = ours(sentencepiece())
    assert tokenizer.token_text(tokenizer.inner.token_to_id("▁a")) == " a"
    assert tokenizer.token_text(tokenizer.special_tokens["</s>"]) == "</s>"
    assert tokenizer.token_text(tokenizer.inner.token_to_id("<0xC3>")) == "\ufffd"


def test_specials_are_shown_only_on_request():
    tokenizer = ours(byte_level())
    ids = [tokenizer.special_tokens["<|im_start|>"], *tokenizer.encode("hello"), tokenizer.special_tokens["<|im_end|>"]]
    assert tokenizer.decode(ids) == "hello"
    assert tokenizer.decode(ids, skip_special=False) == "<|im_start|>hello<|im_end|>"


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.kills("text-stays-text/removed")
@pytest.mark.case("huggingface/transformers#29279")
def test_text_that_spells_a_control_token_stays_text(kind):
    tokenizer = ours(MAKERS[kind]())
    for control, number in tokenizer.special_tokens.items():
        for text in (control, f"a{control}b", f"{control}{control}", f" {control} "):
            ids = tokenizer.encode(text)
            if control not in ("<unk>", "[UNK]"):  # whatever is unknown is that token, by nature
                assert number not in ids
            assert number in tokenizer.encode(text, parse_special=True)
            if kind in ("byte_level", "sentencepiece"):
                assert tokenizer.decode(ids, skip_special=False) == text


def test_a_normalised_control_token_cannot_be_reached_by_another_spelling():
    from tokenizers import AddedToken, normalizers

    inner = byte_level(specials=())
    inner.normalizer = normalizers.Lowercase()
    inner.add_special_tokens([AddedToken("<|end|>", normalized=True, special=True)])
    tokenizer = ours(inner)
    number = tokenizer.special_tokens["<|end|>"]
    assert inner.encode("a<|END|>").ids[-1] == number
    assert number not in tokenizer.encode("a<|END|>")


@given(
    text=st.lists(st.sampled_from([*SPECIALS, "<|im", "_end|>", "<", "|>", "hello", " ", "é", "\n"]), max_size=8).map(
        "".join
    )
)
def test_no_mixture_of_pieces_yields_a_control_token(text):
    _, tokenizer = made("byte_level")
    ids = tokenizer.encode(text)
    assert not set(ids) & set(tokenizer.special_tokens.values())
    assert tokenizer.decode(ids) == text


@pytest.mark.kills("twin-ids/unchecked")
def test_a_twin_with_other_ids_is_refused():
    inner = byte_level()
    data, controls = json.loads(inner.to_str()), {"<|im_end|>": inner.token_to_id("<|im_end|>") + 1}
    with pytest.raises(TokenizerError, match="cannot be kept apart"):
        ControlTwin(data, controls, "x")


def test_tags_that_the_template_uses_are_control_tokens_even_if_not_marked_so():
    inner = byte_level(tags=["<think>", "<table>", "  ", "word"])
    template = ChatTemplate("{{ messages[0].content }}<think>  word")
    tokenizer = ours(inner, template)
    assert set(tokenizer.special_tokens) == {*SPECIALS, "<think>"}
    assert inner.token_to_id("<think>") not in tokenizer.encode("a<think>b")
    assert inner.token_to_id("<table>") in tokenizer.encode("a<table>b")
    assert not tokenizer.is_special(inner.token_to_id("<think>"))


@pytest.mark.kills("one-bos/removed")
@pytest.mark.case("vllm-project/vllm#27486")
def test_raw_prompts_get_exactly_one_bos_whatever_they_spell():
    tokenizer = ours(byte_level(bos="<|endoftext|>"), bos_token="<|endoftext|>", eos_token={"content": "<|im_end|>"})
    bos = tokenizer.bos_id
    assert tokenizer.adds_bos
    assert tokenizer.encode("hello").count(bos) == 1
    assert tokenizer.encode("<|endoftext|>hello", parse_special=True) == tokenizer.encode("hello")
    assert tokenizer.encode("<|endoftext|>hello").count(bos) == 1
    assert tokenizer.encode("<|endoftext|>hello") != tokenizer.encode("hello")
    assert tokenizer.encode("hello", add_special=False).count(bos) == 0
    assert tokenizer.encode("") == [bos]
    assert tokenizer.eos_ids == (tokenizer.special_tokens["<|im_end|>"],)
    assert tokenizer.template_variables() == {"bos_token": "<|endoftext|>", "eos_token": "<|im_end|>"}


def test_padding_and_truncation_in_the_file_do_not_act():
    inner = byte_level()
    inner.enable_truncation(4)
    inner.enable_padding(length=16, pad_id=3)
    assert len(ours(inner).encode("a b c d e f g")) == 13


def test_decoders_whose_text_cannot_run_are_refused_by_name():
    from tokenizers import decoders

    inner = byte_level()
    inner.decoder = decoders.WordPiece()
    with pytest.raises(TokenizerError, match="decoder of type 'WordPiece' is not supported"):
        ours(inner)
    inner.decoder = decoders.Strip(" ", 0, 1)
    with pytest.raises(TokenizerError, match="decoder step Strip"):
        ours(inner)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b"{}", b'{"model": {}}', b'{"version":"1.0","model":{"type":"Nope"}}'],
)
def test_damaged_files_are_one_line_errors(tmp_path, content):
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.from_dir(tmp_path)
    assert "tokenizer.json" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_pre_tokenizer_is_refused(tmp_path):
    def change(data):
        data["pre_tokenizer"] = {"type": "SplitByMagic"}

    (tmp_path / "tokenizer.json").write_text(edited(byte_level(), change), encoding="utf-8")
    with pytest.raises(TokenizerError, match=r"tokenizer\.json"):
        Tokenizer.from_dir(tmp_path)


def test_a_missing_tokenizer_and_bad_config_are_named(tmp_path):
    with pytest.raises(TokenizerError, match=r"tokenizer\.json is missing"):
        Tokenizer.from_dir(tmp_path)
    byte_level().save(str(tmp_path / "tokenizer.json"))
    assert load_tokenizer(Folder(tmp_path)).eos_ids == ()
    for content, words in (
        ("{", "is not JSON"),
        ("[1]", "expected a JSON object"),
        ('{"eos_token": 3}', "eos_token is 3"),
        (json.dumps({"eos_token": [["long"] * 999]}), r"eos_token is .{60}; expected"),
    ):
        (tmp_path / "tokenizer_config.json").write_text(content)
        with pytest.raises(TokenizerError, match=words):
            Tokenizer.from_dir(tmp_path)


def test_lone_surrogates_become_replacement_characters():
    for tokenizer in (ours(byte_level()), ByteTokenizer()):
        assert tokenizer.decode(tokenizer.encode("a\ud800b")) == "a\ufffdb"


class TestByteTokenizer:
    def test_is_its_own_inverse(self):
        tokenizer = ByteTokenizer()
        for text in CORPUS:
            assert tokenizer.decode(tokenizer.encode(text)) == text
            assert tokenizer.encode(text) == list(text.encode())

    def test_agrees_with_a_byte_level_file_without_merges(self):
        file, plain = ours(byte_level(words=())), ByteTokenizer()
        for text in [*CORPUS, "a<|im_end|>b"]:
            for parse in (True, False):
                assert file.encode(text, parse_special=parse) == plain.encode(text, parse_special=parse)

    def test_control_tokens_and_bos(self):
        tokenizer = ByteTokenizer(bos="<|im_start|>", vocab_size=300)
        assert tokenizer.encode("<|im_start|>a", parse_special=True) == [257, 97]
        assert tokenizer.encode("a") == [257, 97]
        assert tokenizer.encode("<|im_end|>", add_special=False) == list(b"<|im_end|>")
        assert tokenizer.decode([257, 97, 299, 258]) == "a"
        assert tokenizer.decode([257, 97, 258], skip_special=False) == "<|im_start|>a<|im_end|>"
        with pytest.raises(TokenizerError, match="not among"):
            ByteTokenizer(eos="<eos>")
