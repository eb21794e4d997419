"""Raw kernels on a device, through CuPy's RawModule (NVRTC). The compiled text is kept on disk, keyed by source,
options, architecture and compiler version: by CuPy, or here where CuPy does not know the architecture (sm_90a)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cupy

from cuda_kernels.raw import nvrtc
from cuda_kernels.raw.driver import Launch
from cuda_kernels.raw.limits import FLAGS, Size
from cuda_kernels.raw.opt_in import OptIn
from cuda_kernels.raw.source import Source


class DeviceModule:
    """One translation unit compiled for the current device; launches go to CuPy's current stream."""

    def __init__(self, text: Source, defines: dict[str, int]) -> None:
        self._module = _compiled(text, defines)
        self._functions: dict[str, Any] = {}
        self._opt_in = OptIn()

    def prepare(
        self, entry: str, grid: Size, block: Size, shared: int, arrays: int, scalars: Sequence[Any], *, early: bool
    ) -> Callable[[Sequence[Any]], None]:
        """A launch that waits for its arrays. Errors of the launch raise there, those inside the kernel later."""
        function = self._functions.get(entry)
        if function is None:
            function = self._functions[entry] = self._module.get_function(entry)
        self._opt_in.ask(entry, function, shared)
        return Launch(function.kernel.ptr, grid, block, shared, arrays, scalars, early=early)


def _compiled(text: Source, defines: dict[str, int]) -> Any:
    arch = cupy.cuda.Device().compute_capability
    if nvrtc.target(defines, arch) == arch:
        options = (*FLAGS, *(f"-D{name}={value}" for name, value in defines.items()))
        return cupy.RawModule(code=text.text, options=options)
    return cupy.RawModule(path=str(nvrtc.machine_code(text, defines, int(arch))))
