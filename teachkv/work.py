"""A step in progress: a plan and what has been made of it so far."""

from dataclasses import dataclass, field

from teachkv.attention import Kind
from teachkv.drawing import Outcome
from teachkv.inputs import Chunk, StepInputs
from teachkv.kv import CacheView
from teachkv.schedule import Plan


@dataclass(slots=True)
class Work:
    """What one plan has been turned into, as far as the step has come.

    counted: rows and tokens have begun to count, so the plan can no longer be given up as if it had never been tried.
    """

    plan: Plan
    chunks: dict[Kind, list[Chunk]]
    views: dict[Kind, CacheView] = field(default_factory=dict)
    inputs: StepInputs | None = None
    forward_seconds: float = 0.0
    outcomes: list[Outcome] = field(default_factory=list)
    refused: str | None = None
    counted: bool = False

    @property
    def opening(self) -> Kind:
        """The part whose cache view comes next: the one to blame if it is refused."""
        return "decode" if self.chunks["decode"] and "decode" not in self.views else "prefill"

    @property
    def has_drafts(self) -> bool:
        return any(chunk.drafts for chunk in self.chunks["decode"])

    def kept(self) -> list[int]:
        """Columns of each decode row that are real: its own token and the drafts that came true."""
        drawn = {outcome.sequence.id: len(outcome.tokens) for outcome in self.outcomes}
        return [max(drawn[chunk.sequence.id], 1) for chunk in self.chunks["decode"]]
