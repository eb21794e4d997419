"""A step in progress: a plan and what has been made of it so far."""

import time
from dataclasses import dataclass, field

from teachkv.attention import Kind
from teachkv.drawing import FirstRound, Outcome
from teachkv.errors import PlanRefused
from teachkv.inputs import Chunk, StepInputs
from teachkv.kv import CacheView
from teachkv.kv.view import Array
from teachkv.schedule import Plan


@dataclass(slots=True)
class Work:
    """What one plan has been turned into, as far as the step has come.

    counted: rows and tokens have begun to count, so the plan can no longer be given up as if it had never been tried.
    notes: events of the loop itself. surplus: ids that had ended when the step was settled; nothing of them counts.
    refusal: why the plan could not be carried out; seen to when the step is settled.
    told: the scheduler knows already which sequences go on and which end, though nobody has looked at the tokens.
    began: on the performance counter; ahead: launched while the step before was running.
    """

    plan: Plan
    chunks: dict[Kind, list[Chunk]]
    has_drafts: bool = False
    views: dict[Kind, CacheView] = field(default_factory=dict)
    inputs: StepInputs | None = None
    forward_seconds: float = 0.0
    logits: Array | None = None
    first: FirstRound | None = None
    drawn: list[Outcome] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    surplus: set[int] = field(default_factory=set)
    refusal: PlanRefused | MemoryError | None = None
    refused: str | None = None
    counted: bool = False
    told: bool = False
    ahead: bool = False
    began: float = field(default_factory=time.perf_counter)
    waited: float = 0.0

    @property
    def opening(self) -> Kind:
        """The part whose cache view comes next: the one to blame if it is refused."""
        return "decode" if self.chunks["decode"] and "decode" not in self.views else "prefill"

    @property
    def all_chunks(self) -> list[Chunk]:
        return [*self.chunks["decode"], *self.chunks["prefill"]]

    def kept(self) -> list[int]:
        """Columns of each decode row that are real: its own token and the drafts that came true."""
        drawn = {outcome.sequence.id: len(outcome.tokens) for outcome in self.drawn}
        return [max(drawn[chunk.sequence.id], 1) for chunk in self.chunks["decode"]]
