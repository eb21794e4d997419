"""Fused kernels on the host build: the bits of the operations they join, for every number of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cuda_kernels.fused import launch, sizes
from cuda_kernels.registry import get
from tests.kernels.raw.cases import bits, draw, forgotten, rng

EPS = 1e-6
Case = dict[str, Any]
# rows, hidden, intermediate, (H, G, D): one tile and several, short last chunks, rows for 8, 16 and 32 tokens per block
SHAPES = [(1, 64, 72, (2, 1, 32)), (9, 136, 72, (2, 1, 16)), (19, 328, 136, (3, 1, 16)), (35, 136, 40, (2, 2, 48))]


def case(dtype: str, rows: int, hidden: int, width: int, heads: tuple[int, int, int], biased: bool) -> Case:
    s, (h, g, d) = rng(), heads

    def array(*shape: int, scale: float = 1.0) -> Any:
        values = draw(s, dtype, *shape)
        return (values.astype(np.float32) * scale).astype(values.dtype)

    made: Case = {"x": array(rows, hidden), "norm": array(hidden), "heads": heads}
    for name, shape in {
        "q": (h * d, hidden), "k": (g * d, hidden), "v": (g * d, hidden),
        "gate": (width, hidden), "up": (width, hidden), "down": (hidden, width),
    }.items():  # fmt: skip
        made[name] = array(*shape, scale=0.2)
        made[f"{name}_bias"] = array(shape[0]) if biased else None
    angles = s.standard_normal((rows, d // 2)).astype(np.float32)
    made["cos"], made["sin"] = np.cos(angles), np.sin(angles)
    made["row"] = s.permutation(rows + 1)[:rows].astype(np.int32)
    made["column"] = s.integers(0, 9, rows).astype(np.int32)
    if rows > 1:
        made["row"][0] = -1
    made["caches"] = [array(rows + 1, g, 9, d) for _ in range(2)]
    return made


def qkv_of(c: Case) -> launch.QKV:
    return launch.QKV(c["norm"], c["q"], c["k"], c["v"], c["q_bias"], c["k_bias"], c["v_bias"])


def joined_qkv(c: Case) -> tuple[Any, list[Any]]:
    caches = [cache.copy() for cache in c["caches"]]
    q = launch.qkv(c["x"], qkv_of(c), c["cos"], c["sin"], (caches[0], caches[1]), c["row"], c["column"], EPS)
    return q, caches


def plain_qkv(c: Case) -> tuple[Any, list[Any]]:
    caches = [cache.copy() for cache in c["caches"]]
    h = get("rms_norm", "raw")(c["x"], c["norm"], EPS)
    q, k, v = (get("linear", "raw")(h, c[name], c[f"{name}_bias"]).reshape(len(h), -1, c["heads"][2]) for name in "qkv")
    get("rope_and_append", "raw")(q, k, v, c["cos"], c["sin"], *caches, c["row"], c["column"])
    return q, caches


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("biased", [False, True])
def test_qkv_has_the_bits_of_norm_linear_and_rope(dtype: str, shape: Any, biased: bool) -> None:
    c = case(dtype, *shape, biased)
    (q, caches), (plain_q, plain_caches) = joined_qkv(c), plain_qkv(c)
    assert (bits(q) == bits(plain_q)).all()
    for ours, theirs in zip(caches, plain_caches, strict=True):
        assert (bits(ours) == bits(theirs)).all()
    assert (bits(caches[0]) != bits(c["caches"][0])).any(), "nothing was appended"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("biased", [False, True])
def test_the_mlp_has_the_bits_of_its_operations(dtype: str, shape: Any, biased: bool) -> None:
    c, linear = case(dtype, *shape, biased), get("linear", "raw")
    h = get("rms_norm", "raw")(c["x"], c["norm"], EPS)
    plain = linear(h, c["up"], c["up_bias"], gate=linear(h, c["gate"], c["gate_bias"]))
    ours = launch.gate_up(c["x"], c["norm"], c["gate"], c["up"], c["gate_bias"], c["up_bias"], EPS)
    assert (bits(ours) == bits(plain)).all()
    down = launch.add(plain, c["down"], c["down_bias"], c["x"])
    assert (bits(down) == bits(linear(plain, c["down"], c["down_bias"], residual=c["x"]))).all()


@pytest.mark.parametrize("rows", [1, 9, 35])
@pytest.mark.parametrize("outputs", [8, 1003])
def test_the_head_has_the_bits_of_norm_and_lm_head(rows: int, outputs: int) -> None:
    s = rng()
    x, norm, w = draw(s, "bfloat16", rows, 128), draw(s, "bfloat16", 128), draw(s, "bfloat16", outputs, 128)
    plain = get("lm_head", "raw")(get("rms_norm", "raw")(x, norm, EPS), w)
    ours = launch.head(x, norm, w, EPS)
    assert ours.dtype == np.float32
    assert (bits(ours) == bits(plain)).all()


def test_more_strips_than_warps_and_more_rounds_than_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    """The head's warps go from strip to strip, and its rounds through the slots."""
    monkeypatch.setattr(sizes, "MULTIPROCESSORS", 2)
    monkeypatch.setattr(sizes, "HEAD_STEPS", 1)
    monkeypatch.setattr(sizes, "HEAD_SLOTS", 3)
    with forgotten():
        test_the_head_has_the_bits_of_norm_and_lm_head(2, 1003)


def test_two_groups_of_outputs_in_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "MULTIPROCESSORS", 2)
    with forgotten():
        test_the_mlp_has_the_bits_of_its_operations("bfloat16", (3, 64, 136, (2, 1, 16)), True)


def test_blocks_of_a_real_shape_fit() -> None:
    """Qwen2.5-0.5B on sm_90."""
    for rows in (1, 16, 32, 128):
        plans = [sizes.qkv(896, (14, 2, 64), rows, 90), sizes.gate_up(896, 4864, rows, 90), sizes.head(896, rows, 90)]
        plans += [sizes.add(896, 896, rows), sizes.add(4864, 896, rows)]
        assert all(plan.shared <= 227 * 1024 and plan.warps <= 32 for plan in plans)


def test_what_is_refused_is_said() -> None:
    heads = (14, 2, 64)
    assert "sm_75" in str(sizes.refusal(896, 4864, 151936, heads, 75))
    assert sizes.refusal(896, 4864, 151936, heads, 90) is None
    assert "head dim 24" in str(sizes.refusal(896, 4864, 151936, (14, 2, 24), 90))
    assert "cut into chunks" in str(sizes.refusal(896, 4864, 1000, heads, 90))
    assert "shared memory" in str(sizes.refusal(16384, 65536, 151936, heads, 90))
    half = np.zeros((1, 896), np.float16)
    with pytest.raises(ValueError, match="cut into chunks"):
        launch.head(half, half[0], np.zeros((1000, 896), np.float16), EPS)
