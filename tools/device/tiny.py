"""Every raw kernel and path once or twice, small: what compute-sanitizer can watch in a minute."""

from __future__ import annotations

import numpy as np

from teachkv.fused import FusedModel, fused
from teachkv.model import Model
from tools.device.checks import DTYPES, Report, attention, linear, sampling, small_ops
from tools.device.engines import engine_of, random_model
from tools.device.shelf import Shelf, ints, run


def tiny() -> None:
    """The operations by themselves, then a fused decode step."""
    rng, report = np.random.default_rng(0), Report()
    for dtype in DTYPES:
        for D in (20, 64, 80):
            attention(report, rng, dtype, 6, 2, D, [1, 300, 70], [1, 3, 1], None)
            attention(report, rng, dtype, 7, 1, D, [40, 70], [5, 40], 10)
        for T, N, K in ((3, 40, 200), (70, 136, 328), (300, 4736, 72)):
            linear(report, rng, dtype, T, N, K)
        small_ops(report, rng, dtype, 3, 100, 4, 2, 20)
    sampling(report, rng, 8, 1000)
    fused_step(report, rng)
    assert report.failed == 0, report.failures


def fused_step(report: Report, rng: np.random.Generator) -> None:
    """One layer of SmolLM2's shape, few rows and more: the fused kernels against the operations they join."""
    with engine_of(random_model("smollm2-135m", 1), backend="raw", max_model_len=256, max_num_seqs=2) as llm:
        given = llm._alive().engine.model
        plain = Model(given.config, given.weights, given.ops)
        joined = fused(plain)
        assert isinstance(joined, FusedModel)
        for B in (1, 9, 20):
            lengths, tokens = ints(rng.integers(1, 100, B)), ints(rng.integers(0, 40_000, B))
            found = []
            for model in (plain, joined):
                shelf = Shelf(model, B, 128)
                shelf.keys[:], shelf.values[:] = 0.5, 0.25
                part = shelf.part("decode", np.arange(B)[::-1], np.arange(B), lengths, np.ones(B))
                found.append(run(model, part, tokens, np.arange(B)))
            report.truth(f"fused decode step of {B} rows differs in bits", bool((found[0] == found[1]).all()))
