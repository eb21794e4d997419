"""Arguments of a launch, checked and cast against the signature that is written in the .cu file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cuda_kernels.raw.arrays import type_name
from cuda_kernels.raw.source import Kernel, Parameter

_SCALARS = {"i": np.int32, "I": np.uint32, "q": np.int64, "f": np.float32}
_ELEMENTS = {"float": "float32", "int": "int32", "unsigned": "uint32", "offset_t": "int64", "double": "float64"}


@dataclass(frozen=True, slots=True)
class Slot:
    """What one parameter takes: a number, cast to `scalar`, or an array of `element` (None: of any type) or None."""

    name: str
    scalar: Any
    element: str | None


def slots_of(declared: Kernel, element: str) -> tuple[Slot, ...]:
    """One slot per parameter; `element` is the type that Elem stands for in this build."""
    return tuple(
        Slot(p.name, None if p.code is None else _SCALARS[p.code], element_of(p, element)) for p in declared.parameters
    )


def element_of(parameter: Parameter, element: str) -> str | None:
    kind = parameter.kind.removeprefix("const ")
    return element if kind == "Elem" else _ELEMENTS.get(kind)


def bind(name: str, slots: Sequence[Slot], arguments: Sequence[Any]) -> list[Any]:
    """Check arrays, cast scalars. Raises TypeError or ValueError naming the kernel and the parameter."""
    if len(arguments) != len(slots):
        raise TypeError(f"{name} takes {len(slots)} arguments, got {len(arguments)}")
    ready = []
    for slot, value in zip(slots, arguments, strict=True):
        if slot.scalar is not None:
            # guard[scalar-type]: a Python number is passed as 64 bits; the kernel would read half of them
            # origin: cupy/cupy#8485
            # mutant[scalar-type/uncast]:
            #   - value = slot.scalar(value)
            #   + pass
            value = slot.scalar(value)
        elif value is not None:
            if slot.element is not None and type_name(value.dtype) != slot.element:
                raise TypeError(f"{name}: {slot.name} must be {slot.element}, got {value.dtype}")
            if not value.flags.c_contiguous:
                raise ValueError(
                    f"{name}: {slot.name} must be C-contiguous; kernels do not see strides {value.strides}"
                )
        ready.append(value)
    return ready
