import numpy as np
import pytest

from teachkv.sample.philox import derived_seed, philox4x32, uniform

ONES, PI = [0xFFFFFFFF] * 4, [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344]


# The known answers published with Random123 (kat_vectors, philox4x32-10).
@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ([0] * 4, [0, 0], [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        (ONES, ONES[:2], [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (PI, [0xA4093822, 0x299F31D0], [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]),
    ],
)
def test_known_answers(counter, key, words):
    assert philox4x32(np.array(counter, np.uint64), np.array(key, np.uint64)).tolist() == words


def test_many_at_once_equal_one_by_one():
    seeds, samples, indices = (np.arange(n, dtype=np.uint64) for n in (5, 3, 7))
    grid = uniform(seeds[:, None, None], samples[None, :, None], indices[None, None, :])
    assert grid.shape == (5, 3, 7)
    for s in range(5):
        for n in range(3):
            for i in range(7):
                assert grid[s, n, i] == uniform(s, n, i)


def test_all_parts_of_key_and_counter_matter():
    base = (1, 0, 0)
    others = [(1 + 2**32, 0, 0), (2, 0, 0), (1, 1, 0), (1, 0, 1), (1, 0, 2**32)]
    assert len({float(uniform(*key)) for key in [base, *others]}) == 6


def test_range_and_resolution():
    numbers = uniform(3, 0, np.arange(20_000, dtype=np.uint64))
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert abs(numbers.mean() - 0.5) < 0.01
    assert np.array_equal(numbers * 2.0**53, np.floor(numbers * 2.0**53))
    assert np.any(numbers * 2.0**24 != np.floor(numbers * 2.0**24))


def test_derived_seeds_differ_by_engine_and_request_and_from_draws():
    seeds = {derived_seed(engine, request) for engine in range(20) for request in range(20)}
    assert len(seeds) == 400
    assert all(0 <= seed < 2**64 for seed in seeds)
    block = philox4x32(np.array([7, 0, 0, 0], np.uint64), np.array([5, 0], np.uint64))
    assert derived_seed(5, 7) != (int(block[1]) << 32) | int(block[0])
