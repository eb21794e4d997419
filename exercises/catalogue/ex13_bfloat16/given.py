"""Sixteen bits are not sixteen bits

Weights are often stored as bfloat16, which NumPy does not have. The bits are the upper half of a float32. Read as
float16 or as integers they are numbers too, and a model made of them loads without complaint.

`widen_bf16(bits)` takes uint16 and returns float32.

Your task: kill both misreadings.
"""

import numpy as np

from teachkv.checkpoint.mapping import widen_bf16


def widened(*bits):
    return widen_bf16(np.array(bits, np.uint16)).tolist()


def test_bits_of_a_bfloat16():
    assert widened(0x0000) == [0.0]
