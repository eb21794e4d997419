"""Threads of a block that take turns: each runs from one barrier to the next, always in the same order."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from cuda_kernels.numba_tools.memory import StepError


def locked() -> threading.Lock:
    """A lock that its first taker waits for: a signal from one OS thread to another, half the price of a semaphore."""
    lock = threading.Lock()
    lock.acquire()
    return lock


class Stop(BaseException):
    """Ends a thread of a launch that has failed."""


class Turns:
    """The threads of a block as OS threads, of which exactly one runs at any time.

    become(thread, barriers passed) is told whose turn it is; body() is one thread from its start to its end.
    """

    def __init__(self, become: Callable[[int, int], None], count: int, body: Callable[[], object]) -> None:
        self._become, self._count, self._body = become, count, body
        self._mine = [locked() for _ in range(count)]
        self._back = locked()
        self._at: list[str | None] = [None] * count
        self._error: BaseException | None = None
        self._stop = False
        self._workers = [threading.Thread(target=self._work, args=(i,), daemon=True) for i in range(count)]
        for worker in self._workers:
            worker.start()

    def run_block(self) -> None:
        """All threads to their end, barrier by barrier. Raises what a kernel raised, or StepError."""
        waiting, epoch = list(range(self._count)), 0
        while waiting:
            for i in waiting:
                self._become(i, epoch)
                self._mine[i].release()
                self._back.acquire()
                if self._error is not None:
                    raise self._error
            places = {self._at[i] for i in waiting}
            if len(places) > 1:
                missing = [i for i in waiting if self._at[i] is None]
                stands = " and ".join(sorted(place for place in places if place))
                where = f"threads {missing[:8]} never reach it" if missing else "threads wait at different barriers"
                raise StepError(f"barrier at {stands}: {where}")
            waiting = [] if places == {None} else waiting
            epoch += 1

    def wait(self, thread: int, place: str) -> None:
        """Called by a thread at a barrier: hand the turn back until all are here."""
        self._at[thread] = place
        self._back.release()
        self._mine[thread].acquire()
        if self._stop:
            raise Stop
        self._at[thread] = None

    def end(self) -> None:
        """Let every OS thread go."""
        self._stop = True
        for lock in self._mine:
            lock.release()
        for worker in self._workers:
            worker.join()

    def _work(self, thread: int) -> None:
        with np.errstate(all="ignore"):
            while True:
                self._mine[thread].acquire()
                if self._stop:
                    return
                try:
                    self._body()
                except Stop:
                    return
                except BaseException as error:
                    self._error = error
                self._at[thread] = None
                self._back.release()
