"""How fast the host is just now: one small piece of work, timed before and after each cell.

A virtual core shares its silicon with strangers. On a rented machine of 16 cores the same loop took 15 ms on most of
them and 28 ms on a few, and within a minute it was others; four samples of five of one arm fell on slow ones, and 40 %
were lost that no engine had lost.
"""

from statistics import median
from time import perf_counter

TURNS, LOOPS = 5, 40_000


def pulse() -> float:
    """Seconds that the same loop takes, the median of a few turns."""
    return median(_turn() for _ in range(TURNS))


def _turn() -> float:
    began, total = perf_counter(), 0
    for number in range(LOOPS):
        total += number & 7
    return perf_counter() - began
