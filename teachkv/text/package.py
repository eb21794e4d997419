"""Calls into the `tokenizers` package, with its faults turned into ours: plain Exceptions and Rust panics."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from teachkv.errors import TokenizerError

if TYPE_CHECKING:
    from tokenizers import Tokenizer


# A prefix that is not null, or a letter in disguise, which could spell that key.
HAS_PREFIX = re.compile(r'continuing_subword_prefix"\s*:\s*"|\\u00[4-7]')


@contextmanager
def faults_named(where: str, what: str) -> Iterator[None]:
    """Whatever goes wrong inside is a TokenizerError that says `where` and `what`."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as problem:  # a panic is no Exception
        words = (str(problem).strip().splitlines() or [type(problem).__name__])[0][:200]
        raise TokenizerError(f"{where}: {what} ({words}); copy the file again from the model's repository") from None


def open_tokenizer(raw: bytes | str, where: str) -> "tuple[Tokenizer, int]":
    """Read a tokenizer.json and try it on a word: (tokenizer, vocabulary size). Padding and truncation are switched
    off.
    """
    from tokenizers import Tokenizer

    with faults_named(where, "tokenizer.json cannot be read"):
        text = raw if isinstance(raw, str) else raw.decode("utf-8")
    check_merges(text, where)
    with faults_named(where, "tokenizer.json cannot be read"):
        inner = Tokenizer.from_str(text)
    inner.no_padding()
    inner.no_truncation()
    # guard[tokenizer-tried]: a file can be read and yet fail on the first text; that belongs to loading
    # mutant[tokenizer-tried/removed]:
    #   - tried = ids_of(inner, "a", add_special=True, where=where)
    #   + tried = [0]
    tried = ids_of(inner, "a", add_special=True, where=where)
    size = vocab_size_of(inner)
    if tried and max(tried) >= size:
        raise TokenizerError(
            f"{where}: tokenizer.json adds token {max(tried)} to every text, but has only {size} tokens"
        )
    return inner, size


def check_merges(text: str, where: str) -> None:
    """Where pieces that continue a word carry a prefix, the second part of each merge must have it. The package cuts
    off as many bytes without looking, which may be half a character, and then ends the process.
    """

    def check(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        prefix, merges = found.get("continuing_subword_prefix"), found.get("merges")
        if not isinstance(prefix, str) or not isinstance(merges, list):
            return found
        for merge in merges:
            parts = merge.split(" ") if isinstance(merge, str) else merge
            # guard[merge-continues]: a fault that nobody can catch must be found before the package is called
            # mutant[merge-continues/removed]:
            #   - if isinstance(parts, list) and len(parts) == 2 and not str(parts[1]).startswith(prefix):
            #   + if False:
            if isinstance(parts, list) and len(parts) == 2 and not str(parts[1]).startswith(prefix):
                raise TokenizerError(
                    f"{where}: tokenizer.json: merge {str(merge)[:60]!r} does not continue a word, which would begin "
                    f"with {prefix[:20]!r}; copy the file again from the model's repository"
                )
        return found

    if HAS_PREFIX.search(text):
        with suppress(ValueError, RecursionError):  # what is no JSON the package tells of
            json.loads(text, object_pairs_hook=check)


def vocab_size_of(inner: "Tokenizer") -> int:
    """All ids are below it, also where the vocabulary has holes."""
    top = max(inner.get_vocab(with_added_tokens=True).values(), default=-1)
    return max(top + 1, inner.get_vocab_size(with_added_tokens=True))


def ids_of(inner: "Tokenizer", text: str, *, add_special: bool, where: str) -> list[int]:
    """Token ids as the package gives them."""
    with faults_named(where, "tokenizer.json fails on a text"):
        return [int(token) for token in inner.encode(text, add_special_tokens=add_special).ids]
