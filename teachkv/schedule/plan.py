"""What one step does, as plain data that can be printed, compared and kept."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PrefillChunk:
    """Tokens `start .. start + count - 1` of one request; `last` when its logits are wanted.

    `start` is the number of positions that hold KV already (a prefix hit, or earlier chunks).
    """

    id: int
    start: int
    count: int
    last: bool

    def __str__(self) -> str:
        return f"{self.id}[{self.start}:{self.start + self.count}]{'' if self.last else '..'}"


@dataclass(frozen=True, slots=True)
class Plan:
    """One step. The scheduler only proposes it; the engine carries it out, then says what came of it.

    decode:  ids that get one more token (B rows, in order of arrival).
    prefill: chunks of prompts (whole prompts except under `packed`).
    preempt: ids that give their memory back *before* anything runs; their tokens are kept. Newest first.
    admit:   ids that get a seat with this plan; not all of them need to run in it.
    unfit:   ids that do not fit into the memory even alone; the engine has to end them.
    running: number of ids in this plan; waiting: all other live requests, decoders among them.
    events:  mechanisms that act for the first time.
    """

    step: int
    decode: tuple[int, ...] = ()
    prefill: tuple[PrefillChunk, ...] = ()
    preempt: tuple[int, ...] = ()
    running: int = 0
    waiting: int = 0
    reason: str = ""
    events: tuple[str, ...] = ()
    admit: tuple[int, ...] = ()
    unfit: tuple[int, ...] = ()

    @property
    def ids(self) -> tuple[int, ...]:
        """Everything that runs in this step: the decode rows, then the prefill rows."""
        return self.decode + tuple(chunk.id for chunk in self.prefill)

    @property
    def tokens(self) -> int:
        """Number of tokens T that go through the model (one per decode row)."""
        return len(self.decode) + sum(chunk.count for chunk in self.prefill)

    def __str__(self) -> str:
        parts = [f"step {self.step}: {self.running} running, {self.waiting} waiting ({self.reason})"]
        parts += [f"preempt {_names(self.preempt)}"] if self.preempt else []
        parts += [f"decode {_names(self.decode)}"] if self.decode else []
        parts += [f"prefill {' '.join(map(str, self.prefill))}"] if self.prefill else []
        parts += [f"unfit {_names(self.unfit)}"] if self.unfit else []
        parts += [f"first time: {', '.join(self.events)}"] if self.events else []
        return "; ".join(parts)


def _names(ids: tuple[int, ...]) -> str:
    return " ".join(map(str, ids))
