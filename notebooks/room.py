"""A room for lessons: a model and its KV cache, worked by hand one step at a time, without scheduler and sampler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from teachkv.assembly import assemble
from teachkv.checkpoint.glass import ALPHABET, glass, visible_counts
from teachkv.checkpoint.loaded import LoadedModel
from teachkv.model import Part
from teachkv.observe.trace import RowRecord, StepRecord
from teachkv.options import EngineOptions

SENTINEL = "."


def ids(text: str) -> list[int]:
    """Glass tokens: one per character, "." last of all."""
    return [63 if char == SENTINEL else ALPHABET.index(char) for char in text]


class Room:
    """Each call is one step. `log` keeps what was visible in it, for the step player."""

    def __init__(self, loaded: LoadedModel | None = None, **options: Any) -> None:
        settings = EngineOptions.parse({"poison": False, "backend": "reference", **options})
        self.assembly = assemble(loaded or glass(), settings, log=None)
        self.cache, self.model = self.assembly.engine.cache, self.assembly.engine.model
        self.log: list[StepRecord] = []

    def prefill(self, prompts: Mapping[int, str | Sequence[int]]) -> dict[int, NDArray[np.float32]]:
        """New rows; the logits [V] after each prompt's last token."""
        known = {row: ids(text) if isinstance(text, str) else list(text) for row, text in prompts.items()}
        for row in known:
            self.cache.add(row)
        return self._step("prefill", known)

    def decode(self, tokens: Mapping[int, str | int]) -> dict[int, NDArray[np.float32]]:
        """One more token for each row, in one batch; the logits [V] after it."""
        return self._step("decode", {row: ids(t) if isinstance(t, str) else [t] for row, t in tokens.items()})

    def _step(self, kind: Any, work: Mapping[int, list[int]]) -> dict[int, NDArray[np.float32]]:
        counts = [len(tokens) for tokens in work.values()]
        opened = self.cache.open_decode if kind == "decode" else self.cache.open_prefill
        view = opened(list(work), counts)
        offsets = np.cumsum([0, *counts], dtype=np.int32)
        tokens = np.array([token for row in work.values() for token in row], dtype=np.int32)
        part = Part(kind, offsets, view, prompt_lens=np.array(counts, dtype=np.int32))
        logits = self.model.forward(tokens, [part], offsets[1:] - 1)
        self._note(kind, list(work), counts, view.layers[0].geometry)
        self.cache.close(view)
        return dict(zip(work, logits, strict=True))

    def _note(self, kind: str, rows: list[int], counts: list[int], where: Any) -> None:
        pads = [0] * len(rows) if where.lead_pad is None else where.lead_pad.tolist()
        seen = tuple(
            RowRecord(row, kind, int(where.row[b]), pads[b], int(where.end[b]), counts[b]) for b, row in enumerate(rows)
        )
        prompts = [{"id": row, "start": 0, "count": count} for row, count in zip(rows, counts, strict=True)]
        first = kind == "prefill"
        plan = {"decode": [] if first else rows, "prefill": prompts if first else [], "reason": "by hand"}
        events = tuple(self.cache.take_events())
        self.log.append(StepRecord(len(self.log), plan, len(rows), 0, len(rows), rows=seen, events=events))


def counted(logits: Any, once: str = "") -> dict[str, int]:
    """Which characters a glass row saw, and how often. `once` names a letter that was seen exactly once.

    Without `once` the row must have looked at live keys only (ValueError otherwise). With it, "nothing" counts the
    dead columns that took as much weight as a key: at weight p per key the logits are, up to a factor, 8 * n * p at a
    letter seen n times and 1 + 8 * p at the sentinel, so the one letter gives p, and what is missing to 1 is on nothing.
    """
    shown = [*ALPHABET[:63], SENTINEL]
    if not once:
        return {shown[i]: int(n) for i, n in enumerate(visible_counts(logits)) if n}
    row = np.asarray(logits, dtype=np.float64)
    unit = row[ids(once)[0]]
    weight = unit / row[63] / (8 * (1 - unit / row[63]))
    counts = {shown[i]: round(float(row[i] / unit)) for i in range(63) if row[i] > unit / 2}
    counts[SENTINEL] = 1
    dead = round(1 / weight) - sum(counts.values())
    return counts | ({"nothing": dead} if dead else {})
