"""Numbers that pages quote from records, and whether they still match.

A page names its records, each with the record's checksum, and wraps every number that it quotes:

    <!-- record traps.json sha256=3f0c... -->
    ... <!-- from traps.json: traps.0.got -->453<!-- end --> of 512 tokens came back
    ... <!-- from spread.json: tok_s(ragged, spread-8:out=8) .1f -->81.4<!-- end --> tok/s

A key is a path into the JSON, or METRIC(arm, cell), the mean over the samples of a run; a format may follow it.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from teachkv.bench.judge import by_round
from teachkv.bench.metrics import METRICS
from teachkv.bench.record import Record, load_json
from teachkv.errors import OptionError, TeachKVError

_RECORD = re.compile(r"<!-- record (\S+) sha256=([0-9a-f]{64}) -->")
_OPEN = re.compile(r"<!-- from (\S+): (.*?) -->")
_QUOTE = re.compile(r"<!-- from (?P<file>\S+): (?P<key>.*?) -->(?P<text>[^<]*)<!-- end -->")
_CALL = re.compile(r"(?P<metric>\w+)\((?P<arm>.+), (?P<cell>[^ ]+)\)")


def quote(file: str, key: str, text: str) -> str:
    """`text` as a quote of the record's `key`."""
    return f"<!-- from {file}: {key} -->{text}<!-- end -->"


def naming(path: Path) -> str:
    """The line by which a page names a record."""
    import json

    return f"<!-- record {path.name} sha256={json.loads(path.read_text(encoding='utf-8'))['checksum']} -->"


def problems(page: Path, evidence: Path) -> list[str]:
    """Everything on the page that does not match its records; empty if all holds. Indented code is left alone."""
    lines = page.read_text(encoding="utf-8").splitlines()
    return list(_problems("\n".join(line for line in lines if not line.startswith("    ")), evidence))


def quotes(text: str) -> list[tuple[str, str, str]]:
    """(record file, key, quoted text) in order."""
    return [(match["file"], match["key"], match["text"]) for match in _QUOTE.finditer(text)]


def _problems(text: str, evidence: Path) -> Iterator[str]:
    named = dict(_RECORD.findall(text))
    for file, stated in named.items():
        try:
            yield from _checksum_problem(file, stated, evidence)
        except (TeachKVError, OSError) as error:
            yield f"{file}: {error}"
    if len(_OPEN.findall(text)) != len(quotes(text)):
        yield "a quote is not closed by <!-- end -->"
    for file, key, quoted in quotes(text):
        if file not in named:
            yield f"{file}: quoted, but the page does not name it with its checksum"
            continue
        try:
            found = value(evidence / file, key)
        except (TeachKVError, OSError, LookupError, ValueError) as error:
            yield f"{file}: {key}: {type(error).__name__}: {error}"
            continue
        # guard[quoted-number]: a number typed by hand outlives the measurement that it came from
        # mutant[quoted-number/any-text]:
        #   - if found != quoted.strip():
        #   + if not found:
        if found != quoted.strip():
            yield f"{file}: {key} is {found}, the page says {quoted.strip()}"


def _checksum_problem(file: str, stated: str, evidence: Path) -> Iterator[str]:
    body = (evidence / file).read_text(encoding="utf-8")
    load_json(evidence / file)
    # guard[quoted-record]: a record measured again is another record, even if a number or two survive
    # mutant[quoted-record/any-checksum]:
    #   - if f'"checksum":"{stated}"' not in body:
    #   + if '"checksum":"' not in body:
    if f'"checksum":"{stated}"' not in body:
        yield f"{file}: has another checksum than the page states"


def value(path: Path, key: str) -> str:
    """What the record says under a key, in the key's format."""
    call = _CALL.match(key)
    name, _, spec = (call.group(0), "", key[call.end() :].strip()) if call else key.strip().partition(" ")
    found = figure(path, call) if call else follow(load_json(path), name)
    return format(found, spec.strip())


def figure(path: Path, call: re.Match[str]) -> float:
    if call["metric"] not in METRICS:
        raise OptionError(f"no metric {call['metric']!r}: known are {', '.join(METRICS)}")
    values = list(by_round(Record.load(path), call["cell"], call["arm"], call["metric"]).values())
    if not values:
        raise OptionError(f"no samples of {call['arm']} in {call['cell']}")
    return sum(values) / len(values)


def follow(body: Any, path: str) -> Any:
    """`a.0.b` -> body["a"][0]["b"]."""
    for part in path.split("."):
        body = body[int(part)] if isinstance(body, list) else body[part]
    return body
