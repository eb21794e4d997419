"""Windows in a whole engine: what they answer, which path they took, and what memory they held."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from teachkv import LLM, SamplingParams
from tests.toys import write_tiny

GREEDY = SamplingParams(temperature=0, max_tokens=4, logprobs=-1, ignore_eos=True)
LAYERS = 3


def windowed(folder: Path, width: int | None, first: int = 1) -> str:
    """Three layers, of which those from `first` on slide (none without a width)."""
    flag = {"use_sliding_window": True, "sliding_window": width, "max_window_layers": first} if width else {}
    changes = {"num_hidden_layers": LAYERS, "max_position_embeddings": 4096}
    return str(write_tiny(folder, "qwen2", seed=4, **changes, **flag))


def ids(length: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(2, 97, length).tolist()


@pytest.mark.case("Dao-AILab/flash-attention#1133")
@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 63, 64, 65, 130])
def test_a_window_that_covers_everything_is_no_window_and_one_less_is(length: int, tmp_path: Path) -> None:
    """All bits of all rows but the last; and the path that ran is told, the same for all three."""
    found, paths = {}, {}
    for name, width in (("none", None), ("whole", length), ("short", length - 1)):
        if width == 0:
            continue
        with LLM(windowed(tmp_path / name, width), seed=1) as llm:
            found[name] = llm.forward(ids(length))
            paths[name] = llm.stats()["path"], llm.stats()["tellings"]["attention_prefill"]
    assert found["whole"].tobytes() == found["none"].tobytes()
    assert len(set(paths.values())) == 1
    assert "windows masked" in paths["none"][0]
    if "short" in found:
        assert found["short"][:-1].tobytes() == found["none"][:-1].tobytes()
        assert np.abs(found["short"][-1] - found["none"][-1]).max() > 1e-4


@pytest.mark.case("Dao-AILab/flash-attention#1133")
def test_rings_are_another_path_with_the_same_bits_and_it_is_told(tmp_path: Path) -> None:
    answers, paths = [], []
    for way in ("masked", "ring"):
        with LLM(windowed(tmp_path / way, 16), seed=1, window_cache=way) as llm:
            outputs = [llm.generate([ids(length)], GREEDY)[0].outputs[0] for length in (15, 16, 17, 40)]
            answers.append([(o.token_ids, o.logprobs) for o in outputs])
            paths.append(llm.stats()["path"])
    assert answers[0] == answers[1]
    assert ["windows masked, ragged" in paths[0], "windows ring, exact lengths only" in paths[1]] == [True, True]


def held(model: str, length: int, **options: Any) -> list[int]:
    """Bytes per layer while one request of `length` tokens is being answered."""
    with LLM(model, enable_prefix_caching=False, **options) as llm:
        stream = llm.stream([ids(length)], GREEDY)
        next(stream)
        next(stream)
        return list(llm.stats()["cache"].layer_bytes)


@pytest.mark.case("karpathy/nanochat#825")
@pytest.mark.parametrize("batch_cache", ["rebuild", "incremental"])
def test_a_ring_saves_memory_in_its_own_layers_and_a_masked_window_none(batch_cache: str, tmp_path: Path) -> None:
    options = {"policy": "bucketed", "batch_cache": batch_cache}
    plain = held(windowed(tmp_path / "plain", None), 2048, **options)
    assert len(set(plain)) == 1
    rings = {}
    for width in (16, 256):
        model = windowed(tmp_path / str(width), width)
        assert held(model, 2048, **options) == plain, "masked: semantics only"
        rings[width] = held(model, 2048, **options, window_cache="ring")
        assert rings[width][0] == plain[0]
        assert rings[width][1] == rings[width][2] <= plain[0] * 3 * width / 2048
    assert rings[16][1] < rings[256][1]


@pytest.mark.case("karpathy/nanochat#825")
@pytest.mark.parametrize("batch_cache", ["rebuild", "incremental"])
def test_bytes_of_the_layers_are_all_bytes(batch_cache: str) -> None:
    with LLM("tiny", batch_cache=batch_cache) as llm:
        assert sum(llm.stats()["cache"].layer_bytes) == llm.stats()["cache"].allocated_bytes
        stream = llm.stream([ids(40), ids(9)], GREEDY)
        next(stream)
        stats = llm.stats()["cache"]
        assert len(stats.layer_bytes) == 4
        assert sum(stats.layer_bytes) == stats.allocated_bytes > 0


@pytest.mark.case("mybigday/llama.rn#396", "ml-explore/mlx-lm#983")
@pytest.mark.parametrize("way", ["masked", "ring"])
def test_wherever_two_texts_part_the_second_is_answered_as_if_it_were_the_first(way: str, tmp_path: Path) -> None:
    """Window 4 in two of three layers, texts of 36 tokens (two whole blocks and more) that part at every place."""
    model = windowed(tmp_path / "m", 4)
    parted = [ids(36)[:at] + ids(36 - at, seed=9 + at) for at in (0, 1, 3, 4, 5, 12, 15, 16, 17, 31, 32, 33, 35, 36)]
    with LLM(model, enable_prefix_caching=False, window_cache=way) as llm:
        cold = [(o.outputs[0].token_ids, o.outputs[0].logprobs) for o in llm.generate(parted, GREEDY)]
    with LLM(model, window_cache=way) as llm:
        llm.generate([ids(36)], GREEDY)
        warm = [llm.generate([text], GREEDY)[0] for text in parted]
        hits = llm.stats()["prefix"].hit_tokens
    assert [(o.outputs[0].token_ids, o.outputs[0].logprobs) for o in warm] == cold
    assert (hits > 0) == (way == "masked"), "rings have dropped positions, so nothing of theirs may be found"
