"""Options on the command line are made from the dataclasses that define them, so that there is one list of them."""

import argparse
import dataclasses
import re
import sys
import types
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    Verbs = argparse._SubParsersAction["OneLineParser"]
else:
    Verbs = Any


class OneLineParser(argparse.ArgumentParser):
    """argparse that complains in one line, offers the nearest option, and never guesses an abbreviation."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **kwargs)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            verb = self._verbs().get(getattr(parsed, "verb", ""), self)
            verb.error(f"unknown option {unknown[0]!r}{verb.nearest(unknown[0])}")
        return parsed

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see '{self.prog} --help'\n")

    def nearest(self, option: str) -> str:
        known = [o for action in self._actions for o in action.option_strings]
        near = get_close_matches(option.split("=")[0], known, n=1)
        return f" (did you mean {near[0]}?)" if near else ""

    def _verbs(self) -> "dict[str, OneLineParser]":
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                return action.choices
        return {}


def add_fields(parser: argparse._ActionsContainer, record: type, names: Iterable[str] | None = None) -> None:
    """One option per field of a dataclass (or the named ones); the help is what its docstring says after `name: `."""
    helps = field_helps(record)
    hints = get_type_hints(record)
    for field in dataclasses.fields(record):
        if names is None or field.name in names:
            add_field(parser, dest(record, field.name), hints[field.name], helps.get(field.name, ""))


def dest(record: type, name: str) -> str:
    """Two records may have a field of one name; the engine's own seed is `--engine-seed`, a request's is `--seed`."""
    return f"engine_{name}" if (record.__name__, name) == ("EngineOptions", "seed") else name


def add_field(parser: argparse._ActionsContainer, name: str, hint: Any, text: str) -> None:
    flag = "--" + name.replace("_", "-")
    common: dict[str, Any] = {"default": argparse.SUPPRESS, "help": text.replace("%", "%%")}
    choices = literal_choices(hint)
    kinds = [k for k in plain_kinds(hint) if k is not type(None)]
    if choices and bool in kinds:
        parser.add_argument(flag, choices=["on", "off", *choices], **common)
    elif choices:
        parser.add_argument(flag, choices=choices, **common)
    elif kinds == [bool]:
        parser.add_argument(flag, action=argparse.BooleanOptionalAction, **common)
    elif any(get_origin(k) is Mapping for k in kinds):
        parser.add_argument(flag, action="append", type=token_and_bias, metavar="TOKEN=BIAS", **common)
    elif list in kinds or any(get_origin(k) in (list, tuple, frozenset) for k in kinds):
        parser.add_argument(flag, action="append", type=int if "int" in str(hint) else str, metavar="X", **common)
    else:
        kind = float if float in kinds else int if int in kinds else str
        optional = kind is int and type(None) in plain_kinds(hint)
        shown = kind.__name__.upper() + ("|none" if optional else "")
        parser.add_argument(flag, type=whole_or_none if optional else kind, metavar=shown, **common)


def picked(args: argparse.Namespace, record: type) -> dict[str, Any]:
    """The fields of `record` that were given on the command line."""
    switch = {"on": True, "off": False}
    given = vars(args)
    values = {f.name: given[dest(record, f.name)] for f in dataclasses.fields(record) if dest(record, f.name) in given}
    values |= {name: dict(value) for name, value in values.items() if isinstance(value, list) and is_pair(value[0])}
    return {name: switch.get(value, value) if isinstance(value, str) else value for name, value in values.items()}


def whole_or_none(text: str) -> int | None:
    """What no number says: no limit, or off; the option's help says which."""
    try:
        return None if text == "none" else int(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a whole number nor 'none'") from error


def token_and_bias(text: str) -> tuple[int, float]:
    token, _, bias = text.partition("=")
    try:
        return int(token), float(bias)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not TOKEN=BIAS, as in 50256=-inf") from error


def is_pair(value: object) -> bool:
    return isinstance(value, tuple)


def field_helps(record: type) -> dict[str, str]:
    """What the docstring says after `name: ` or `name, name: `, up to the next such heading or blank line."""
    names = "|".join(field.name for field in dataclasses.fields(record))
    heading = re.compile(rf"(?<![\w`])((?:{names})(?:, (?:{names}))*): ")
    helps: dict[str, str] = {}
    for block in re.split(r"\n\s*\n", record.__doc__ or ""):
        pieces = heading.split(" ".join(block.split()))
        for heads, text in zip(pieces[1::2], pieces[2::2], strict=True):
            helps.update(dict.fromkeys(heads.split(", "), text.strip()))
    return helps


def literal_choices(hint: Any) -> list[str]:
    if get_origin(hint) is Literal:
        return [value for value in get_args(hint) if isinstance(value, str)]
    return [c for part in get_args(hint) for c in literal_choices(part)] if is_union(hint) else []


def plain_kinds(hint: Any) -> list[Any]:
    return [k for part in get_args(hint) for k in plain_kinds(part)] if is_union(hint) else [hint]


def is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, types.UnionType)


def say(text: str) -> None:
    """A line for the person, not for the pipe."""
    print(text, file=sys.stderr, flush=True)
