"""What the device programs share: engines of published shapes with random weights, and figures to compare by."""

from __future__ import annotations

import platform
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from teachkv import LLM
from teachkv.assembly import assemble
from teachkv.checkpoint import LoadedModel, LoadReport
from teachkv.checkpoint.builtin import random_weights
from teachkv.checkpoint.byte_tokenizer import byte_tokenizer_files
from teachkv.checkpoint.names import expected
from teachkv.checkpoint.shapes import SHAPES
from teachkv.checkpoint.text_files import MemoryFiles
from teachkv.config import ModelConfig
from teachkv.options import EngineOptions
from teachkv.serving import Serving


def machine() -> dict[str, Any]:
    """The card and the versions that a record names; without CuPy, the processor."""
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    if find_spec("cupy") is None:
        return {"machine": f"no GPU, {platform.machine()}", "versions": versions}
    import cupy

    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    driver = cupy.cuda.runtime.driverGetVersion()
    return {"machine": f"{name}, driver {driver}", "versions": versions | {"cupy": cupy.__version__}}


def random_model(name: str, layers: int | None = None) -> LoadedModel:
    """A published shape, or its first layers, with random weights and a byte tokenizer."""
    config = ModelConfig.from_dict(SHAPES[name], source=name)
    if layers is not None:
        config = replace(config, num_layers=layers, windows=config.windows[:layers])
    texts = MemoryFiles(name, byte_tokenizer_files(None))
    return LoadedModel(name, None, config, random_weights(config, 0, threads=16), texts, texts, LoadReport("random"))


def engine_of(loaded: LoadedModel, **options: Any) -> LLM:
    """An LLM on a model that is in memory already."""
    llm = LLM.__new__(LLM)
    llm._serving = Serving(assemble(loaded, EngineOptions.parse(options), log=print))
    return llm


def shaped(name: str, layers: int | None = None, **options: Any) -> LLM:
    """An LLM of a published shape with random weights."""
    return engine_of(random_model(name, layers), **options)


def relative(out: Any, ref: Any) -> float:
    """||out - ref|| / ||ref||."""
    return float(np.linalg.norm(out - ref) / np.linalg.norm(ref))


def load_into(peer: Any, loaded: LoadedModel) -> None:
    """Our weights into a model of transformers, under their Hugging Face names. A tied head follows the embedding."""
    import torch

    tied = loaded.weights.tied
    state = {}
    for item in expected(replace(loaded.config, tie_embeddings=tied), "hf"):
        place = loaded.weights if item.layer is None else loaded.weights.layers[item.layer]
        state[item.name] = torch.from_numpy(np.array(getattr(place, item.own)))
    missing, unexpected = peer.load_state_dict(state, strict=False)
    assert not unexpected, unexpected
    assert set(missing) <= {"lm_head.weight"} if tied else not missing, missing
    if tied:
        peer.tie_weights()
