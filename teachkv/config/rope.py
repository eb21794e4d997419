"""Rotary position tables: cos and sin per token, for every scaling kind the families use.

Pair i of a head of D channels turns by position * frequency[i], i < D/2 (half-split pairing: channel i with i + D/2).
    default   f[i] = theta ** (-2i/D)                                             RoFormer, arXiv:2104.09864
    linear    f / factor                                                          arXiv:2306.15595
    dynamic   theta grows with the length n = max(prompt length, position + 1)    "dynamic NTK"
    llama3    long waves are divided by factor, short ones kept, a ramp between   Llama 3.1
    yarn      the ramp lies over pairs, and cos, sin carry an attention factor    arXiv:2309.00071
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# The kinds a config.json can name; "divided" comes from GGUF files only.
KINDS = ("default", "linear", "dynamic", "llama3", "yarn")


@dataclass(frozen=True, slots=True)
class RopeConfig:
    """Settings as they take effect. `original` is the context of training; other kinds' fields keep their defaults."""

    kind: str
    theta: float
    head_dim: int
    original: int
    factor: float = 1.0
    low_freq_factor: float = 1.0  # llama3
    high_freq_factor: float = 4.0  # llama3
    beta_fast: float = 32.0  # yarn
    beta_slow: float = 1.0  # yarn
    attention_factor: float = 1.0  # yarn; multiplies cos and sin
    truncate: bool = True  # yarn: ramp ends rounded to whole pairs
    divisors: tuple[float, ...] = ()  # divided: one per pair, as GGUF files of Llama 3 hold them

    @property
    def depends_on_length(self) -> bool:
        """True if a key's rotation depends on the prompt's length: its rows cannot be shared between prompts."""
        return self.kind == "dynamic"

    def describe(self) -> str:
        """One line for `inspect`."""
        extra = {
            "default": "",
            "linear": f", factor {self.factor:g}",
            "divided": f", {len(self.divisors)} divisors of {min(self.divisors, default=1):g} to "
            f"{max(self.divisors, default=1):g}",
            "dynamic": f", factor {self.factor:g} beyond {self.original}",
            "llama3": f", factor {self.factor:g}, original {self.original}, "
            f"low {self.low_freq_factor:g}, high {self.high_freq_factor:g}",
            "yarn": f", factor {self.factor:g}, original {self.original}, betas {self.beta_fast:g} and "
            f"{self.beta_slow:g}, attention factor {self.attention_factor:g}",
        }
        return f"{self.kind}, theta {self.theta:.10g}{extra[self.kind]}"


Tables = tuple[NDArray[np.float32], NDArray[np.float32]]
TABLED = 1 << 16  # positions up to which cos and sin are kept once they were asked for


class Rope:
    """Tables for one config. Angles are float64: at position 65535 a float32 angle is already off by 4e-3."""

    def __init__(self, config: RopeConfig) -> None:
        self.config = config
        self.frequencies = inverse_frequencies(config)  # [D/2] float64; for dynamic: up to the original length
        self.tables = self._turned(np.zeros((0, 1)) * self.frequencies)

    def cos_sin(self, positions: NDArray[np.integer], prompt_lens: NDArray[np.integer] | None = None) -> Tables:
        """cos, sin float32 [T, D/2] for positions[T]; the attention factor is multiplied in.

        prompt_lens[T] is each token's prompt length. Only kind dynamic reads it, and needs it: prompt positions use
        the whole prompt's length, a generated position p uses p + 1, so that recomputing a row gives the same row.
        Raises ValueError if it is missing there.
        """
        positions = np.asarray(positions)
        if self.config.depends_on_length:
            if prompt_lens is None:
                raise ValueError("dynamic rope needs the prompt length of every token")
            # guard[dynamic-length]: a length taken from anything but (position, prompt) changes keys already written
            # mutant[dynamic-length/position-only]:
            #   - lengths = np.maximum(positions + 1, np.asarray(prompt_lens))
            #   + lengths = positions + 1
            # mutant[dynamic-length/batch-wide]:
            #   - lengths = np.maximum(positions + 1, np.asarray(prompt_lens))
            #   + lengths = np.full(len(positions), np.max(np.maximum(positions + 1, prompt_lens)))
            lengths = np.maximum(positions + 1, np.asarray(prompt_lens))
            return self._turned(positions[:, None] * dynamic_frequencies(self.config, lengths))
        stop = int(np.max(positions, initial=-1)) + 1
        if stop > TABLED:
            return self._turned(positions[:, None] * self.frequencies)
        if stop > len(self.tables[0]):
            rows = 1 << (stop - 1).bit_length()
            self.tables = self._turned(np.arange(rows, dtype=np.float64)[:, None] * self.frequencies)
        cos, sin = self.tables
        return cos[positions], sin[positions]

    def _turned(self, angles: NDArray[np.float64]) -> Tables:
        factor = self.config.attention_factor
        return (np.cos(angles) * factor).astype(np.float32), (np.sin(angles) * factor).astype(np.float32)


def inverse_frequencies(config: RopeConfig) -> NDArray[np.float64]:
    """Radians per position of each pair, float64 [D/2]. For dynamic: those that hold up to the original length."""
    base: NDArray[np.float64] = config.theta ** (-np.arange(0, config.head_dim, 2, dtype=np.float64) / config.head_dim)
    if config.kind == "linear":
        return base / config.factor
    if config.kind == "divided":
        return base / np.array(config.divisors, dtype=np.float64)
    if config.kind == "llama3":
        return _llama3(base, config)
    if config.kind == "yarn":
        return _yarn(base, config)
    return base


def dynamic_frequencies(config: RopeConfig, lengths: NDArray[np.integer]) -> NDArray[np.float64]:
    """Frequencies [T, D/2] at context lengths[T]: theta grows so that the slowest pair spans the longer context."""
    D = config.head_dim
    seen = np.maximum(lengths, config.original).astype(np.float64)
    stretch = config.factor * seen / config.original - (config.factor - 1)
    theta = config.theta * stretch ** (D / (D - 2))
    powers: NDArray[np.float64] = theta[:, None] ** (-np.arange(0, D, 2, dtype=np.float64) / D)
    return powers


def _llama3(base: NDArray[np.float64], config: RopeConfig) -> NDArray[np.float64]:
    """Turns per original context decide: above `high` kept, below `low` divided by factor, a linear blend between."""
    turns = config.original * base / (2 * math.pi)
    keep = np.clip((turns - config.low_freq_factor) / (config.high_freq_factor - config.low_freq_factor), 0.0, 1.0)
    return base * (keep + (1 - keep) / config.factor)


def _yarn(base: NDArray[np.float64], config: RopeConfig) -> NDArray[np.float64]:
    """A ramp over pair index: fast pairs kept, slow ones divided by factor."""
    first, last = (_pair_that_turns(times, config) for times in (config.beta_fast, config.beta_slow))
    if config.truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0.0), min(last, config.head_dim - 1.0)
    if first == last:
        last += 0.001  # the ramp's width divides
    divide: NDArray[np.float64] = np.clip((np.arange(config.head_dim // 2) - first) / (last - first), 0.0, 1.0)
    return base * (1 - divide) + base / config.factor * divide


def _pair_that_turns(times: float, config: RopeConfig) -> float:
    """The (fractional) pair index whose wave turns `times` times within the original context."""
    turns = math.log(config.original / (times * 2 * math.pi))
    return float(config.head_dim * turns / (2 * math.log(config.theta)))
