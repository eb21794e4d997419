"""What a scheduler must respect: seats, tokens per step, memory, and which policy takes which option."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from teachkv.errors import OptionError

COMMON = {"max_num_seqs", "budget", "resume_headroom", "can_be_ragged"}
OPTIONS = {
    "bucketed": COMMON | {"patience_steps"},
    "ragged": COMMON | {"patience_steps", "prefill_floor_steps", "prefill_max_seqs", "coalesce"},
    "packed": COMMON | {"max_num_batched_tokens"},
}
AT_LEAST_ONE = {"max_num_seqs", "max_num_batched_tokens", "patience_steps"}


class Budget(Protocol):
    """The memory as the scheduler sees it: a question that is answered without allocating anything."""

    def fits(self, lengths: Sequence[int], staging: Sequence[int]) -> bool:
        """True when rows that must hold `lengths` columns, plus staging slots of `staging` columns, fit together.

        A request that still prefills is in both lists: its row in the batch is reserved while it is staged.
        More or longer rows never fit where fewer or shorter ones do not.
        """


@dataclass(frozen=True, slots=True)
class ColumnBudget:
    """The simplest budget: the rows may hold so many columns together. Staging costs nothing."""

    columns: int

    def fits(self, lengths: Sequence[int], staging: Sequence[int]) -> bool:
        return sum(lengths) <= self.columns


@dataclass(frozen=True, slots=True)
class Limits:
    """Options of a scheduler; 0 switches a floor or a cap off.

    max_num_seqs:           seats, in every policy.
    max_num_batched_tokens: prefill tokens per step (packed).
    prefill_floor_steps:    after so many steps without a prompt, a prompt bucket runs (ragged).
    prefill_max_seqs:       prompts that may get a seat in one pass, and that may start in one step (ragged).
    coalesce:               let a short bucket catch up with the next one (ragged).
    patience_steps:         a seated request that has not run for so long goes first (bucketed, ragged).
    can_be_ragged:          what the KV slots can do: rows of different length in one decode batch.
    budget:                 the memory; None = as much as the seats need.
    resume_headroom:        columns every row must be able to grow by before a preempted request comes back.
    """

    max_num_seqs: int = 256
    max_num_batched_tokens: int = 512
    prefill_floor_steps: int = 0
    prefill_max_seqs: int = 0
    coalesce: bool = True
    patience_steps: int = 512
    can_be_ragged: bool = True
    budget: Budget | None = None
    resume_headroom: int = 16

    @classmethod
    def of(cls, policy: str, options: Mapping[str, Any]) -> "Limits":
        """Checked limits for one policy. Raises OptionError for an option that the policy cannot honour."""
        if policy not in OPTIONS:
            raise OptionError(f"scheduler: unknown policy {policy!r}; choose one of {', '.join(sorted(OPTIONS))}")
        for name, value in options.items():
            if name not in OPTIONS[policy]:
                known = ", ".join(sorted(OPTIONS[policy]))
                raise OptionError(f"scheduler: policy {policy!r} has no option {name!r}; it takes {known}")
            _check(name, value)
        return cls(**options)


def _check(name: str, value: object) -> None:
    if name == "budget":
        return
    if name in ("coalesce", "can_be_ragged"):
        if not isinstance(value, bool):
            raise OptionError(f"scheduler: {name} must be True or False, not {value!r}")
        return
    least = 1 if name in AT_LEAST_ONE else 0
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise OptionError(f"scheduler: {name} must be a whole number of at least {least}, not {value!r}")
