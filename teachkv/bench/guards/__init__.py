"""The guards of the harness. Each is one function that answers `held` or `refused`, with the reason."""

from teachkv.bench.guards.answer import Answer
from teachkv.bench.guards.claims import Claim, claim, spread
from teachkv.bench.guards.outputs import equal_work, identity
from teachkv.bench.guards.path import engagement, path_gate
from teachkv.bench.guards.requests import completeness, in_band_error
from teachkv.bench.guards.sources import fingerprint
from teachkv.bench.guards.warmup import probe_purity

__all__ = [
    "Answer",
    "Claim",
    "claim",
    "completeness",
    "engagement",
    "equal_work",
    "fingerprint",
    "identity",
    "in_band_error",
    "path_gate",
    "probe_purity",
    "spread",
]
