"""GLASS: logits that count which keys a query saw, so that an error is a wrong small integer."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from packed import OPS, Bench, whole

from teachkv.checkpoint.glass import SENTINEL, glass, visible_counts
from teachkv.model import Model


def build(windows: Sequence[int | None], live: int | None = None) -> Model:
    loaded = glass(len(windows), windows, live)
    return Model(loaded.config, loaded.weights, OPS)


def expected(ids: list[int], window: int | None) -> list[int]:
    seen = Counter(ids if window is None else ids[-window:])
    return [seen[token] for token in range(64)]


def prompt(length: int) -> list[int]:
    """`length` tokens, the last a sentinel, some twice."""
    return [(i * 5) % 7 for i in range(length - 1)] + [SENTINEL]


def ways(model: Model, ids: list[int]) -> dict[str, np.ndarray]:
    """The last row's logits by prefill, every split in two, decode token by token, and decode behind a lead pad."""
    found = {"prefill": whole(model, ids)[-1]}
    for cut in range(1, len(ids)):
        bench = Bench(model, 1, len(ids))
        bench.step({0: ids[:cut]}, "prefill")
        found[f"split at {cut}"] = bench.step({0: ids[cut:]}, "prefill")[0][-1]
    for pad in (0, 1, 5):
        bench = Bench(model, 1, len(ids) + pad, {0: pad})
        found[f"decode, pad {pad}"] = [bench.step({0: [token]})[0] for token in ids][-1][-1]
    return found


@pytest.mark.case("huggingface/transformers#39408")
@pytest.mark.kills("window-keys/one-too-wide", "window-keys/one-too-narrow", "window/one-too-wide")
@pytest.mark.parametrize("window", [1, 2, 3, 4, 5, 6, None])
@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6, 7, 8, 12])
def test_exactly_w_keys_in_every_way(window: int | None, length: int) -> None:
    model = build([window])
    for way, logits in ways(model, prompt(length)).items():
        assert visible_counts(logits).tolist() == expected(prompt(length), window), way


@pytest.mark.case("huggingface/transformers#31775")
@pytest.mark.parametrize("live", range(4))
@pytest.mark.parametrize("windows", [(3, None, None, 2), (None, 4, 1, None)])
def test_each_layer_has_its_own_window(windows: tuple[int | None, ...], live: int) -> None:
    model = build(windows, live)
    for way, logits in ways(model, prompt(9)).items():
        assert visible_counts(logits).tolist() == expected(prompt(9), windows[live]), (way, live)


@pytest.mark.case("ndif-team/nnsight#673")
@pytest.mark.kills("masker/none-at-one-query", "masker-window/drops-lead-pad")
@pytest.mark.parametrize("window", [None, 3])
def test_ragged_decode_counts_no_dead_column(window: int | None) -> None:
    """Rows of 2, 5 and 9 tokens end at one column; the dead prefix holds zeros, which would take softmax weight."""
    model = build([window])
    lengths = (2, 5, 9)
    bench = Bench(model, 3, 9, {row: 9 - n for row, n in enumerate(lengths)})
    for k, v in bench.layers:
        k[:], v[:] = 0, 0
    for row, n in enumerate(lengths):
        bench.step({row: prompt(n)[:-1]}, "prefill")
    logits = bench.step({row: [SENTINEL] for row in range(3)})
    for row, n in enumerate(lengths):
        assert visible_counts(logits[row][-1]).tolist() == expected(prompt(n), window)


@pytest.mark.case("huggingface/transformers#39408")
def test_a_long_row_is_counted_over_blocks_and_segments() -> None:
    """700 keys: eleven blocks, three segments, a window that begins inside a block."""
    ids = [(i * 7) % 50 for i in range(699)] + [SENTINEL]
    for window in (None, 300):
        logits = whole(build([window]), ids)[-1]
        assert visible_counts(logits).tolist() == expected(ids, window)
