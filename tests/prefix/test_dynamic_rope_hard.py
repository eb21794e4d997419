"""Dynamic rope turns the keys of a long prompt by that prompt's own length: nobody else may be given them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from teachkv import LLM, SamplingParams
from tests.toys import write_tiny

ORIGINAL = 32
ROPE = {"rope_type": "dynamic", "factor": 4.0}
STEM: list[int] = np.random.default_rng(0).integers(2, 97, 128).tolist()


def asked() -> list[list[int]]:
    """All share one beginning; lengths on both sides of the original context, and some that cross it by drawing."""
    return [STEM[:length] for length in (17, 28, 32, 33, 48, 49, 80, 100, 31, 64)]


def facts(outputs: list[Any]) -> list[Any]:
    return [(o.outputs[0].token_ids, o.outputs[0].logprobs) for o in outputs]


@pytest.mark.kills("dynamic-own-length/shared")
def test_a_prompt_past_the_original_length_is_given_nothing(tmp_path: Path) -> None:
    model = str(write_tiny(tmp_path / "m", max_position_embeddings=ORIGINAL, rope_scaling=ROPE))
    wanted = SamplingParams(temperature=0, max_tokens=2, logprobs=-1)
    with LLM(model) as warm, LLM(model, enable_prefix_caching=False) as cold:
        for length in (32, 33, 48, 33):
            (output,) = warm.generate([STEM[:length]], wanted)
            assert facts([output]) == facts(cold.generate([STEM[:length]], wanted))
            assert output.num_cached_tokens == 0, length


@pytest.mark.case("huggingface/transformers#22382")
@pytest.mark.parametrize("policy", ["packed", "ragged", "bucketed"])
def test_warm_is_cold_on_both_sides_of_the_original_length(policy: str, tmp_path: Path) -> None:
    # 128 positions in all: the original length times the factor.
    model = str(write_tiny(tmp_path / "m", max_position_embeddings=ORIGINAL, rope_scaling=ROPE))
    wanted = SamplingParams(temperature=0, max_tokens=20, ignore_eos=True, logprobs=-1)
    with LLM(model, policy="bucketed", enable_prefix_caching=False, max_num_seqs=1) as llm:
        prompts = [p for p in asked() if len(p) + 20 <= llm._alive().engine.roster.limits.max_model_len]
        cold = facts([llm.generate([prompt], wanted)[0] for prompt in prompts])
    assert max(map(len, prompts)) >= 2 * ORIGINAL
    for order in (prompts, prompts[::-1]):
        with LLM(model, policy=policy) as llm:
            outputs = [llm.generate([prompt], wanted)[0] for prompt in order]
            again = llm.generate(order, wanted)
        expected = cold if order is prompts else cold[::-1]
        assert facts(outputs) == expected
        assert facts(again) == expected
        hits = {len(o.prompt_token_ids): o.num_cached_tokens for o in again}
        assert all(hit == 0 for length, hit in hits.items() if length > ORIGINAL)
        assert (hits[17], hits[28], hits[32]) == (16, 16, 16)


def test_text_that_outgrew_the_original_length_is_stored_up_to_it(tmp_path: Path) -> None:
    """A conversation goes on: the answer's tokens are part of the next prompt, which may still be short or not."""
    model = str(write_tiny(tmp_path / "m", max_position_embeddings=ORIGINAL, rope_scaling=ROPE))
    wanted = SamplingParams(temperature=0, max_tokens=24, ignore_eos=True, logprobs=-1)
    with LLM(model) as warm, LLM(model, enable_prefix_caching=False) as cold:
        first = warm.generate([asked()[0]], wanted)[0]
        whole = first.prompt_token_ids + first.outputs[0].token_ids
        assert len(whole) > ORIGINAL
        for length in (20, 32, 33, 40):
            assert facts(warm.generate([whole[:length]], wanted)) == facts(cold.generate([whole[:length]], wanted))
        stats = warm.stats()["prefix"]
    assert stats.hit_tokens > 0
