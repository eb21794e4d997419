"""Progress bars on stderr, in bytes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bar(what: str, total: int, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Yields a function that is told how many more bytes are done."""
    if quiet:
        yield lambda count: None
        return
    from tqdm import tqdm

    with tqdm(total=total, desc=what, unit="B", unit_scale=True, unit_divisor=1024) as shown:
        yield lambda count: void(shown.update(count))


def void(_: object) -> None:
    """Drop a value."""
