"""Reads JSON from a model directory: bounded, without silent conversions, each error naming file and key."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from teachkv.config.places import inside
from teachkv.errors import ConfigError, TeachKVError

JSON_LIMIT = 4 << 20  # a config.json of over 4 MiB is not a config.json
NO_DEFAULT: Any = object()


def read_json(path: Path, *, limit: int = JSON_LIMIT, error: type[TeachKVError] = ConfigError) -> dict[str, Any]:
    """The JSON object in a file of a model folder. Raises `error` if it is absent, too large, not UTF-8, not JSON."""
    inside(path.parent, path.name, error=error)
    try:
        with path.open("rb") as file:
            raw = file.read(limit + 1)
    except OSError as problem:
        raise error(f"{path}: cannot be read ({problem.strerror}); check its permissions") from None
    return parse_json(raw, str(path), limit=limit, error=error)


def parse_json(raw: bytes, where: str, *, limit: int, error: type[TeachKVError]) -> dict[str, Any]:
    """As `read_json`, for bytes already read; `where` names them in errors."""
    # guard[json-bounded]: a reader that takes any size can be made to fill the memory
    # mutant[json-bounded/removed]:
    #   - if len(raw) > limit:
    #   + if False:
    if len(raw) > limit:
        raise error(f"{where}: larger than {limit} bytes; this is not the file it claims to be")
    try:
        data = json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as problem:
        raise error(f"{where}: not valid JSON ({_brief(problem)}); fetch the file again") from None
    if not isinstance(data, dict):
        raise error(f"{where}: must hold a JSON object, not {type(data).__name__}")
    return data


def _brief(problem: BaseException) -> str:
    return (str(problem).splitlines() or [type(problem).__name__])[0][:120]


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        # guard[json-unique]: of two equal keys one would win in silence, and another reader may take the other
        # mutant[json-unique/removed]:
        #   - if key in result:
        #   + if False:
        if key in result:
            raise ValueError(f"key {key[:60]!r} appears twice")
        result[key] = value
    return result


class Fields:
    """Typed access to the keys of one JSON object; remembers what was read, so that the rest can be reported."""

    def __init__(self, data: Mapping[str, Any], where: str) -> None:
        self.data, self.where = data, where
        self.seen: set[str] = set()

    def fail(self, key: str, message: str) -> NoReturn:
        raise ConfigError(f"{self.where}: {key} {message}")

    def raw(self, key: str, default: Any = None) -> Any:
        """The value as it stands; an explicit null counts as absent."""
        self.seen.add(key)
        value = self.data.get(key)
        return default if value is None else value

    def has(self, key: str) -> bool:
        self.seen.add(key)
        return self.data.get(key) is not None

    def integer(self, key: str, default: Any = NO_DEFAULT, *, low: int = 1, high: int = 2**31 - 1) -> int:
        value = self.raw(key, default)
        if value is NO_DEFAULT:
            self.fail(key, "is missing; it must be a whole number")
        if not isinstance(value, int) or isinstance(value, bool):
            self.fail(key, f"must be a whole number, not {_shown(value)}")
        if not low <= value <= high:
            self.fail(key, f"is {_shown(value)}; it must lie between {low} and {high}")
        return value

    def number(self, key: str, default: Any = NO_DEFAULT, *, low: float = 0.0, above: bool = True) -> float:
        """A finite number above `low` (at least `low` with above=False)."""
        value = self.raw(key, default)
        if value is NO_DEFAULT:
            self.fail(key, "is missing; it must be a number")
        if not isinstance(value, int | float) or isinstance(value, bool):
            self.fail(key, f"must be a number, not {_shown(value)}")
        if abs(value) > 1e300 or not math.isfinite(value) or value < low or (above and value == low):
            self.fail(key, f"is {_shown(value)}; it must be {'above' if above else 'at least'} {low:g}")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        value = self.raw(key, default)
        if not isinstance(value, bool):
            self.fail(key, f"must be true or false, not {_shown(value)}")
        return value

    def text(self, key: str, default: str | None = None) -> str | None:
        value = self.raw(key, default)
        if value is not None and not isinstance(value, str):
            self.fail(key, f"must be a string, not {_shown(value)}")
        return value

    def unread(self) -> list[str]:
        return sorted(key for key in self.data if key not in self.seen)


def printable(text: str, limit: int = 60) -> str:
    """Foreign text for a message: cut, and spelt out where it holds line breaks or the like."""
    return text[:limit] if text.isprintable() else repr(text[:limit])


def _shown(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**30:
        return "a number of over 30 digits"
    return repr(value)[:60]
