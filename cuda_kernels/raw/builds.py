"""The builds that are compiled without a GPU: every raw kernel, per architecture, dtype and tuned shape.

    python -m cuda_kernels.raw.builds --write      record registers and spills in docs/evidence/kernel-resources.json

A `// registers: spills N` line in the .cu file declares how many bytes of spills are accepted; more is an error.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cuda_kernels.fused import defines, sizes
from cuda_kernels.raw import nvrtc, source
from cuda_kernels.raw.attention import decode_segments, fits, prefill_shared
from cuda_kernels.raw.product import MMA_ARCH
from cuda_kernels.raw.tiles import LARGE, NARROW, SMALL, SQUARE, WARPGROUP_ARCH, WIDE, Tile

ARCHS = (75, 80, 90, 120)
RECORD = Path(__file__).resolve().parents[2] / "docs" / "evidence" / "kernel-resources.json"
_DECLARED = re.compile(r"^// registers: spills (\d+)", re.M)
Defines = dict[str, int]


@dataclass(frozen=True)
class Build:
    """One translation unit with the defines a launcher gives it."""

    path: str
    defines: tuple[tuple[str, int], ...]

    @property
    def name(self) -> str:
        """A readable key for the record."""
        short = " ".join(f"{key.removeprefix('TKV_').lower()}={value}" for key, value in self.defines)
        return f"{self.path.split('/')[0]} {short}"


def builds(arch: int, *, full: bool = True) -> Iterator[Build]:
    """Every build of the record for one architecture; with full=False the shapes most runs use."""
    for dtype in (0, 1, 2) if full else (2,):
        for op in (
            "embed",
            "rms_norm",
            "qk_norm",
            "rope_and_append",
            "kv_align",
            "kv_strip",
            "kv_gather",
            "kv_scatter",
        ):
            common = {"TKV_DTYPE": dtype, "TKV_VEC": 4, "TKV_THREADS": 256, "TKV_D": 64, "TKV_ROWS": 0}
            yield _build(op, common | {"TKV_COPY": 4 if dtype == 0 else 8})
        yield from _products(dtype, arch)
        for head_dim in (64, 128, 256) if full else (64,):
            yield from attention(dtype, head_dim, arch)
        yield from _fused(dtype, arch)
    yield _build("sample", {"TKV_DTYPE": 0, "TKV_THREADS": 1024})


def _build(op: str, defines: Defines) -> Build:
    return Build(f"{op}/raw_kernel.cu", tuple(defines.items()))


def _products(dtype: int, arch: int) -> Iterator[Build]:
    for op, wide in (("linear", 0), ("lm_head", 1)):
        base = {"TKV_DTYPE": dtype, "TKV_OUT_F32": wide}
        if dtype == 0 or arch < MMA_ARCH:
            yield _build(op, base | {"TKV_PATH": 0})
            continue
        yield _build(op, base | {"TKV_PATH": 1})
        large = (LARGE, *warpgroup_tiles(arch))
        for tile, split in ((NARROW, 1), (SMALL, 0), (SMALL, 1), *((tile, 0) for tile in large)):
            yield _build(op, base | {"TKV_PATH": 2, "TKV_SPLIT": split, "TKV_PAIRS": 1} | tile.defines)


def warpgroup_tiles(arch: int) -> tuple[Tile, ...]:
    """The tiles that only this architecture can multiply."""
    return (SQUARE, WIDE) if arch == WARPGROUP_ARCH else ()


def attention(dtype: int, head_dim: int, arch: int) -> Iterator[Build]:
    """Both attention kernels of a head dim, as they are launched."""
    base = {"TKV_DTYPE": dtype, "TKV_D": head_dim}
    chosen = prefill_shared(head_dim, arch)
    if dtype == 0 or arch < MMA_ARCH or chosen is None or not fits(head_dim, arch):
        for op in ("attention_decode_ragged", "attention_prefill"):
            yield _build(op, base | {"TKV_PATH": 0})
        return
    blocks = {"TKV_PATH": 1, "TKV_BLOCKS": 2 if head_dim <= 128 else 1}
    yield _build("attention_decode_ragged", base | blocks | {"TKV_SEGMENTS": decode_segments(head_dim, arch)})
    yield _build("attention_prefill", base | blocks | {"TKV_STAGES": chosen[0]})


def _fused(dtype: int, arch: int) -> Iterator[Build]:
    """The fused kernels at the shape of Qwen2.5-0.5B, for few rows and more; none where the model would stay plain."""
    hidden, width, vocabulary, heads = 896, 4864, 151936, (14, 2, 64)
    if dtype == 0 or arch < MMA_ARCH:
        return
    for tile in warpgroup_tiles(arch):
        for height in {tile.bm, tile.bn}:
            yield Build("fused/panels_kernel.cu", (("TKV_DTYPE", dtype), ("TKV_ROWS", height)))
    for tile in (NARROW, SMALL, LARGE, *warpgroup_tiles(arch)):
        for height in (0, tile.bm) if tile.warpgroups else (0,):
            built = defines.gate_up_tiles(dtype, width, tile, height)
            yield Build("fused/gate_up_tiles_kernel.cu", tuple(built.items()))
    if sizes.refusal(hidden, width, vocabulary, heads, arch) is not None:
        return
    for rows in (8, 16, 32):
        found = {
            "qkv": defines.qkv(dtype, hidden, heads, sizes.qkv(hidden, heads, rows, arch)),
            "gate_up": defines.gate_up(dtype, hidden, width, sizes.gate_up(hidden, width, rows, arch)),
            "add": defines.add(dtype, width, hidden, sizes.add(width, hidden, rows)),
            "head": defines.head(dtype, hidden, sizes.head(hidden, rows, arch)),
        }
        for name, built in found.items():
            yield Build(f"fused/{name}_kernel.cu", tuple(built.items()))


def spills_allowed(path: str) -> int:
    """Bytes of spills the .cu file's header line accepts."""
    declared = _DECLARED.search(source.read(path))
    if declared is None:
        raise nvrtc.CompileError(f"{path}: no '// registers: spills N' line in its header")
    return int(declared[1])


def compile_all(arch: int, *, full: bool = True) -> dict[str, dict[str, int]]:
    """'kernel | build' -> registers, spills. Raises CompileError for a text that fails or spills too much."""
    table: dict[str, dict[str, int]] = {}
    for build in builds(arch, full=full):
        found = nvrtc.compile_text(source.load(build.path), dict(build.defines), arch)
        for kernel, needs in found.items():
            spills = max(needs.spill_stores, needs.spill_loads)
            allowed = spills_allowed(build.path)
            if spills > allowed:
                what = f"{kernel} ({build.name}) for sm_{arch} spills {spills} bytes"
                raise nvrtc.CompileError(f"{what}; its header accepts {allowed}")
            table[f"{kernel} | {build.name}"] = {"registers": needs.registers, "spills": spills}
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="record the table")
    parser.add_argument("--quick", action="store_true", help="one dtype and head dim")
    options = parser.parse_args()
    table = {f"sm_{arch}": compile_all(arch, full=not options.quick) for arch in ARCHS}
    record = {"nvrtc": ".".join(map(str, nvrtc.version())), "kernels": table}
    if options.write:
        RECORD.parent.mkdir(parents=True, exist_ok=True)
        RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
