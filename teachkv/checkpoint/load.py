"""load_model: a model directory or a .gguf file in, a whole model out, or a typed error."""

from pathlib import Path

from teachkv.checkpoint.assemble import assemble
from teachkv.checkpoint.loaded import LoadedModel
from teachkv.checkpoint.shards import open_safetensors
from teachkv.checkpoint.text_files import FolderFiles
from teachkv.config import ModelConfig
from teachkv.config.places import is_regular
from teachkv.errors import CheckpointError


def load_model(path: str | Path) -> LoadedModel:
    """Load a Hugging Face directory or a .gguf file. Float32 stays mapped; 16-bit and quantised weights are widened.

    Raises ConfigError or CheckpointError naming the file and what to do; then nothing has been loaded.
    """
    place = Path(path)
    if place.is_dir():
        return _load_folder(place)
    if is_regular(place) and place.suffix == ".gguf":
        from teachkv.checkpoint.gguf_load import load_gguf

        return load_gguf(place)
    if is_regular(place):
        raise CheckpointError(f"{place}: is neither a model directory nor a .gguf file; give the folder it lies in")
    raise CheckpointError(f"{place}: no such file or directory; give a model directory or a .gguf file")


def _load_folder(folder: Path) -> LoadedModel:
    config = ModelConfig.from_dir(folder)
    settled, weights, report = assemble(config, open_safetensors(folder))
    texts = FolderFiles(folder)
    return LoadedModel(folder.name, folder, settled, weights, texts, texts, report)
