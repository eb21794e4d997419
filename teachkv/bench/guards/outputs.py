"""Do the arms answer alike, and did they do the same amount of work?"""

from collections.abc import Mapping
from dataclasses import dataclass

from teachkv.bench.guards.answer import Answer, held, refused
from teachkv.bench.samples import Sample

TEETH = 4  # distinct completions below which equal outputs prove nothing


@dataclass(frozen=True, slots=True)
class Outputs:
    """One arm's completions of a cell's requests, together and each alone."""

    batch: Sample
    solo: Sample

    @property
    def diverges(self) -> int:
        """Requests whose completion in the batch is not their own B=1."""
        return sum(a.digest != b.digest for a, b in zip(self.batch.served, self.solo.served, strict=True))


def identity(base: Outputs, arm: Outputs) -> Answer:
    """Same outputs in both arms, and how far each strays from its own B=1."""
    requests = len(base.batch.served)
    distinct = len({one.digest for one in base.solo.served})
    # guard[identity]: eight copies of one text give eight equal answers, and "8/8 identical" would be vacuous
    # mutant[identity/accepts-vacuous]:
    #   - if distinct < TEETH:
    #   + if distinct < 1:
    # mutant[identity/counts-requests]:
    #   - if distinct < TEETH:
    #   + if requests < TEETH:
    if distinct < TEETH:
        told = f"fewer than {TEETH} distinct B=1 completions ({distinct} of {requests} requests)"
        return Answer("identity control", "cannot-answer", told)
    same = sum(a.digest == b.digest for a, b in zip(base.batch.served, arm.batch.served, strict=True))
    alone = f"own B=1: base diverges in {base.diverges}, arm in {arm.diverges} of {requests}"
    told = f"{same}/{requests} identical ({distinct} distinct); {alone}"
    return held("identity control", told) if same == requests else refused("identity control", told)


def equal_work(samples: Mapping[str, Sample]) -> Answer:
    """All arms of one round took in and gave out the same number of tokens."""
    # guard[equal-work]: a faster arm that generated less was published once, and had to be retracted
    # mutant[equal-work/requests-only]:
    #   - work = {arm: (prompt_tokens(s), output_tokens(s)) for arm, s in samples.items()}
    #   + work = {arm: (len(s.served), 0) for arm, s in samples.items()}
    # mutant[equal-work/output-only]:
    #   - work = {arm: (prompt_tokens(s), output_tokens(s)) for arm, s in samples.items()}
    #   + work = {arm: (0, output_tokens(s)) for arm, s in samples.items()}
    work = {arm: (prompt_tokens(s), output_tokens(s)) for arm, s in samples.items()}
    if len(set(work.values())) > 1:
        told = "; ".join(f"{arm}: {taken} in, {given} out" for arm, (taken, given) in work.items())
        return refused("equal work", told)
    return held("equal work", "the same tokens in and out")


def prompt_tokens(sample: Sample) -> int:
    return sum(one.prompt for one in sample.served)


def output_tokens(sample: Sample) -> int:
    return sum(len(one.times) for one in sample.served)
