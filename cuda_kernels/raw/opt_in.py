"""Dynamic shared memory above 48 KiB: a launch that asks for it is refused unless the function was told before."""

from __future__ import annotations

from typing import Protocol

DEFAULT_SHARED = 48 * 1024  # bytes every function may use (CUDA C++ Programming Guide, "Shared Memory")


class Function(Protocol):
    """What CuPy gives for a kernel: setting the attribute calls cuFuncSetAttribute."""

    max_dynamic_shared_size_bytes: int


class OptIn:
    """Remembers what each entry of a module was told, so that a launch costs one look-up."""

    def __init__(self) -> None:
        self._allowed: dict[str, int] = {}

    def ask(self, entry: str, function: Function, shared: int) -> None:
        """Before a launch of `entry` with `shared` bytes."""
        # guard[shared-opt-in]: more than 48 KiB is refused unless asked for first
        # origin: cupy/cupy#2118
        # mutant[shared-opt-in/never]:
        #   - if shared > self._allowed.get(entry, DEFAULT_SHARED):
        #   + if not entry:
        # mutant[shared-opt-in/one-for-all]:
        #   - if shared > self._allowed.get(entry, DEFAULT_SHARED):
        #   + if shared > max(self._allowed.values(), default=DEFAULT_SHARED):
        if shared > self._allowed.get(entry, DEFAULT_SHARED):
            function.max_dynamic_shared_size_bytes = shared
            self._allowed[entry] = shared
