"""One way to launch a raw kernel: on a device through CuPy, on NumPy arrays through the host build.

    kernel = loader.kernel("rms_norm/raw_kernel.cu", "rms_norm", loader.place_of(x), {"TKV_DTYPE": 1})
    kernel((T, 1, 1), (256, 1, 1), (x, weight, out, eps, K), shared=32)

Arguments are checked and cast against the signature written in the .cu file, so a Python 0.5 cannot arrive as a double
where the kernel reads a float. A grid with a zero launches nothing.

A prefill asks for the same few launches layer after layer, and Python takes longer over each than the GPU. What does
not depend on the arrays is therefore made once, by a function of numbers and a Place that is `remembered`:

    kernel.launch((T, 1, 1), (256, 1, 1), (eps, K), shared=32)      a Launch
    launch(x, weight, out)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from cuda_kernels.errors import KernelUnavailable
from cuda_kernels.raw import source
from cuda_kernels.raw.arrays import DTYPES, on_device
from cuda_kernels.raw.binding import Signature, cast_scalars, check_arrays, signature_of
from cuda_kernels.raw.limits import EARLY_ARCH, SHARED_LIMIT, Size, check_shape

Run = Callable[[Sequence[Any]], None]
remembered = lru_cache(maxsize=4096)  # of launches: a few for each number of tokens in a step


class Place(NamedTuple):
    """Where a kernel runs, and which text it has: all that a launch depends on besides its numbers.

    device: CUDA's number; None for the host build. arch: compute capability times ten. generation: as in source.
    """

    device: int | None
    arch: int
    generation: int


class Backend(Protocol):
    """What runs a compiled kernel: cuda_kernels.raw.device or cuda_kernels.host."""

    def prepare(
        self, entry: str, grid: Size, block: Size, shared: int, arrays: int, scalars: Sequence[Any], *, early: bool
    ) -> Run: ...


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel with its grid, block, shared memory and scalars, checked. run: None where nothing is to be launched."""

    signature: Signature
    run: Run | None

    def __call__(self, *arrays: Any) -> None:
        """Check the arrays and launch."""
        check_arrays(self.signature, arrays)
        if self.run is not None:
            self.run(arrays)


@dataclass(frozen=True)
class Loaded:
    """A kernel of one build."""

    signature: Signature
    backend: Backend
    arch: int

    def launch(
        self, grid: Size, block: Size, scalars: Sequence[Any], *, shared: int = 0, early: bool = False
    ) -> Launch:
        """early: the kernel has a wait_for_previous() (common/chain.cuh) and may begin before the last one's end."""
        name, count = self.signature.name, len(self.signature.arrays)
        check_shape(name, grid, block, shared, self.arch)
        typed = cast_scalars(self.signature, scalars)
        if 0 in grid:
            return Launch(self.signature, None)
        early = early and self.arch >= EARLY_ARCH
        return Launch(self.signature, self.backend.prepare(name, grid, block, shared, count, typed, early=early))

    def __call__(
        self, grid: Size, block: Size, arguments: Sequence[Any], *, shared: int = 0, early: bool = False
    ) -> None:
        """Launch once: for scalars that are others each time."""
        count, wanted = len(self.signature.arrays), len(self.signature.arrays) + len(self.signature.scalars)
        if len(arguments) != wanted:
            raise TypeError(f"{self.signature.name} takes {wanted} arguments, got {len(arguments)}")
        self.launch(grid, block, arguments[count:], shared=shared, early=early)(*arguments[:count])


def place_of(array: Any) -> Place:
    """Where the kernels for this array run; for NumPy, on the machine the host build plays (sm_90)."""
    if not on_device(array):
        from cuda_kernels.host.build import host_arch

        return _host(host_arch(), source.generation())
    return _device(sys.modules["cupy"].cuda.runtime.getDevice(), source.generation())


def arch_of(array: Any) -> int:
    """Compute capability times ten of the place of this array."""
    return place_of(array).arch


@lru_cache(maxsize=16)
def _host(arch: int, generation: int) -> Place:
    return Place(None, arch, generation)


@lru_cache(maxsize=16)
def _device(device: int, generation: int) -> Place:
    arch = int(sys.modules["cupy"].cuda.Device(device).compute_capability)
    known = [a for a in SHARED_LIMIT if a <= arch]
    if not known:
        raise KernelUnavailable(f"raw kernels need sm_75 or newer, this device is sm_{arch}")
    return Place(device, max(known), generation)


_cache: dict[tuple[Any, ...], Loaded] = {}


def kernel(path: str, entry: str, place: Place, defines: Mapping[str, int]) -> Loaded:
    """The kernel `entry` of the file `path`, compiled with `defines`. On a device: the current one is the place."""
    key = (path, entry, place, tuple(defines.items()))
    found = _cache.get(key)
    if found is None:
        found = _cache[key] = _load(path, entry, place, dict(defines))
    return found


def _load(path: str, entry: str, place: Place, defines: dict[str, int]) -> Loaded:
    text = source.load(path)
    if entry not in text.kernels:
        raise KernelUnavailable(f"{path} has no kernel {entry!r}; it has {', '.join(text.kernels)}")
    backend: Backend
    if place.device is not None:
        from cuda_kernels.raw.device import DeviceModule

        backend = DeviceModule(text, defines)
    else:
        from cuda_kernels.host.module import HostModule

        backend = HostModule(text, defines)
    names = {code: name for name, code in DTYPES.items()}
    return Loaded(signature_of(text.kernels[entry], names[defines.get("TKV_DTYPE", 0)]), backend, place.arch)
