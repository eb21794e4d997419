"""The whole matrix of checks as a list of jobs that several processes can share: kernels take long to compile."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

import cupy
import numpy as np

from cuda_kernels.raw import arrays
from cuda_kernels.registry import get
from tools.device.checks import DTYPES, NAN, Report, attention, batch, bits, draw, linear, sampling, small_ops

Job = Callable[[Report, np.random.Generator], None]


def invariance(report: Report, rng: np.random.Generator, dtype: str, H: int, G: int, D: int, placements: int) -> None:
    """One row's decode, alone and among others, at random lead pads, rows and capacities: distinct bit patterns."""
    length = 300 + int(rng.integers(0, 400))
    q, k, v = draw(rng, dtype, 1, H, D), draw(rng, dtype, G, length, D), draw(rng, dtype, G, length, D)
    seen: set[bytes] = set()
    for _ in range(placements):
        B = int(rng.choice([1, 2, 5, 16]))
        b = batch(rng, dtype, H, G, D, [int(n) for n in rng.integers(1, 900, B)], [1] * B)
        slot, pad = int(rng.integers(0, B)), int(rng.integers(0, 71))
        C = max(b.k.shape[2], length + pad + int(rng.integers(0, 300)))
        caches = []
        for old, mine in ((b.k, k), (b.v, v)):
            grown = np.full((B, G, C, D), NAN, old.dtype)
            grown[:, :, : old.shape[2]] = old
            grown[b.row[slot]] = NAN
            grown[b.row[slot], :, pad : pad + length] = mine
            caches.append(grown)
        b.q[slot], b.k, b.v, b.pad[slot], b.end[slot] = q[0], *caches, pad, pad + length
        for op in ("attention_decode_ragged", "attention_prefill"):
            seen.add(bits(get(op, "raw")(*b.device(), None, D**-0.5)[slot]).tobytes())
    report.truth(f"invariance {dtype} D={D}: {len(seen)} distinct results in {placements} placements", len(seen) == 1)
    report.bits[f"{dtype} H={H} G={G} D={D}"] = {"placements": 2 * placements, "distinct": len(seen)}


def big_offsets(report: Report, _: np.random.Generator) -> None:
    """A cache of more than 2^31 elements: a marker appended at its end comes back through attention and the copies."""
    R, G, C, D = 2100, 2, 8192, 64
    k, v = (cupy.zeros((R, G, C, D), np.float16) for _ in range(2))
    q, new = cupy.ones((1, G, D), np.float16), cupy.full((1, G, D), 7.0, np.float16)
    cos, sin = cupy.ones((1, D // 2), np.float32), cupy.zeros((1, D // 2), np.float32)
    row, column = cupy.asarray([R - 1], np.int32), cupy.asarray([C - 1], np.int32)
    get("rope_and_append", "raw")(q, new, new, cos, sin, k, v, row, column)
    geometry = (cupy.asarray([0, 1], np.int32), row, cupy.asarray([C], np.int32), cupy.asarray([C - 1], np.int32))
    for op in ("attention_decode_ragged", "attention_prefill"):
        out = get(op, "raw")(q, k, v, *geometry, None, 0.125)
        report.truth(f"{op}: marker past 2^31 elements", bool((out == 7).all()))
    report.truth("kv_strip past 2^31", bool((get("kv_strip", "raw")(v, R - 1, C - 1, C) == 7).all()))
    report.truth("kv_gather past 2^31", bool((get("kv_gather", "raw")(v, R - 1, C - 16, 1, 16)[:, :, -1] == 7).all()))
    one = [cupy.asarray([n], np.int32) for n in (R - 1, C - 1, R - 1, 5, 1)]
    get("kv_align", "raw")(v, one[0], one[1], v, one[2], one[3], one[4])
    get("kv_scatter", "raw")(cupy.full((1, G, 4, D), 3.0, np.float16), v, R - 1, 8)
    report.truth("kv_align past 2^31", bool((v[R - 1, :, 5] == 7).all()))
    report.truth("kv_scatter past 2^31", bool((v[R - 1, :, 8:12] == 3).all()))


def shapes() -> Iterator[tuple[int, int, int]]:
    """(H, G, D): every group size, the tuned head dims and odd ones."""
    yield from ((2 * group, 2, 64) for group in range(1, 9))
    yield from ((6, 2, D) for D in (4, 20, 24, 36, 80, 96, 100, 128, 160, 192, 248, 256))


PRODUCTS = (
    (1, 896, 896),
    (7, 128, 896),
    (130, 896, 4864),
    (300, 4864, 896),
    (40, 1003, 300),
    (3, 77, 65),
    (1500, 1000, 512),
    (2200, 896, 4864),
    (777, 4871, 1032),
)
SMALL = ((1, 896, 14, 2, 64), (5, 577, 9, 3, 80), (300, 4100, 4, 1, 20), (2, 8192, 8, 8, 256))


def jobs(dtype: str) -> Iterator[Job]:
    """Every check of one dtype; sampling and the big cache go with float16."""

    def job(check: Callable[..., None], *arguments: Any) -> Job:
        return lambda report, rng: check(report, rng, dtype, *arguments)

    for shape in shapes():
        yield partial(of_shape, dtype, shape)
    for product in PRODUCTS:
        yield job(linear, *product)
    for small in SMALL:
        yield job(small_ops, *small)
    yield partial(many_rows, dtype)
    if dtype != "float32":
        for shape in ((14, 2, 64), (9, 3, 64), (8, 1, 128)):
            yield job(invariance, *shape, 60)
    if dtype == "float16":
        for B, V in ((1, 17), (64, 1000), (400, 32000), (16, 151936)):
            yield partial(lambda report, rng, B, V: sampling(report, rng, B, V), B=B, V=V)
        yield big_offsets


def of_shape(dtype: str, shape: tuple[int, int, int], report: Report, rng: np.random.Generator) -> None:
    attention(report, rng, dtype, *shape, [1, 700, 64, 257, 33], [1, 1, 1, 1, 1], None)
    attention(report, rng, dtype, *shape, [40, 300, 129, 520], [5, 70, 129, 3], 100 if shape[2] % 3 else None)


def many_rows(dtype: str, report: Report, rng: np.random.Generator) -> None:
    attention(report, rng, dtype, 14, 2, 64, [int(n) for n in rng.integers(1, 2000, 512)], [1] * 512, None)


def run(dtypes: tuple[str, ...] = tuple(DTYPES), part: int = 0, parts: int = 1) -> dict[str, Any]:
    """Job `part`, `part + parts`, ... of all of them, as a record. Poison is on."""
    os.environ["TEACHKV_POISON"] = "1"
    arrays.POISONED = True
    rng, report = np.random.default_rng(), Report()
    for job in [job for dtype in dtypes for job in jobs(dtype)][part::parts]:
        job(report, rng)
    return asdict(report)


def merged(records: list[dict[str, Any]]) -> dict[str, Any]:
    """The parts of one run as one record: counts added, the worst error of each op kept."""
    worst: dict[str, float] = {}
    for record in records:
        for key, value in record["worst"].items():
            worst[key] = max(value, worst.get(key, 0.0))
    return {
        "cells": sum(record["cells"] for record in records),
        "failed": sum(record["failed"] for record in records),
        "failures": [failure for record in records for failure in record["failures"]],
        "worst": dict(sorted(worst.items())),
        "bits": {key: value for record in records for key, value in record["bits"].items()},
    }
