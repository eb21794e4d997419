"""The text of raw kernels. Every lane (device, host build, NVRTC check, mutants) reads it here and nowhere else."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from cuda_kernels.errors import KernelUnavailable

ROOT = Path(__file__).resolve().parent.parent
OVERRIDE = "TEACHKV_KERNEL_OVERRIDE"  # "linear/raw_kernel.cu=/tmp/a.cu:common/mma.cuh=/tmp/b.cuh"

_INCLUDE = re.compile(r'^\s*#include\s+"((?!host/)[^"]+)"', re.M)
_KERNEL = re.compile(
    r'extern\s+"C"\s+__global__\s+void\s+(?:__launch_bounds__\(([^()]*(?:\([^()]*\)[^()]*)*)\)\s+)?(\w+)\s*\(([^)]*)\)'
)
_SCALARS = {"int": "i", "offset_t": "q", "float": "f", "unsigned": "I"}

_overrides: dict[str, str] = {}
_generation = 0


@dataclass(frozen=True)
class Parameter:
    """One kernel parameter: an array of `kind` (its element type as written), or a scalar (`code` as in struct)."""

    name: str
    kind: str
    code: str | None


@dataclass(frozen=True)
class Kernel:
    """An entry point as declared in the source."""

    name: str
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True)
class Source:
    """One translation unit: its flat text (includes pasted in) and the kernels it declares, under an #if or not."""

    path: str
    text: str
    kernels: dict[str, Kernel]


def override(path: str, text: str | None) -> None:
    """Serve `text` in place of one file (a mutant); None takes it back. The environment variable does the same."""
    global _generation
    _generation += 1
    if text is None:
        _overrides.pop(path, None)
    else:
        _overrides[path] = text


def generation() -> int:
    """Counts overrides: a kernel loaded under another number may have another text."""
    return _generation


def read(path: str) -> str:
    """The text of one file under cuda_kernels/, or of its stand-in."""
    if path in _overrides:
        return _overrides[path]
    for entry in os.environ.get(OVERRIDE, "").split(":"):
        name, _, stand_in = entry.partition("=")
        if name == path:
            return Path(stand_in).read_text()
    found = ROOT / path
    if not found.is_file():
        raise KernelUnavailable(f"kernel text {path!r} is not there; looked in {ROOT}")
    return found.read_text()


def load(path: str) -> Source:
    """Paste includes in place, with #line marks so that messages name the file that was written."""
    text = _flatten(path, ())
    kernels = {kernel.name: kernel for kernel in map(_parse, _KERNEL.finditer(text))}
    return Source(path, text, kernels)


def _flatten(path: str, above: tuple[str, ...]) -> str:
    """`path` with its includes in place, behind guards: an include may stand under an #if."""
    if path in above:
        raise KernelUnavailable(f"kernel text includes itself: {' -> '.join((*above, path))}")
    guard = "TKV_ONCE_" + re.sub(r"\W", "_", path)
    lines = [f"#ifndef {guard}", f"#define {guard}", f'#line 1 "{path}"']
    for number, line in enumerate(read(path).splitlines(), start=1):
        include = _INCLUDE.match(line)
        if include is None:
            lines.append(line)
        else:
            lines += [_flatten(include[1], (*above, path)), f'#line {number + 1} "{path}"']
    return "\n".join([*lines, "#endif"])


def _parse(match: re.Match[str]) -> Kernel:
    without_comments = re.sub(r"//[^\n]*", "", match[3])
    parameters = tuple(_parameter(part.strip()) for part in without_comments.split(",") if part.strip())
    return Kernel(match[2], parameters)


def _parameter(text: str) -> Parameter:
    array = re.fullmatch(r"(?:global|aliased)_ptr<(.+)>\s+(\w+)", text)
    if array is not None:
        return Parameter(array[2], array[1], None)
    scalar = re.fullmatch(r"(\w+)\s+(\w+)", text)
    if scalar is None or scalar[1] not in _SCALARS:
        raise KernelUnavailable(
            f"kernel parameter {text!r}: write global_ptr<T>, aliased_ptr<T> or one of {', '.join(_SCALARS)}"
        )
    return Parameter(scalar[2], scalar[1], _SCALARS[scalar[1]])
