"""Unknown keyword arguments are errors, and the error names the option that was probably meant."""

import difflib
import functools
import inspect
from collections.abc import Iterable
from typing import Any, TypeVar

from teachkv.errors import UnknownOption

C = TypeVar("C")


def refuse_unknown(given: Iterable[str], known: Iterable[str], where: str) -> None:
    """Raise `UnknownOption` (an `OptionError` and a `TypeError`) for the first name in `given` that `known` lacks."""
    names = sorted(known)
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            advice = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(names)}"
            raise UnknownOption(f"{where}: unknown option '{name}'; {advice}")


def names_near_misses(cls: type[C]) -> type[C]:
    """Class decorator: an unknown keyword of the constructor is refused with the nearest known one."""
    plain: Any = vars(cls)["__init__"]
    known = [name for name in inspect.signature(plain).parameters if name != "self"]

    @functools.wraps(plain)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        refuse_unknown(kwargs, known, cls.__name__)
        plain(self, *args, **kwargs)

    setattr(cls, "__init__", checked)  # noqa: B010 (mypy refuses the plain assignment on a class)
    return cls
