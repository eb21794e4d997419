"""A stored block and how it is cut out of live rows. Letters: G KV heads, L positions of one sequence, D head dim."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from teachkv.errors import GeometryError

Array: TypeAlias = Any  # numpy or cupy
LayerRows: TypeAlias = tuple[Array, Array]  # k and v, each [G, positions, D]


class LiveLayer(Protocol):
    """Live keys and values of one layer, [G, L, D]; `first` is the position of row 0 (above 0: older ones are gone)."""

    @property
    def k(self) -> Array: ...
    @property
    def v(self) -> Array: ...
    @property
    def first(self) -> int: ...


class LiveRows(Protocol):
    """What a reader of rows outside the batch gets: no dead prefix, no slack."""

    @property
    def layers(self) -> Sequence[LiveLayer]: ...


ReadRows: TypeAlias = Callable[[], LiveRows]


@dataclass(eq=False, slots=True)
class Block:
    """Keys and values of `block_tokens` positions that follow `parent`'s. Compared by identity, never by content.

    root    the undigested root key; equal for all blocks of one model and set of tags
    key     digest of the parent's key and the tokens
    layers  k and v of each layer, [G, block_tokens, D], read-only parts of memory of its own; () once evicted
    pins    hits that hold the block now; above 0 it is not evicted
    """

    root: bytes
    parent: "Block | None"
    key: bytes
    tokens: tuple[int, ...]
    layers: tuple[LayerRows, ...]
    nbytes: int
    pins: int = 0


Stored = TypeVar("Stored")


@dataclass(frozen=True, eq=False, slots=True)
class Hit(Generic[Stored]):
    """The leading `length` positions of a prompt, as blocks in order (the twin's: records). Pinned until released."""

    length: int
    blocks: tuple[Stored, ...] = field(repr=False)


def require_live(rows: LiveRows, coverage: int) -> LiveRows:
    """Return `rows` if every layer ends at position `coverage`; GeometryError names the first that does not."""
    for number, layer in enumerate(rows.layers):
        held = {layer.first + layer.k.shape[1], layer.first + layer.v.shape[1]}
        if held != {coverage}:
            # mutant[prefix-strip/stores-on-failure]:
            #   - raise GeometryError(refusal(number, sorted(held), coverage))
            #   + return rows
            raise GeometryError(refusal(number, sorted(held), coverage))
    return rows


def refusal(layer: int, held: list[int], coverage: int) -> str:
    return f"prefix cache: layer {layer} shows {held} rows where {coverage} are real; nothing is stored"


def keeps_all(rows: LiveRows) -> bool:
    """False if a layer has dropped old positions (a ring): its blocks could not be rebuilt from what is left."""
    return all(layer.first == 0 for layer in rows.layers)


def bytes_between(rows: LiveRows, start: int, stop: int) -> int:
    """Bytes of K and V at positions start..stop-1, all layers together."""
    return sum(int(side[:, start:stop].nbytes) for layer in rows.layers for side in (layer.k, layer.v))


def cut(rows: LiveRows, start: int, stop: int) -> tuple[LayerRows, ...]:
    """Read-only copies of positions start..stop-1 of every layer, in one piece of memory: on a device a copy of each
    side by itself takes longer to ask for than to make."""
    sides = [side[:, start:stop] for layer in rows.layers for side in (layer.k, layer.v)]
    # guard[prefix-owned]: a view would change with the buffer it came from, and the next request would read the change
    # origin: MemOS#2301
    # mutant[prefix-owned/view]:
    #   - together = np.stack(sides)
    #   + together = sides
    together = np.stack(sides)  # [2 layers, G, positions, D]; of CuPy's arrays one of CuPy's
    if isinstance(together, np.ndarray):
        # mutant[prefix-owned/writable]:
        #   - together.flags.writeable = False
        #   + pass
        together.flags.writeable = False
    return tuple(zip(together[::2], together[1::2], strict=True))
