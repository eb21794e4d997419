"""Do neighbouring threads touch neighbouring numbers? A GPU fetches pieces that threads share.

reads of cache: neighbouring threads 1 number apart; 100 % of what is fetched is used at once
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from cuda_kernels.trace.record import KernelTrace, LaunchTrace, Touch

TOGETHER = 32  # threads that run in step
PIECE = 32  # bytes that are fetched at once
SIZES = {"float64": 8, "int64": 8, "uint64": 8, "float32": 4, "int32": 4, "uint32": 4, "float16": 2, "bfloat16": 2}


@dataclass(frozen=True)
class Order:
    """Of one array, read or written: the most touches of a thread, how many numbers lie between a touch and the one of
    the next thread (most often; None if no neighbours touch it), and the share of the fetched bytes that was asked for.
    """

    array: str
    write: bool
    per_thread: int
    apart: int | None
    used: float


def order_of(launch: LaunchTrace) -> Iterator[Order]:
    """One for each array with more than one axis, and for each of read and written."""
    for number, array in enumerate(launch.arrays):
        for write in (False, True):
            touches = [t for t in launch.touches if t.array == number and t.write == write]
            if touches and len(array.shape) > 1:
                yield _order(array.name, write, touches, SIZES.get(array.dtype, 1))


def _order(name: str, write: bool, touches: list[Touch], size: int) -> Order:
    turns, count = dict[tuple[int, int, int], dict[int, Touch]](), Counter[tuple[int, int]]()
    for touch in touches:
        turn = count[touch.block, touch.thread]
        count[touch.block, touch.thread] += 1
        turns.setdefault((touch.block, touch.thread // TOGETHER, turn), {})[touch.thread] = touch
    distances, asked, fetched = Counter[int](), 0, 0
    for together in turns.values():
        distances.update(
            together[thread + 1].offset - touch.offset for thread, touch in together.items() if thread + 1 in together
        )
        numbers = {at for t in together.values() for at in range(t.offset, t.offset + t.length)}
        asked += size * len(numbers)
        fetched += PIECE * len({at * size // PIECE for at in numbers})
    apart = distances.most_common(1)[0][0] if distances else None
    return Order(name, write, max(count.values()), apart, asked / fetched)


def order_text(trace: KernelTrace) -> str:
    """A line for each array of each launch."""
    return "\n".join(_line(order) for launch in trace.launches for order in order_of(launch))


def _line(order: Order) -> str:
    what = f"{'writes' if order.write else 'reads'} of {order.array}"
    where = "one thread alone"
    if order.apart is not None:
        where = f"neighbouring threads {order.apart} number{'' if abs(order.apart) == 1 else 's'} apart"
    return f"{what}: {where}; {order.used:.0%} of what is fetched is used at once".replace("%", " %")
