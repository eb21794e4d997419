"""JSON from foreign folders: bounded, unambiguous, from this folder only."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teachkv.config import ModelConfig
from teachkv.config.places import inside
from teachkv.config.reading import parse_json, read_json
from teachkv.errors import ConfigError, TeachKVError
from tests.toys import tiny_config


def parse(raw: bytes, limit: int = 1000) -> dict[str, object]:
    return parse_json(raw, "x.json", limit=limit, error=ConfigError)


@pytest.mark.kills("json-bounded/removed")
def test_a_file_over_the_limit_is_refused_unread(tmp_path: Path) -> None:
    assert parse(b'{"a": 1}', limit=8) == {"a": 1}
    with pytest.raises(ConfigError, match=r"x\.json: larger than 7 bytes"):
        parse(b'{"a": 1}', limit=7)
    (tmp_path / "big.json").write_bytes(b'{"a": "' + b"x" * 5000 + b'"}')
    with pytest.raises(ConfigError, match="larger than 4000 bytes"):
        read_json(tmp_path / "big.json", limit=4000)


@pytest.mark.kills("json-unique/removed")
@pytest.mark.parametrize("raw", [b'{"a": 1, "a": 1}', b'{"b": {"a": 1, "a": 2}}'])
def test_a_key_that_appears_twice_is_refused(raw: bytes) -> None:
    with pytest.raises(ConfigError, match="key 'a' appears twice"):
        parse(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[1]",
        b"3",
        b"null",
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b"\xff{}",
        b"\xef\xbb\xbf{}",
        b'{"a": "\xed\xa0\x80"}',
        b'{"a": 1} x',
        b"[" * 900,
        b'{"a":' * 190,
        b"{'a': 1}",
    ],
)
def test_what_is_no_json_object_is_a_typed_error_of_one_line(raw: bytes) -> None:
    with pytest.raises(ConfigError, match=r"^x\.json: ") as told:
        parse(raw)
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 300


def test_nesting_beyond_the_interpreters_stack_is_a_typed_error() -> None:
    with pytest.raises(ConfigError, match="not valid JSON"):
        parse(b'{"a":' + b"[" * 500_000, limit=1 << 20)


def test_an_integer_of_many_digits_is_refused_or_read_but_never_slow() -> None:
    with pytest.raises(ConfigError, match="not valid JSON"):
        parse(b'{"a": ' + b"9" * 900_000 + b"}", limit=1 << 20)


@pytest.mark.kills("plain-name/removed")
@pytest.mark.parametrize(
    "name", ["../secret", "/etc/hostname", "sub/file", "", ".", "..", "a\\b", "a\0b", "a\nb", "x" * 300]
)
def test_a_name_that_leaves_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "secret").write_text("s")
    (folder / "sub" / "file").write_text("s")
    with pytest.raises(ConfigError, match="leaves the model directory"):
        inside(folder, name)


@pytest.mark.kills("regular-file/removed")
@pytest.mark.parametrize("kind", ["missing", "folder", "pipe", "dangling"])
def test_only_regular_files_are_opened(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "config.json"
    if kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)  # opening it would wait for a writer
    elif kind == "dangling":
        place.symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="missing or not a regular file"):
        inside(tmp_path, "config.json")


@pytest.mark.kills("link-stays/removed")
def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_text("{}")
    (folder / "config.json").symlink_to(tmp_path / "secret")
    with pytest.raises(ConfigError, match="outside the model directory"):
        read_json(folder / "config.json")


def test_a_link_within_the_folder_and_a_link_to_the_folder_work(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "real.json").write_text("{}")
    (folder / "config.json").symlink_to("real.json")
    (tmp_path / "alias").symlink_to(folder)
    assert read_json(tmp_path / "alias" / "config.json") == {}


def family_or_refusal(folder: Path) -> str:
    try:
        return ModelConfig.from_dir(folder).family
    except ConfigError as problem:
        return str(problem)


@pytest.mark.kills("link-stays/no-hub")
def test_the_hub_cache_layout_works(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "models--o--m" / "blobs", tmp_path / "models--o--m" / "snapshots" / "abc"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    (blobs / "0f3a").write_text(json.dumps(tiny_config()))
    (snapshot / "config.json").symlink_to(Path("..") / ".." / "blobs" / "0f3a")
    assert family_or_refusal(snapshot) == "llama"
    (snapshot / "generation_config.json").symlink_to(tmp_path / "models--o--m" / "refs")
    with pytest.raises(ConfigError, match="generation_config"):
        ModelConfig.from_dir(snapshot)


def check_one_line(problem: TeachKVError) -> None:
    assert "\n" not in str(problem)
    assert len(str(problem)) < 400


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.sampled_from(["default", "yarn", "sliding_attention", "float32", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["rope_type", "type", "factor", "rope_theta", "original_max_position_embeddings"]), inner
        )
    ),
    max_leaves=5,
)
KEYS = [*tiny_config("qwen2"), "sliding_window", "use_sliding_window", "max_window_layers", "layer_types"]
KEYS += ["rope_scaling", "rope_parameters", "dtype", "attention_bias", "quantization_config", "partial_rotary_factor"]


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["llama", "mistral", "qwen2", "qwen3"]), st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4)
)
def test_any_value_under_any_key_is_read_or_refused(family: str, changes: dict[str, object]) -> None:
    """Fuzz: never another exception, never a config whose derived numbers do not fit one another."""
    try:
        config = ModelConfig.from_dict(tiny_config(family) | changes)
    except TeachKVError as problem:
        check_one_line(problem)
        return
    assert len(config.windows) == config.num_layers
    assert config.num_heads % config.num_kv_heads == 0
    assert all(window is None or window > 0 for window in config.windows)
    config.rope.describe()


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_json_or_refused(raw: bytes) -> None:
    try:
        assert isinstance(parse(raw), dict)
    except ConfigError as problem:
        check_one_line(problem)
