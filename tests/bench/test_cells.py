"""The built-in workloads, and prompts that nobody has seen before."""

from itertools import pairwise

import pytest

from teachkv.bench.cells import prompts
from teachkv.bench.workloads import YARDSTICK_TOKENS, at_rate, cell, load_of
from teachkv.errors import OptionError


def test_the_yardstick_is_the_published_one() -> None:
    yardstick = cell("yardstick")
    assert len(yardstick.asks) == 256
    assert yardstick.tokens_out == YARDSTICK_TOKENS == 133_966
    assert all(100 <= n <= 1024 for ask in yardstick.asks for n in (ask.prompt, ask.out))


def test_uniform_and_spread_are_the_seed_documents() -> None:
    assert [(a.prompt, a.out) for a in cell("uniform-32").asks] == [(275, 64)] * 32
    lengths = [ask.prompt for ask in cell("spread-128").asks]
    assert (lengths[0], lengths[-1], len(set(lengths))) == (16, 534, 128)
    gaps = {b - a for a, b in pairwise(lengths)}
    assert gaps == {4, 5}
    assert cell("spread-1").asks[0].prompt == 275


def test_arrivals_are_poisson_with_the_rate_asked_for() -> None:
    at = [ask.at for ask in cell("arrivals-2000:rate=4").asks]
    gaps = [b - a for a, b in zip([0.0, *at], at, strict=False)]
    mean = sum(gaps) / len(gaps)
    assert mean == pytest.approx(0.25, rel=0.1)
    assert (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5 == pytest.approx(mean, rel=0.1)
    assert at == sorted(at)
    assert {ask.at for ask in cell("arrivals-9:rate=0").asks} == {0.0}


def test_a_load_becomes_a_rate() -> None:
    assert load_of("arrivals:load=0.8,out=4") == 0.8
    assert load_of("arrivals:rate=2") == 0.0
    assert at_rate("arrivals:load=0.8,rate=1", 2.5) == "arrivals:load=0.8,rate=2.5"


def test_long_tail_has_one() -> None:
    lengths = sorted(ask.prompt for ask in cell("long-tail-200").asks)
    assert lengths[len(lengths) // 2] < 80
    assert lengths[-1] > 300


def test_a_shared_prefix_is_shared_and_nothing_else() -> None:
    texts = prompts(cell("shared-prefix-4:shared=20,own=9,out=2"), 500, [], round=0)
    assert {tuple(text[:20]) for text in texts} == {tuple(texts[0][:20])}
    assert len({tuple(text[20:]) for text in texts}) == 4


@pytest.mark.case("vllm-project/vllm#52884")
@pytest.mark.kills("fresh-prompts/same-every-round", "fresh-prompts/same-in-every-cell")
def test_prompts_are_new_in_every_round_cell_and_warm_up_and_the_same_for_every_arm() -> None:
    asked, other = cell("uniform-4:prompt=30,out=2"), cell("uniform-4:prompt=30,out=3")
    made = [
        prompts(asked, 500, [7], round=0),
        prompts(asked, 500, [7], round=1),
        prompts(other, 500, [7], round=0),
        prompts(asked, 500, [7], round=0, purpose="warm-up"),
    ]
    assert len({tuple(text) for texts in made for text in texts}) == 16
    assert made[0] == prompts(asked, 500, [7], round=0)
    assert all(7 not in text and max(text) < 500 for texts in made for text in texts)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("unifrom-8", "did you mean 'uniform'"),
        ("uniform-0", "at least one request"),
        ("spread-8:outs=3", "unknown option 'outs'"),
        ("spread-8:out=x", "not a number"),
        ("spread-8:out=-1", "below 0"),
        ("", "known"),
    ],
)
def test_what_is_no_cell_is_named(name: str, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        cell(name)
