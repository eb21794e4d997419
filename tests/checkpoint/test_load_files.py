"""Loading whole directories: which files make a model, and which are refused, told or left alone."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from teachkv.checkpoint import load_model
from teachkv.errors import CheckpointError, ConfigError
from tests.checkpoint.landed import assert_same
from tests.toys import save_safetensors, tiny_config, tiny_tensors, write_folder, write_tiny


@pytest.mark.kills("shard-present/skipped")
@pytest.mark.case("vllm-project/vllm#34859")
def test_each_file_deleted_in_turn_is_named(tmp_path: Path) -> None:
    write_tiny(tmp_path, shards=3)
    for path in sorted(tmp_path.glob("*.safetensors")):
        content = path.read_bytes()
        path.unlink()
        with pytest.raises(CheckpointError, match=f"{path.name}: is missing .*7 tensors, first 'model"):
            load_model(tmp_path)
        path.write_bytes(content)
    (tmp_path / "model.safetensors.index.json").unlink()
    with pytest.raises(CheckpointError, match=r"holds no model\.safetensors or model\.safetensors\.index\.json, only"):
        load_model(tmp_path)
    (tmp_path / "config.json").unlink()
    with pytest.raises(ConfigError, match=r"config\.json: is missing"):
        load_model(tmp_path)


def change_index(folder: Path, change: Any) -> None:
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    change(index)
    path.write_text(json.dumps(index))


@pytest.mark.parametrize(
    "target", ["../secret.safetensors", "/tmp/x.safetensors", "sub/x.safetensors", "", "..", "a\\b"]
)
@pytest.mark.case("huggingface/transformers#47176")
def test_an_index_that_points_elsewhere_is_refused(tmp_path: Path, target: str) -> None:
    folder = write_tiny(tmp_path / "model", shards=2)
    save_safetensors(tmp_path / "secret.safetensors", {"model.norm.weight": np.ones(32, np.float32)})
    change_index(folder, lambda index: index["weight_map"].update({"model.norm.weight": target}))
    with pytest.raises(CheckpointError, match="leaves the model directory"):
        load_model(folder)


@pytest.mark.case("huggingface/transformers#47176")
def test_a_shard_that_is_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = write_tiny(tmp_path / "model")
    (folder / "model.safetensors").rename(tmp_path / "elsewhere")
    (folder / "model.safetensors").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match="outside the model directory"):
        load_model(folder)


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.case("huggingface/transformers#47176")
def test_a_hub_cache_with_its_links_loads(tmp_path: Path, shards: int) -> None:
    plain = write_tiny(tmp_path / "plain", shards=shards)
    blobs, snapshot = tmp_path / "models--o--m" / "blobs", tmp_path / "models--o--m" / "snapshots" / "0a1b"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for number, path in enumerate(sorted(plain.iterdir())):
        (blobs / f"{number:040x}").write_bytes(path.read_bytes())
        (snapshot / path.name).symlink_to(os.path.join("..", "..", "blobs", f"{number:040x}"))
    assert_same(snapshot, tiny_tensors(tiny_config()))
    assert load_model(snapshot).tokenizer_source.read("tokenizer.json") == (plain / "tokenizer.json").read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda index: index.pop("weight_map"), "weight_map must map"),
        (lambda index: index.update(weight_map=[]), "weight_map must map"),
        (lambda index: index.update(weight_map={}), "weight_map must map"),
        (lambda index: index["weight_map"].update({"model.norm.weight": 3}), "weight_map must map"),
        (lambda index: index["weight_map"].update({"ghost": "model-00001-of-00002.safetensors"}), "puts 'ghost' in"),
        (
            lambda index: index["weight_map"].update({"model.embed_tokens.weight": "model-00002-of-00002.safetensors"}),
            "puts 'model.embed_tokens.weight' in model-00002-of-00002.safetensors, which does not hold it",
        ),
        (lambda index: index.update(weight_map={f"t{n}": f"f{n}" for n in range(5000)}), "names 5000 files"),
    ],
)
def test_an_index_that_contradicts_its_shards_is_refused(tmp_path: Path, change: Any, message: str) -> None:
    write_tiny(tmp_path, shards=2)
    change_index(tmp_path, change)
    with pytest.raises(CheckpointError, match=message):
        load_model(tmp_path)


@pytest.mark.kills("one-home/removed")
def test_a_tensor_in_two_shards_is_refused(tmp_path: Path) -> None:
    write_tiny(tmp_path, shards=2)
    config = tiny_config()
    names = list(tiny_tensors(config))
    again = {name: tiny_tensors(config)[name] for name in [*names[1::2], names[0]]}
    save_safetensors(tmp_path / "model-00002-of-00002.safetensors", again)
    with pytest.raises(CheckpointError, match=r"'model\.embed_tokens\.weight' lies in both"):
        load_model(tmp_path)


def test_files_beside_the_used_ones_are_told(tmp_path: Path) -> None:
    write_tiny(tmp_path)
    save_safetensors(tmp_path / "consolidated.safetensors", {"x": np.ones(1, np.float32)})
    (tmp_path / "model.safetensors.index.json").write_text("{}")
    notes = load_model(tmp_path).report.notes
    assert "files not used: consolidated.safetensors" in notes
    assert "model.safetensors.index.json is not used: model.safetensors is there" in notes


def test_weights_of_another_kind_of_number_are_refused(tmp_path: Path) -> None:
    config = tiny_config()
    write_folder(tmp_path, config, tiny_tensors(config), dtype="F64")
    with pytest.raises(CheckpointError, match=r"'model\.embed_tokens\.weight' is F64; weights must be F32, F16, BF16"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda place: None, "no such file or directory"),
        (lambda place: place.write_text("x"), "neither a model directory nor a .gguf file"),
        (lambda place: os.mkfifo(place), "no such file or directory"),
    ],
)
def test_what_is_no_model_is_refused(tmp_path: Path, make: Any, message: str) -> None:
    make(tmp_path / "thing")
    with pytest.raises(CheckpointError, match=message):
        load_model(tmp_path / "thing")


def test_a_folder_of_other_weights_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(tiny_config()))
    with pytest.raises(CheckpointError, match="fetch the model again"):
        load_model(tmp_path)
    (tmp_path / "pytorch_model.bin").write_text("x")
    with pytest.raises(CheckpointError, match=r"only pytorch_model\.bin; convert the weights to safetensors"):
        load_model(tmp_path)
    (tmp_path / "m.gguf").write_text("x")
    with pytest.raises(CheckpointError, match=r"name the \.gguf file itself"):
        load_model(tmp_path)
