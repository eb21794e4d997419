"""What a lookup costs, in counted operations: the same with a thousand stored tokens and with a million."""

import numpy as np
from prefix_rows import Layer, Rows

from teachkv.prefix import PrefixCache
from teachkv.prefix.keys import digest

PROMPT = 500
BLOCK = 16


def test_a_lookup_costs_the_same_with_a_million_tokens_stored() -> None:
    digested = [0]

    def counting(data: bytes) -> bytes:
        digested[0] += 1
        return digest(data)

    prefix = PrefixCache(BLOCK, 1 << 30, b"model", digest=counting)
    row = np.zeros((1, PROMPT + 4, 1), np.float32)
    rows = Rows([Layer(row, row)])

    def prompt(number: int) -> list[int]:
        return [number, *range(1, PROMPT + 4)]

    def cost_of_a_lookup() -> tuple[int, int]:
        digested[0], compared = 0, prefix.stats().compared
        hit = prefix.match([*prompt(0), 7])
        prefix.release(hit)
        assert hit.length == PROMPT // BLOCK * BLOCK
        return digested[0], prefix.stats().compared - compared

    costs, stored = [], 0
    for goal in (1_000, 10_000, 100_000, 1_000_000):
        while prefix.stats().blocks * BLOCK < goal:
            prefix.publish(prompt(stored), PROMPT + 4, lambda: rows)
            stored += 1
        costs.append(cost_of_a_lookup())
    blocks = PROMPT // BLOCK
    assert costs == [(blocks + 1, blocks)] * 4
