"""Models that need no file: `tiny` (random weights from a seed), `glass` (hand-made), random weights in any shape."""

import math
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from teachkv.checkpoint.assemble import build
from teachkv.checkpoint.byte_tokenizer import BYTE_VOCAB, CHAT_TEMPLATE, byte_tokenizer_files
from teachkv.checkpoint.glass import glass
from teachkv.checkpoint.loaded import LoadedModel, LoadReport
from teachkv.checkpoint.names import Expected, expected
from teachkv.checkpoint.text_files import MemoryFiles
from teachkv.config import ModelConfig
from teachkv.weights import Array, ModelWeights

PIECE = 1 << 22  # values drawn in one turn of a thread

TINY_CONFIG: dict[str, object] = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "vocab_size": BYTE_VOCAB,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "use_sliding_window": False,
    "sliding_window": None,
    "dtype": "float32",
    "eos_token_id": [256, 258],
    "pad_token_id": None,
}


def tiny(seed: int = 0) -> LoadedModel:
    """A small random qwen2 with a byte tokenizer. The same seed gives the same weights."""
    config = ModelConfig.from_dict(TINY_CONFIG, source="tiny")
    texts = MemoryFiles("tiny", byte_tokenizer_files(CHAT_TEMPLATE))
    weights = random_weights(config, seed)
    report = LoadReport("built in", notes=(f"random weights, seed {seed}",), copied=weights.nbytes)
    return LoadedModel("tiny", None, config, weights, texts, texts, report)


def random_weights(config: ModelConfig, seed: int, threads: int = 1) -> ModelWeights:
    """Random float32 weights in the shape of `config`, the same for every number of threads.

    Matrices [N, K] are normal with deviation 1/sqrt(K), so that activations keep their size through the layers; norm
    weights lie around 1 and biases around 0, off their neutral values, so that one left out shows.
    """
    config = replace(config, tie_embeddings=bool(config.tie_embeddings))
    wanted = list(expected(config, "hf"))
    if config.tie_embeddings:
        wanted.pop()
    arrays = [np.empty(item.shape, np.float32) for item in wanted]
    pieces = [piece for item, array in zip(wanted, arrays, strict=True) for piece in pieces_of(item, array)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda piece: _draw(seed, *piece), pieces))
    for array in arrays:
        array.flags.writeable = False
    return build(config, wanted, {item.name: array for item, array in zip(wanted, arrays, strict=True)})


def pieces_of(item: Expected, array: Array) -> list[tuple[Expected, int, Array]]:
    """(tensor, number, rows of it): an embedding is a third of a small model and would keep one thread for long."""
    rows = max(1, PIECE * len(array) // array.size)
    return [(item, number, array[at : at + rows]) for number, at in enumerate(range(0, len(array), rows))]


def _draw(seed: int, item: Expected, number: int, piece: Array) -> None:
    """Fill a piece from a stream of its own."""
    stream = zlib.crc32(item.name.encode()) | number << 32
    np.random.Generator(np.random.Philox(key=[seed, stream])).standard_normal(dtype=np.float32, out=piece)
    if item.own.endswith("norm"):
        piece *= np.float32(0.1)
        piece += np.float32(1)
    elif item.own.endswith("bias"):
        piece *= np.float32(0.2)
    elif item.own == "embed":
        # Weaker than what the layers add, or a tied head would repeat the last token for ever.
        piece *= np.float32(0.25)
    else:
        piece *= np.float32(1 / math.sqrt(item.shape[1]))


MODELS: dict[str, Callable[[], LoadedModel]] = {"tiny": tiny, "glass": glass}
