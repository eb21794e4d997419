"""Compiles kernel text without a GPU: NVRTC through ctypes (wheel nvidia-cuda-nvrtc), down to machine code.

The compiler's own report gives registers, spills and shared memory of every kernel.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.util
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from cuda_kernels.errors import KernelUnavailable
from cuda_kernels.raw.limits import FLAGS
from cuda_kernels.raw.source import Source

_FUNCTION = re.compile(r"Compiling entry function '(\w+)' for 'sm_(\d+)\w*'")
_SPILL = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")


@dataclass(frozen=True)
class Resources:
    """What one kernel needs per thread: registers, and bytes that did not fit into them."""

    registers: int
    stack: int
    spill_stores: int
    spill_loads: int


class CompileError(KernelUnavailable):
    """The compiler refused the text; the message is its log."""


@functools.cache
def library() -> ctypes.CDLL:
    """NVRTC from the nvidia-cuda-nvrtc wheel, or from the system. Raises KernelUnavailable where there is none."""
    for path in _candidates():
        try:
            for builtins in Path(path).parent.glob("libnvrtc-builtins.so.*") if isinstance(path, Path) else ():
                ctypes.CDLL(str(builtins), ctypes.RTLD_GLOBAL)  # NVRTC looks for it by name, not in its own folder
            return ctypes.CDLL(str(path))
        except OSError:
            continue
    raise KernelUnavailable("NVRTC is not installed: pip install nvidia-cuda-nvrtc")


def _candidates() -> list[Path | str]:
    found: list[Path | str] = []
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations or () if spec else ():
        found += sorted(p for p in Path(folder).rglob("libnvrtc.so.*"))
    return [*found, "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]


@functools.cache
def version() -> tuple[int, int]:
    """NVRTC's version, part of every cache key and of the recorded table."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


def target(defines: dict[str, int], arch: int) -> str:
    """What the compiler calls sm_<arch>. Warpgroup steps exist in one architecture only; an 'a' asks for them."""
    return f"{arch}a" if defines.get("TKV_WGMMA") else str(arch)


def compile_text(source: Source, defines: dict[str, int], arch: int) -> dict[str, Resources]:
    """Resources of every kernel in the text for sm_<arch>. Raises CompileError with the log."""
    log = _compile(source, defines, (f"-arch=sm_{target(defines, arch)}", "--ptxas-options=-v"), None)[1]
    return parse_report(log)


def ptx(source: Source, defines: dict[str, int], arch: int) -> str:
    """The text in PTX: two equal ones are the same kernel (an equivalent mutant)."""
    program = _compile(source, defines, (f"-arch=compute_{target(defines, arch)}",), "PTX")[0].rstrip(b"\0").decode()
    return program.split("\n", 12)[-1] if program.startswith("//") else program


def machine_code(source: Source, defines: dict[str, int], arch: int) -> Path:
    """A file with the text's machine code for sm_<arch>, kept in the user's cache folder."""
    options = (f"-arch=sm_{target(defines, arch)}",)
    key = "\0".join([source.text, *_words(defines, options), *map(str, version())])
    file = platformdirs.user_cache_path("teachkv") / "nvrtc" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.cubin"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as fresh:
            fresh.write(_compile(source, defines, options, "CUBIN")[0])
        Path(fresh.name).replace(file)  # whole or not there, whoever else compiles it meanwhile
    return file


def parse_report(log: str) -> dict[str, Resources]:
    """Kernel name -> resources, from the assembler's verbose report."""
    table, name, spills = {}, "", (0, 0, 0)
    for line in log.splitlines():
        if entry := _FUNCTION.search(line):
            name = entry[1]
        elif spill := _SPILL.search(line):
            spills = (int(spill[1]), int(spill[2]), int(spill[3]))
        elif (used := _USED.search(line)) and name:
            table[name] = Resources(int(used[1]), *spills)
            name = ""
    return table


def _words(defines: dict[str, int], options: tuple[str, ...]) -> list[str]:
    """-default-device as CuPy has it: before 13.1 a generic lambda counts as a function of the host without it."""
    return [*FLAGS, "-default-device", *options, *(f"-D{name}={value}" for name, value in defines.items())]


def _compile(
    source: Source, defines: dict[str, int], options: tuple[str, ...], wanted: str | None
) -> tuple[bytes, str]:
    """What is `wanted` (PTX, CUBIN or nothing), and the compiler's log."""
    nvrtc, program = library(), ctypes.c_void_p()
    words = _words(defines, options)
    raw = (ctypes.c_char_p * len(words))(*(word.encode() for word in words))
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.text.encode(), source.path.encode(), 0, None, None)
    try:
        status = nvrtc.nvrtcCompileProgram(program, len(words), raw)
        log = _fetch(program, "ProgramLog").rstrip(b"\0").decode()
        if status != 0:
            raise CompileError(f"{source.path} with {defines} does not compile:\n{log}")
        return (_fetch(program, wanted) if wanted else b""), log
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _fetch(program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    getattr(library(), f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    getattr(library(), f"nvrtcGet{what}")(program, buffer)
    return buffer.raw
