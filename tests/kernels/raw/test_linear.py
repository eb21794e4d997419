"""Raw linear and lm_head on the host build: three kernels, one result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cuda_kernels.fused.joined import JOINED
from cuda_kernels.raw import product, tiles
from cuda_kernels.raw.panels import Panels, panels
from cuda_kernels.registry import get
from cuda_kernels.rms_norm.raw import norm_in_panels
from tests.kernels.raw.cases import DTYPES, assert_close, bits, draw, rng


def inputs(dtype: str, rows: int, outputs: int, width: int) -> tuple[Any, ...]:
    source = rng()
    return tuple(
        draw(source, dtype, *shape)
        for shape in ((rows, width), (outputs, width), (outputs,), (rows, outputs), (rows, outputs))
    )


@pytest.mark.parametrize("dtype", list(DTYPES))
@pytest.mark.parametrize(("rows", "outputs", "width"), [(1, 1, 1), (3, 40, 65), (5, 33, 136), (37, 72, 328)])
def test_products_and_epilogues_against_the_spec(dtype: str, rows: int, outputs: int, width: int) -> None:
    x, w, bias, gate, residual = inputs(dtype, rows, outputs, width)
    for terms in ((None, None, None), (bias, None, None), (None, gate, None), (bias, gate, residual)):
        assert_close(get("linear", "raw")(x, w, *terms), get("linear", "spec")(x, w, *terms), dtype)
    logits = get("lm_head", "raw")(x, w)
    assert logits.dtype == np.float32
    assert_close(logits, get("lm_head", "spec")(x, w), dtype)


@pytest.mark.case("kekzl/imp#1314")
@pytest.mark.parametrize("dtype", list(DTYPES))
def test_a_row_keeps_its_bits_for_every_number_of_rows(dtype: str) -> None:
    x, w, bias, gate, residual = inputs(dtype, 70, 100, 424)
    whole = get("linear", "raw")(x, w, bias, gate, residual)
    for rows in (1, 2, 16, 17, 32, 33):
        for start in (0, 70 - rows):
            piece = slice(start, start + rows)
            part = get("linear", "raw")(x[piece], w, bias, gate[piece], residual[piece])
            assert (bits(part) == bits(whole[piece])).all(), rows


@pytest.mark.parametrize("tile", [tiles.NARROW, tiles.SMALL, tiles.LARGE, tiles.SQUARE, tiles.WIDE])
@pytest.mark.parametrize("parts", [1, 3])
def test_tiles_and_splits_change_no_bit(monkeypatch: pytest.MonkeyPatch, tile: tiles.Tile, parts: int) -> None:
    x, w, bias, gate, residual = inputs("bfloat16", 40, 72, 424)
    few = np.concatenate(
        [get("linear", "raw")(x[i : i + 8], w, bias, gate[i : i + 8], residual[i : i + 8]) for i in range(0, 40, 8)]
    )
    monkeypatch.setattr(product, "tile_for", lambda *_: (tile, parts))
    assert (bits(get("linear", "raw")(x, w, bias, gate, residual)) == bits(few)).all()


def test_chunks_depend_on_the_layer_alone_and_cover_it() -> None:
    for n, k in ((128, 896), (896, 896), (4864, 896), (896, 4864), (151936, 896), (4096, 14336), (1, 1)):
        chunk = product.chunk_of(n, k)
        assert chunk % product.CHUNK_STEP == 0
        assert 1 <= -(-k // chunk) <= product.CHUNKS_LIMIT


@pytest.mark.case("ggml-org/llama.cpp#5574")
def test_an_absent_term_is_not_looked_at_and_a_zero_gate_gives_zero() -> None:
    x, w, bias, gate, _ = inputs("float16", 2, 8, 16)
    gate[:] = 0
    assert (get("linear", "raw")(x, w, bias, gate) == 0).all()
    gate[:] = -np.inf  # silu(-inf) is NaN in exact arithmetic of the formula too; a large finite one is -0
    gate[:] = -60000
    assert (np.abs(get("linear", "raw")(x, w, bias, gate)) == 0).all()


def test_wrong_shapes_are_refused() -> None:
    x, w, bias, _, _ = inputs("float16", 2, 8, 16)
    with pytest.raises(ValueError, match="bias"):
        get("linear", "raw")(x, w, bias[:-1])
    with pytest.raises(ValueError, match="w"):
        get("linear", "raw")(x, w[:, :-1])
    with pytest.raises(TypeError, match="w"):
        get("linear", "raw")(x, w.astype(np.float32))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("rows", "outputs", "width"), [(17, 72, 136), (40, 33, 328), (70, 100, 424), (130, 40, 72)])
@pytest.mark.parametrize("biased", [False, True])
def test_gate_and_up_in_one_kernel_have_the_bits_of_two_products(
    dtype: str, rows: int, outputs: int, width: int, biased: bool
) -> None:
    x, gate, gate_bias, _, _ = inputs(dtype, rows, outputs, width)
    up, up_bias = (draw(rng(), dtype, *shape)[..., ::-1].copy() for shape in ((outputs, width), (outputs,)))
    biases = (gate_bias, up_bias) if biased else (None, None)
    linear = get("linear", "raw")
    two = linear(x, up, biases[1], gate=linear(x, gate, biases[0]))
    assert (bits(JOINED.gate_up(x, gate, up, *biases)) == bits(two)).all()
    few = JOINED.gate_up(x[3:9], gate, up, *biases)
    assert (bits(few) == bits(two[3:9])).all()


@pytest.mark.parametrize("tile", [tiles.NARROW, tiles.SMALL, tiles.LARGE, tiles.SQUARE, tiles.WIDE])
def test_gate_and_up_are_the_same_in_every_tile(monkeypatch: pytest.MonkeyPatch, tile: tiles.Tile) -> None:
    x, gate, gate_bias, _, _ = inputs("bfloat16", 40, 72, 424)
    up = draw(rng(), "bfloat16", 72, 424)[:, ::-1].copy()
    linear = get("linear", "raw")
    two = linear(x, up, None, gate=linear(x, gate, gate_bias))
    monkeypatch.setattr("cuda_kernels.fused.joined.tile_for", lambda *_: (tile, 1))
    assert (bits(JOINED.gate_up(x, gate, up, gate_bias, None)) == bits(two)).all()


@pytest.mark.parametrize(("rows", "width"), [(5, 72), (130, 64), (9, 200)])
def test_panels_hold_every_element_once_in_the_order_of_the_steps(rows: int, width: int) -> None:
    matrix = np.arange(1, rows * width + 1, dtype=np.uint16).reshape(rows, width).view(np.float16)
    found = panels(128, matrix).array.view(np.uint16)
    # A step's 16 of 32 k: the first four of every eight, or the last four; two atoms of 8 k each.
    of_32 = [8 * eighth + 4 * half + i for half in (0, 1) for eighth in range(4) for i in range(4)]
    order = [32 * group + k for group in (0, 1) for k in of_32]
    padded = np.zeros((found.shape[0] * 128, found.shape[1] * 64), np.uint16)
    padded[:rows, :width] = matrix.view(np.uint16)
    wanted = padded.reshape(-1, 128, found.shape[1], 64)[..., order].reshape(-1, 128, found.shape[1], 8, 8)
    assert (found.reshape(-1, found.shape[1], 8, 128, 8) == wanted.transpose(0, 2, 3, 1, 4)).all()


def test_panels_of_two_matrices_take_eight_rows_of_each_in_turn() -> None:
    one, other = (draw(rng(), "float16", 24, 64) for _ in range(2))
    other[:] = -other
    turns = np.concatenate([part[i : i + 8] for i in range(0, 24, 8) for part in (one, other)])
    assert (bits(panels(128, one, other).array) == bits(panels(128, turns).array)).all()


@pytest.mark.parametrize(
    ("arch", "rows", "outputs", "width", "wanted"),
    [
        (90, 8800, 9728, 896, tiles.WIDE),
        (90, 2200, 896, 4864, tiles.SQUARE),
        (90, 2200, 896, 896, tiles.LARGE),  # laying it out would cost more than it saves
        (90, 8800, 896, 896, tiles.WIDE),
        (90, 8800, 128, 896, tiles.SMALL),
        (90, 256, 151936, 896, tiles.LARGE),  # so many weights for so few rows
        (80, 8800, 9728, 896, tiles.LARGE),
        (100, 8800, 9728, 896, tiles.LARGE),  # no card but this one has these steps
    ],
)
def test_only_large_products_on_one_architecture_take_warpgroups(
    arch: int, rows: int, outputs: int, width: int, wanted: tiles.Tile
) -> None:
    assert tiles.tile_for(rows, outputs, width, arch) == (wanted, 1)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_layer_in_panels_has_the_bits_of_a_layer_in_rows(dtype: str) -> None:
    s, rows, hidden, width = rng(), 130, 64, 192
    x, norm = draw(s, dtype, rows, hidden), draw(s, dtype, hidden)
    gate, up, down = (draw(s, dtype, *shape) for shape in ((width, hidden), (width, hidden), (hidden, width)))
    linear, h = get("linear", "raw"), get("rms_norm", "raw")(x, norm, 1e-6)
    plain = linear(JOINED.gate_up(h, gate, up, None, None), down, residual=x)
    panelled = norm_in_panels(x, norm, 1e-6, 128)
    assert (bits(linear(panelled, up)) == bits(linear(h, up))).all()
    wide = JOINED.gate_up(panelled, gate, up, None, None)
    assert isinstance(wide, Panels)
    assert (bits(linear(wide, down, residual=x)) == bits(plain)).all()


def test_panels_of_another_height_are_refused() -> None:
    with pytest.raises(ValueError, match="panels of 192 rows, the product takes 128"):
        panels(128, panels(192, draw(rng(), "float16", 3, 64)))


@pytest.mark.parametrize(
    ("rows", "hidden", "width", "arch", "wanted"),
    [
        (8800, 896, 4864, 90, True),
        (2200, 896, 4864, 90, False),
        (2200, 3584, 18944, 90, True),
        (8800, 896, 4864, 80, False),
        (8800, 900, 4864, 90, False),  # panels have whole steps of 64
        (8800, 896, 4872, 90, False),
    ],
)
def test_rows_lie_in_panels_where_every_product_of_a_layer_gains(
    rows: int, hidden: int, width: int, arch: int, wanted: bool
) -> None:
    assert tiles.panelled(rows, hidden, width, arch) is wanted
