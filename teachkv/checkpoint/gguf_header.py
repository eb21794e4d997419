"""The header of a GGUF file, checked whole: every count against the bytes that are really there (llama.cpp#25378).

File: "GGUF", version, tensor count, key count; keys with typed values; tensor records {name, dims, type, offset};
padding; data. The `gguf` package supplies the table of block sizes and the dequantisers. Its reader trusts counts and
builds one array per vocabulary entry (2.4 s for 49,152 tokens), so the header is read here; tests compare the two.
"""

import math
import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from teachkv.errors import CheckpointError

METADATA_LIMIT = 24 << 20  # the largest published vocabularies, merges included, take some 12 MB
MAX_KEYS, MAX_TENSORS, MAX_DIMS = 1 << 16, 1 << 16, 4
STRING, ARRAY, BOOL = 8, 9, 7
SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", BOOL: "<B", 10: "<Q", 11: "<q", 12: "<d"}


@dataclass(frozen=True, slots=True)
class GGUFTensor:
    """`shape` is [rows, columns] as everywhere here (the file lists columns first); `begin`, `end` lie in the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class GGUFHeader:
    path: Path
    metadata: Mapping[str, Any]  # scalars, strings, and arrays as list[str] or NumPy array
    tensors: tuple[GGUFTensor, ...]


def read_gguf_header(path: Path) -> GGUFHeader:
    """Everything but the data. Raises CheckpointError for any contradiction, before anything large is built."""
    try:
        with path.open("rb") as file:
            buffer = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as problem:
        raise CheckpointError(f"{path}: cannot be mapped ({problem}); check the file") from None
    cursor = Cursor(path, buffer)
    tensor_count, key_count = _preamble(cursor)
    metadata: dict[str, Any] = {}
    for _ in range(key_count):
        key = cursor.string("a key")
        # guard[gguf-key-unique]: of two equal keys one would win in silence
        # mutant[gguf-key-unique/removed]:
        #   - if key in metadata:
        #   + if False:
        if key in metadata:
            cursor.fail(f"key {key[:60]!r} appears twice")
        metadata[key] = cursor.value(cursor.scalar(4, f"type of {key[:60]!r}"), f"key {key[:60]!r}")
    records = [_record(cursor) for _ in range(tensor_count)]
    tensors = _place(cursor, records, _alignment(cursor, metadata))
    return GGUFHeader(path, metadata, tuple(tensors))


class Cursor:
    """Reads forward through the header; every length is checked against what is left of it."""

    def __init__(self, path: Path, buffer: mmap.mmap) -> None:
        self.path, self.buffer, self.at = path, buffer, 0
        self.size = len(buffer)
        self.limit = min(self.size, METADATA_LIMIT)

    def fail(self, what: str) -> Any:
        raise CheckpointError(f"{self.path}: {what}; the file is damaged, fetch it again")

    def skip(self, count: int, what: str) -> int:
        """Move on by `count` bytes and return where they begin."""
        begin = self.at
        # guard[gguf-length]: lengths are foreign 64-bit numbers; believed, they read past the end or fill the memory
        # mutant[gguf-length/removed]:
        #   - if count > self.limit - begin:
        #   + if False:
        if count > self.limit - begin:
            self.fail(f"{what} claims {count} bytes, but {self.limit - begin} are left of the header")
        self.at = begin + count
        return begin

    def scalar(self, kind: int, what: str) -> Any:
        form = SCALARS[kind]
        (value,) = struct.unpack_from(form, self.buffer, self.skip(struct.calcsize(form), what))
        if kind == BOOL and value > 1:
            self.fail(f"{what} is {value}, neither true nor false")
        return bool(value) if kind == BOOL else value

    def string(self, what: str) -> str:
        length = self.scalar(10, f"length of {what}")
        begin = self.skip(length, what)
        try:
            return str(self.buffer[begin : begin + length], "utf-8")
        except UnicodeDecodeError:
            return str(self.fail(f"{what} is not UTF-8"))

    def value(self, kind: int, what: str) -> Any:
        if kind == STRING:
            return self.string(what)
        if kind == ARRAY:
            return self._array(what)
        if kind not in SCALARS:
            self.fail(f"{what} has unknown type {kind}")
        return self.scalar(kind, what)

    def _array(self, what: str) -> Any:
        kind, count = self.scalar(4, f"type of {what}"), self.scalar(10, f"length of {what}")
        if kind == STRING:
            # guard[gguf-array-count]: each string takes 8 bytes at least; a larger count is known to be false at once
            # mutant[gguf-array-count/removed]:
            #   - if count > (self.limit - self.at) // 8:
            #   + if False:
            if count > (self.limit - self.at) // 8:
                self.fail(f"{what} claims {count} strings")
            return [self.string(what) for _ in range(count)]
        if kind not in SCALARS:
            self.fail(f"{what} is an array of unknown or nested type {kind}")
        form = np.dtype(SCALARS[kind].replace("<q", "<i8").replace("<Q", "<u8"))
        begin = self.skip(count * form.itemsize, what)
        return np.frombuffer(self.buffer, form, count=count, offset=begin)


def _preamble(cursor: Cursor) -> tuple[int, int]:
    magic, version = cursor.buffer[: min(4, cursor.size)], 0
    cursor.skip(4, "the magic number")
    if magic != b"GGUF":
        raise CheckpointError(f"{cursor.path}: is no GGUF file (it begins with {magic!r}); give another file")
    version = cursor.scalar(4, "the version")
    if version not in (2, 3):
        raise CheckpointError(f"{cursor.path}: GGUF version {version} is not known; 2 and 3 are, both little-endian")
    tensors, keys = cursor.scalar(10, "the tensor count"), cursor.scalar(10, "the key count")
    # guard[gguf-counts]: the counts steer loops
    # mutant[gguf-counts/removed]:
    #   - if tensors > MAX_TENSORS or keys > MAX_KEYS:
    #   + if False:
    if tensors > MAX_TENSORS or keys > MAX_KEYS:
        cursor.fail(f"{tensors} tensors and {keys} keys are claimed (limits {MAX_TENSORS} and {MAX_KEYS})")
    return tensors, keys


def _record(cursor: Cursor) -> tuple[str, int, list[int], int]:
    """(name, type, dims as in the file, offset)."""
    name = cursor.string("a tensor's name")
    count = cursor.scalar(4, f"dimension count of {name[:60]!r}")
    # guard[gguf-dims]: a dimension count without bound is a loop without bound (llama.cpp#25401)
    # mutant[gguf-dims/removed]:
    #   - if not 1 <= count <= MAX_DIMS:
    #   + if False:
    if not 1 <= count <= MAX_DIMS:
        cursor.fail(f"tensor {name[:60]!r} has {count} dimensions")
    dims = [cursor.scalar(10, f"dimensions of {name[:60]!r}") for _ in range(count)]
    # guard[gguf-dim-zero]: an empty dimension makes any other one fit
    # mutant[gguf-dim-zero/removed]:
    #   - if 0 in dims:
    #   + if False:
    if 0 in dims:
        cursor.fail(f"tensor {name[:60]!r} has an empty dimension: {dims}")
    return name, cursor.scalar(4, f"type of {name[:60]!r}"), dims, cursor.scalar(10, f"offset of {name[:60]!r}")


def _alignment(cursor: Cursor, metadata: Mapping[str, Any]) -> int:
    value = metadata.get("general.alignment", 32)
    if not isinstance(value, int) or isinstance(value, bool) or not 8 <= value <= 1 << 16 or value & (value - 1):
        cursor.fail(f"general.alignment is {str(value)[:40]!r}; it must be a power of two from 8 to 65536")
    return int(value)


def _place(cursor: Cursor, records: list[tuple[str, int, list[int], int]], alignment: int) -> list[GGUFTensor]:
    """Tensors with their byte ranges. Data lies back to back, each start aligned; nothing overlaps, nothing hides."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    start = _round_up(cursor.at, alignment)
    tensors: list[GGUFTensor] = []
    names: set[str] = set()
    place = start
    for name, kind, dims, offset in sorted(records, key=lambda record: record[3]):
        if kind not in GGMLQuantizationType._value2member_map_:
            cursor.fail(f"tensor {name[:60]!r} has unknown type {kind}")
        dtype = GGMLQuantizationType(kind)
        block, block_bytes = GGML_QUANT_SIZES[dtype]
        if dims[0] % block:
            cursor.fail(
                f"tensor {name[:60]!r} has rows of {dims[0]}, which {dtype.name} blocks of {block} do not divide"
            )
        # guard[gguf-size]: Python integers do not wrap: dims whose product is small modulo 2**64 stay large
        # mutant[gguf-size/wraps]:
        #   - size = math.prod(dims) // block * block_bytes
        #   + size = math.prod(dims) % 2**64 // block * block_bytes
        size = math.prod(dims) // block * block_bytes
        begin = start + offset
        # guard[gguf-range]: tensors that overlap or leave the file are read as someone else's bytes
        # mutant[gguf-range/past-the-end]:
        #   - if begin != _round_up(place, alignment) or begin + size > cursor.size:
        #   + if begin != _round_up(place, alignment):
        # mutant[gguf-range/overlap]:
        #   - if begin != _round_up(place, alignment) or begin + size > cursor.size:
        #   + if begin + size > cursor.size:
        if begin != _round_up(place, alignment) or begin + size > cursor.size:
            cursor.fail(f"tensor {name[:60]!r} claims bytes {begin}..{begin + size} of a file of {cursor.size}")
        if name in names:
            cursor.fail(f"tensor {name[:60]!r} appears twice")
        names.add(name)
        place = begin + size
        tensors.append(GGUFTensor(name, dtype.name, tuple(reversed(dims)), begin, place))
    if cursor.size > _round_up(place, alignment):
        cursor.fail(f"{cursor.size - place} bytes after the last tensor belong to none")
    return tensors


def _round_up(place: int, alignment: int) -> int:
    return -(-place // alignment) * alignment
