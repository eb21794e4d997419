"""A solution of ex13_bfloat16."""

import numpy as np

from teachkv.checkpoint.mapping import widen_bf16


def widened(*bits):
    return widen_bf16(np.array(bits, np.uint16)).tolist()


def test_bits_of_a_bfloat16():
    assert widened(0x3F80, 0xC000) == [1.0, -2.0]
