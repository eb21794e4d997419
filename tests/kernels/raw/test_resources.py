"""Every raw kernel compiles for every architecture without a GPU, spills no more than it says, and as recorded."""

from __future__ import annotations

import json

import numpy as np
import pytest

from cuda_kernels.errors import KernelUnavailable
from cuda_kernels.raw import builds, nvrtc, source
from cuda_kernels.raw.tiles import SMALL
from tests.kernels.raw.cases import DTYPES
from tests.kernels.raw.probes import steps_of_attention


def have_nvrtc() -> bool:
    try:
        nvrtc.library()
    except KernelUnavailable:
        return False
    return True


needs_nvrtc = pytest.mark.skipif(not have_nvrtc(), reason="needs NVRTC: pip install nvidia-cuda-nvrtc")


def compare(table: dict[str, dict[str, int]], arch: int) -> None:
    """Equal to the record, if this compiler made it. To accept: python -m cuda_kernels.raw.builds --write"""
    record = json.loads(builds.RECORD.read_text())
    known = record["kernels"][f"sm_{arch}"]
    assert set(table) <= set(known)
    if record["nvrtc"] == ".".join(map(str, nvrtc.version())):
        assert {name: known[name] for name in table} == table


@needs_nvrtc
@pytest.mark.parametrize("arch", builds.ARCHS)
def test_the_usual_shapes_compile_and_need_what_is_recorded(arch: int) -> None:
    compare(builds.compile_all(arch, full=False), arch)


@needs_nvrtc
@pytest.mark.slow
@pytest.mark.parametrize("arch", builds.ARCHS)
def test_all_shapes_compile_and_need_what_is_recorded(arch: int) -> None:
    table = builds.compile_all(arch)
    compare(table, arch)
    assert set(table) == set(json.loads(builds.RECORD.read_text())["kernels"][f"sm_{arch}"])


@needs_nvrtc
def test_text_that_does_not_compile_and_spills_beyond_the_header_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = source.Source("x.cu", 'extern "C" __global__ void broken() { not_there(); }', {})
    with pytest.raises(nvrtc.CompileError, match="not_there"):
        nvrtc.compile_text(broken, {}, 90)
    monkeypatch.setattr(nvrtc, "compile_text", lambda *_: {"embed": nvrtc.Resources(32, 8, 8, 8)})
    with pytest.raises(nvrtc.CompileError, match="spills 8 bytes; its header accepts 0"):
        builds.compile_all(90, full=False)


@needs_nvrtc
def test_equal_meaning_is_equal_ptx() -> None:
    text = 'extern "C" __global__ void k(int* x, int n) { x[0] = %s; }'
    programs = [nvrtc.ptx(source.Source("toy.cu", text % value, {}), {}, 90) for value in ("n + 1", "1 + n", "n + 2")]
    assert programs[0] == programs[1] != programs[2]


def test_the_report_of_the_assembler_is_read_line_by_line() -> None:
    log = (
        "ptxas info    : Compiling entry function 'a' for 'sm_90a'\nptxas info    : Function properties for a\n"
        "    48 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads\n"
        "ptxas info    : Used 40 registers, used 1 barriers"
    )
    assert nvrtc.parse_report(log) == {"a": nvrtc.Resources(40, 48, 16, 24)}


@pytest.mark.case("cupy/cupy#7527")
def test_both_sixteen_bit_types_round_like_numpy_for_every_pattern() -> None:
    """cupy#7527: conversions differ by library. Here all 65536 patterns, and floats around each rounding boundary."""
    from cuda_kernels.registry import get

    for dtype in ("float16", "bfloat16"):
        every = np.arange(65536, dtype=np.uint16).view(DTYPES[dtype]).reshape(256, 256)
        one = np.ones(256, DTYPES[dtype])
        copied = get("embed", "raw")(np.arange(256, dtype=np.int32), every)
        finite = np.isfinite(every.astype(np.float32))
        assert (copied.view(np.uint16) == every.view(np.uint16))[finite].all()
        assert np.isnan(copied.astype(np.float32))[np.isnan(every.astype(np.float32))].all()
        doubled = every.copy()
        with np.errstate(over="ignore", invalid="ignore"):
            get("rms_norm", "raw")(doubled, one, 1e-6, every)
            expected = (every.astype(np.float32) + every.astype(np.float32)).astype(DTYPES[dtype])
        assert (doubled.view(np.uint16) == expected.view(np.uint16))[finite].all()


@needs_nvrtc
@pytest.mark.parametrize("head_dim", [64, 72, 128, 160, 248])
@pytest.mark.parametrize("op", ["attention_prefill", "attention_decode_ragged"])
def test_no_branch_that_lanes_disagree_about_is_drawn_around_a_tensor_core_step(op: str, head_dim: int) -> None:
    """Drawn into both sides, the step is there twice, and on a GPU a warp in two branches waits for itself for ever."""
    [build] = [b for b in builds.attention(2, head_dim, 90) if b.path.startswith(op)]
    text = nvrtc.ptx(source.load(build.path), dict(build.defines), 90)
    assert text.count("mma.sync") == steps_of_attention(op, head_dim)


@needs_nvrtc
@pytest.mark.parametrize("defines", [{"TKV_PATH": 1}, {"TKV_PATH": 2, "TKV_SPLIT": 0} | SMALL.defines])
def test_products_have_each_tensor_core_step_once(defines: dict[str, int]) -> None:
    text = nvrtc.ptx(
        source.load("linear/raw_kernel.cu"), defines | {"TKV_DTYPE": 2, "TKV_OUT_F32": 0, "TKV_PAIRS": 1}, 90
    )
    assert text.count("mma.sync") == (8 if defines["TKV_PATH"] == 1 else 16)
