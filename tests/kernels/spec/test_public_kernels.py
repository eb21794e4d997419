"""Public reports about launches, streams and 16-bit numbers, as far as a machine without a GPU can tell."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cuda_kernels.numba_tools import launch
from cuda_kernels.registry import get
from teachkv.checkpoint import load_model
from teachkv.parts import dtype_notes
from tests.toys import write_tiny

ROOT = Path(__file__).resolve().parents[3]
TELLINGS = ["spec", *(pytest.param(name, marks=pytest.mark.kernels) for name in ("numba", "raw"))]


@pytest.mark.case("QwenLM/Qwen3#761", "huggingface/transformers#33317")
@pytest.mark.parametrize("telling", TELLINGS)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
@pytest.mark.parametrize("top", [300.0, 60000.0, 65504.0])
def test_squares_beyond_the_type_are_summed_in_float32(telling: str, dtype: Any, top: float) -> None:
    """300 squared is infinity in float16. The result of a norm is near 1 all the same."""
    x = np.array([[top, -top, top / 2, 0.0] * 8], np.float32).astype(dtype)
    if telling == "numba" and dtype is ml_dtypes.bfloat16:
        pytest.skip("the stepper has no bfloat16; the device has")
    got = get("rms_norm", telling)(x, np.ones(32, dtype), 1e-6).astype(np.float64)
    exact = x.astype(np.float64) / np.sqrt((x.astype(np.float64) ** 2).mean())
    np.testing.assert_allclose(got, exact, rtol=1e-2 if dtype is ml_dtypes.bfloat16 else 1e-3)


@pytest.mark.case("QwenLM/Qwen3#761", "huggingface/transformers#35151", "huggingface/transformers#33312")
@pytest.mark.parametrize("telling", TELLINGS)
def test_no_fill_value_stands_for_a_hidden_key(telling: str) -> None:
    """Scores of 1e4 squared, far above any fill that float16 holds, and hidden keys of NaN: causal all the same."""
    q = np.full((3, 1, 8), 100.0, np.float16)
    k = np.full((1, 1, 4, 8), -100.0, np.float16)
    v = np.arange(4, dtype=np.float16).reshape(1, 1, 4, 1) * np.ones(8, np.float16)
    k[0, 0, 3], v[0, 0, 3] = np.nan, np.nan
    cu, row, end = np.array([0, 3], np.int32), np.zeros(1, np.int32), np.array([3], np.int32)
    got = get("attention_prefill", telling)(q, k, v, cu, row, end, None, None, 1.0)
    np.testing.assert_allclose(got[:, 0, 0].astype(np.float64), [0.0, 0.5, 1.0], atol=1e-3)


@pytest.mark.case("QwenLM/Qwen3#761", "QwenLM/Qwen3#910")
@pytest.mark.parametrize(
    ("stored", "used", "told"),
    [("bfloat16", "float16", 1), ("bfloat16", "bfloat16", 0), ("float16", "float16", 0), ("bfloat16", "float32", 0)],
)
def test_a_model_in_bfloat16_that_runs_in_float16_says_so(stored: str, used: str, told: int, tmp_path: Path) -> None:
    config = load_model(write_tiny(tmp_path / "m", torch_dtype=stored)).config
    notes = dtype_notes(config, used)
    assert len(notes) == told
    assert all("65504" in note for note in notes)


@pytest.mark.case("cupy/cupy#2118", "NVIDIA/numba-cuda-mlir#143")
@pytest.mark.parametrize(("shared", "asked"), [(0, []), (49151, []), (49152, []), (49153, [49153]), (49168, [49168])])
def test_the_opt_in_for_shared_memory_begins_one_byte_behind_48_kib(
    shared: int, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a stand-in for CuPy. Asked once per kernel and size, and before the launch."""
    seen: list[Any] = []

    class Function:
        kernel = SimpleNamespace(ptr=0)

        def __setattr__(self, name: str, value: int) -> None:
            assert name == "max_dynamic_shared_size_bytes"
            seen.append(value)

    module = SimpleNamespace(get_function=lambda _: Function())
    cuda = SimpleNamespace(Device=lambda: SimpleNamespace(compute_capability="90"))
    driver = SimpleNamespace(Launch=lambda *_, **__: lambda _: seen.append("launch"))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(RawModule=lambda **_: module, cuda=cuda))
    monkeypatch.setitem(sys.modules, "cuda_kernels.raw.driver", driver)  # type: ignore[arg-type]
    monkeypatch.delitem(sys.modules, "cuda_kernels.raw.device", raising=False)
    device = importlib.import_module("cuda_kernels.raw.device")
    try:
        made = device.DeviceModule(SimpleNamespace(text=""), {})
        for _ in range(2):
            made.prepare("k", (1, 1, 1), (1, 1, 1), shared, 0, (), early=False)(())
    finally:
        del sys.modules["cuda_kernels.raw.device"]
    assert seen == [*asked, "launch", "launch"]


def new_streams(path: Path) -> list[str]:
    calls = [node.func for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
    names = [ast.unparse(call) for call in calls]
    return [name for name in names if name.split(".")[-1] in ("Stream", "stream_create", "per_thread_default_stream")]


@pytest.mark.case("cupy/cupy#8068", "cupy/cupy#5069")
def test_the_engine_has_one_stream_and_a_second_one_only_to_record_graphs() -> None:
    """Memory of a pool is safe on one stream. The recorder has a pool of its own, and both sides wait before it."""
    made = {
        p.relative_to(ROOT).as_posix(): new_streams(p)
        for d in ("teachkv", "cuda_kernels")
        for p in (ROOT / d).rglob("*.py")
    }
    assert {path: names for path, names in made.items() if names} == {"teachkv/graphs.py": ["cupy.cuda.Stream"]}
    text = (ROOT / "teachkv" / "graphs.py").read_text("utf-8")
    use = text[text.index("cupy.cuda.Stream") :]
    assert "deviceSynchronize()" in use[: use.index("pool.malloc")]
    assert use.index("pool.malloc") < use.index("stream.synchronize()") < use.index("stream.begin_capture()")


@pytest.mark.case("numba/numba#5162", "numba/numba#4933")
def test_numba_launches_on_the_stream_that_cupy_has_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looked up at each launch: the current stream changes, and 0 is the default one of both."""
    current = SimpleNamespace(ptr=0)
    fake = SimpleNamespace(cuda=SimpleNamespace(get_current_stream=lambda: current))
    monkeypatch.setitem(sys.modules, "cupy", fake)
    words = SimpleNamespace(external_stream=lambda pointer: ("external", pointer), default_stream=lambda: "default")
    monkeypatch.setattr(launch, "cuda", words)
    monkeypatch.setattr(launch, "_streams", {})
    seen = []
    for pointer in (0, 7, 0, 9, 7):
        current.ptr = pointer
        seen.append(launch.stream())
    assert seen == ["default", ("external", 7), "default", ("external", 9), ("external", 7)]


@pytest.mark.case("numba/numba#5162", "cupy/cupy#4357")
def test_an_array_changes_hands_without_a_wait_and_with_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both libraries follow one stream, so no setting may add or drop a wait; empty arrays have an address too."""
    taken: list[Any] = []
    monkeypatch.setattr(
        launch, "cuda", SimpleNamespace(from_cuda_array_interface=lambda d, sync: taken.append((d, sync)))
    )
    launch.view.cache_clear()
    try:
        for shape in ((3, 5), (0, 5)):
            launch.view(0, 4096, shape, np.dtype(np.float16))
    finally:
        launch.view.cache_clear()
    assert [sync for _, sync in taken] == [False, False]
    assert [(d["shape"], d["typestr"], d["data"]) for d, _ in taken] == [
        ((3, 5), "<f2", (4096, False)), ((0, 5), "<f2", (4096, False)),
    ]  # fmt: skip


@pytest.mark.case("ggml-org/llama.cpp#5574")
@pytest.mark.parametrize("telling", TELLINGS)
def test_what_is_switched_off_is_not_multiplied_by_zero(telling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Absent terms stand on NaN where they stand on anything; a kernel that looked would show it or be refused."""
    poison = {dims: np.full((1,) * dims, np.nan, np.float32)[(slice(0, 0),) * dims] for dims in (1, 2, 3, 4)}
    monkeypatch.setattr(launch, "absent", lambda array, dims, like: poison[dims] if array is None else array)
    dice = np.random.default_rng(0)
    x, w = (dice.standard_normal(shape).astype(np.float32) for shape in ((3, 16), (8, 16)))
    np.testing.assert_allclose(get("linear", telling)(x, w), x @ w.T, atol=1e-5)
    normed = get("rms_norm", telling)(x.copy(), np.ones(16, np.float32), 1e-6)
    np.testing.assert_allclose(normed, x / np.sqrt((x**2).mean(1, keepdims=True)), atol=1e-5)
