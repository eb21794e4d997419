"""Small tokenizers built in the test, one per family of decoders, and the oracle for streams."""

import json

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from teachkv.text import Tokenizer as Ours
from teachkv.text.token_bytes import SYMBOLS

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def byte_level(words=("hello", " world", " hello", "é", "日本"), specials=SPECIALS, tags=(), bos=None) -> Tokenizer:
    """Byte-level BPE whose merges build the given words."""
    symbol = {byte: char for char, byte in SYMBOLS.items()}
    vocab = {symbol[byte]: byte for byte in range(256)}
    merges = []
    for word in words:
        parts = [symbol[byte] for byte in word.encode()]
        while len(parts) > 1:
            pair = (parts[0], parts[1])
            if "".join(pair) not in vocab:
                vocab["".join(pair)] = len(vocab)
                merges.append(pair)
            parts[:2] = ["".join(pair)]
    inner = Tokenizer(models.BPE(vocab, merges))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens([*specials])
    inner.add_tokens([AddedToken(tag, normalized=False) for tag in tags])
    if bos is not None:
        add_bos(inner, bos)
    return inner


def add_bos(inner: Tokenizer, bos: str) -> None:
    number = inner.token_to_id(bos)
    inner.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A", pair=f"{bos} $A $B", special_tokens=[(bos, number)]
    )


def sentencepiece(pieces=("▁a", "▁b", "▁c", "▁the", "n", "d", "▁", "a", "b", "c"), bos=None) -> Tokenizer:
    """The llama-2 way: word-start markers, byte fallback, a decoder that strips the first space."""
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2}
    for byte in range(256):
        vocab[f"<0x{byte:02X}>"] = len(vocab)
    for piece in pieces:
        for part in (*piece, piece):
            vocab.setdefault(part, len(vocab))
    merges = []
    for piece in pieces:
        for cut in range(1, len(piece)):
            head, tail = piece[:cut], piece[cut : cut + 1]
            vocab.setdefault(head + tail, len(vocab))
            if (head, tail) not in merges:
                merges.append((head, tail))
    inner = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    inner.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    inner.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    inner.add_special_tokens(["<unk>", "<s>", "</s>"])
    if bos is not None:
        add_bos(inner, bos)
    return inner


def unigram() -> Tokenizer:
    """A lattice model, where a control token in the vocabulary can be chosen for plain text."""
    pieces = [("<unk>", 0.0), ("</s>", 0.0), ("▁", -2.0), *((c, -3.0) for c in "abcdefgs</>"), ("▁ab", -1.0)]
    inner = Tokenizer(models.Unigram(pieces, 0, False))
    inner.pre_tokenizer = pre_tokenizers.Metaspace()
    inner.decoder = decoders.Metaspace()
    inner.add_special_tokens(["</s>"])
    return inner


def word_level() -> Tokenizer:
    inner = Tokenizer(models.WordLevel({"[UNK]": 0, "[END]": 1, "hello": 2, "world": 3}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.add_special_tokens(["[UNK]", "[END]"])
    return inner


def ours(inner: Tokenizer, template=None, **config) -> Ours:
    return Ours(inner.to_str(), config, chat_template=template)


def edited(inner: Tokenizer, change) -> str:
    data = json.loads(inner.to_str())
    change(data)
    return json.dumps(data)
