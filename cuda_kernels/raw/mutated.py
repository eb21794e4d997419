"""Kernel text under another wording of one of its files, compiled to PTX: does it compile, is it the same kernel?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from cuda_kernels.raw import nvrtc, source
from cuda_kernels.raw.builds import Build, builds

ARCHS = (90, 75)


@cache
def builds_with(path: str) -> tuple[tuple[int, Build], ...]:
    """(architecture, build) of every translation unit that contains the file, the usual shapes first."""
    found: dict[tuple[int, Build], None] = {}
    for full in (False, True):
        for arch in ARCHS:
            for build in builds(arch, full=full):
                if f'#line 1 "{path}"' in source.load(build.path).text:
                    found.setdefault((arch, build))
    return tuple(found)


@cache
def _original(arch: int, build: Build) -> str:
    return nvrtc.ptx(source.load(build.path), dict(build.defines), arch)


def differing(path: str, text: str) -> Iterator[bool]:
    """For each build with the file: whether its PTX differs when the file says `text`.

    Raises CompileError where `text` does not compile, KernelUnavailable where there is no NVRTC.
    """
    for arch, build in builds_with(path):
        before = _original(arch, build)
        source.override(path, text)
        try:
            yield nvrtc.ptx(source.load(build.path), dict(build.defines), arch) != before
        finally:
            source.override(path, None)
