"""Files at which the tokenizers package ends the process, with no exception that anybody could catch."""

import json
import subprocess
import sys
from typing import Any

import pytest

from teachkv.errors import TokenizerError
from teachkv.text.package import open_tokenizer
from tests.toys import refuses

LOAD = """
import sys
from teachkv.errors import TokenizerError
from teachkv.text.package import open_tokenizer
try:
    open_tokenizer(sys.stdin.buffer.read(), "here")
except TokenizerError as problem:
    print(problem)
"""


def written(prefix: Any, merges: list[Any], vocab: dict[str, int]) -> str:
    return json.dumps({"model": {"type": "BPE", "continuing_subword_prefix": prefix, "vocab": vocab, "merges": merges}})


@pytest.mark.parametrize("merges", [[["a", "é"]], ["a é"], [["a", ""]]])
def test_a_merge_that_does_not_continue_a_word_is_refused_before_the_package_sees_it(merges: list[Any]) -> None:
    """Found by fuzzing: the package cuts the prefix off whatever comes second, in the middle of a character."""
    raw = written("x", merges, {"a": 0, "é": 1, "": 2})
    done = subprocess.run([sys.executable, "-c", LOAD], input=raw.encode(), capture_output=True, timeout=60)
    assert done.returncode == 0
    assert "does not continue a word" in done.stdout.decode()


@pytest.mark.kills("merge-continues/removed")
def test_the_first_of_two_models_is_looked_at_too() -> None:
    bad, good = (json.loads(written("x", [pair], {"a": 0, "xb": 1, "ab": 2})) for pair in (["a", "b"], ["a", "xb"]))
    raw = f'{{"model": {json.dumps(bad["model"])}, "model": {json.dumps(good["model"])}}}'
    with refuses(TokenizerError, "does not continue a word"):
        open_tokenizer(raw, "here")


@pytest.mark.parametrize("prefix", [None, "", "##"])
def test_merges_that_fit_their_prefix_are_read(prefix: str | None) -> None:
    second = (prefix or "") + "b"
    raw = written(prefix, [["a", second], f"ab {second}"][:1], {"a": 0, second: 1, "ab": 2})
    assert open_tokenizer(raw, "here")[1] == 3


@pytest.mark.parametrize("key", ["continuing_subword_prefix", "continuing\\u005fsubword_prefix"])
def test_the_key_is_known_however_it_is_spelt(key: str) -> None:
    raw = written("x", [["a", "b"]], {"a": 0, "xb": 1, "ab": 2}).replace("continuing_subword_prefix", key)
    with refuses(TokenizerError, "does not continue a word"):
        open_tokenizer(raw, "here")


def test_what_is_no_json_is_left_to_the_package() -> None:
    for raw in ("{", "[" * 5000, '{"model": {"continuing_subword_prefix": "x", "merges": [1, "one", [2]]}}'):
        with refuses(TokenizerError, "cannot be read"):
            open_tokenizer(raw, "here")
