"""Draws through the whole engine, from given logits: exact distributions and supports, whatever company there is."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from teachkv import LLM, SamplingParams
from tests.engine.markov import Markov

IDS = (3, 90, 17, 255, 40)
MASS = np.array([0.4, 0.2, 0.2, 0.15, 0.05])
# 99.9th percentiles of chi-square by degrees of freedom.
LIMIT = {1: 10.83, 2: 13.82, 3: 16.27, 4: 18.47}
REQUESTS, SAMPLES = 12, 100


class Fixed(Markov):
    """The same logits at every position: log of MASS at IDS, nothing elsewhere."""

    def forward(self, tokens: Any, parts: Any, logits_at: Any) -> Any:
        logits = super().forward(tokens, parts, logits_at)
        logits[:] = -np.inf
        logits[:, list(IDS)] = np.log(MASS)
        return logits


def drawn(policy: str, **params: Any) -> Counter[int]:
    """First tokens of requests with several samples each, beside greedy ones."""
    with LLM("tiny", seed=3, policy=policy) as llm:
        engine = llm._alive().engine
        engine.model = Fixed(engine.model, lambda token: token)  # type: ignore[assignment]
        asked = SamplingParams(n=SAMPLES, max_tokens=1, ignore_eos=True, **params)
        mates = [SamplingParams(temperature=0, max_tokens=2, ignore_eos=True), asked]
        outputs = llm.generate([[65 + at % 5] for at in range(2 * REQUESTS)], mates * REQUESTS)
    assert {tuple(output.outputs[0].token_ids) for output in outputs[::2]} == {(3, 3)}
    return Counter(sample.token_ids[0] for output in outputs[1::2] for sample in output.outputs)


def only(*places: int) -> Any:
    kept = np.array([mass if at in places else 0.0 for at, mass in enumerate(MASS)])
    return kept / kept.sum()


def biased(bias: float) -> Any:
    raised = MASS * np.array([1, math.exp(bias), 1, 1, 1])
    return raised / raised.sum()


CASES: dict[str, tuple[dict[str, Any], Any]] = {
    "plain": ({}, MASS),
    "temperature": ({"temperature": 2.0}, np.sqrt(MASS) / np.sqrt(MASS).sum()),
    "top-k at a tie": ({"top_k": 2}, only(0, 2)),  # 17 and 90 are equal: the lower id stays
    "top-p at a tie": ({"top_p": 0.55}, only(0, 2)),
    "min-p": ({"min_p": 0.4}, only(0, 1, 2)),
    "bias": ({"logit_bias": {90: 1.0}}, biased(1.0)),
    "ban": ({"logit_bias": {3: -math.inf}}, only(1, 2, 3, 4)),
    "all at once": ({"logit_bias": {3: -math.inf}, "top_k": 3, "top_p": 0.7}, only(1, 2)),
}


@pytest.mark.parametrize(("policy", "name"), [*(("packed", name) for name in CASES), ("ragged", "all at once")])
@pytest.mark.case("flashinfer-ai/flashinfer#3774", "vllm-project/vllm#11953")
def test_samples_of_many_requests_follow_the_exact_distribution(policy: str, name: str) -> None:
    params, exact = CASES[name]
    found, count = drawn(policy, **params), REQUESTS * SAMPLES
    assert found.total() == count
    assert set(found) == {token for token, mass in zip(IDS, exact, strict=True) if mass > 0}
    wanted = [(found[token], count * mass) for token, mass in zip(IDS, exact, strict=True) if mass > 0]
    assert sum((seen - due) ** 2 / due for seen, due in wanted) < LIMIT[len(wanted) - 1]
