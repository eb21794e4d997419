"""What is asked of an engine: a cell and its requests, and the prompts that nobody has seen before."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: prompt and output length in tokens, due `at` seconds after the cell began.

    The first `shared` tokens of the prompt are the same in all requests of the cell.
    """

    prompt: int
    out: int
    at: float = 0.0
    shared: int = 0


@dataclass(frozen=True, slots=True)
class Cell:
    """One workload. `name` is its whole text (`spread-8:out=16`): a record names cells, and rebuilds them from it.

    repeat: all prompts are one prompt (a fixture for the identity control, never a workload to compare on).
    stops: the model's eos may end a request (a fixture too: every built-in cell ignores eos).
    """

    name: str
    asks: tuple[Ask, ...]
    repeat: bool = False
    stops: bool = False

    @property
    def tokens_out(self) -> int:
        return sum(ask.out for ask in self.asks)

    @property
    def shapes(self) -> set[tuple[int, int]]:
        """(prompt, out) of every request: what a warm-up may look like."""
        return {(ask.prompt, ask.out) for ask in self.asks}

    @property
    def open_loop(self) -> bool:
        return any(ask.at > 0 for ask in self.asks)


def prompts(cell: Cell, vocab: int, avoid: Sequence[int], *, round: int, purpose: str = "cell") -> list[list[int]]:
    """Token ids for every ask, the same for all arms of a round and new in every round.

    vocab: ids are drawn below it; avoid: ids left out (eos and its kin). `purpose` separates warm-up from cell.
    """
    words = np.setdiff1d(np.arange(vocab, dtype=np.int64), np.asarray(avoid, dtype=np.int64))
    # guard[fresh-prompts]: prompts asked twice come out of a prefix cache, and the second point of a sweep looks faster
    # origin: vllm#52884
    # mutant[fresh-prompts/same-every-round]:
    #   - key = [zlib.crc32(cell.name.encode()), zlib.crc32(f"{purpose} {round}".encode())]
    #   + key = [zlib.crc32(cell.name.encode()), zlib.crc32(b"")]
    # mutant[fresh-prompts/same-in-every-cell]:
    #   - key = [zlib.crc32(cell.name.encode()), zlib.crc32(f"{purpose} {round}".encode())]
    #   + key = [zlib.crc32(b""), zlib.crc32(f"{purpose} {round}".encode())]
    key = [zlib.crc32(cell.name.encode()), zlib.crc32(f"{purpose} {round}".encode())]
    generator = np.random.Generator(np.random.Philox(key=key))
    common = words[generator.integers(0, len(words), max((ask.shared for ask in cell.asks), default=0))]
    made = []
    for ask in cell.asks:
        own = words[generator.integers(0, len(words), ask.prompt - ask.shared)]
        made.append([*common[: ask.shared].tolist(), *own.tolist()])
    return [list(made[0]) for _ in made] if cell.repeat else made
