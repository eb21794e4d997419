"""Arms: what `--arm` may say, and what an arm thereby claims.

    packed                                    a policy, all else as the engine's default
    floor4: policy=ragged prefill_floor_steps=4
    old: commit:<40 hex> policy=ragged        the same harness on another commit, in a worktree
    broken: policy=ragged mutant=masker/none-at-one-query
    transformers | llama-cpp | mistralrs      a peer, where installed
    fake:script.json                          a scripted engine (tests and lessons)

An arm claims the policy, cache and backend that its options mean, and the mechanisms that they switch on. `claims.KEY=`
and `engages=` state claims on their own, for arms whose options are set elsewhere.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from teachkv.errors import OptionError
from teachkv.options import POLICIES, EngineOptions

PEERS = ("transformers", "llama-cpp", "mistralrs")
CLAIMABLE = ("policy", "cache", "backend")
# Which option switches on which mechanism, by the name that the engagement log uses.
MECHANISMS = {"prefill_floor_steps": "floor", "prefill_max_seqs": "cap", "speculative_tokens": "speculate"}
_COMMIT = re.compile(r"[0-9a-f]{40}")
_LABEL = re.compile(r"([\w ,.()/+-]+?):\s+(.*)")


@dataclass(frozen=True, slots=True)
class Arm:
    """One engine configuration or peer. `twin_of` names the arm that this one repeats, for the A/A pair."""

    label: str
    kind: Literal["teachkv", "peer", "fake"]
    options: Mapping[str, Any] = field(default_factory=dict)
    claims: Mapping[str, str] = field(default_factory=dict)
    engages: tuple[str, ...] = ()
    commit: str | None = None
    mutants: tuple[str, ...] = ()
    source: str = ""
    script: Mapping[str, Any] = field(default_factory=dict)
    twin_of: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Arm":
        return cls(**{**data, "engages": tuple(data["engages"]), "mutants": tuple(data["mutants"])})

    def twin(self) -> "Arm":
        """The same arm again, under another name: what differs between the two is noise."""
        data = self.to_json() | {"label": f"{self.label} (A/A)", "twin_of": self.label}
        return Arm.from_json(data)


def parse_arm(text: str) -> Arm:
    """Raises OptionError for what no engine would understand, before anything is measured."""
    match = _LABEL.fullmatch(text.strip())
    label, body = (match.group(1), match.group(2)) if match else (text.strip(), text.strip())
    words = body.split()
    if not words:
        raise OptionError(f"arm {text!r} is empty: name a policy, options, or a peer")
    head = words[0]
    if head.startswith("fake:"):
        return _fake(label, head.removeprefix("fake:"), words[1:])
    if head in PEERS:
        return _peer(label, head, words[1:])
    return _teachkv(label, words)


def _teachkv(label: str, words: list[str]) -> Arm:
    options: dict[str, Any] = {}
    claims: dict[str, str] = {}
    engages: list[str] = []
    mutants: list[str] = []
    commit = None
    for word in words:
        key, equals, value = word.partition("=")
        if word in POLICIES:
            options["policy"] = word
        elif word.startswith("commit:"):
            commit = literal_commit(label, word.removeprefix("commit:"))
        elif not equals:
            raise OptionError(f"arm {label!r}: {word!r} is no policy, peer or key=value")
        elif key == "mutant":
            mutants += value.split(",")
        elif key == "engages":
            engages += value.split(",")
        elif key.removeprefix("claims.") in CLAIMABLE and key.startswith("claims."):
            claims[key.removeprefix("claims.")] = value
        else:
            options[key] = plain(value)
    parsed = EngineOptions.parse(options)
    claims = {"policy": parsed.policy, "cache": parsed.effective_batch_cache(), "backend": parsed.backend} | claims
    engages += [name for option, name in MECHANISMS.items() if options.get(option)]
    unique = tuple(dict.fromkeys(engages))
    return Arm(label, "teachkv", options, claims, unique, commit, tuple(mutants))


def _peer(label: str, name: str, words: list[str]) -> Arm:
    options = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise OptionError(f"arm {label!r}: {word!r} is not key=value")
        options[key] = plain(value)
    return Arm(label, "peer", options, source=name)


def _fake(label: str, path: str, words: list[str]) -> Arm:
    if words:
        raise OptionError(f"arm {label!r}: a fake engine takes its script and nothing else, not {words[0]!r}")
    try:
        script = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OptionError(f"arm {label!r}: cannot read the script {path}: {error}") from error
    return fake_arm(label, script)


def fake_arm(label: str, script: Mapping[str, Any]) -> Arm:
    """A scripted engine; `claims` and `engages` may stand in its script."""
    claims, engages = dict(script.get("claims", {})), tuple(script.get("engages", ()))
    return Arm(label, "fake", claims=claims, engages=engages, script=dict(script))


def literal_commit(label: str, text: str) -> str:
    """Raises OptionError for anything but 40 hex digits."""
    # guard[literal-commit]: a relative ref moves: a baseline pinned as FIX~3 came to hold half of the change under test
    # mutant[literal-commit/any-ref]:
    #   - if not _COMMIT.fullmatch(text):
    #   + if not text:
    if not _COMMIT.fullmatch(text):
        raise OptionError(
            f"arm {label!r}: {text!r} is no literal commit; give 40 hex digits ('git rev-parse {text}'), refs move"
        )
    return text


def plain(value: str) -> Any:
    """`on`, `4`, `0.5`, `None` as what they mean; other words stay words."""
    known = {"on": True, "true": True, "off": False, "false": False, "none": None}
    if value.lower() in known:
        return known[value.lower()]
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def check_labels(arms: list[Arm]) -> None:
    """Raises OptionError when two arms could not be told apart in a table."""
    seen: set[str] = set()
    for arm in arms:
        if arm.label in seen:
            raise OptionError(f"two arms are called {arm.label!r}: give each a label of its own ('label: options')")
        seen.add(arm.label)
