"""What a chat template may spend. A template comes from strangers and runs inside the engine.

Python cannot be stopped from outside without harm, so every place where a template can spend is watched: loops and
calls look at the clock, and whatever makes text or lists longer is refused before it is made.
"""

import functools
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jinja2.exceptions import TemplateError as JinjaError

MAX_SECONDS = 5.0
MAX_CHARS = 8 << 20  # a context of a million tokens has about half of that
MAX_ITEMS = 1 << 18
MAX_BITS = 1 << 14
SMALL = 64
# Filters and string methods whose result can be much longer than their input, through what else they are given.
GROWS = frozenset(
    [
        *("center", "ljust", "rjust", "zfill", "expandtabs", "indent", "wordwrap"),
        *("batch", "slice", "round", "to_bytes", "tojson", "urlize"),
    ]
)


# Filters that work item by item (of a text: character by character or word by word), where no tick can stop them.
BY_ITEM = frozenset(
    [
        *("list", "unique", "sort", "map", "select", "reject", "selectattr", "rejectattr", "groupby", "dictsort"),
        *("batch", "slice", "sum", "urlize", "wordwrap"),
    ]
)


class LimitReached(JinjaError):
    """The template ran past a limit."""


class Budget:
    """Time and size left to one rendering."""

    def __init__(self, seconds: float = MAX_SECONDS, chars: int = MAX_CHARS) -> None:
        self.seconds, self.chars = seconds, chars
        self.start()

    def start(self) -> None:
        self.deadline = time.monotonic() + self.seconds

    def tick(self) -> None:
        """Raise LimitReached when the time is up."""
        if time.monotonic() > self.deadline:
            raise LimitReached(f"ran for more than {self.seconds:g} s")

    def check_length(self, length: int) -> None:
        """Raise LimitReached when the output is too long."""
        if length > self.chars:
            raise LimitReached(f"wrote more than {self.chars} characters")

    def sized(self, value: Any) -> Any:
        """The value, unless it is too large to be written out. A list that holds itself many times over counts in
        full.
        """
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            raise LimitReached(f"made a number of more than {MAX_BITS} bits")
        if weight(value, self.chars) > self.chars:
            raise LimitReached(f"made a value of more than {self.chars} characters or {MAX_ITEMS} parts")
        return value


def weight(value: Any, most: int = MAX_CHARS) -> int:
    """Characters and parts of a value, nested ones counted as often as they would be written; stops beyond `most`."""
    total, items, stack = 0, 0, [value]
    while stack and total <= most:
        part = stack.pop()
        items += 1
        if isinstance(part, str):
            total += len(part)
        elif isinstance(part, Mapping):
            stack += [*part.keys(), *part.values()]
        elif isinstance(part, (list, tuple)):
            stack += part
        if items > MAX_ITEMS or len(stack) > MAX_ITEMS:
            return most + 1
    return total + items


def refuse_growth(operator: str, left: Any, right: Any) -> None:
    """Raise LimitReached before `left operator right` is computed, if the result would be large."""
    if operator == "*":
        for text, times in ((left, right), (right, left)):
            most = MAX_CHARS if isinstance(text, str) else MAX_ITEMS
            if isinstance(times, int) and hasattr(text, "__len__") and len(text) * times > most:
                raise LimitReached(f"repeats something of length {len(text)} {times} times")
    if operator == "**" and isinstance(left, int) and isinstance(right, int) and left.bit_length() * right > MAX_BITS:
        raise LimitReached("raises a number to a large power")
    if operator == "%" and isinstance(left, str):
        _check_format(left, right if isinstance(right, tuple) else (right,))


def watched_filter(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that refuses to grow its input without bound; otherwise the same filter."""
    first = 1 if getattr(plain, "jinja_pass_arg", None) is not None else 0

    @functools.wraps(plain)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if len(args) > first:
            if name == "join" and not isinstance(args[first], str):
                args = (*args[:first], list(args[first]), *args[first + 1 :])
            check_call(name, args[first], [*args[first + 1 :], *kwargs.values()])
        return plain(*args, **kwargs)

    return checked


def check_method(method: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise LimitReached before a method of a string or number is called, if its result would be large."""
    bound = getattr(method, "__wrapped__", method)  # the sandbox wraps str.format
    owner, name = getattr(bound, "__self__", None), getattr(bound, "__name__", "")
    if name == "join" and isinstance(owner, str) and args:
        check_call(name, list(args[0]) if isinstance(args[0], (list, tuple)) else args[0], [owner])
    elif isinstance(owner, (str, bytes, int)):
        check_call(name, owner, [*args, *kwargs.values()])


def check_call(name: str, value: Any, args: Sequence[Any]) -> None:
    """`value` is what is worked on; args what the filter or method was given."""
    length = len(value) if hasattr(value, "__len__") else 1
    # guard[template-items]: one filter over megabytes ran for 27 s; between its items nobody looks at the clock
    # mutant[template-items/removed]:
    #   - if name in BY_ITEM and length > MAX_ITEMS:
    #   + if False:
    if name in BY_ITEM and length > MAX_ITEMS:
        raise LimitReached(f"{name}: {length} characters or parts are too many")
    texts = [arg for arg in args if isinstance(arg, str)]
    if name in GROWS:
        _check_grown(name, length, args)
    if name == "replace" and len(texts) >= 2 and str(value).count(texts[0]) * len(texts[1]) > MAX_CHARS:
        raise LimitReached("replace: the result would be too long")
    if name == "join" and isinstance(value, list):
        glue = len(texts[0]) if texts else 0
        if weight(value) + glue * length > MAX_CHARS:
            raise LimitReached("join: the result would be too long")
    if name in ("format", "format_map") and isinstance(value, str):
        _check_format(value, args)


def _check_grown(name: str, length: int, args: Sequence[Any]) -> None:
    large = max((arg for arg in args if isinstance(arg, int)), default=0)
    if large > SMALL and large * (length + 1) > MAX_ITEMS:
        raise LimitReached(f"{name}: {large} is too large")
    if weight(list(args)) > SMALL and (length > SMALL or name == "tojson"):
        raise LimitReached(f"{name}: the text to insert is too long")


def _check_format(pattern: str, args: Sequence[Any]) -> None:
    """Widths are numbers in the pattern (`%9999999d`, `{:9999999}`) or arguments (`%*d`, `{:{}}`); and fields
    repeat.
    """
    wide = re.search(r"[%{][^%{]*\d{5}", pattern)
    given = ("*" in pattern or re.search(r"{[^{}]*{", pattern)) and any(isinstance(a, int) and a > 9999 for a in args)
    if wide or given:
        raise LimitReached("format: a width of more than four digits")
    if (pattern.count("%") + pattern.count("{")) * weight(list(args)) > MAX_CHARS:
        raise LimitReached("format: the result would be too long")
