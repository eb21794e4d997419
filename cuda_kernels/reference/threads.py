"""A handful of threads that run NumPy calls side by side. NumPy lets go of the interpreter inside a product.

OpenBLAS spreads one large product over the cores, but runs a small one on the core that asks. Many small products are
spread here. Which thread computes what never changes a result: jobs share no output.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from itertools import accumulate, pairwise
from typing import TypeVar

Job = Callable[[], None]
Item = TypeVar("Item")
MOST_THREADS = 16
ROWS = 64
WORTH_THREADS = 1 << 20  # multiplications; below, waking a thread costs more than it saves
WORTH_LEAD = 1 << 20  # multiplications of a piece: about what the caller does while the others wake, 20 to 50 us


class _Worker:
    """One thread that waits for a job, runs it and says so. A pair of locks costs 13 us a turn, an executor 60."""

    def __init__(self) -> None:
        self._go, self._done = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._done.acquire()
        self._job: Job | None = None
        self._error: BaseException | None = None
        self._over = False
        self._thread = threading.Thread(target=self._loop, name="reference-kernels", daemon=True)
        self._thread.start()

    def start(self, job: Job) -> None:
        self._job = job
        self._go.release()

    def wait(self) -> BaseException | None:
        self._done.acquire()
        error, self._error = self._error, None
        return error

    def end(self) -> None:
        """Return when the thread is gone, whatever it was doing and however often Ctrl-C is pressed meanwhile."""
        self._over = True
        with suppress(RuntimeError):  # it has been told to go, and has not begun
            self._go.release()
        while self._thread.is_alive():
            with suppress(KeyboardInterrupt):
                time.sleep(0.001)

    def _loop(self) -> None:
        while True:
            self._go.acquire()
            if self._over:
                return
            try:
                if self._job is not None:
                    self._job()
            except BaseException as error:  # handed to the caller, who raises it
                self._error = error
            self._job = None
            self._done.release()


class Team:
    """`size` threads, the caller among them."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._workers = [_Worker() for _ in range(size - 1)]
        self._busy = threading.Lock()

    def run(self, jobs: Sequence[Job]) -> None:
        """Run at most `size` jobs at once and return when all are done. Raises what a job raised."""
        if len(jobs) <= 1 or not self._busy.acquire(blocking=False):
            for job in jobs:
                job()
            return
        try:
            errors = self._run(jobs)
        except BaseException:
            # guard[team-interrupted]: after Ctrl-C a worker may still write into a buffer, and its "done" would be
            # taken for that of the next job; so these workers end here and others take their place
            # mutant[team-interrupted/kept]:
            #   - for worker in self._workers:
            #   -     worker.end()
            #   - self._workers = [_Worker() for _ in self._workers]
            #   + pass
            for worker in self._workers:
                worker.end()
            self._workers = [_Worker() for _ in self._workers]
            raise
        finally:
            self._busy.release()
        for error in errors:
            if error is not None:
                raise error

    def _run(self, jobs: Sequence[Job]) -> list[BaseException | None]:
        helpers = self._workers[: len(jobs) - 1]
        for worker, job in zip(helpers, jobs[1:], strict=True):
            worker.start(job)
        mine: BaseException | None = None
        try:
            jobs[0]()
        except Exception as error:
            mine = error
        return [mine, *(worker.wait() for worker in helpers)]


def thread_count() -> int:
    """As many as OpenBLAS would use: its environment variable, else the cores this process may run on."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    asked = os.environ.get("OPENBLAS_NUM_THREADS", "")
    return max(1, min(cores, int(asked) if asked.isdecimal() and asked != "0" else cores, MOST_THREADS))


@cache
def team() -> Team:
    """The threads of this process, started at first use."""
    return Team(thread_count())


def pieces_at_once() -> int:
    """Into how many pieces `spread` cuts."""
    return team().size


def spread(count: int, job: Callable[[int, int], None], lead: int = 0) -> None:
    """Cut range(count) into one piece per thread and run job(start, stop) on each.

    lead: how much more the caller takes than the others, for it begins at once and they must wake first.
    """
    crew = team()
    mine = min(count, -(-(count + lead * (crew.size - 1)) // crew.size))
    cuts = [0, *(mine + (count - mine) * i // max(crew.size - 1, 1) for i in range(crew.size))]
    pieces = [(a, b) for a, b in pairwise(cuts) if b > a]
    crew.run([lambda a=a, b=b: job(a, b) for a, b in pieces])  # type: ignore[misc]


def spread_each(counts: Sequence[int], work: int, job: Callable[[int, int, int], None]) -> None:
    """Several ranges in one go: run job(which, start, stop) on pieces of range(counts[which]), over the threads if
    `work`, the multiplications of all, is worth it."""
    cuts = [0, *accumulate(counts)]

    def some(start: int, stop: int) -> None:
        for which, (first, last) in enumerate(pairwise(cuts)):
            begin, end = max(start, first), min(stop, last)
            if begin < end:
                job(which, begin - first, end - first)

    if work < WORTH_THREADS:
        some(0, cuts[-1])
    else:
        spread(cuts[-1], some, lead=1 if work < WORTH_LEAD * cuts[-1] else 0)


def share(items: Sequence[Item], job: Callable[[Item], None], work: int = WORTH_THREADS) -> None:
    """Run job(item) on each: whichever thread is free takes the next, if `work`, the multiplications of all, is worth
    it. Unequal items come with the dearest first."""
    crew, left = team(), iter(items)

    def some() -> None:
        for item in left:  # taking the next is one step of the interpreter
            job(item)

    crew.run([some] * (min(crew.size, len(items)) if work >= WORTH_THREADS else 1))


def by_rows(rows: int, job: Callable[[int, int], None]) -> None:
    """Run job(start, stop) over all rows: at once if few, else in pieces of 64, which stay in the cache of a core."""
    if rows <= 2 * ROWS:
        job(0, rows)
        return

    def some(first: int, last: int) -> None:
        for piece in range(first, last):
            job(piece * ROWS, min((piece + 1) * ROWS, rows))

    spread(-(-rows // ROWS), some)


# A forked child has only the thread that forked: its team must be a new one.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=team.cache_clear)
