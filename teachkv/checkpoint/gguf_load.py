"""GGUF files: quantised weights widened to float32, rows of q and k back in Hugging Face order."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from teachkv.checkpoint.assemble import assemble
from teachkv.checkpoint.gguf_config import ROPE_FACTORS, gguf_config, read_settings
from teachkv.checkpoint.gguf_header import GGUFHeader, GGUFTensor, read_gguf_header
from teachkv.checkpoint.gguf_tokenizer import tokenizer_files
from teachkv.checkpoint.header import Entry
from teachkv.checkpoint.loaded import LoadedModel
from teachkv.checkpoint.mapping import MappedFile
from teachkv.checkpoint.stored import Store, Stored
from teachkv.checkpoint.text_files import MemoryFiles
from teachkv.config import ModelConfig
from teachkv.errors import CheckpointError
from teachkv.weights import Array

READABLE = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q6_K")


@dataclass(frozen=True, slots=True, eq=False)
class OpenGGUF:
    """A GGUF file whose header, config and tokenizer are read; none of its tensors is yet."""

    header: GGUFHeader
    config: ModelConfig
    store: Store
    texts: MemoryFiles


def open_gguf(path: Path) -> OpenGGUF:
    """Read all but the tensors. Raises ConfigError, CheckpointError or TokenizerError."""
    header = read_gguf_header(path)
    mapped = MappedFile(path)
    config = gguf_config(header, _rope_divisors(header, mapped))
    return OpenGGUF(header, config, _store(header, mapped, config), MemoryFiles(str(path), tokenizer_files(header)))


def load_gguf(path: Path) -> LoadedModel:
    """Load a .gguf file whole. Raises ConfigError, CheckpointError or TokenizerError; then nothing has been loaded."""
    opened = open_gguf(path)
    config, weights, report = assemble(opened.config, opened.store)
    return LoadedModel(path.stem, path, config, weights, opened.texts, opened.texts, report)


def _store(header: GGUFHeader, mapped: MappedFile, config: ModelConfig) -> Store:
    tensors = {}
    for tensor in header.tensors:
        if tensor.name == ROPE_FACTORS:
            continue  # has become part of the config
        heads = _permuted_heads(tensor.name, config)
        tensors[tensor.name] = Stored(header.path, tensor.dtype, tensor.shape, partial(_fetch, mapped, tensor, heads))
    return Store(
        kind="gguf",
        style="gguf",
        where=header.path,
        tensors=tensors,
        files={header.path.name: header.path.stat().st_size},
        notes=tuple(read_settings(header)[1]),
        readable=READABLE,
    )


def _permuted_heads(name: str, config: ModelConfig) -> int | None:
    """How many heads a tensor's rows are permuted in, or None if they stand as in Hugging Face files."""
    # guard[gguf-permuted]: llama files rotate neighbours, not halves, and store q and k to suit (llama.cpp#3364)
    # mutant[gguf-permuted/removed]:
    #   - if config.family not in ("llama", "mistral"):
    #   + if True:
    # mutant[gguf-permuted/always]:
    #   - if config.family not in ("llama", "mistral"):
    #   + if False:
    if config.family not in ("llama", "mistral"):
        return None
    # guard[gguf-kv-heads]: with grouped heads, k has fewer heads than q
    # mutant[gguf-kv-heads/query-count]:
    #   - heads = {"attn_q": config.num_heads, "attn_k": config.num_kv_heads}
    #   + heads = {"attn_q": config.num_heads, "attn_k": config.num_heads}
    heads = {"attn_q": config.num_heads, "attn_k": config.num_kv_heads}
    parts = name.split(".")
    return heads.get(parts[2]) if len(parts) == 4 and parts[0] == "blk" else None


def _fetch(mapped: MappedFile, tensor: GGUFTensor, heads: int | None) -> tuple[Array, bool]:
    array, copied = dequantised(mapped, tensor)
    if heads is not None:
        array, copied = np.ascontiguousarray(halves_first(array, heads)), True
    return array, copied


def halves_first(rows: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Rows [heads * D, ...] from pairs side by side (0, D/2, 1, D/2 + 1 ...) to halves (0 .. D/2 - 1, D/2 .. D - 1)."""
    return rows.reshape(heads, -1, 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def dequantised(mapped: MappedFile, tensor: GGUFTensor) -> tuple[Array, bool]:
    """(float32 array, copied). Float32 stays mapped; other types are widened by the `gguf` package, row by row."""
    if tensor.dtype in ("F32", "F16", "BF16"):
        return mapped.tensor(Entry(tensor.name, tensor.dtype, tensor.shape, tensor.begin, tensor.end))
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize

    rows = int(np.prod(tensor.shape[:-1]))
    blocks = mapped.raw(tensor.begin, tensor.end).reshape(rows, -1)
    with np.errstate(all="ignore"):  # a damaged scale may be infinite; the numbers are taken as they stand
        wide = dequantize(blocks, GGMLQuantizationType[tensor.dtype])
    return np.ascontiguousarray(wide, np.float32).reshape(tensor.shape), True


def _rope_divisors(header: GGUFHeader, mapped: MappedFile) -> tuple[float, ...] | None:
    """Llama 3 files hold their rotary scaling as one divisor per pair, worked out by the converter."""
    for tensor in header.tensors:
        if tensor.name == ROPE_FACTORS:
            if tensor.dtype != "F32" or len(tensor.shape) != 1 or tensor.shape[0] > 1 << 15:
                raise CheckpointError(f"{header.path}: {ROPE_FACTORS} must be a row of F32; the file is damaged")
            return tuple(float(value) for value in dequantised(mapped, tensor)[0])
    return None
