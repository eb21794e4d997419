"""Did the code under test run, and did the mechanism act? Both are asked of the running engine."""

import re

from teachkv.bench.arms import Arm
from teachkv.bench.guards.answer import Answer, held, refused
from teachkv.bench.samples import Sample

_PATH = re.compile(r"path: policy (?P<policy>\S+), batch cache (?P<cache>\S+) .*?\bbackend (?P<backend>\S+) ")


def path_gate(sample: Sample, arm: Arm) -> Answer:
    """The engine's own path line, from its stats and from its log, names what the arm claims."""
    facts = sample.facts
    if arm.kind == "peer" or (facts.path is None and not arm.claims):
        versions = ", ".join(f"{name} {version}" for name, version in facts.versions.items())
        return Answer("path gate", "unverified", versions or "no path line")
    found = _PATH.match(facts.path or "")
    if found is None:
        return refused("path gate", "the engine named no path")
    if not any(line.startswith(facts.path or "?") for line in facts.log):
        return refused("path gate", "the path line is not in the sample's own log")
    # guard[path-gate]: a companion of the seed document published a result off a scheduler file that never ran
    # mutant[path-gate/removed]:
    #   - wrong = {key: found[key] for key, claim in arm.claims.items() if claim not in ("auto", found[key])}
    #   + wrong = {}
    # mutant[path-gate/policy-only]:
    #   - wrong = {key: found[key] for key, claim in arm.claims.items() if claim not in ("auto", found[key])}
    #   + wrong = {key: found[key] for key, claim in arm.claims.items() if key == "policy" and claim != found[key]}
    wrong = {key: found[key] for key, claim in arm.claims.items() if claim not in ("auto", found[key])}
    if wrong:
        told = ", ".join(f"{key} {arm.claims[key]} but ran {ran}" for key, ran in wrong.items())
        return refused("path gate", f"the arm claims {told}")
    if facts.overlaid != () and not arm.mutants:
        return refused("path gate", f"files were replaced: {', '.join(facts.overlaid)}")
    if arm.mutants and not facts.overlaid:
        return refused("path gate", "the arm claims a mutant, and no file was replaced")
    return held("path gate", f"{found['policy']}, {found['cache']}, {found['backend']}")


def engagement(sample: Sample, arm: Arm) -> Answer:
    """Every mechanism that the arm claims acted at least once, by the engine's count and by its log.

    The engine tells the first time only, so in a ladder it may have been on an earlier rung.
    """
    # guard[engagement]: "did nothing" and "was not on the path" look alike in the numbers; a log line tells them apart
    # mutant[engagement/removed]:
    #   - idle = [name for name in arm.engages if not acted(sample, name)]
    #   + idle = []
    idle = [name for name in arm.engages if not acted(sample, name)]
    if idle:
        return refused("engagement", f"claimed but never acted: {', '.join(idle)}")
    return held("engagement", ", ".join(f"{name} x{sample.facts.engaged.get(name, 0)}" for name in arm.engages))


def acted(sample: Sample, name: str) -> bool:
    # mutant[engagement/believes-the-counter]:
    #   - logged = any(line.startswith(f"engaged: {name} ") for line in sample.facts.log)
    #   + logged = True
    logged = any(line.startswith(f"engaged: {name} ") for line in sample.facts.log)
    return logged and sample.facts.engaged.get(name, 0) > 0
