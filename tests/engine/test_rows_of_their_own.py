"""What belongs to one request stays with it: pads it brought, its bans, its end, whoever is in the batch."""

import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from teachkv import LLM, SamplingParams
from teachkv.checkpoint.glass import SENTINEL, visible_counts
from teachkv.errors import RequestError
from tests.toys import NULL, write_tiny

EVERY_LOGIT = SamplingParams(temperature=0, max_tokens=1, logprobs=-1, logprobs_mode="raw_logits", ignore_eos=True)


def counted(outputs: list[Any]) -> list[list[int]]:
    """What the glass model's last prompt token saw, per output."""
    steps = [output.outputs[0].logprobs[0] for output in outputs]
    return [visible_counts(np.array([step[t].logprob for t in range(64)])).tolist() for step in steps]


@pytest.mark.case("Blaizzy/mlx-vlm#1542")
def test_a_pad_that_the_caller_brings_is_a_token_and_one_he_does_not_bring_is_not_there(kind: dict[str, Any]) -> None:
    """There is no mask to forget: ragged prompts come as they are, and equal lengths hide nothing."""
    pad, ragged = 9, [[5, SENTINEL], [6, 7, 8, SENTINEL], [5, 5, 7, 8, SENTINEL]]
    squared = [[pad, pad, pad, 5, SENTINEL], [pad, 6, 7, 8, SENTINEL], [5, 5, 7, 8, SENTINEL]]
    with LLM("glass", **kind) as llm:
        bare, padded = counted(llm.generate(ragged, EVERY_LOGIT)), counted(llm.generate(squared, EVERY_LOGIT))
    assert [row[pad] for row in bare] == [0, 0, 0]
    assert [row[pad] for row in padded] == [3, 1, 0]
    assert [row[5:9] for row in bare] == [row[5:9] for row in padded] == [[1, 0, 0, 0], [0, 1, 1, 1], [2, 0, 1, 1]]


@pytest.mark.case("Blaizzy/mlx-vlm#1542")
@pytest.mark.parametrize("key", ["attention_mask", "position_ids", "padding_side"])
def test_a_mask_beside_the_ids_is_refused_not_dropped(key: str) -> None:
    with LLM("glass") as llm, pytest.raises(RequestError, match=key):
        llm.generate({"prompt_token_ids": [9, 9, 5], key: [0, 0, 1]})


PADS = {"0": 0, "eos": 1, "last of the vocabulary": 96, "null": NULL, "absent": None}


def with_pad(folder: Path, pad: Any, kind: dict[str, Any]) -> list[Any]:
    model = str(write_tiny(folder, "llama", pad_token_id=pad, eos_token_id=1))
    # Each pad id stands in prompts, at their beginning, inside and at their end, and none is special there.
    prompts = [[0, 0, 5], [1, 96, 0], [96] * 7, [4], [0] * 33, [5, 1, 1, 6, 0, 96]]
    wanted = SamplingParams(temperature=0, max_tokens=5, logprobs=2, repetition_penalty=1.3, ignore_eos=True)
    with LLM(model, **kind) as llm:
        outputs = llm.generate(prompts, wanted)
        return [(o.prompt_token_ids, o.outputs[0].token_ids, o.outputs[0].logprobs) for o in outputs]


@pytest.mark.case("NVIDIA-NeMo/Automodel#3704")
def test_whatever_id_a_config_calls_its_pad_the_answers_are_the_same(kind: dict[str, Any], tmp_path: Path) -> None:
    found = {name: with_pad(tmp_path / name, pad, kind) for name, pad in PADS.items()}
    assert all(answers == found["absent"] for answers in found.values())
    assert len({tuple(ids) for _, ids, _ in found["absent"]}) >= 4, "prompts too alike to show anything"


@pytest.mark.case("huggingface/transformers#47651")
def test_a_prompt_of_one_token_beside_one_of_any_width(kind: dict[str, Any]) -> None:
    wanted = SamplingParams(temperature=0, max_tokens=2, logprobs=5, ignore_eos=True)
    with LLM("tiny", **kind, enable_prefix_caching=False) as llm:

        def facts(*prompts: list[int]) -> list[Any]:
            return [(o.outputs[0].token_ids, o.outputs[0].logprobs) for o in llm.generate(list(prompts), wanted)]

        [short] = facts([7])
        for width in (31, 32, 33, 34, 63, 64, 65, 66):
            dice = np.random.default_rng(width)
            long, other = (dice.integers(3, 200, width).tolist() for _ in range(2))
            assert facts([7], long) == [short, *facts(long)], width
            assert facts([7], other)[0] == short, width
    assert all(math.isfinite(entry.logprob) for step in short[1] for entry in step.values())


def requests(count: int) -> list[tuple[list[int], SamplingParams]]:
    """Each bans a set of tokens of its own, half of them nothing at all; some draw, some are greedy."""
    made = []
    for i in range(count):
        bans = dict.fromkeys(range(i * 7, i * 7 + 120), -math.inf) if i % 2 else None
        heat = {"temperature": 1.0, "seed": i} if i % 3 else {"temperature": 0.0, "repetition_penalty": 1.1 + i / 10}
        wanted = SamplingParams(max_tokens=4 + 3 * i % 11, logit_bias=bans, ignore_eos=True, **heat)
        made.append(([3 + i, *range(5, 6 + i)], wanted))
    return made


def mixed(llm: LLM, asked: list[tuple[list[int], SamplingParams]], dice: random.Random) -> dict[int, list[int]]:
    """Streams that begin and are left at random; the tokens of those that were read to their end."""
    left, open_now, tokens = list(enumerate(asked)), dict[int, Iterator[Any]](), dict[int, list[int]]()
    whole: dict[int, list[int]] = {}
    dice.shuffle(left)
    while left or open_now:
        if left and (not open_now or dice.random() < 0.4):
            number, (prompt, wanted) = left.pop()
            open_now[number], tokens[number] = llm.stream([prompt], wanted), []
        number = dice.choice(list(open_now))
        chunk = next(open_now[number], None)
        if chunk is not None:
            tokens[number] += chunk.token_ids
        if chunk is None or dice.random() < 0.03:
            stream = open_now.pop(number)
            stream.close()  # type: ignore[attr-defined]
            if chunk is None:
                whole[number] = tokens[number]
    return whole


@pytest.mark.case("ml-explore/mlx-lm#1772")
def test_bans_and_penalties_stay_with_their_request_while_others_come_and_go(kind: dict[str, Any]) -> None:
    asked = requests(8)
    with LLM("tiny", **kind) as llm:
        alone = [llm.generate([prompt], wanted)[0].outputs[0].token_ids for prompt, wanted in asked]
        free = [
            llm.generate([p], SamplingParams(temperature=0, max_tokens=9))[0].outputs[0].token_ids for p, _ in asked
        ]
        found = [pair for seed in range(2) for pair in mixed(llm, asked, random.Random(seed)).items()]
    assert len(found) >= 8
    for number, tokens in found:
        assert tokens == alone[number], number
        assert not set(tokens) & set(asked[number][1].logit_bias or ())
    touched = [i for i, tokens in enumerate(free) if set(tokens) & set(asked[i][1].logit_bias or ())]
    assert touched, "no ban would ever have mattered"
