"""A set of tensors as they lie in files: names, shapes, and a way to get each one. Nothing is read until asked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from teachkv.weights import Array


@dataclass(frozen=True, slots=True)
class Stored:
    """One tensor in a file. `fetch()` returns (float32 array, whether it was copied)."""

    file: Path
    dtype: str
    shape: tuple[int, ...]
    fetch: Callable[[], tuple[Array, bool]]


@dataclass(frozen=True, slots=True)
class Store:
    """All tensors of a checkpoint by name. `style` says whose names they are: "hf" or "gguf"."""

    kind: str
    style: str
    where: Path
    tensors: Mapping[str, Stored]
    files: Mapping[str, int]
    notes: tuple[str, ...] = ()
    readable: tuple[str, ...] = ("F32", "F16", "BF16")  # dtypes that `fetch` can turn into float32
    advice: str = "fetch the model again"
