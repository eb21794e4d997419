"""Arguments of a launch, checked and cast against the signature in the .cu file: arrays first, scalars behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cuda_kernels.errors import KernelUnavailable
from cuda_kernels.raw.arrays import type_name
from cuda_kernels.raw.source import Kernel, Parameter

_SCALARS: dict[str, Any] = {"i": np.int32, "I": np.uint32, "q": np.int64, "f": np.float32}
_ELEMENTS = {"float": "float32", "int": "int32", "unsigned": "uint32", "offset_t": "int64", "double": "float64"}


@dataclass(frozen=True, slots=True)
class ArraySlot:
    """A parameter that takes an array of `element` (None: of any type), or None."""

    name: str
    element: str | None


@dataclass(frozen=True, slots=True)
class ScalarSlot:
    """A parameter that takes a number, cast to `scalar`."""

    name: str
    scalar: Any


@dataclass(frozen=True, slots=True)
class Signature:
    """What a kernel takes."""

    name: str
    arrays: tuple[ArraySlot, ...]
    scalars: tuple[ScalarSlot, ...]


def signature_of(declared: Kernel, element: str) -> Signature:
    """`element`: the type that Elem stands for in this build. Raises KernelUnavailable for an array after a scalar."""
    arrays = tuple(ArraySlot(p.name, _element_of(p, element)) for p in declared.parameters if p.code is None)
    scalars = tuple(ScalarSlot(p.name, _SCALARS[p.code]) for p in declared.parameters if p.code is not None)
    if any(p.code is not None for p in declared.parameters[: len(arrays)]):
        raise KernelUnavailable(f"kernel {declared.name!r}: write its arrays before its scalars")
    return Signature(declared.name, arrays, scalars)


def _element_of(parameter: Parameter, element: str) -> str | None:
    kind = parameter.kind.removeprefix("const ")
    return element if kind == "Elem" else _ELEMENTS.get(kind)


def cast_scalars(signature: Signature, scalars: Sequence[Any]) -> list[Any]:
    """Each number as the type its parameter declares. Raises TypeError for a wrong count, OverflowError."""
    if len(scalars) != len(signature.scalars):
        raise TypeError(f"{signature.name} takes {len(signature.scalars)} scalars, got {len(scalars)}")
    ready = []
    for slot, value in zip(signature.scalars, scalars, strict=True):
        # guard[scalar-type]: a Python number is passed as 64 bits; the kernel would read half of them
        # origin: cupy/cupy#8485
        # mutant[scalar-type/uncast]:
        #   - value = slot.scalar(value)
        #   + pass
        value = slot.scalar(value)
        ready.append(value)
    return ready


def check_arrays(signature: Signature, arrays: Sequence[Any]) -> None:
    """Raises TypeError or ValueError naming the kernel and the parameter."""
    if len(arrays) != len(signature.arrays):
        raise TypeError(f"{signature.name} takes {len(signature.arrays)} arrays, got {len(arrays)}")
    for slot, array in zip(signature.arrays, arrays, strict=True):
        if array is None:
            continue
        if slot.element is not None and type_name(array.dtype) != slot.element:
            raise TypeError(f"{signature.name}: {slot.name} must be {slot.element}, got {array.dtype}")
        if not array.flags.c_contiguous:
            raise ValueError(
                f"{signature.name}: {slot.name} must be C-contiguous; kernels do not see strides {array.strides}"
            )
