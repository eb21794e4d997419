"""The small operations against float64, their in-place promises, and what they refuse."""

import numpy as np
import pytest

from cuda_kernels.common.types import F32
from cuda_kernels.registry import get

ml_dtypes = pytest.importorskip("ml_dtypes")
DTYPES = [np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
STEP = {"float32": 2.0**-22, "float16": 2.0**-10, "bfloat16": 2.0**-7}  # twice the unit of rounding
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def random(*shape: int, seed: int = 0, dtype: np.dtype = DTYPES[0]) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32).astype(dtype)


def near(got: np.ndarray, want: np.ndarray, dtype: np.dtype, steps: float = 1.0) -> None:
    """Within `steps` roundings of the dtype, relative to the value, plus float32 noise of the sums."""
    assert got.dtype == dtype
    gap = np.abs(got.astype(np.float64) - want)
    assert (gap <= steps * STEP[dtype.name] * np.abs(want) + 3e-6 * np.abs(want).max()).all(), gap.max()


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64)


def test_embed_takes_rows_and_refuses_ids_outside() -> None:
    embed, table = get("embed", "spec"), random(7, 3)
    assert np.array_equal(embed(np.array([6, 0, 6], np.int32), table), table[[6, 0, 6]])
    assert embed(np.zeros(0, np.int32), table).shape == (0, 3)
    for bad in (-1, 7):
        with pytest.raises(ValueError, match="do not fit a table of 7"):
            embed(np.array([0, bad], np.int32), table)


@every_dtype
@pytest.mark.parametrize(("tokens", "width"), [(1, 1), (3, 7), (2, 576), (0, 5)])
def test_rms_norm_adds_the_residual_in_place_first(dtype: np.dtype, tokens: int, width: int) -> None:
    norm = get("rms_norm", "spec")
    x, weight, residual = (
        random(tokens, width, dtype=dtype),
        random(width, seed=1, dtype=dtype),
        random(tokens, width, seed=2, dtype=dtype),
    )
    total = (x.astype(np.float32) + residual.astype(np.float32)).astype(dtype)
    for stream, more in ((x.copy(), ()), (x, (residual,))):
        want = wide(total if more else stream)
        want = want / np.sqrt((want**2).mean(-1, keepdims=True) + 1e-5) * wide(weight)
        got = norm(stream, weight, 1e-5, *more)
        if tokens:
            near(got, want, dtype)
    assert np.array_equal(x, total)


def test_norms_of_a_row_do_not_depend_on_its_company() -> None:
    norm, weight = get("rms_norm", "spec"), random(577, seed=1)
    x = random(200, 577)
    together = norm(x, weight, 1e-6)
    for i in (0, 1, 7, 8, 199):
        assert norm(x[i : i + 1], weight, 1e-6).tobytes() == together[i].tobytes()
    assert np.isfinite(norm(np.zeros((1, 4), np.float32), weight[:4], 1e-6)).all()


@every_dtype
def test_qk_norm_is_per_head(dtype: np.dtype) -> None:
    x, weight = random(3, 4, 8, dtype=dtype), random(8, seed=1, dtype=dtype)
    want = wide(x) / np.sqrt((wide(x) ** 2).mean(-1, keepdims=True) + 1e-6) * wide(weight)
    near(get("qk_norm", "spec")(x, weight, 1e-6), want, dtype)


@every_dtype
@pytest.mark.parametrize("telling", ["spec", "reference"])
@pytest.mark.parametrize("extras", [(), ("bias",), ("gate",), ("residual",), ("bias", "gate", "residual")])
def test_linear_epilogues_in_order(dtype: np.dtype, telling: str, extras: tuple[str, ...]) -> None:
    from cuda_kernels.registry import make_ops

    linear = get("linear", "spec") if telling == "spec" else make_ops("reference").linear
    x, w = random(5, 33, dtype=dtype), random(17, 33, seed=1, dtype=dtype)
    values = {
        "bias": random(17, seed=2, dtype=dtype),
        "gate": random(5, 17, seed=3, dtype=dtype),
        "residual": random(5, 17, seed=4, dtype=dtype),
    }
    before = {name: value.copy() for name, value in values.items()}
    got = linear(x, w, **{name: values[name] for name in extras})
    want = wide(x) @ wide(w).T
    if "bias" in extras:
        want = want + wide(values["bias"])
    if "gate" in extras:
        gate = wide(values["gate"])
        want = gate / (1 + np.exp(-gate)) * want
    if "residual" in extras:
        want = want + wide(values["residual"])
    near(got, want, dtype)
    assert all(np.array_equal(values[name], before[name]) for name in values)


def test_silu_at_the_ends() -> None:
    from cuda_kernels.linear.spec import silu

    x = np.array([-np.inf, -200, -88, -1, 0, 1, 88, 200], np.float32)
    got = silu(x[1:])
    assert np.isfinite(got).all()
    np.testing.assert_allclose(got, wide(x[1:]) / (1 + np.exp(-wide(x[1:]))), rtol=1e-6, atol=1e-30)


@every_dtype
def test_lm_head_gives_float32(dtype: np.dtype) -> None:
    x, w = random(2, 16, dtype=dtype), random(9, 16, seed=1, dtype=dtype)
    got = get("lm_head", "spec")(x, w)
    near(got, wide(x) @ wide(w).T, DTYPES[0])


def angles(positions: list[int], dim: int) -> tuple[F32, F32]:
    turn = np.outer(positions, 10000.0 ** (-np.arange(0, dim, 2) / dim))
    return np.cos(turn).astype(np.float32), np.sin(turn).astype(np.float32)


@every_dtype
@pytest.mark.kills("same-angle/queries-twice", "padding-row/written")
def test_rope_turns_pairs_and_writes_only_where_told(dtype: np.dtype) -> None:
    """Pairs (i, i + D/2) as complex numbers times e^(i angle). The last buffer row must not get what row -1 brings."""
    rope = get("rope_and_append", "spec")
    positions, row, column = [0, 5, 9, 3], np.array([1, 0, 1, -1], np.int32), np.array([0, 7, 9, 2], np.int32)
    q, k, v = (
        random(4, 4, 12, dtype=dtype),
        random(4, 2, 12, seed=1, dtype=dtype),
        random(4, 2, 12, seed=2, dtype=dtype),
    )
    k_cache, v_cache = (np.full((2, 2, 10, 12), np.nan, np.float32).astype(dtype) for _ in "kv")
    turned = {}
    for name, x in (("q", q), ("k", k)):
        z = (wide(x)[..., :6] + 1j * wide(x)[..., 6:]) * np.exp(
            1j * np.outer(positions, 10000.0 ** (-np.arange(0, 12, 2) / 12))
        )[:, None]
        turned[name] = np.concatenate([z.real, z.imag], -1)
    rope(q, k, v, *angles(positions, 12), k_cache, v_cache, row, column)
    near(q[:3], turned["q"][:3], dtype)
    written = np.zeros((2, 10), bool)
    for t in range(3):
        near(k_cache[row[t], :, column[t]], turned["k"][t], dtype)
        assert np.array_equal(v_cache[row[t], :, column[t]], v[t])
        written[row[t], column[t]] = True
    for cache in (k_cache, v_cache):
        assert np.isnan(wide(cache).swapaxes(1, 2)[~written]).all()


def test_rope_keeps_relative_angles() -> None:
    """A query and a key, both shifted by any distance, keep their product: what makes lead pads possible."""
    rope = get("rope_and_append", "spec")
    products = []
    for shift in (0, 1, 100, 5000):
        q, k = random(1, 1, 8), random(1, 1, 8, seed=1)
        caches = [np.zeros((1, 1, 1, 8), np.float32) for _ in "kv"]
        zero = np.zeros(1, np.int32)
        rope(q, q.copy(), q, *angles([3 + shift], 8), *caches, zero, zero)
        rope(k.copy(), k, k, *angles([1 + shift], 8), *caches, zero, zero)
        products.append(float(q[0, 0] @ caches[0][0, 0, 0]))
    np.testing.assert_allclose(products, products[0], rtol=2e-3)


@pytest.mark.parametrize("column", [-1, 4])
def test_rope_refuses_a_column_outside(column: int) -> None:
    caches = [np.zeros((1, 1, 4, 8), np.float32) for _ in "kv"]
    x, zero = random(1, 1, 8), np.zeros(1, np.int32)
    with pytest.raises(ValueError, match="do not fit a cache of 4"):
        get("rope_and_append", "spec")(x, x, x, *angles([0], 8), *caches, zero, np.array([column], np.int32))
    assert not any(cache.any() for cache in caches)
