"""The glass model: hand-made weights through which one sees which keys a query saw.

Embeddings, values and output projections are the identity, queries are zero (attention is uniform over the visible
keys), the MLP adds nothing. End a prompt with a sentinel used nowhere else; then the last row's logits are, up to one
common factor, `one-hot(sentinel) + 8 * (visible keys per token) / (visible keys)`, and `visible_counts` gives them back
as integers: 0 = unseen, 2 = seen twice. Blind to rotary positions and head grouping, since queries are zero.
"""

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from teachkv.checkpoint.byte_tokenizer import tokenizer_json
from teachkv.checkpoint.loaded import LoadedModel, LoadReport
from teachkv.checkpoint.text_files import MemoryFiles
from teachkv.config import ModelConfig
from teachkv.weights import Array, LayerWeights, ModelWeights

SIZE = 64  # hidden = vocabulary
HEADS = 8
SENTINEL = 63  # "."
ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ."
NORM_GAIN = 8.0  # the norm of a one-hot vector of 64 is 8 times the vector

GLASS_CONFIG: dict[str, object] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": SIZE,
    "hidden_size": SIZE,
    "intermediate_size": 8,
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-12,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "eos_token_id": [],
    "bos_token_id": None,
}


def glass(layers: int = 1, windows: Sequence[int | None] | None = None, live: int | None = None) -> LoadedModel:
    """`windows`: keys visible per layer (None = all). `live`: the one layer whose output counts (default the last).

    Raises ValueError if the windows are not one per layer, or there is no such layer.
    """
    live = layers - 1 if live is None else live
    windows = [None] * layers if windows is None else list(windows)
    if len(windows) != layers or not 0 <= live < layers:
        raise ValueError(f"glass of {layers} layers: {len(windows)} windows, live layer {live}")
    config = ModelConfig.from_dict(GLASS_CONFIG | {"num_hidden_layers": layers}, source="glass")
    config = replace(config, windows=tuple(windows), notes=())
    one = _frozen(np.eye(SIZE))
    layer = tuple(_layer(one, counts=index == live) for index in range(layers))
    weights = ModelWeights(embed=one, norm=_frozen(np.ones(SIZE)), lm_head=one, layers=layer)
    texts = MemoryFiles("glass", _tokenizer_files())
    report = LoadReport("built in", notes=(f"hand-made weights, layer {live} counts",), copied=weights.nbytes)
    return LoadedModel("glass", None, config, weights, texts, texts, report)


def visible_counts(logits: ArrayLike, sentinel: int = SENTINEL) -> NDArray[np.int64]:
    """How often each token was visible to the row with these logits [64], which must be a sentinel's row.

    Raises ValueError if the logits are no counts: something other than uniform attention over whole keys was at work.
    """
    row = np.asarray(logits, dtype=np.float64)
    shares = (row * (1 + NORM_GAIN) / row.sum() - np.eye(SIZE)[sentinel]) / NORM_GAIN  # count / visible keys
    if not np.isfinite(shares).all() or shares[sentinel] <= 0:
        raise ValueError("the sentinel's own key is not visible, or a logit is not finite")
    counts = shares / shares[sentinel]
    rounded: NDArray[np.float64] = np.rint(counts)
    if np.abs(counts - rounded).max() > 0.01:
        raise ValueError(f"not whole counts: {counts[np.abs(counts - rounded).argmax()]:.3f}")
    return rounded.astype(np.int64)


def _layer(one: Array, *, counts: bool) -> LayerWeights:
    norm = _frozen(np.ones(SIZE))
    zero = _frozen(np.zeros((SIZE, SIZE)))
    thin, wide = _frozen(np.zeros((8, SIZE))), _frozen(np.zeros((SIZE, 8)))
    return LayerWeights(
        input_norm=norm,
        q=zero,
        k=one,
        v=one,
        o=one if counts else zero,
        post_norm=norm,
        gate=thin,
        up=thin,
        down=wide,
    )


def _frozen(values: NDArray[np.float64]) -> Array:
    array = values.astype(np.float32)
    array.flags.writeable = False
    return array


def _tokenizer_files() -> dict[str, str]:
    """One token per character; a space is the byte-level symbol of a space."""
    vocab = {("Ġ" if char == " " else char): number for number, char in enumerate(ALPHABET)}
    return {
        "tokenizer.json": json.dumps(tokenizer_json(vocab, [], {})),
        "tokenizer_config.json": json.dumps({"eos_token": None, "bos_token": None}),
    }
