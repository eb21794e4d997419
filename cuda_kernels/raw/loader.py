"""One way to launch a raw kernel: on a device through CuPy, on NumPy arrays through the host build.

    kernel = loader.kernel("rms_norm/raw_kernel.cu", "rms_norm", x, {"TKV_DTYPE": 1})
    kernel((T, 1, 1), (256, 1, 1), (x, weight, out, eps, K), shared=32)

Arguments are checked and cast against the signature written in the .cu file, so a Python 0.5 cannot arrive as a double
where the kernel reads a float. A grid with a zero launches nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from cuda_kernels.errors import KernelUnavailable
from cuda_kernels.raw import source
from cuda_kernels.raw.arrays import DTYPES, on_device
from cuda_kernels.raw.limits import EARLY_ARCH, SHARED_LIMIT, Size, check_shape

_SCALAR_TYPES = {"i": np.int32, "I": np.uint32, "q": np.int64, "f": np.float32}
_ELEMENT_TYPES = {"float": "float32", "int": "int32", "unsigned": "uint32", "offset_t": "int64", "double": "float64"}

Built = dict[tuple[Any, ...], "Loaded"]


class Backend(Protocol):
    """What runs a compiled kernel: cuda_kernels.raw.device or cuda_kernels.host."""

    def run(
        self, entry: str, grid: Size, block: Size, shared: int, arguments: Sequence[Any], early: bool = False
    ) -> None: ...


@dataclass(frozen=True)
class Loaded:
    """A kernel of one build, ready to launch."""

    declared: source.Kernel
    backend: Backend
    arch: int
    element: str

    def __call__(
        self, grid: Size, block: Size, arguments: Sequence[Any], *, shared: int = 0, early: bool = False
    ) -> None:
        """early: the kernel has a wait_for_previous() (common/chain.cuh) and may begin before the last one's end."""
        check_shape(self.declared.name, grid, block, shared, self.arch)
        ready = bind(self.declared, arguments, self.element)
        if 0 in grid:
            return
        self.backend.run(self.declared.name, grid, block, shared, ready, early and self.arch >= EARLY_ARCH)


def bind(declared: source.Kernel, arguments: Sequence[Any], element: str) -> list[Any]:
    """Check arrays, cast scalars. Raises TypeError or ValueError naming the kernel and the parameter."""
    if len(arguments) != len(declared.parameters):
        raise TypeError(f"{declared.name} takes {len(declared.parameters)} arguments, got {len(arguments)}")
    return [_one(declared.name, p, value, element) for p, value in zip(declared.parameters, arguments, strict=True)]


def _one(name: str, parameter: source.Parameter, value: Any, element: str) -> Any:
    if parameter.code is not None:
        # guard[scalar-type]: a Python number is passed as 64 bits; the kernel would read half of them
        # origin: cupy/cupy#8485
        # mutant[scalar-type/uncast]:
        #   - return _SCALAR_TYPES[parameter.code](value)
        #   + return value
        return _SCALAR_TYPES[parameter.code](value)
    if value is None:
        return None
    kind = parameter.kind.removeprefix("const ")
    wanted = element if kind == "Elem" else _ELEMENT_TYPES.get(kind)
    if wanted is not None and value.dtype.name != wanted:
        raise TypeError(f"{name}: {parameter.name} must be {wanted}, got {value.dtype}")
    if not value.flags.c_contiguous:
        raise ValueError(f"{name}: {parameter.name} must be C-contiguous; kernels do not see strides {value.strides}")
    return value


def arch_of(array: Any) -> int:
    """Compute capability times ten of the array's device; for NumPy, of the machine the host build plays (sm_90)."""
    if not on_device(array):
        from cuda_kernels.host.build import host_arch

        return host_arch()
    return _device_arch(sys.modules["cupy"].cuda.runtime.getDevice())


@lru_cache(maxsize=16)
def _device_arch(device: int) -> int:
    arch = int(sys.modules["cupy"].cuda.Device(device).compute_capability)
    known = [a for a in SHARED_LIMIT if a <= arch]
    if not known:
        raise KernelUnavailable(f"raw kernels need sm_75 or newer, this device is sm_{arch}")
    return max(known)


_cache: Built = {}


def kernel(path: str, entry: str, beside: Any, defines: Mapping[str, int]) -> Loaded:
    """The kernel `entry` of the file `path`, compiled with `defines` for the place where `beside` lives."""
    device, arch = on_device(beside), arch_of(beside)
    key = (path, entry, device, arch, tuple(defines.items()), source.generation())
    found = _cache.get(key)
    if found is None:
        found = _cache[key] = _load(path, entry, device, arch, dict(defines))
    return found


def _load(path: str, entry: str, device: bool, arch: int, defines: dict[str, int]) -> Loaded:
    text = source.load(path)
    if entry not in text.kernels:
        raise KernelUnavailable(f"{path} has no kernel {entry!r}; it has {', '.join(text.kernels)}")
    backend: Backend
    if device:
        from cuda_kernels.raw.device import DeviceModule

        backend = DeviceModule(text, defines)
    else:
        from cuda_kernels.host.module import HostModule

        backend = HostModule(text, defines)
    names = {code: name for name, code in DTYPES.items()}
    return Loaded(text.kernels[entry], backend, arch, names[defines.get("TKV_DTYPE", 0)])
