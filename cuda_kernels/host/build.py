"""Compiles a kernel's text for the CPU: system compiler, else the ziglang package; cached by a hash of it all."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import platformdirs

from cuda_kernels.errors import KernelUnavailable
from cuda_kernels.raw.source import Kernel, Source

HERE = Path(__file__).resolve().parent
FLAGS = (
    "-std=c++17",
    "-O1",
    "-g1",
    "-fPIC",
    "-ffp-contract=off",
    "-Wall",
    "-Wextra",
    "-Wno-unknown-pragmas",
    "-Wno-unused-function",
)
STRICT = ("-Werror=sign-compare", "-Werror=uninitialized", "-Werror=return-type")
VARIANTS = {
    "plain": (),
    "address": ("-fsanitize=address",),
    "undefined": ("-fsanitize=undefined", "-fno-sanitize-recover=all"),
    "thread": ("-fsanitize=thread",),
}
RUNTIME_DEFINES = {"thread": ("-DTKV_TSAN",), "address": ("-DTKV_ASAN",)}
CACHE = "TEACHKV_HOST_CACHE"
ARCH = "TEACHKV_HOST_ARCH"


def host_arch() -> int:
    """The architecture whose code path the host build takes: sm_90 unless TEACHKV_HOST_ARCH says otherwise."""
    return int(os.environ.get(ARCH, "90"))


@functools.cache
def compiler() -> tuple[str, ...]:
    """The command that compiles C++: $CXX, g++, clang++, c++, or `python -m ziglang c++`."""
    for name in (os.environ.get("CXX", ""), "g++", "clang++", "c++"):
        if name and shutil.which(name):
            return (name,)
    if importlib.util.find_spec("ziglang") is not None:
        return (sys.executable, "-m", "ziglang", "c++")
    raise KernelUnavailable("the host build needs a C++ compiler: install g++, or pip install ziglang")


@functools.cache
def _version() -> str:
    return subprocess.run((*compiler(), "--version"), capture_output=True, text=True, check=True).stdout


def cache_folder() -> Path:
    """Where compiled kernels are kept: $TEACHKV_HOST_CACHE or the user's cache folder."""
    return Path(os.environ.get(CACHE) or platformdirs.user_cache_path("teachkv") / "host")


def build(text: Source, entry: str, defines: dict[str, int], variant: str = "plain") -> Path:
    """A shared library (plain) or a program (sanitizers) that runs one kernel. Raises KernelUnavailable."""
    flags = [*FLAGS, *STRICT, *VARIANTS[variant], "-DTKV_HOST", f"-I{HERE.parent}"]
    flags += [f"-D{name}={value}" for name, value in defines.items()]
    unit = text.text + "\n" + _stub(text.kernels[entry])
    support = "".join(p.read_text() for p in sorted(HERE.iterdir()) if p.suffix in (".h", ".cpp"))
    key = hashlib.sha256("\0".join([unit, support, *flags, _version()]).encode()).hexdigest()[:32]
    target = cache_folder() / f"{entry}-{variant}-{key}{'.so' if variant == 'plain' else ''}"
    if not target.exists():
        _compile(unit, flags, _runtime(variant), target, shared=variant == "plain")
    return target


def _stub(kernel: Kernel) -> str:
    """C++ that unpacks Python's arguments and runs one kernel over a grid."""
    arrays, words = [], []
    for i, p in enumerate(kernel.parameters):
        if p.code is None:
            arrays.append(f'    const global_ptr<{p.kind}> a{i}(arguments[{i}], "{p.name}");')
        words.append(f"a{i}" if p.code is None else f"*static_cast<const {p.kind}*>(arguments[{i}].data)")
    return "\n".join(
        [
            f'extern "C" int host_run_{kernel.name}(const host::Argument* arguments, const host::Launch* launch) {{',
            *arrays,
            f"    auto body = [&] {{ {kernel.name}({', '.join(words)}); }};",
            "    return host::run([](void* closure) { (*static_cast<decltype(body)*>(closure))(); }, &body, *launch);",
            "}",
        ]
    )


@functools.cache
def _runtime(variant: str) -> tuple[Path, ...]:
    """The runtime (and, for sanitizers, the program's main) as object files, never instrumented."""
    sources = ["runtime.cpp"] + ([] if variant == "plain" else ["child_main.cpp"])
    objects = []
    for name in sources:
        text = (HERE / name).read_text() + (HERE / "runtime.h").read_text() + _version()
        target = cache_folder() / f"{name}-{variant}-{hashlib.sha256(text.encode()).hexdigest()[:32]}.o"
        if not target.exists():
            flags = ("-std=c++17", "-O1", "-g1", "-fPIC", f"-I{HERE.parent}", *RUNTIME_DEFINES.get(variant, ()))
            _call([*compiler(), *flags, "-c", str(HERE / name)], target)
        objects.append(target)
    return tuple(objects)


def _compile(unit: str, flags: list[str], objects: tuple[Path, ...], target: Path, *, shared: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cpp"
        file.write_text(unit)
        link = ["-shared"] if shared else ["-rdynamic", "-ldl"]
        _call([*compiler(), *flags, str(file), *map(str, objects), *link], target)


def _call(command: list[str], target: Path) -> None:
    """Compile to a private name, then move into place: two processes may build the same kernel."""
    target.parent.mkdir(parents=True, exist_ok=True)
    private = target.with_name(f"{target.name}.{os.getpid()}")
    done = subprocess.run([*command, "-o", str(private)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise KernelUnavailable(f"the host build did not compile:\n{done.stderr[-4000:]}")
    os.replace(private, target)
