"""A GGUF file as a Hugging Face directory of float32 weights, which then load by mapping, without any work."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from teachkv.checkpoint.assemble import check
from teachkv.checkpoint.gguf_config import config_object
from teachkv.checkpoint.gguf_load import open_gguf
from teachkv.checkpoint.names import Expected, expected
from teachkv.checkpoint.write import write_json, write_safetensors
from teachkv.errors import CheckpointError
from teachkv.weights import Array


def converted_bytes(gguf: Path) -> int:
    """Bytes of float32 weights that `convert` will write."""
    opened = open_gguf(gguf)
    return sum(4 * _size(item.shape) for item in check(opened.config, opened.store).wanted)


def convert(gguf: Path, folder: Path, progress: Callable[[int], None] = lambda count: None) -> None:
    """Write config.json, generation_config.json, the tokenizer's files and model.safetensors into `folder`.

    Raises CheckpointError for settings that a config.json cannot hold, and what loading the file itself raises.
    """
    opened = open_gguf(gguf)
    if opened.config.rope.divisors:
        raise CheckpointError(f"{gguf}: its rotary divisors have no place in a config.json; load the .gguf file itself")
    checked = check(opened.config, opened.store)
    settings = config_object(opened.header)
    write_json(folder / "config.json", settings)
    write_json(folder / "generation_config.json", _generation(settings))
    for name, text in opened.texts.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    source = {(item.own, item.layer): item.name for item in checked.wanted}
    wanted = [item for item in expected(checked.config, "hf") if (item.own, item.layer) in source]

    def fetch(item: Expected) -> Array:
        return opened.store.tensors[source[item.own, item.layer]].fetch()[0]

    write_safetensors(folder / "model.safetensors", wanted, fetch, progress)


def _generation(settings: dict[str, Any]) -> dict[str, Any]:
    return {key: settings[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for extent in shape:
        size *= extent
    return size
