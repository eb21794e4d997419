"""One small run per guard of the raw kernels: right as written, wrong or refused under its mutants."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from cuda_kernels.errors import KernelUnavailable
from cuda_kernels.fused import launch
from cuda_kernels.fused.joined import JOINED
from cuda_kernels.raw import nvrtc, product, tiles
from cuda_kernels.raw import source as text_source
from cuda_kernels.raw.builds import attention as attention_builds
from cuda_kernels.registry import get
from tests.kernels.raw.cases import Ragged, assert_close, bits, draw, forgotten, ragged, rng


def steps_of_attention(op: str, head_dim: int) -> int:
    """Tensor-core steps in the text of one block: 8 x 2 per 32 dims of the scores, 4 x 8 per 64 dims of the values,
    which decode walks through in a loop."""
    return 16 * -(-head_dim // 32) + 32 * (-(-head_dim // 64) if op == PREFILL else 1)


DECODE, PREFILL = "attention_decode_ragged", "attention_prefill"


@contextmanager
def variant(name: str) -> Iterator[None]:
    """Kernels run in a child built with this sanitizer."""
    before = os.environ.get("TEACHKV_HOST_VARIANT")
    os.environ["TEACHKV_HOST_VARIANT"] = name
    try:
        yield
    finally:
        if before is None:
            del os.environ["TEACHKV_HOST_VARIANT"]
        else:
            os.environ["TEACHKV_HOST_VARIANT"] = before


def against_spec(call: Ragged, dtype: str, *ops: str) -> None:
    for op in ops:
        assert_close(call.run(op), call.run(op, "spec"), dtype)


def simple_attention() -> None:
    against_spec(ragged("float32", 1, 1, 4, [9, 70], [1, 1], [3, 1]), "float32", DECODE)


def simple_sharp_softmax() -> None:
    against_spec(ragged("float32", 1, 1, 4, [9], [1], [0], scale=0.05), "float32", DECODE)


def windowed_attention() -> None:
    against_spec(ragged("float32", 1, 1, 4, [20], [1], [3], window=5), "float32", DECODE)


def outside_the_window(dtype: str, head_dim: int, count: int) -> Ragged:
    """A window of 5 in the middle of a block; what lies before it is NaN."""
    call = ragged(dtype, 1, 1, head_dim, [20], [count], [3], window=5)
    first = int(call.end[0]) - count - 4
    call.k[:, :, :first], call.v[:, :, :first] = np.nan, np.nan
    return call


def simple_before_the_window() -> None:
    against_spec(outside_the_window("float32", 4, 1), "float32", DECODE)


def prefill_before_the_window() -> None:
    against_spec(outside_the_window("float16", 8, 3), "float16", PREFILL)


def decode_tail() -> None:
    against_spec(ragged("float16", 1, 1, 8, [9, 70], [1, 1], [3, 1]), "float16", DECODE)


def prefill_tail() -> None:
    against_spec(ragged("float16", 1, 1, 8, [9, 70], [4, 4], [3, 1]), "float16", PREFILL)


def prefill_causality() -> None:
    against_spec(ragged("float16", 1, 1, 8, [12], [12], [0]), "float16", PREFILL)


def decode_bits_under_lead_pads() -> None:
    """The same row behind 0 and behind 37 dead columns."""
    first = ragged("float16", 1, 1, 8, [100], [1], [0])
    second = ragged("float16", 1, 1, 8, [100], [1], [37])
    second.q[:] = first.q
    for mine, other in ((first.k, second.k), (first.v, second.v)):
        other[0, :, 37:137] = mine[0, :, :100]
    assert (bits(first.run(DECODE)) == bits(second.run(DECODE))).all()


def linear_tail() -> None:
    source = rng()
    x, w = draw(source, "float32", 2, 5), draw(source, "float32", 3, 5)
    assert_close(get("linear", "raw")(x, w), get("linear", "spec")(x, w), "float32")


def embed_range() -> None:
    table = draw(rng(), "float32", 4, 8)
    out = get("embed", "raw")(np.asarray([1, 4, -1], np.int32), table)
    assert (out[0] == table[1]).all()
    assert np.isnan(out[1:]).all()


def rope_padding() -> None:
    source = rng()
    q, k, v = (draw(source, "float32", 2, 1, 4) for _ in range(3))
    cos, sin = np.ones((2, 2), np.float32), np.zeros((2, 2), np.float32)
    caches = [np.full((2, 1, 3, 4), 7, np.float32) for _ in range(2)]
    get("rope_and_append", "raw")(
        q, k, v, cos, sin, *caches, np.asarray([-1, 1], np.int32), np.asarray([0, 2], np.int32)
    )
    assert (caches[1][1, 0, 2] == v[1, 0]).all()
    assert (caches[1][0] == 7).all()


def shift_right() -> None:
    """Longer than one chunk of 1024 words, so that the order of chunks shows."""
    cache = draw(rng(), "float32", 1, 1, 100, 64)
    expected = cache.copy()
    expected[:, :, 20:100] = cache[:, :, :80]
    one = [np.asarray([n], np.int32) for n in (0, 0, 0, 20, 80)]
    get("kv_align", "raw")(cache, one[0], one[1], cache, one[2], one[3], one[4])
    assert (cache == expected).all()


def sample_ties() -> None:
    logits = np.zeros((8, 40), np.float32)
    heat, one, off = np.ones(8, np.float32), np.ones(8, np.float32), np.zeros(8, np.float32)
    tokens = get("sample", "raw")(logits, heat, np.full(8, 3, np.int32), one, off, np.linspace(0, 0.99, 8))
    assert set(tokens.tolist()) == {0, 1, 2}


def sample_not_finite() -> None:
    logits = np.zeros((2, 40), np.float32)
    logits[1, 5] = np.nan
    off, k = np.zeros(2, np.float32), np.zeros(2, np.int32)
    assert get("sample", "raw")(logits, off, k, off + 1, off, np.zeros(2)).tolist() == [0, -1]


def race_align() -> None:
    cache = draw(rng(), "float32", 1, 1, 20, 64)
    one = [np.asarray([n], np.int32) for n in (0, 0, 0, 1, 12)]
    with variant("thread"):
        get("kv_align", "raw")(cache, one[0], one[1], cache, one[2], one[3], one[4])


def race_simple() -> None:
    with variant("thread"):
        ragged("float32", 1, 1, 4, [9], [1], [0]).run(DECODE)


def race_decode() -> None:
    with variant("thread"):
        ragged("float16", 1, 1, 8, [100], [1], [3]).run(DECODE)


def race_prefill() -> None:
    with variant("thread"):
        ragged("float16", 1, 1, 8, [100], [4], [3]).run(PREFILL)


def race_linear() -> None:
    source = rng()
    with variant("thread"):
        get("linear", "raw")(draw(source, "float16", 2, 256), draw(source, "float16", 8, 256))


def joined_gate_up() -> None:
    source = rng()
    x, norm, gate, up = (draw(source, "float16", *shape) for shape in ((2, 64), (64,), (8, 64), (8, 64)))
    h, linear = get("rms_norm", "raw")(x, norm, 1e-6), get("linear", "raw")
    plain = linear(h, up, gate=linear(h, gate))
    assert (bits(launch.gate_up(x, norm, gate, up, None, None, 1e-6)) == bits(plain)).all()


def gate_up_of_many() -> None:
    source = rng()
    x, gate, up = (draw(source, "float16", *shape) for shape in ((17, 64), (8, 64), (8, 64)))
    linear = get("linear", "raw")
    assert (bits(JOINED.gate_up(x, gate, up, None, None)) == bits(linear(x, up, gate=linear(x, gate)))).all()


@contextmanager
def wide_tiles() -> Iterator[None]:
    """Products in one small tile of a warpgroup, K in one chunk."""
    tile = tiles.Tile(64, 64, 4, 1, 3, warpgroups=True)
    with forgotten(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(product, "ROWS_LIMIT", 0)
        patch.setattr(product, "tile_for", lambda *_: (tile, 1))
        patch.setattr(product, "chunk_of", lambda _, k: -(-k // 128) * 128)
        yield


def wide_product() -> None:
    """Seven stages, of which the last is not full."""
    source = rng()
    x, w = draw(source, "float16", 3, 424), draw(source, "float16", 8, 424)
    with wide_tiles():
        assert_close(get("linear", "raw")(x, w), get("linear", "spec")(x, w), "float16")


def race_wide() -> None:
    source = rng()
    with wide_tiles(), variant("thread"):
        get("linear", "raw")(draw(source, "float16", 3, 200), draw(source, "float16", 8, 200))


def steps_once() -> None:
    """On the host it is right either way. Only a compiler for GPUs draws the question around the loop; its text then
    has every step twice."""
    against_spec(ragged("float16", 1, 1, 160, [9, 70], [3, 1], [3, 1]), "float16", PREFILL)
    [build] = [b for b in attention_builds(2, 160, 90) if b.path.startswith(PREFILL)]
    try:
        text = nvrtc.ptx(text_source.load(build.path), dict(build.defines), 90)
    except KernelUnavailable as error:
        pytest.skip(str(error))
    assert text.count("mma.sync") == steps_of_attention(PREFILL, 160)


def joined_padding() -> None:
    source = rng()
    x, norm, w = draw(source, "float16", 2, 64), draw(source, "float16", 64), draw(source, "float16", 16, 64)
    cos, sin = np.ones((2, 8), np.float32), np.zeros((2, 8), np.float32)
    caches = [np.full((2, 1, 3, 16), 7, np.float16) for _ in range(2)]
    row, column = np.asarray([-1, 1], np.int32), np.asarray([0, 2], np.int32)
    given = launch.QKV(norm, w, w, w, None, None, None)
    launch.qkv(x, given, cos, sin, (caches[0], caches[1]), row, column, 1e-6)
    for cache in caches:
        assert (cache[0] == 7).all()
        assert (cache[1, 0, :2] == 7).all()
        assert (cache[1, 0, 2] != 7).any()


def race_joined() -> None:
    source = rng()
    x, norm, gate, up = (draw(source, "float16", *shape) for shape in ((2, 64), (64,), (8, 64), (8, 64)))
    with variant("thread"):
        launch.gate_up(x, norm, gate, up, None, None, 1e-6)


KILLS: dict[str, Callable[[], None]] = {
    "dead-prefix/off-by-one": simple_attention,
    "dead-prefix/removed": simple_attention,
    "dead-value/zero-not-skip": simple_before_the_window,
    "dead-value/tail-removed": simple_attention,
    "scale/removed": simple_sharp_softmax,
    "kernel-window/one-too-wide": windowed_attention,
    "dead-words/tail-removed": decode_tail,
    "dead-rows/tail-removed": prefill_tail,
    "dead-rows/head-removed": prefill_before_the_window,
    "unseen/zero-score": prefill_causality,
    "unseen/sees-future": prefill_causality,
    "split/from-column-zero": decode_bits_under_lead_pads,
    "tail/removed": linear_tail,
    "absent-term/always-added": linear_tail,
    "embed-range/unchecked": embed_range,
    "append-range/writes-padding": rope_padding,
    "shift-order/always-forward": shift_right,
    "topk-ties/all": sample_ties,
    "finite-logits-raw/removed": sample_not_finite,
    "gate-rounded/kept-wide": joined_gate_up,
    "gate-rounded-tiles/kept-wide": gate_up_of_many,
    "panel-end/reads-on": wide_product,
    "stage-still-read/one-too-few": wide_product,
    "lanes-agree/asked": steps_once,
    "append-range-fused/writes-padding": joined_padding,
}
RACES: dict[str, Callable[[], None]] = {
    "sync-align/removed": race_align,
    "sync-softmax/removed": race_simple,
    "sync-fold/removed": race_decode,
    "sync-stage/removed": race_prefill,
    "sync-chunks/removed": race_linear,
    "sync-scale/removed": race_joined,
    "sync-normed/removed": race_joined,
    "sync-reuse/removed": race_joined,
    "sync-refill/removed": race_wide,
}
