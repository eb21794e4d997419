"""A team of three threads, however many cores this machine has."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from cuda_kernels.reference import threads


@contextmanager
def three_threads() -> Iterator[None]:
    """Products inside are cut for three threads."""
    crew = threads.Team(3)
    try:
        with mock.patch.object(threads, "team", return_value=crew):
            yield
    finally:
        for worker in crew._workers:
            worker.end()
