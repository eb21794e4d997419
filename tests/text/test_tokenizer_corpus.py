"""Two hundred awkward lines through every kind of tokenizer that the loaders take (G21, E16, E17).

Byte-level vocabularies are trained on the lines by the `tokenizers` package under each splitting rule, written out here
as the published files have it; the same vocabulary as a GGUF file must give the same ids. Sentencepiece vocabularies
are held against the algorithm itself, merge by merge.
"""

import codecs
import copy
import functools
import itertools
import json
import unicodedata
from pathlib import Path

import pytest
from corpus import lines
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from toy_text import SPECIALS, byte_level, ours, sentencepiece, unigram, word_level

from teachkv.checkpoint.gguf_header import read_gguf_header
from teachkv.checkpoint.gguf_tokenizer import tokenizer_files
from teachkv.checkpoint.pre_tokenizers import PRE_TOKENIZERS
from teachkv.checkpoint.text_files import MemoryFiles
from teachkv.text import Detokenizer, load_tokenizer
from tests.gguf_toys import ARRAY, BOOL, F32, I32, STRING, U32, gguf_bytes

LINES = lines()
WHOLE = [line.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for line in LINES]
PLAIN = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
    r"\s+(?!\S)|\s+"
)
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
    r"\s+(?!\S)|\s+"
)
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
    r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def split(pattern: str):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), PLAIN])


GPT2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
DIGITS = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), GPT2])
# name in a GGUF file -> (rule, whether whole words skip the merges, whether characters are composed first)
RULES = {
    "gpt-2": (GPT2, False, False), "smollm": (DIGITS, False, False),
    "llama-bpe": (split(LLAMA3), True, False), "llama3": (split(LLAMA3), True, False),
    "llama-v3": (split(LLAMA3), True, False), "qwen2": (split(QWEN2), False, True),
    "deepseek-r1-qwen": (split(QWEN2), False, False), "tekken": (split(TEKKEN), True, False),
}  # fmt: skip


@functools.cache
def trained(name: str) -> Tokenizer:
    """A byte-level BPE of 700 tokens over the lines, under one splitting rule."""
    rule, whole_words, composed = RULES[name]
    inner = Tokenizer(models.BPE(ignore_merges=whole_words))
    inner.pre_tokenizer, inner.decoder = rule, decoders.ByteLevel()
    if composed:
        inner.normalizer = normalizers.NFC()
    trainer = trainers.BpeTrainer(
        vocab_size=700, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=[*SPECIALS],
        show_progress=False,
    )  # fmt: skip
    inner.train_from_iterator(WHOLE * 3, trainer)
    return inner


def as_gguf(folder: Path, *keys):
    (folder / "m.gguf").write_bytes(gguf_bytes(list(keys), []))
    return load_tokenizer(MemoryFiles("m.gguf", tokenizer_files(read_gguf_header(folder / "m.gguf"))))


def strings(name, values):
    return (f"tokenizer.ggml.{name}", ARRAY, (STRING, list(values)))


def byte_level_gguf(folder: Path, name: str):
    model = json.loads(trained(name).to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    types = [3 if token in SPECIALS else 1 for token in tokens]
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]]
    return as_gguf(
        folder, ("tokenizer.ggml.model", STRING, "gpt2"), ("tokenizer.ggml.pre", STRING, name),
        strings("tokens", tokens), ("tokenizer.ggml.token_type", ARRAY, (I32, types)), strings("merges", merges),
        ("tokenizer.ggml.add_bos_token", BOOL, False),
    )  # fmt: skip


def test_the_lines_are_enough_and_every_known_rule_is_here():
    assert len(LINES) >= 200
    assert any(line != whole for line, whole in zip(LINES, WHOLE, strict=True))
    assert set(RULES) == set(PRE_TOKENIZERS)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.case("ggml-org/llama.cpp#6920")
def test_ids_from_a_gguf_file_equal_those_of_the_reference(tmp_path, name):
    """And text comes back, composed where the rule composes it."""
    reference, tokenizer = trained(name), byte_level_gguf(tmp_path, name)
    merged = 0
    for line, whole in zip(LINES, WHOLE, strict=True):
        ids = tokenizer.encode(line, parse_special=True)
        assert ids == reference.encode(whole, add_special_tokens=False).ids, line
        back = unicodedata.normalize("NFC", whole) if RULES[name][2] else whole
        literal = tokenizer.encode(line)
        assert tokenizer.decode(literal) == back, line
        assert not {*literal} & {*tokenizer.special_tokens.values()}
        merged += len(back.encode()) - len(ids)
    assert merged > 1000  # the vocabulary joins bytes; else every rule would give the same


def test_the_rules_differ_on_these_lines(tmp_path):
    """Otherwise a wrong rule would pass the test above."""
    cuts = {}
    for name, (rule, _, composed) in RULES.items():
        texts = [unicodedata.normalize("NFC", line) if composed else line for line in WHOLE]
        cuts[name] = str([rule.pre_tokenize_str(text) for text in texts])
    assert len(set(cuts.values())) == len(RULES) - 2  # llama-bpe goes by three names


def pieces_by_scores(text: str, scores: dict[str, float]) -> list[str]:
    """Sentencepiece: join the neighbours whose piece scores best, leftmost first; what has no piece is spelt in
    bytes.
    """
    parts = list(text)
    while True:
        pairs = [(scores.get(one + two), -at) for at, (one, two) in enumerate(itertools.pairwise(parts))]
        best = max((pair for pair in pairs if pair[0] is not None), default=None)
        if best is None:
            break
        at = -best[1]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return [piece for part in parts for piece in ([part] if part in scores else byte_pieces(part))]


def byte_pieces(part: str) -> list[str]:
    return [f"<0x{byte:02X}>" for byte in part.encode()]


@functools.cache
def sentencepiece_scores() -> dict[str, float]:
    """Pieces as training leaves them: joined ones by rank, single characters last; a third of the lines' characters
    have no piece.
    """
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=900, limit_alphabet=300, show_progress=False)
    inner.train_from_iterator(WHOLE * 3, trainer)
    pieces = sorted(inner.get_vocab(), key=inner.get_vocab().get)
    joined, single = [p for p in pieces if len(p) > 1], [p for p in pieces if len(p) == 1]
    return {piece: -float(rank) for rank, piece in enumerate([*joined, *single])}


def sentencepiece_gguf(folder: Path, prefix: bool):
    scores = sentencepiece_scores()
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *scores]
    return as_gguf(
        folder, ("tokenizer.ggml.model", STRING, "llama"), strings("tokens", tokens),
        ("tokenizer.ggml.token_type", ARRAY, (I32, [2, 3, 3] + [6] * 256 + [1] * len(scores))),
        ("tokenizer.ggml.scores", ARRAY, (F32, [0.0] * 259 + list(scores.values()))),
        ("tokenizer.ggml.bos_token_id", U32, 1), ("tokenizer.ggml.eos_token_id", U32, 2),
        ("tokenizer.ggml.add_space_prefix", BOOL, prefix),
    )  # fmt: skip


@pytest.mark.parametrize("prefix", [True, False])
@pytest.mark.case("ggml-org/llama.cpp#6920")
def test_sentencepiece_from_a_gguf_file_joins_as_the_algorithm_does(tmp_path, prefix):
    tokenizer, scores = sentencepiece_gguf(tmp_path, prefix), sentencepiece_scores()
    spelt = 0
    for line, whole in zip(LINES, WHOLE, strict=True):
        if any(control in whole for control in ("<s>", "</s>", "<unk>")):
            continue  # there the twin cuts the text; test_tokenizer.py holds it against the package
        text = (" " if prefix and whole else "") + whole
        wanted = pieces_by_scores(text.replace(" ", "\u2581"), scores)
        ids = tokenizer.encode(line, add_special=False)
        assert [tokenizer.inner.id_to_token(token) for token in ids] == wanted, line
        assert tokenizer.decode(ids) == whole.replace("\u2581", " "), line
        spelt += sum(piece.startswith("<0x") for piece in wanted)
    assert spelt > 200


KINDS = {
    **{f"gguf {name}": functools.partial(byte_level_gguf, name=name) for name in RULES},
    "gguf llama": functools.partial(sentencepiece_gguf, prefix=True),
    "gguf llama without prefix": functools.partial(sentencepiece_gguf, prefix=False),
    "byte_level": lambda folder: ours(byte_level()),
    "sentencepiece": lambda folder: ours(sentencepiece()),
    "unigram": lambda folder: ours(unigram()),
    "word_level": lambda folder: ours(word_level()),
}


def flushed(running: Detokenizer) -> str:
    """What ending here would add; the stream itself goes on."""
    twin = copy.copy(running)
    twin.utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")
    twin.utf8.setstate(running.utf8.getstate())
    return twin.flush()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.case("antonellof/ferrox#124", "huggingface/tokenizers#1141")
@pytest.mark.kills("whole-characters/each-token-alone", "flush-bytes/forgotten", "first-space/every-piece")
def test_pieces_joined_equal_the_whole_at_every_cut(tmp_path, kind):
    tokenizer = KINDS[kind](tmp_path)
    for line in LINES:
        ids = tokenizer.encode(line, parse_special=True)
        running, shown = Detokenizer(tokenizer), ""
        for length in range(len(ids) + 1):
            if length:
                shown += running.push(ids[length - 1])
            ended = shown + flushed(running)
            raw = b"".join(tokenizer.token_bytes(token) for token in ids[:length] if not tokenizer.is_special(token))
            whole = raw.decode("utf-8", "replace")
            assert ended == (whole.removeprefix(" ") if tokenizer.strips_first else whole), (line, length)
        assert ended == tokenizer.decode(ids)
