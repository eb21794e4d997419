"""Views into a memory-mapped file. Float32 is not copied: pages are read when first used and stay the kernel's."""

import mmap
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from teachkv.checkpoint.header import Entry
from teachkv.errors import CheckpointError
from teachkv.weights import Array


class MappedFile:
    """A file mapped read-only for as long as any array made from it lives."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self.buffer = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as problem:
            raise CheckpointError(f"{path}: cannot be mapped ({problem}); check the file") from None

    def raw(self, begin: int, end: int) -> NDArray[np.uint8]:
        """Bytes [begin, end) as a read-only view."""
        return np.frombuffer(self.buffer, np.uint8, count=end - begin, offset=begin)

    def tensor(self, entry: Entry) -> tuple[Array, bool]:
        """(float32 array, copied): a view where the file holds aligned float32, else a widened copy."""
        data = self.raw(entry.begin, entry.end)
        if entry.dtype == "F32":
            floats = data.view("<f4") if entry.begin % 4 == 0 else np.frombuffer(data.tobytes(), "<f4")
            return floats.reshape(entry.shape), entry.begin % 4 != 0
        if entry.dtype == "F16":
            return np.frombuffer(data, "<f2").astype(np.float32).reshape(entry.shape), True
        if entry.dtype == "BF16":
            return widen_bf16(np.frombuffer(data, "<u2")).reshape(entry.shape), True
        raise AssertionError(f"{self.path}: {entry.name} is {entry.dtype}, which the assembly lets through")


def widen_bf16(bits: NDArray[np.uint16]) -> Array:
    """bfloat16 bit patterns to float32, exactly: the upper half of a float32 is a bfloat16."""
    # guard[bf16-widen]: NumPy has no bfloat16; as float16 or int16 the bits are other numbers (safetensors#598)
    # mutant[bf16-widen/as-float16]:
    #   - return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    #   + return bits.view(np.float16).astype(np.float32)
    # mutant[bf16-widen/as-integer]:
    #   - return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    #   + return bits.view(np.int16).astype(np.float32)
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def narrow_bf16(values: Array) -> NDArray[np.uint16]:
    """float32 to bfloat16 bit patterns, round to nearest even; NaN stays NaN, with its sign."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    with np.errstate(over="ignore"):
        rounded = (bits + np.uint32(0x7FFF) + odd) >> np.uint32(16)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)  # rounding a NaN could carry into infinity
    return np.where(np.isnan(values).reshape(bits.shape), quiet, rounded).astype(np.uint16)
