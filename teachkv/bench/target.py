"""What the driver needs of an engine, whichever it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from teachkv.bench.samples import Facts, Step


@dataclass(frozen=True, slots=True)
class Event:
    """Progress of one request: tokens that came out at time `at`. A request's last event says how it ended."""

    key: int
    tokens: tuple[int, ...]
    at: float
    finish: str | None = None
    error: str | None = None
    cached: int = 0
    success: bool = True


class Target(Protocol):
    """An engine under measurement. Its clock is its own: a scripted engine's time is scripted too."""

    vocab: int
    avoid: Sequence[int]

    def now(self) -> float:
        """Seconds. What a step has given was finished by then."""

    def wait(self, until: float) -> None: ...

    def submit(self, key: int, prompt: Sequence[int], out: int, *, stops: bool) -> None:
        """Queue a request. Keys are never used twice."""

    def step(self) -> list[Event]: ...

    def idle(self) -> bool:
        """Nothing runs and nothing waits."""

    def take_steps(self) -> list[Step]:
        """The steps since the last call, with times on the engine's own clock; `facts` counts calls over these."""

    def facts(self) -> Facts: ...

    def pulse(self) -> float:
        """Seconds that a fixed piece of the host's own work takes just now."""
