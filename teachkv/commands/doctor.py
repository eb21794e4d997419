"""`teachkv doctor`: what this machine can run, what it cannot, and what to install for it. Changes nothing.

A browser is not needed for anything. A GPU is not needed either: without one the kernels run in Python and in C++, for
tiny shapes and tests.
"""

import argparse
import ctypes
import importlib
import platform
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from teachkv.commands.finding import CLASH, MISSING, OK, Finding
from teachkv.commands.parsing import Verbs
from teachkv.commands.surroundings import environment, hub, readers

# The linear layers of SmolLM2-135M, [N, K]: what a first model needs of the BLAS.
SHAPES = ((576, 576), (192, 576), (1536, 576), (576, 1536))
CUPY = ("cupy-cuda13x", "cupy-cuda12x", "cupy")
Installed = Callable[[str], str | None]


def add(verbs: Verbs) -> None:
    parser = verbs.add_parser("doctor", help="say what this machine can run", description=__doc__)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    for finding in examine():
        print(finding, flush=True)
    return 0


def examine() -> list[Finding]:
    """All findings, in the order of the report."""
    gpu = driver()
    found = [python(), blas(), invariance(), numba(installed, lambda: importlib.import_module("numba.cuda")), gpu]
    found += [cupy(installed, gpu), compiler(), nvrtc(), readers(installed), hub(installed), models(), environment()]
    return [*found, backends({finding.what: finding for finding in found})]


def installed(package: str) -> str | None:
    """The version of an installed package, without importing it."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def python() -> Finding:
    return Finding(OK, "Python", f"{platform.python_version()}, {platform.system()} {platform.machine()}")


def blas() -> Finding:
    import numpy as np

    config: dict[str, Any] = np.show_config(mode="dicts")  # type: ignore[assignment, call-overload, unused-ignore]
    library = config.get("Build Dependencies", {}).get("blas", {})
    return Finding(
        OK, "NumPy", f"{np.__version__}, BLAS {library.get('name', '?')} {library.get('version', '')}".strip()
    )


def invariance() -> Finding:
    """Which form of a product gives equal bits for every batch size here; found by trying, as a model's load does."""
    from cuda_kernels.registry import make_ops

    notes = "; ".join(make_ops("reference", shapes=SHAPES).notes)
    if "NOT invariant" in notes:
        return Finding(CLASH, "Invariance", notes, "install NumPy from PyPI, whose OpenBLAS is known to pass")
    return Finding(OK, "Invariance", f"equal bits in every batch: {notes}")


def numba(have: Installed, load: Callable[[], object]) -> Finding:
    """Numba with its CUDA part. `load` imports it, which is how a clash of versions shows."""
    plain, cuda, numpy = have("numba"), have("numba-cuda"), have("numpy") or "?"
    if plain is None or cuda is None:
        return Finding(MISSING, "Numba", "numba or numba-cuda is not installed", "pip install 'teachkv[simulator]'")
    versions = f"{plain}, numba-cuda {cuda}"
    try:
        load()
    except Exception as error:
        # guard[doctor-numpy-clash]: Numba's message names a missing NumPy function and no remedy
        # mutant[doctor-numpy-clash/any-numpy]:
        #   - if release(numpy) >= (2, 5):
        #   + if False:
        if release(numpy) >= (2, 5):
            why = f"{versions} cannot be imported beside NumPy {numpy}: it calls functions that NumPy 2.5 dropped"
            return Finding(CLASH, "Numba", why, "pip install 'numpy<2.5'")
        why = f"{versions} cannot be imported: {first_line(error)}"
        return Finding(CLASH, "Numba", why, "pip install --upgrade numba numba-cuda")
    return Finding(OK, "Numba", versions)


def release(text: str) -> tuple[int, ...]:
    """(major, minor) of a version; (0, 0) for one that has none."""
    parts = text.split(".")[:2]
    return tuple(int(part) for part in parts) if len(parts) == 2 and all(p.isdigit() for p in parts) else (0, 0)


def driver() -> Finding:
    """The NVIDIA driver and its first GPU, asked directly: no CUDA package is needed for that."""
    from cuda_kernels.common.device import driver as load

    cuda = load()
    if cuda is None:
        return Finding(MISSING, "GPU", "no NVIDIA driver; --backend reference runs on the CPU")
    supported, count = ctypes.c_int(), ctypes.c_int()
    cuda.cuDriverGetVersion(ctypes.byref(supported))
    status = cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count))
    if status != 0 or count.value == 0:
        return Finding(MISSING, "GPU", f"an NVIDIA driver without a usable GPU (status {status})")
    title = ctypes.create_string_buffer(128)
    cuda.cuDeviceGetName(title, len(title), 0)
    versions = f"CUDA {supported.value // 1000}.{supported.value % 1000 // 10}"
    return Finding(OK, "GPU", f"{count.value} x {title.value.decode()}, driver for {versions}")


def cupy(have: Installed, gpu: Finding) -> Finding:
    """CuPy holds the arrays of every GPU backend."""
    found = [(name, number) for name in CUPY if (number := have(name)) is not None]
    if len(found) > 1:
        names = " and ".join(name for name, _ in found)
        return Finding(
            CLASH, "CuPy", f"{names} are both installed and overwrite each other", f"pip uninstall {found[1][0]}"
        )
    if found:
        return Finding(OK, "CuPy", f"{found[0][1]} ({found[0][0]})")
    if gpu.state != OK:
        return Finding(MISSING, "CuPy", "not installed, and not needed without a GPU")
    extra = "cuda12" if "CUDA 12" in gpu.found else "cuda13"
    return Finding(MISSING, "CuPy", "not installed; the GPU cannot be used", f"pip install 'teachkv[{extra}]'")


def compiler() -> Finding:
    """What compiles the CUDA C++ kernels for the CPU."""
    from cuda_kernels.errors import KernelUnavailable
    from cuda_kernels.host.build import compiler as find

    try:
        return Finding(OK, "C++", f"{' '.join(find())}: raw kernels run on the CPU, for tiny shapes")
    except KernelUnavailable:
        return Finding(MISSING, "C++", "no compiler: raw kernels cannot run on the CPU", "pip install ziglang")


def nvrtc() -> Finding:
    """What compiles them for a GPU."""
    from cuda_kernels.errors import KernelUnavailable
    from cuda_kernels.raw.nvrtc import version as compiler_version

    try:
        return Finding(OK, "NVRTC", ".".join(map(str, compiler_version())))
    except KernelUnavailable:
        return Finding(MISSING, "NVRTC", "not installed; only the check of raw kernels needs it")


def models() -> Finding:
    """What `teachkv pull` has fetched."""
    from teachkv.checkpoint.cache import cache_root
    from teachkv.checkpoint.pull import KNOWN, cached_dir

    have = [name for name in KNOWN if cached_dir(name) is not None]
    builtin = "tiny and glass need no download"
    if not have:
        return Finding(MISSING, "Models", f"none in {cache_root()}; {builtin}", f"teachkv pull {next(iter(KNOWN))}")
    return Finding(OK, "Models", f"{', '.join(have)} in {cache_root()}; {builtin}")


def backends(found: dict[str, Finding]) -> Finding:
    """The sum of it: what --backend may be here."""
    on_gpu = found["GPU"].state == OK and found["CuPy"].state == OK
    numba_there = found["Numba"].state == OK
    if on_gpu:
        names = ["reference", "raw", *(["numba"] if numba_there else []), "auto"]
        return Finding(OK, "Backends", f"{', '.join(names)} (GPU)")
    small = [name for name, there in (("raw", found["C++"].state == OK), ("numba", numba_there)) if there]
    more = f"; for tiny shapes also {' and '.join(small)}" if small else ""
    return Finding(OK, "Backends", f"reference (CPU){more}")


def first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
