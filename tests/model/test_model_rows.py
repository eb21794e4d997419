"""GLASS again, on ragged rows: what a chunk and a later step of each row can see, as counts."""

from collections import Counter

import numpy as np
import pytest
from packed import OPS, Bench

from teachkv.checkpoint.glass import SENTINEL, glass, visible_counts
from teachkv.model import Model


def model(window: int | None) -> Model:
    loaded = glass(1, [window])
    return Model(loaded.config, loaded.weights, OPS)


def seen(ids: list[int], window: int | None) -> list[int]:
    count = Counter(ids if window is None else ids[-window:])
    return [count[token] for token in range(64)]


def prompt(row: int, length: int) -> list[int]:
    """Tokens of this row alone, so that a neighbour's would show; the last is a sentinel."""
    return [10 * row + 1 + i % 3 for i in range(length - 1)] + [SENTINEL]


def zeroed(bench: Bench) -> Bench:
    """Dead columns hold zeros: NaN would be noticed anyway, a zero key takes its share of the softmax in silence."""
    for k, v in bench.layers:
        k[:], v[:] = 0, 0
    return bench


@pytest.mark.case("lablup/mlxcel#76")
@pytest.mark.parametrize("window", [None, 1, 2, 3])
@pytest.mark.parametrize("chunk", [1, 2, 3, 4])
@pytest.mark.parametrize("lengths", [(1, 4), (4, 1), (2, 5, 1), (4, 4), (3, 8, 5)])
def test_chunks_of_ragged_rows_see_their_own_keys(lengths: tuple[int, ...], chunk: int, window: int | None) -> None:
    """Rows end at one column, so each begins at another one: a mask by column and one by position differ in all."""
    ids = {row: prompt(row, n) for row, n in enumerate(lengths)}
    end = max(lengths)
    bench = zeroed(Bench(model(window), len(ids), end, {row: end - n for row, n in enumerate(lengths)}))
    last = {}
    for start in range(0, end, chunk):
        work = {row: ids[row][start : start + chunk] for row in ids if start < len(ids[row])}
        last |= {row: logits[-1] for row, logits in bench.step(work, "prefill").items()}
    for row in ids:
        assert visible_counts(last[row]).tolist() == seen(ids[row], window), row


@pytest.mark.case("ndif-team/nnsight#673")
@pytest.mark.parametrize("window", [None, 3, 5])
@pytest.mark.parametrize("lengths", [(2, 5), (5, 2), (1, 8, 3), (4, 4)])
def test_after_three_steps_no_row_has_written_over_another(lengths: tuple[int, ...], window: int | None) -> None:
    ids = {row: [*prompt(row, n)[:-1], 10 * row + 2] for row, n in enumerate(lengths)}
    end = max(lengths)
    bench = zeroed(Bench(model(window), len(ids), end + 3, {row: end - n for row, n in enumerate(lengths)}))
    for row in ids:
        bench.step({row: ids[row]}, "prefill")
    for step in (40, 41, SENTINEL):
        logits = bench.step({row: [step] for row in ids})
        ids = {row: [*tokens, step] for row, tokens in ids.items()}
    for row in ids:
        assert visible_counts(logits[row][-1]).tolist() == seen(ids[row], window), row


@pytest.mark.case("huggingface/transformers#47651")
@pytest.mark.parametrize("width", [31, 32, 33, 34, 63, 64, 65, 66])
def test_two_prompts_of_one_pass_are_as_alone_at_every_width(width: int) -> None:
    """Prompts of 1 and `width` tokens in one prefill, behind dead columns that make the row longer; every logit."""
    ids = {0: [SENTINEL], 1: prompt(1, width)}
    for pads in ({}, {0: width - 1}, {0: width, 1: 1}, {0: 33, 1: 32}):
        bench = Bench(model(None), 2, width + 66, pads)
        logits = bench.step(ids, "prefill")
        for row in ids:
            alone = Bench(model(None), 1, width).step({0: ids[row]}, "prefill")[0]
            assert np.isfinite(logits[row]).all()
            assert logits[row].tobytes() == alone.tobytes()
