"""The tokenizer inside a GGUF file: splitting rules, sentencepiece scores, added tokens, refusals."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from teachkv.checkpoint.byte_tokenizer import byte_symbols
from teachkv.checkpoint.gguf_header import read_gguf_header
from teachkv.checkpoint.gguf_spm import SPACE
from teachkv.checkpoint.gguf_tokenizer import tokenizer_files
from teachkv.checkpoint.text_files import MemoryFiles
from teachkv.errors import TemplateError, TokenizerError
from teachkv.text import load_tokenizer
from tests.gguf_toys import ARRAY, BOOL, F32, I32, STRING, U32, gguf_bytes, vocabulary_keys
from tests.toys import refuses

BYTES = byte_symbols()


def files(tmp_path: Path, *keys: Any) -> dict[str, str]:
    names = {key[0] for key in keys}
    kept = [key for key in vocabulary_keys() if key[0] not in names]
    (tmp_path / "m.gguf").write_bytes(gguf_bytes([*kept, *[key for key in keys if key[1] is not None]], []))
    return tokenizer_files(read_gguf_header(tmp_path / "m.gguf"))


def byte_level(
    tmp_path: Path, pre: str, *more: Any, words: tuple[str, ...] = (), merges: tuple[str, ...] = ()
) -> Tokenizer:
    tokens = [*BYTES, *words, "<s>", "</s>"]
    types = [1] * (256 + len(words)) + [3, 3]
    found = files(
        tmp_path,
        ("tokenizer.ggml.pre", STRING, pre),
        ("tokenizer.ggml.tokens", ARRAY, (STRING, tokens)),
        ("tokenizer.ggml.token_type", ARRAY, (I32, types)),
        ("tokenizer.ggml.merges", ARRAY, (STRING, list(merges))),
        ("tokenizer.ggml.bos_token_id", U32, len(tokens) - 2),
        ("tokenizer.ggml.eos_token_id", U32, len(tokens) - 1),
        *more,
    )
    return Tokenizer.from_str(found["tokenizer.json"])


def pieces(tokenizer: Tokenizer, text: str) -> list[str]:
    """Where the rule cuts the text (before any merge)."""
    normal = tokenizer.normalizer.normalize_str(text) if tokenizer.normalizer else text
    return [normal[start:stop] for _, (start, stop) in tokenizer.pre_tokenizer.pre_tokenize_str(normal)]


CUTS = {
    "3333": {
        "gpt-2": ["3333"],
        "smollm": ["3", "3", "3", "3"],
        "llama-bpe": ["333", "3"],
        "qwen2": ["3", "3", "3", "3"],
    },
    "it's": {"gpt-2": ["it", "'s"], "smollm": ["it", "'s"], "llama-bpe": ["it", "'s"], "qwen2": ["it", "'s"]},
    "IT'S": {"gpt-2": ["IT", "'", "S"], "smollm": ["IT", "'", "S"], "llama-bpe": ["IT", "'S"], "qwen2": ["IT", "'S"]},
    "  x": {"gpt-2": [" ", " x"], "smollm": [" ", " x"], "llama-bpe": [" ", " x"], "qwen2": [" ", " x"]},
    "a\n\nb": {"gpt-2": ["a", "\n", "\n", "b"], "smollm": ["a", "\n", "\n", "b"], "llama-bpe": ["a", "\n\n", "b"]},
    "a b12": {"gpt-2": ["a", " b", "12"], "smollm": ["a", " b", "1", "2"], "llama-bpe": ["a", " b", "12"]},
    "\u0663\u0664\u0665\u0666": {
        "gpt-2": ["\u0663\u0664\u0665\u0666"],
        "smollm": ["\u0663", "\u0664", "\u0665", "\u0666"],
        "llama-bpe": ["\u0663\u0664\u0665", "\u0666"],
        "qwen2": ["\u0663", "\u0664", "\u0665", "\u0666"],
    },
    "x!=\ny": {"gpt-2": ["x", "!=", "\n", "y"], "llama-bpe": ["x", "!=\n", "y"], "qwen2": ["x", "!=\n", "y"]},
    "aBc D": {"tekken": ["a", "Bc", " D"], "llama-bpe": ["aBc", " D"]},
}


@pytest.mark.parametrize("text", CUTS)
@pytest.mark.case("ggml-org/llama.cpp#6920")
def test_each_rule_cuts_as_its_model_was_trained(tmp_path: Path, text: str) -> None:
    for pre, cuts in CUTS[text].items():
        assert pieces(byte_level(tmp_path, pre), text) == cuts, pre


@pytest.mark.parametrize("pre", ["gpt-2", "smollm", "llama-bpe", "qwen2", "tekken", "deepseek-r1-qwen"])
@pytest.mark.parametrize("text", ["Hello, world! 123", "naïve café", "日本語 ٣٤", "a\tb\r\n  c", "🙂🙃", "", " "])
def test_every_text_comes_back(tmp_path: Path, pre: str, text: str) -> None:
    tokenizer = byte_level(tmp_path, pre)
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert ids == list(text.encode())
    assert tokenizer.decode(ids) == text


def test_qwen_composes_characters_first(tmp_path: Path) -> None:
    assert byte_level(tmp_path, "qwen2").encode("e\u0301").ids == list("é".encode())
    assert byte_level(tmp_path, "gpt-2").encode("e\u0301").ids == list("e\u0301".encode())


@pytest.mark.case("ggml-org/llama.cpp#6920")
def test_merges_join_and_whole_words_skip_them_where_the_rule_says_so(tmp_path: Path) -> None:
    """llama.cpp#7193: with ignore_merges a word of the vocabulary is taken whole."""
    words, merges = ("ab", "abc"), ("a b",)
    assert byte_level(tmp_path, "gpt-2", words=words, merges=merges).encode("abc").tokens == ["ab", "c"]
    found = byte_level(tmp_path, "llama-bpe", words=words, merges=merges).encode("abc", add_special_tokens=False)
    assert found.tokens == ["abc"]


@pytest.mark.parametrize(("pre", "stated", "bos"), [
    ("gpt-2", None, False), ("smollm", False, False), ("qwen2", True, True),
    ("llama-bpe", None, True), ("llama-bpe", False, False),
])  # fmt: skip
def test_the_begin_token_follows_the_file_or_the_kind(tmp_path: Path, pre: str, stated: bool | None, bos: bool) -> None:
    more = [] if stated is None else [("tokenizer.ggml.add_bos_token", BOOL, stated)]
    tokenizer = byte_level(tmp_path, pre, *more)
    assert tokenizer.encode("a").tokens == (["<s>", "a"] if bos else ["a"])
    assert tokenizer.encode("a", add_special_tokens=False).tokens == ["a"]


def test_the_end_token_is_added_only_where_asked_for(tmp_path: Path) -> None:
    tokenizer = byte_level(tmp_path, "gpt-2", ("tokenizer.ggml.add_eos_token", BOOL, True))
    assert tokenizer.encode("a").tokens == ["a", "</s>"]


def test_control_and_user_tokens_are_found_whole_in_text(tmp_path: Path) -> None:
    tokens = ["<bos>", "<eos>", "<tool>", "a", "b"]
    found = files(
        tmp_path,
        ("tokenizer.ggml.tokens", ARRAY, (STRING, tokens)),
        ("tokenizer.ggml.token_type", ARRAY, (I32, [3, 3, 4, 1, 1])),
    )
    tokenizer = Tokenizer.from_str(found["tokenizer.json"])
    assert tokenizer.encode("a<tool>b<eos>").ids == [3, 2, 4, 1]
    assert tokenizer.decode([3, 2, 4, 1]) == "a<tool>b"  # user tokens are text, control tokens are not
    assert json.loads(found["tokenizer_config.json"])["eos_token"] == "<eos>"
    assert found["chat_template.jinja"].startswith("{% for")


def test_several_chat_templates_are_chosen_by_name_as_those_of_a_folder(tmp_path: Path) -> None:
    named: list[Any] = [
        ("tokenizer.chat_templates", ARRAY, (STRING, ["rag", "tool_use"])),
        ("tokenizer.chat_template.rag", STRING, "R"),
        ("tokenizer.chat_template.tool_use", STRING, "T"),
    ]
    user = [{"role": "user", "content": "Hi"}]
    tokenizer = load_tokenizer(MemoryFiles("m.gguf", files(tmp_path, *named)))
    shown = [tokenizer.chat_ids(user), tokenizer.chat_ids(user, tools=[{}])]
    shown += [tokenizer.chat_ids(user, template_name=name) for name in ("rag", "tool_use", "default")]
    assert [tokenizer.decode(ids) for ids in shown] == ["Hi", "T", "R", "T", "Hi"]
    with pytest.raises(TemplateError, match="no template named 'x'; known: default, rag, tool_use"):
        tokenizer.chat_ids(user, template_name="x")
    without = load_tokenizer(MemoryFiles("m.gguf", files(tmp_path, *named, ("tokenizer.chat_template", None, None))))
    with pytest.raises(TemplateError, match="no template named 'default'; choose one by name: rag, tool_use"):
        without.chat_ids(user)


@pytest.mark.kills("gguf-pre-known/default")
@pytest.mark.parametrize("pre", ["default", "chatglm-bpe", "Smollm", "", None])
@pytest.mark.case("ggml-org/llama.cpp#6920")
def test_an_unknown_rule_is_an_error_with_the_known_ones(tmp_path: Path, pre: str | None) -> None:
    with refuses(TokenizerError, "known are gpt-2, smollm, llama-bpe"):
        files(tmp_path, ("tokenizer.ggml.pre", STRING if pre is not None else None, pre))


@pytest.mark.kills("gguf-token-unique/removed")
def test_two_equal_tokens_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="lists one token twice"):
        files(
            tmp_path,
            ("tokenizer.ggml.tokens", ARRAY, (STRING, ["a", "b", "a"])),
            ("tokenizer.ggml.token_type", ARRAY, (I32, [1, 1, 1])),
        )


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (("tokenizer.ggml.model", STRING, "bert"), "model is 'bert'; known are gpt2"),
        (("tokenizer.ggml.model", None, None), "model is 'None'"),
        (("tokenizer.ggml.model", U32, 1), "model must be a string"),
        (("tokenizer.ggml.tokens", None, None), "tokens is missing"),
        (("tokenizer.ggml.tokens", ARRAY, (STRING, [])), "tokens is missing"),
        (("tokenizer.ggml.tokens", ARRAY, (U32, [1])), "tokens is missing"),
        (("tokenizer.ggml.token_type", ARRAY, (I32, [1])), "one whole number per token"),
        (("tokenizer.ggml.token_type", ARRAY, (F32, [1.0] * 97)), "one whole number per token"),
        (("tokenizer.ggml.merges", None, None), "merges is missing"),
        (("tokenizer.ggml.merges", ARRAY, (STRING, ["ab"])), "entry 0 is 'ab'"),
        (("tokenizer.ggml.merges", ARRAY, (STRING, ["a b"])), "entry 0 is 'a b': not two tokens that make a third"),
        (("tokenizer.ggml.merges", ARRAY, (STRING, ["a b c"])), "entry 0"),
        (("tokenizer.ggml.eos_token_id", U32, 97), "eos_token_id is '97'; there are 97 tokens"),
        (("tokenizer.ggml.add_bos_token", U32, 1), "add_bos_token must be true or false"),
        (("tokenizer.chat_template", U32, 1), "chat_template must be a string"),
        (("tokenizer.chat_template.a", U32, 1), "chat_template.a must be a string"),
    ],
)
def test_what_cannot_be_rebuilt_is_an_error(tmp_path: Path, key: Any, message: str) -> None:
    with pytest.raises(TokenizerError, match=message) as told:
        files(tmp_path, key)
    assert str(told.value).startswith(str(tmp_path / "m.gguf"))


def sentencepiece(tmp_path: Path, scored: dict[str, float], *more: Any, scores: list[float] | None = None) -> Tokenizer:
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *scored]
    types = [2, 3, 3] + [6] * 256 + [1] * len(scored)
    found = files(
        tmp_path,
        ("tokenizer.ggml.model", STRING, "llama"),
        ("tokenizer.ggml.pre", None, None),
        ("tokenizer.ggml.merges", None, None),
        ("tokenizer.ggml.tokens", ARRAY, (STRING, tokens)),
        ("tokenizer.ggml.token_type", ARRAY, (I32, types)),
        ("tokenizer.ggml.scores", ARRAY, (F32, scores or [0.0] * 259 + list(scored.values()))),
        ("tokenizer.ggml.bos_token_id", U32, 1),
        ("tokenizer.ggml.eos_token_id", U32, 2),
        *more,
    )
    return Tokenizer.from_str(found["tokenizer.json"])


def by_scores(text: str, scored: dict[str, float]) -> list[str]:
    """Sentencepiece as its paper has it: join the best-scored neighbours, leftmost first, until none is left."""
    parts = list(SPACE + text.replace(" ", SPACE))
    while True:
        pairs = ["".join(pair) for pair in pairwise(parts)]
        joined = [(-scored[pair], at) for at, pair in enumerate(pairs) if pair in scored]
        if not joined:
            return parts
        at = min(joined)[1]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


SCORED = dict.fromkeys("abcdeh lo".replace(" ", SPACE), -100.0) | {
    "he": -1.0, "ll": -2.0, "hell": -3.0, "lo": -1.5, "llo": -2.5, "hello": -5.0, SPACE + "hello": -0.5,
    "ab": -6.0, "bc": -5.5, "abc": -7.0, "cd": -5.0, "abcd": -8.0, SPACE + "a": -9.0, SPACE + "he": -4.0,
}  # fmt: skip


@pytest.mark.parametrize("text", ["hello", "hello hello", "abcd", "aabbcc", "lol", "hell ab", "helloab c", "", "cdcd"])
def test_sentencepiece_joins_by_score(tmp_path: Path, text: str) -> None:
    tokenizer = sentencepiece(tmp_path, SCORED)
    wanted = by_scores(text, SCORED) if text else []
    assert tokenizer.encode(text, add_special_tokens=False).tokens == wanted
    assert tokenizer.encode(text).tokens == ["<s>", *wanted]
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_sentencepiece_spells_unknown_characters_in_bytes(tmp_path: Path) -> None:
    tokenizer = sentencepiece(tmp_path, SCORED)
    assert tokenizer.encode("é", add_special_tokens=False).tokens == [SPACE, "<0xC3>", "<0xA9>"]
    assert tokenizer.decode(tokenizer.encode("aé🙂").ids) == "aé🙂"


def test_sentencepiece_without_a_leading_space(tmp_path: Path) -> None:
    tokenizer = sentencepiece(tmp_path, SCORED, ("tokenizer.ggml.add_space_prefix", BOOL, False))
    assert tokenizer.encode("he he", add_special_tokens=False).tokens == ["he", SPACE + "he"]
    assert tokenizer.decode(tokenizer.encode(" he").ids) == " he"


@pytest.mark.parametrize("scores", [[0.0], [float("nan")] * 259, [float("inf")] * 259])
def test_scores_must_be_numbers_one_per_token(tmp_path: Path, scores: list[float]) -> None:
    with pytest.raises(TokenizerError, match="scores must"):
        sentencepiece(tmp_path, {}, scores=scores)
