"""The record of a run: everything that was measured, saved after every sample, with a checksum over all of it."""

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from teachkv.bench.arms import Arm
from teachkv.bench.samples import Sample
from teachkv.errors import OptionError

FORMAT = 1


@dataclass(slots=True)
class Record:
    """What was asked (`setup`: model, shape, cells, rounds, ladder ...), by whom, where, and every sample."""

    setup: dict[str, Any]
    arms: list[Arm]
    fingerprint: dict[str, Any] = field(default_factory=dict)
    roof: dict[str, Any] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    harness: list[str] = field(default_factory=list)

    def has(self, key: tuple[str, str, int, str, bool]) -> bool:
        """Whether that sample is there and came to something."""
        return any(sample.key == key and sample.failed is None for sample in self.samples)

    def add(self, samples: list[Sample]) -> None:
        """A sample replaces a failed one of the same key."""
        keys = {sample.key for sample in samples}
        self.samples = [old for old in self.samples if old.key not in keys] + samples

    def arm(self, label: str) -> Arm:
        return next(arm for arm in self.arms if arm.label == label)

    @property
    def cells(self) -> list[str]:
        """Names with samples; a share of the capacity has become a rate by then."""
        names = [s.cell for s in self.samples if s.kind == "timed"]
        return sorted(dict.fromkeys(names), key=lambda name: (self.setup["cells"] + names).index(name))

    def of(self, cell: str, arm: str, kind: str = "timed") -> list[Sample]:
        """By round."""
        found = [s for s in self.samples if (s.cell, s.arm, s.kind) == (cell, arm, kind) and s.failed is None]
        return sorted(found, key=lambda sample: sample.round)

    def body(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "setup": self.setup,
            "arms": [arm.to_json() for arm in self.arms],
            "fingerprint": self.fingerprint,
            "roof": self.roof,
            "harness": self.harness,
            "samples": [sample.to_json() for sample in self.samples],
        }

    def save(self, path: Path) -> None:
        """Whole or not at all: a cut must not cost what was measured before it."""
        save_json(self.body(), path)

    @classmethod
    def load(cls, path: Path) -> "Record":
        body = load_json(path)
        if body.get("format") != FORMAT:
            raise OptionError(f"{path}: is no record of this version of 'teachkv bench'")
        arms, samples = [Arm.from_json(a) for a in body["arms"]], [Sample.from_json(s) for s in body["samples"]]
        return cls(body["setup"], arms, body["fingerprint"], body["roof"], samples, body["harness"])


def checksum(body: dict[str, Any]) -> str:
    """sha256 over the JSON with sorted keys and no spaces."""
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def save_json(body: dict[str, Any], path: Path) -> None:
    """`body` and its checksum."""
    plain: dict[str, Any] = json.loads(json.dumps(body))  # what a reader will see: string keys, lists
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    partial.write_text(
        json.dumps({**plain, "checksum": checksum(plain)}, separators=(",", ":")) + "\n", encoding="utf-8"
    )
    partial.replace(path)


def load_json(path: Path) -> dict[str, Any]:
    """Raises OptionError for a file that is no record, or has been changed by hand."""
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise OptionError(f"{path}: is no JSON: {error}") from error
    if not isinstance(body, dict) or "checksum" not in body:
        raise OptionError(f"{path}: has no checksum, so it is no record")
    stated = body.pop("checksum")
    if checksum(body) != stated:
        raise OptionError(f"{path}: does not match its checksum; it was changed after it was measured")
    return body
