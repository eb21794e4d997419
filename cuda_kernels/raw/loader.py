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

from cuda_kernels.errors import KernelUnavailable
from cuda_kernels.raw import source
from cuda_kernels.raw.arrays import DTYPES, on_device
from cuda_kernels.raw.binding import Slot, bind, slots_of
from cuda_kernels.raw.limits import EARLY_ARCH, SHARED_LIMIT, Size, check_shape

Built = dict[tuple[Any, ...], "Loaded"]


class Backend(Protocol):
    """What runs a compiled kernel: cuda_kernels.raw.device or cuda_kernels.host."""

    def run(
        self, entry: str, grid: Size, block: Size, shared: int, arguments: Sequence[Any], early: bool = False
    ) -> None: ...


@dataclass(frozen=True)
class Loaded:
    """A kernel of one build, ready to launch."""

    name: str
    slots: tuple[Slot, ...]
    backend: Backend
    arch: int

    def __call__(
        self, grid: Size, block: Size, arguments: Sequence[Any], *, shared: int = 0, early: bool = False
    ) -> None:
        """early: the kernel has a wait_for_previous() (common/chain.cuh) and may begin before the last one's end."""
        check_shape(self.name, grid, block, shared, self.arch)
        ready = bind(self.name, self.slots, arguments)
        if 0 in grid:
            return
        self.backend.run(self.name, grid, block, shared, ready, early and self.arch >= EARLY_ARCH)


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
    return Loaded(entry, slots_of(text.kernels[entry], names[defines.get("TKV_DTYPE", 0)]), backend, arch)
