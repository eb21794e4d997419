"""What a function gives back, call by call, in a form that two processes can compare."""

from __future__ import annotations

import hashlib
import reprlib
import sys
import threading
from types import FrameType
from typing import Any

from teachkv.mutate.swap import real_path

CALLS = 1000  # calls per test that are looked at
DEPTH = 4  # how far into objects a fingerprint looks


class Observer:
    """Notes, for each call of the named functions, the arguments as the call leaves them and the result.

    `places` are (file, qualified name) pairs. An array changed in place counts as much as a returned value.
    """

    def __init__(self, places: set[tuple[str, str]]) -> None:
        self._places = places
        self._raised: set[int] = set()
        self.calls: list[tuple[str, str]] = []

    def start(self) -> None:
        threading.settrace(self._on_call)
        sys.settrace(self._on_call)

    def stop(self) -> None:
        sys.settrace(None)
        threading.settrace(None)

    def take(self) -> list[tuple[str, str]]:
        """(fingerprint, readable) of each call since the last take."""
        taken, self.calls = self.calls, []
        return taken

    def _on_call(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        if (real_path(code.co_filename), code.co_qualname) in self._places:
            return self._on_event
        return None

    def _on_event(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "exception":
            self._raised.add(id(frame))
        elif event == "line":
            self._raised.discard(id(frame))
        elif event == "return" and len(self.calls) < CALLS:
            raised = id(frame) in self._raised
            self._raised.discard(id(frame))
            code = frame.f_code
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            arguments = [frame.f_locals.get(name) for name in names]
            shown = "raised" if raised else reprlib.repr(arg)
            self.calls.append((fingerprint([raised, arg, arguments]), shown))
        return self._on_event


def fingerprint(value: Any) -> str:
    """Equal for equal values of plain data, arrays and objects made of them, in any process."""
    digest = hashlib.blake2b(digest_size=12)
    _feed(digest, value, DEPTH, set())
    return digest.hexdigest()


def _feed(digest: Any, value: Any, depth: int, above: set[int]) -> None:
    kind = type(value).__name__
    digest.update(kind.encode() + b":")
    if isinstance(value, (bool, int, float, complex, str, bytes, type(None))):
        digest.update(repr(value).encode() + b";")
        return
    if hasattr(value, "tobytes") and hasattr(value, "dtype"):
        digest.update(f"{value.dtype}{getattr(value, 'shape', ())}".encode() + value.tobytes())
        return
    if depth == 0 or id(value) in above:
        return
    above = above | {id(value)}
    for part in _parts(value):
        _feed(digest, part, depth - 1, above)


def _parts(value: Any) -> list[Any]:
    """What a container or object is made of, in an order that does not depend on hashes."""
    if isinstance(value, dict):
        return [part for pair in value.items() for part in pair]
    if isinstance(value, (set, frozenset)):
        return sorted(fingerprint(item) for item in value)
    if isinstance(value, (list, tuple)):
        return list(value)
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    fields = {**{name: getattr(value, name, None) for name in slots if isinstance(name, str)}}
    fields.update(getattr(value, "__dict__", {}))
    return [part for pair in fields.items() for part in pair]
