"""What loading a model yields."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from teachkv.checkpoint.text_files import TextFiles
from teachkv.config import ModelConfig
from teachkv.weights import ModelWeights


@dataclass(frozen=True, slots=True)
class LoadReport:
    """How the weights came about. `files` maps file name to bytes; `unused` names tensors that no part of the model
    takes; `mapped` and `copied` are bytes of weights left in the file and made in memory."""

    kind: str  # "safetensors", "gguf" or "built in"
    files: Mapping[str, int] = field(default_factory=dict)
    dtypes: Mapping[str, int] = field(default_factory=dict)  # stored dtype -> number of tensors
    unused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    mapped: int = 0
    copied: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class LoadedModel:
    """A whole model. `tokenizer_source` and `template_source` hand out text files by their Hugging Face names."""

    name: str
    path: Path | None
    config: ModelConfig
    weights: ModelWeights
    tokenizer_source: TextFiles
    template_source: TextFiles
    report: LoadReport
