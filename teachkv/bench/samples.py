"""What one run of one cell left behind: every request, every step, and what the engine said of itself."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Served:
    """One request as it went. Times in seconds since the cell began; `due` is when it was meant to arrive.

    times: when each token came out, one entry per token. cached: prompt tokens that a prefix cache supplied.
    success: what the engine or client claims, which is not what the guards believe.
    """

    prompt: int
    out: int
    due: float
    sent: float
    times: tuple[float, ...]
    digest: str = ""
    finish: str | None = None
    error: str | None = None
    cached: int = 0
    success: bool = True


@dataclass(frozen=True, slots=True)
class Step:
    """One engine step. `at` is its end, since the cell began; kv_tokens: live columns that its decode rows read.

    ragged: its decode rows had different lengths.
    """

    at: float
    seconds: float
    forward: float
    running: int
    waiting: int
    resident: int
    prefill: int
    decode: int
    kv_tokens: int = 0
    ragged: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """Taken from the running engine, never from what was asked for.

    path: its path line, None for engines that have none. log: all lines it wrote. engaged: mechanism -> how often it
    acted. options: as the engine holds them. sources: hash of the files it was imported from. overlaid: files that a
    mutant replaced. weight_bytes, kv_token_bytes: what one pass, one live column costs to read.
    """

    path: str | None = None
    log: tuple[str, ...] = ()
    engaged: Mapping[str, int] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    sources: str = ""
    overlaid: tuple[str, ...] = ()
    model: str = ""
    weight_bytes: int = 0
    kv_token_bytes: int = 0
    peak_bytes: int = 0
    op_calls: int | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of one cell by one arm. `position` is its place among the arms of its round.

    kind: "timed", or "solo" (each request alone, for the identity control), or "capacity".
    probes: warm-up and drain requests; idle: nothing ran or waited when the cell began. failed: why there is nothing.
    pulses: seconds that the host's own fixed work took before and after the cell.
    """

    arm: str
    cell: str
    round: int
    position: int = 0
    ladder: bool = False
    kind: str = "timed"
    served: tuple[Served, ...] = ()
    probes: tuple[Served, ...] = ()
    idle: bool = True
    steps: tuple[Step, ...] = ()
    pulses: tuple[float, ...] = ()
    facts: Facts = field(default_factory=Facts)
    exit_code: int = 0
    failed: str | None = None

    @property
    def key(self) -> tuple[str, str, int, str, bool]:
        return (self.arm, self.cell, self.round, self.kind, self.ladder)

    def to_json(self) -> dict[str, Any]:
        """Plain data. Steps become rows of numbers, or a long run would be mostly key names."""
        data = asdict(self)
        data["steps"] = [[*map(_short, asdict(step).values())] for step in self.steps]
        for name in ("served", "probes"):
            for served in data[name]:
                served["times"] = [_short(at) for at in served["times"]]
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Sample":
        served, probes = (
            tuple(Served(**{**item, "times": tuple(item["times"])}) for item in data[name])
            for name in ("served", "probes")
        )
        facts = {**data["facts"], "log": tuple(data["facts"]["log"]), "overlaid": tuple(data["facts"]["overlaid"])}
        steps, pulses = tuple(Step(*row) for row in data["steps"]), tuple(data.get("pulses", ()))
        made = {"served": served, "probes": probes, "steps": steps, "pulses": pulses, "facts": Facts(**facts)}
        return cls(**{**data, **made})


def _short(value: Any) -> Any:
    """A microsecond is finer than any of these clocks."""
    return round(value, 6) if isinstance(value, float) else value
