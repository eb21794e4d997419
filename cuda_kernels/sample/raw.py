"""Launches sample/raw_kernel.cu."""

from __future__ import annotations

import numpy as np

from cuda_kernels.common.types import F32, IntArray
from cuda_kernels.raw.arrays import empty, integers, same
from cuda_kernels.raw.loader import Launch, Place, kernel, place_of, remembered
from cuda_kernels.raw.shapes import padded

THREADS = 1024
HOST_THREADS = 64
VOCABULARY_LIMIT = 2**18


def sample(logits: F32, temperature: F32, top_k: IntArray, top_p: F32, min_p: F32, uniform: F32) -> IntArray:
    """logits [B, V] float32, settings [B] (uniform float64) -> tokens [B] int32; -1 where no logit is finite."""
    rows, vocabulary = logits.shape
    if vocabulary > VOCABULARY_LIMIT:
        raise ValueError(f"sample: {vocabulary} logits; sums of 14-bit parts hold up to {VOCABULARY_LIMIT}")
    integers("top_k", top_k, rows)
    for name, array in (("temperature", temperature), ("top_p", top_p), ("min_p", min_p)):
        same(name, array, (rows,), np.float32)
    same("uniform", uniform, (rows,), np.float64)
    tokens: IntArray = empty(logits, (rows,), np.int32)
    threads = HOST_THREADS if isinstance(logits, np.ndarray) else THREADS
    _launch(place_of(logits), threads, rows, vocabulary)(logits, temperature, top_k, top_p, min_p, uniform, tokens)
    return tokens


@remembered
def _launch(place: Place, threads: int, rows: int, vocabulary: int) -> Launch:
    draw = kernel("sample/raw_kernel.cu", "sample", place, {"TKV_DTYPE": 0, "TKV_THREADS": threads})
    shared = 256 * 8 + 3 * 256 * 4 + padded(2 * 8) + 2 * padded(threads // 32 * 4)
    return draw.launch((rows, 1, 1), (threads, 1, 1), (vocabulary,), shared=shared)
