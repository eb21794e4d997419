"""Is it still known which code was measured?"""

from collections.abc import Sequence

from teachkv.bench.guards.answer import Answer, held, refused
from teachkv.bench.samples import Sample


def fingerprint(samples: Sequence[Sample], harness: Sequence[str]) -> Answer:
    """One content hash per arm, from the files that each process imported, and one of the harness.

    samples: all of one arm; harness: its hash at the start of every call that added samples, and at the end.
    """
    hashes = {sample.facts.sources for sample in samples if sample.failed is None}
    # guard[fingerprint]: an edit during the run makes one arm two, and no diff shows it afterwards
    # mutant[fingerprint/looks-once]:
    #   - if len(hashes) > 1:
    #   + if len(hashes) > 1 and samples[0].facts.sources != samples[-1].facts.sources:
    if len(hashes) > 1:
        told = ", ".join(sorted(digest[:12] for digest in hashes))
        return refused("fingerprint", f"the sources changed during the run: {told}")
    # guard[fingerprint-harness]: the measuring code is part of what was measured
    # mutant[fingerprint-harness/not-asked]:
    #   - if len(set(harness)) > 1:
    #   + if len(set(harness)) < 1:
    if len(set(harness)) > 1:
        return refused("fingerprint", "the harness itself changed during the run")
    if hashes == {""}:
        return Answer("fingerprint", "unverified", "the engine tells no sources")
    return held("fingerprint", next(iter(hashes), "")[:12])
