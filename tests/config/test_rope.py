"""Rotary tables against formulas worked out one pair at a time, and every spelling of the settings."""

import math
from typing import Any

import numpy as np
import pytest

from teachkv.config import ModelConfig, Rope, RopeConfig
from teachkv.config.rope import TABLED, inverse_frequencies
from teachkv.errors import ConfigError
from tests.toys import FAMILIES, NULL, tiny_config

SCALED: dict[str, dict[str, Any]] = {
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 4.0},
    "llama3": {
        "factor": 4.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16,
    },
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 16},
}


def read(**changes: Any) -> RopeConfig:
    return ModelConfig.from_dict(tiny_config(**changes)).rope


def by_hand(config: RopeConfig) -> list[float]:
    """The frequencies pair by pair in plain Python, from the published formulas."""
    D, found = config.head_dim, []
    for pair in range(D // 2):
        plain = 1.0 / config.theta ** (2 * pair / D)
        if config.kind == "linear":
            plain /= config.factor
        elif config.kind == "llama3":
            wave = 2 * math.pi / plain
            if wave > config.original / config.low_freq_factor:
                plain /= config.factor
            elif wave >= config.original / config.high_freq_factor:
                low, high = config.low_freq_factor, config.high_freq_factor
                smooth = (config.original / wave - low) / (high - low)
                plain = (1 - smooth) * plain / config.factor + smooth * plain
        elif config.kind == "yarn":
            low, high = (
                D * math.log(config.original / (2 * math.pi * beta)) / (2 * math.log(config.theta))
                for beta in (config.beta_fast, config.beta_slow)
            )
            if config.truncate:
                low, high = math.floor(low), math.ceil(high)
            low, high = max(low, 0), min(high, D - 1)
            ramp = min(max((pair - low) / ((high - low) or 0.001), 0.0), 1.0)
            plain = plain * (1 - ramp) + plain / config.factor * ramp
        found.append(plain)
    return found


@pytest.mark.parametrize("kind", ["default", "linear", "dynamic", "llama3", "yarn"])
@pytest.mark.parametrize("head_dim", [8, 64, 128])
@pytest.mark.parametrize("original", [16, 4096])
@pytest.mark.case("unslothai/unsloth#2405")
def test_frequencies_equal_the_formulas(kind: str, head_dim: int, original: int) -> None:
    config = RopeConfig(kind, 10000.0, head_dim, original, 4.0)
    assert inverse_frequencies(config) == pytest.approx(by_hand(config), rel=1e-12)


def test_llama3_frequencies_are_those_of_llama_3_1() -> None:
    """29 of 64 pairs turn over 4 times in 8192 tokens and stay; 29 turn less than once and slow down to an eighth."""
    config = RopeConfig("llama3", 500000.0, 128, 8192, 8.0)
    ratio = inverse_frequencies(config) / inverse_frequencies(RopeConfig("default", 500000.0, 128, 8192))
    assert (ratio == 1).sum() == 29
    assert np.isclose(ratio, 0.125, rtol=1e-12).sum() == 29
    assert (np.diff(ratio) <= 1e-15).all()


def test_yarn_attention_factor_follows_the_paper_unless_stated() -> None:
    base = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
    assert read(rope_scaling=base).attention_factor == pytest.approx(0.1 * math.log(4) + 1, rel=1e-15)
    assert read(rope_scaling=base | {"attention_factor": 1.25}).attention_factor == 1.25
    ratio = read(rope_scaling=base | {"mscale": 1.0, "mscale_all_dim": 0.5}).attention_factor
    assert ratio == pytest.approx((0.1 * math.log(4) + 1) / (0.05 * math.log(4) + 1), rel=1e-15)
    assert read(rope_scaling=base | {"factor": 1.0}).attention_factor == 1.0


def test_yarn_multiplies_the_attention_factor_into_both_tables() -> None:
    config = RopeConfig("yarn", 10000.0, 8, 16, 4.0, attention_factor=1.5)
    cos, sin = Rope(config).cos_sin(np.arange(5))
    assert np.hypot(cos, sin) == pytest.approx(np.full((5, 4), 1.5), rel=1e-6)
    assert cos.dtype == sin.dtype == np.float32
    assert cos.shape == (5, 4)


@pytest.mark.parametrize("position", [0, 257, 4095, 65535])
@pytest.mark.case("huggingface/transformers#29285")
def test_tables_hold_at_long_positions(position: int) -> None:
    """transformers#29285: angles in low precision drift. Compared with integer-exact reduction of the angle."""
    config = RopeConfig("default", 1e6, 64, 131072)
    cos, sin = Rope(config).cos_sin(np.array([position]))
    for pair, frequency in enumerate(by_hand(config)):
        assert cos[0, pair] == pytest.approx(math.cos(position * frequency), abs=1e-7)
        assert sin[0, pair] == pytest.approx(math.sin(position * frequency), abs=1e-7)


def test_a_position_has_one_table_whoever_asks_with_it() -> None:
    """Rows up to some position are kept, those behind it computed: alone or beside a far one, the bits are the same."""
    config = RopeConfig("default", 1e6, 64, 131072)
    grown = Rope(config)
    for count in (1, 3, 8, 200):
        positions = np.random.default_rng(count).integers(0, TABLED, count)
        found = grown.cos_sin(positions)
        beside = Rope(config).cos_sin(np.append(positions, TABLED + 5))
        for mine, other in zip(found, beside, strict=True):
            assert mine.tobytes() == other[:-1].tobytes()
    assert all(len(table) == TABLED for table in grown.tables)


@pytest.mark.kills("dynamic-length/position-only", "dynamic-length/batch-wide")
def test_dynamic_rows_depend_on_their_own_position_and_prompt_length_only() -> None:
    rope = Rope(RopeConfig("dynamic", 10000.0, 8, 16, 4.0))
    positions, prompts = np.array([0, 3, 40, 41, 5, 20]), np.array([41, 41, 41, 41, 6, 6])
    cos, _ = rope.cos_sin(positions, prompts)
    for row, (position, prompt) in enumerate(zip(positions, prompts, strict=True)):
        length = max(prompt, position + 1, 16)
        theta = 10000.0 * (4.0 * length / 16 - 3.0) ** (8 / 6)
        wanted = [math.cos(position * theta ** (-2 * pair / 8)) for pair in range(4)]
        assert cos[row] == pytest.approx(wanted, abs=1e-6)
        alone, _ = rope.cos_sin(positions[row : row + 1], prompts[row : row + 1])
        assert np.array_equal(alone[0], cos[row])


def test_dynamic_up_to_the_original_length_is_plain() -> None:
    plain = Rope(RopeConfig("default", 10000.0, 8, 16)).cos_sin(np.arange(16))
    scaled = Rope(RopeConfig("dynamic", 10000.0, 8, 16, 4.0)).cos_sin(np.arange(16), np.full(16, 16))
    assert all(np.array_equal(*pair) for pair in zip(plain, scaled, strict=True))


def test_dynamic_without_prompt_lengths_is_refused() -> None:
    with pytest.raises(ValueError, match="prompt length"):
        Rope(RopeConfig("dynamic", 10000.0, 8, 16, 4.0)).cos_sin(np.arange(4))


@pytest.mark.kills("rope-theta-nested/top-level-only")
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.case("deepspeedai/DeepSpeed#8345")
def test_v4_and_v5_spellings_give_the_same_settings(family: str) -> None:
    v4 = ModelConfig.from_dict(tiny_config(family, rope_theta=5e5))
    v5 = ModelConfig.from_dict(
        tiny_config(family, rope_theta=None, rope_parameters={"rope_theta": 5e5, "rope_type": "default"})
    )
    both = ModelConfig.from_dict(tiny_config(family, rope_theta=5e5, rope_parameters={"rope_theta": 5e5}))
    assert v4.rope == v5.rope == both.rope
    assert v4.rope.theta == 5e5


@pytest.mark.parametrize("kind", SCALED)
@pytest.mark.case("unslothai/unsloth#2405")
def test_every_kind_reads_the_same_from_all_three_spellings(kind: str) -> None:
    settings = SCALED[kind]
    old = read(rope_scaling=settings | {"type": kind}, max_position_embeddings=16)
    mid = read(rope_scaling=settings | {"rope_type": kind}, max_position_embeddings=16)
    new = read(
        rope_theta=None,
        rope_parameters=settings | {"rope_type": kind, "rope_theta": 10000.0},
        max_position_embeddings=16,
    )
    assert old == mid == new
    assert (old.kind, old.factor, old.original) == (kind, 4.0, 16)


@pytest.mark.kills("rope-theta-agrees/removed")
@pytest.mark.case("deepspeedai/DeepSpeed#8345")
def test_two_bases_that_disagree_are_an_error() -> None:
    with pytest.raises(ConfigError, match="rope_theta is 10000, but 500000 inside rope_parameters"):
        read(rope_theta=1e4, rope_parameters={"rope_theta": 5e5})


def test_no_base_at_all_is_the_default_and_says_so() -> None:
    config = ModelConfig.from_dict(tiny_config(rope_theta=None))
    assert config.rope.theta == 10000.0
    assert "rope_theta is absent: 10000 is assumed" in config.notes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": {"rope_type": "yarn"}}, "disagree"),
        ({"rope_scaling": {"factor": 2.0}, "rope_parameters": {"factor": 3.0}}, "disagree"),
        ({"rope_scaling": {"type": "linear", "rope_type": "yarn", "factor": 2.0}}, "rope_type is 'yarn', but type"),
        ({"rope_scaling": {"type": "linear"}}, "factor is missing"),
        ({"rope_scaling": {"type": "linear", "factor": 0.5}}, "factor is 0.5"),
        ({"rope_scaling": {"type": "linear", "factor": "4"}}, "factor must be a number"),
        ({"rope_scaling": {"type": "linear", "factor": True}}, "factor must be a number"),
        ({"rope_scaling": "linear"}, "rope_scaling must be an object"),
        ({"rope_scaling": {"type": 3}}, "type must be a string"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "low_freq_factor is missing"),
        (
            {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4, "high_freq_factor": 4}},
            "high_freq_factor is 4",
        ),
        ({"rope_theta": 0}, "rope_theta is 0"),
        ({"rope_theta": -1e4}, "rope_theta is -10000.0"),
        ({"rope_theta": 10**400}, "rope_theta is a number of over 30 digits"),
        ({"head_dim": 7}, "head_dim is 7"),
        (
            {
                "rope_scaling": {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 8},
                "original_max_position_embeddings": 16,
            },
            "original_max_position_embeddings is 16, but 8",
        ),
    ],
)
def test_contradictory_settings_are_errors(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(**changes)


@pytest.mark.kills("rope-kind-known/default")
@pytest.mark.parametrize("kind", ["longrope", "su", "mrope", "proportional", "ntk", ""])
@pytest.mark.case("unslothai/unsloth#2405")
def test_an_unknown_kind_is_an_error_with_the_known_ones(kind: str) -> None:
    if kind == "":
        assert read(rope_scaling={"rope_type": kind}).kind == "default"
        return
    with pytest.raises(ConfigError, match=f"rope_type is '{kind}'; known are default, linear, dynamic, llama3, yarn"):
        read(rope_scaling={"rope_type": kind, "factor": 2.0})


@pytest.mark.kills("rope-partial/removed")
@pytest.mark.parametrize("inner", [True, False])
def test_a_partly_rotated_head_is_refused(inner: bool) -> None:
    part = {"partial_rotary_factor": 0.5}
    with pytest.raises(ConfigError, match="partial_rotary_factor is not 1"):
        read(**({"rope_parameters": part} if inner else part))


def test_the_context_grows_with_dynamic_and_yarn_and_says_so() -> None:
    def context(kind: str, **more: Any) -> tuple[int, str]:
        scaling = SCALED[kind] | {"rope_type": kind} | more
        config = ModelConfig.from_dict(tiny_config(rope_scaling=scaling, max_position_embeddings=32))
        return config.max_position, "; ".join(config.notes)

    assert context("linear")[0] == 32
    assert context("llama3")[0] == 32
    assert context("dynamic") == (128, "context is 128: rope dynamic stretches 32 by 4")
    assert context("yarn")[0] == 64
    assert context("yarn", original_max_position_embeddings=8)[0] == 32


def test_a_null_yarn_factor_is_the_ratio_of_the_contexts_and_says_so() -> None:
    scaling = {"rope_type": "yarn", "factor": NULL, "original_max_position_embeddings": 32}
    config = ModelConfig.from_dict(tiny_config(rope_scaling=scaling | {"factor": None}))
    assert config.rope.factor == 4.0
    assert "rope factor is absent: 4 = 128 / 32" in config.notes


def test_settings_of_another_kind_are_reported() -> None:
    scaling = {"rope_type": "linear", "factor": 2.0, "low_freq_factor": 1.0}
    assert "rope settings not used: low_freq_factor" in ModelConfig.from_dict(tiny_config(rope_scaling=scaling)).notes


def test_describe_names_base_and_kind() -> None:
    assert read(rope_theta=1e6).describe() == "default, theta 1000000"
    assert (
        "factor 4 beyond 16"
        in read(rope_scaling={"type": "dynamic", "factor": 4.0}, max_position_embeddings=16).describe()
    )
