"""One thread for BLAS while a product is spread over our own threads.

OpenBLAS cuts a large product for its threads at places that depend on the row count, and a row at a cut takes another
routine. With one thread each it cuts nothing. The setting belongs to the whole process, so it is put back at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import LibController, ThreadpoolController


class Single:
    """Counts who needs BLAS on one thread: the first to come sets it, the last to go puts back what was there."""

    def __init__(self, libraries: list[LibController]) -> None:
        self._libraries = libraries
        self._lock = threading.Lock()
        self._users = 0
        self._before: list[int] = []

    @contextmanager
    def hold(self) -> Iterator[None]:
        """BLAS runs every product of this process on the thread that asks for it."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._before = [library.get_num_threads() for library in self._libraries]
                self._set([1] * len(self._libraries))
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                # guard[blas-threads]: another engine's product may still be running, and would be cut half way
                # mutant[blas-threads/early]:
                #   - if self._users == 0:
                #   + if self._users >= 0:
                if self._users == 0:
                    self._set(self._before)

    def _set(self, counts: list[int]) -> None:
        for library, count in zip(self._libraries, counts, strict=True):
            setter_of(library)(count)


def setter_of(library: LibController) -> Callable[[int], None]:
    """What sets the library's threads from any thread of this process: `Single` has a lock and a count of its own."""
    ordinary: Callable[[int], None] = library.set_num_threads
    real: Callable[[int], None] = getattr(library, "_real_set_num_threads", ordinary)
    # guard[blas-any-thread]: threadpoolctl 3.8 lets the first thread that set a count set others, and ignores the rest
    # mutant[blas-any-thread/first-only]:
    #   - return real
    #   + return ordinary
    return real


@cache
def single() -> Single:
    """For the BLAS libraries that are loaded in this process at the first product."""
    return Single(ThreadpoolController().select(user_api="blas").lib_controllers)
