"""Finds the rotary settings in a config: v4 files hold `rope_theta` and `rope_scaling`, v5 files `rope_parameters`.

A wrong base gives fluent but worse text and no error anywhere, so nothing here falls back in silence.
"""

import math
from typing import Any

from teachkv.config.reading import Fields, printable
from teachkv.config.rope import KINDS, RopeConfig

DEFAULT_THETA = 10_000.0  # of all four families


def read_rope(
    fields: Fields, head_dim: int, max_position: int, divisors: tuple[float, ...] | None = None
) -> tuple[RopeConfig, int, list[str]]:
    """(settings, usable context in tokens, notes). Raises ConfigError for unknown kinds and disagreeing spellings."""
    notes: list[str] = []
    block = _block(fields, "rope_parameters", "rope_scaling")
    theta = _theta(fields, block, notes)
    kind = _kind(block)
    if head_dim % 2 or (kind == "dynamic" and head_dim < 4):
        fields.fail("head_dim", f"is {head_dim}; rotary positions turn channels in pairs")
    # guard[rope-partial]: a head rotated in part only, read as a whole one, is wrong from the second token on
    # mutant[rope-partial/removed]:
    #   - if _partial(fields, block) != 1.0:
    #   + if False:
    if _partial(fields, block) != 1.0:
        fields.fail("partial_rotary_factor", "is not 1; partly rotated heads are not supported")
    if divisors is not None:
        if kind != "default" or len(divisors) != head_dim // 2 or not all(0 < item < math.inf for item in divisors):
            fields.fail("rope_freqs", f"must hold {head_dim // 2} positive divisors, and no other scaling beside them")
        return RopeConfig("divided", theta, head_dim, max_position, divisors=divisors), max_position, notes
    if kind == "default":
        return RopeConfig("default", theta, head_dim, max_position), max_position, notes + _left(block)
    original = _original(fields, block, kind, max_position)
    if kind == "yarn":
        config = _yarn(block, theta, head_dim, original, max_position, notes)
    elif kind == "llama3":
        config = _llama3(block, theta, head_dim, original)
    else:
        config = RopeConfig(kind, theta, head_dim, original, block.number("factor", low=1.0, above=False))
    context = max_position
    if kind in ("dynamic", "yarn"):
        context = min(max(max_position, int(original * config.factor)), 2**31 - 1)
    if context != max_position:
        notes.append(f"context is {context}: rope {kind} stretches {original} by {config.factor:g}")
    return config, context, notes + _left(block)


def _block(fields: Fields, new: str, old: str) -> Fields:
    """The one dict that holds the settings. Both spellings may stand side by side only if they say the same."""
    found = {}
    for key in (new, old):
        value = fields.raw(key)
        if value is not None and not isinstance(value, dict):
            fields.fail(key, "must be an object")
        if value is not None:
            found[key] = Fields(value, f"{fields.where}: {key}")
    if len(found) == 2:
        common = _comparable(found[new]), _comparable(found[old])
        if any(common[0].get(key) != value for key, value in common[1].items()):
            fields.fail(new, f"and {old} disagree; keep one of them")
    return found.get(new) or found.get(old) or Fields({}, fields.where)


def _comparable(block: Fields) -> dict[str, Any]:
    """A copy in which both spellings of the kind are one key and nulls are gone."""
    plain = {key: value for key, value in block.data.items() if value is not None and key not in ("type", "rope_type")}
    return plain | {"rope_type": _kind(block)}


def _theta(fields: Fields, block: Fields, notes: list[str]) -> float:
    outer = fields.number("rope_theta", low=1.0) if fields.has("rope_theta") else None
    inner = block.number("rope_theta", low=1.0) if block is not fields and block.has("rope_theta") else None
    # guard[rope-theta-agrees]: of two bases one is wrong, and either would load
    # mutant[rope-theta-agrees/removed]:
    #   - if outer is not None and inner is not None and outer != inner:
    #   + if False:
    if outer is not None and inner is not None and outer != inner:
        fields.fail("rope_theta", f"is {outer:.10g}, but {inner:.10g} inside rope_parameters; keep the right one")
    # guard[rope-theta-nested]: v5 files moved the base inside, and defaults took its place (DeepSpeed#8345)
    # mutant[rope-theta-nested/top-level-only]:
    #   - theta = outer if outer is not None else inner
    #   + theta = outer
    theta = outer if outer is not None else inner
    if theta is None:
        notes.append(f"rope_theta is absent: {DEFAULT_THETA:g} is assumed")
        return DEFAULT_THETA
    return theta


def _kind(block: Fields) -> str:
    new, old = block.text("rope_type"), block.text("type")
    if new is not None and old is not None and new != old:
        block.fail("rope_type", f"is {new[:40]!r}, but type is {old[:40]!r}; keep one of them")
    kind = new or old or "default"
    # guard[rope-kind-known]: an unknown scaling read as none looks right on short prompts
    # mutant[rope-kind-known/default]:
    #   - if kind not in KINDS:
    #   + if False:
    if kind not in KINDS:
        block.fail("rope_type", f"is {kind[:40]!r}; known are {', '.join(KINDS)}")
    return kind


def _partial(fields: Fields, block: Fields) -> float:
    outer = fields.number("partial_rotary_factor", 1.0)
    return min(outer, block.number("partial_rotary_factor", 1.0))


def _original(fields: Fields, block: Fields, kind: str, max_position: int) -> int:
    """The trained context. Dynamic rope measures against max_position_embeddings by definition."""
    key = "original_max_position_embeddings"
    outer = fields.integer(key) if fields.has(key) else None
    inner = block.integer(key) if block.has(key) else None
    if outer is not None and inner is not None and outer != inner:
        fields.fail(key, f"is {outer}, but {inner} beside the rope kind; keep the right one")
    stated = outer if outer is not None else inner
    if kind in ("dynamic", "linear") or stated is None:
        return max_position
    return stated


def _llama3(block: Fields, theta: float, head_dim: int, original: int) -> RopeConfig:
    low, high = block.number("low_freq_factor"), block.number("high_freq_factor")
    if high <= low:
        block.fail("high_freq_factor", f"is {high:g}; it must be above low_freq_factor {low:g}")
    factor = block.number("factor", low=1.0, above=False)
    return RopeConfig("llama3", theta, head_dim, original, factor, low_freq_factor=low, high_freq_factor=high)


def _yarn(block: Fields, theta: float, head_dim: int, original: int, max_position: int, notes: list[str]) -> RopeConfig:
    if block.has("factor"):
        factor = block.number("factor", low=1.0, above=False)
    else:
        factor = max(max_position / original, 1.0)
        notes.append(f"rope factor is absent: {factor:g} = {max_position} / {original}")
    return RopeConfig(
        "yarn",
        theta,
        head_dim,
        original,
        factor,
        beta_fast=block.number("beta_fast", 32.0),
        beta_slow=block.number("beta_slow", 1.0),
        attention_factor=_attention_factor(block, factor),
        truncate=block.flag("truncate", True),
    )


def _attention_factor(block: Fields, factor: float) -> float:
    """As stated, else the ratio of two terms where both weights are given, else the paper's 0.1 ln(factor) + 1."""

    def term(weight: float) -> float:
        return 0.1 * weight * math.log(factor) + 1.0

    over = block.number("mscale", 0.0, above=False)
    under = block.number("mscale_all_dim", 0.0, above=False)
    if block.has("attention_factor"):
        return block.number("attention_factor")
    return term(over) / term(under) if over and under else term(1.0)


def _left(block: Fields) -> list[str]:
    """Settings of another kind that stand in the block: visible, because they do nothing."""
    known = {"rope_theta", "rope_type", "type", "partial_rotary_factor", "original_max_position_embeddings"}
    left = [key for key in block.unread() if key not in known]
    return (
        [f"rope settings not used: {', '.join(printable(key, 40) for key in left[:12])}"]
        if left and block.where.endswith(("parameters", "scaling"))
        else []
    )
