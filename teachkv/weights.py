"""The tensors of one model, under this project's own names. Arrays are [N, K] as stored and are used as `x @ W.T`.

Letters: H query heads, G KV heads, D head dim, K hidden size, F intermediate size, V vocabulary.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class LayerWeights:
    """One decoder layer. A bias or head norm that the model does not have is None."""

    input_norm: Array  # [K]
    q: Array  # [H*D, K]
    k: Array  # [G*D, K]
    v: Array  # [G*D, K]
    o: Array  # [K, H*D]
    post_norm: Array  # [K]
    gate: Array  # [F, K]
    up: Array  # [F, K]
    down: Array  # [K, F]
    q_bias: Array | None = None  # [H*D]
    k_bias: Array | None = None  # [G*D]
    v_bias: Array | None = None  # [G*D]
    o_bias: Array | None = None  # [K]
    q_norm: Array | None = None  # [D]
    k_norm: Array | None = None  # [D]
    gate_bias: Array | None = None  # [F]
    up_bias: Array | None = None  # [F]
    down_bias: Array | None = None  # [K]


@dataclass(frozen=True, slots=True, eq=False)
class ModelWeights:
    """All weights of a model. With tied embeddings `lm_head` and `embed` are the same object."""

    embed: Array  # [V, K]
    norm: Array  # [K]
    lm_head: Array  # [V, K]
    layers: tuple[LayerWeights, ...]

    @property
    def tied(self) -> bool:
        return self.lm_head is self.embed

    def named(self) -> Iterator[tuple[str, Array]]:
        """Every tensor once, in the order the forward pass uses them, as (own name, array)."""
        yield "embed", self.embed
        for index, layer in enumerate(self.layers):
            for field in fields(layer):
                array = getattr(layer, field.name)
                if array is not None:
                    yield f"layers.{index}.{field.name}", array
        yield "norm", self.norm
        if not self.tied:
            yield "lm_head", self.lm_head

    def placed(self, xp: Any, dtype: str) -> "ModelWeights":
        """The same weights as arrays of `xp` (numpy or cupy) in `dtype`. Nothing is copied where nothing changes."""

        def place(array: Array | None) -> Any:
            if array is None:
                return None
            there = xp.asarray(array)
            return there if str(there.dtype) == dtype else there.astype(xp.dtype(dtype))

        layers = (
            LayerWeights(**{f.name: place(getattr(layer, f.name)) for f in fields(layer)}) for layer in self.layers
        )
        embed = place(self.embed)
        return ModelWeights(embed, place(self.norm), embed if self.tied else place(self.lm_head), tuple(layers))

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors, tied ones counted once."""
        return sum(array.nbytes for _, array in self.named())
