"""The built-in cells, by name: `uniform-8`, `spread-32:out=8`, `arrivals:rate=2`, `yardstick`, ...

Options follow a colon, separated by commas, each a whole or decimal number: `spread-8:out=16,longest=96`.
"""

import random
import re
from collections.abc import Callable
from difflib import get_close_matches

import numpy as np

from teachkv.bench.cells import Ask, Cell
from teachkv.errors import OptionError

Numbers = dict[str, float]
_NAME = re.compile(r"([a-z-]+?)(?:-(\d+))?(?::(.*))?")
YARDSTICK_TOKENS = 133_966  # what nano-vllm publishes for its 256 requests


def uniform(b: int, o: Numbers) -> list[Ask]:
    """B prompts of one length."""
    return [Ask(int(o["prompt"]), int(o["out"]))] * b


def spread(b: int, o: Numbers) -> list[Ask]:
    """B prompts from shortest to longest, evenly; one alone has the middle length."""
    shortest, longest = int(o["shortest"]), int(o["longest"])
    lengths = (
        [(shortest + longest) // 2] if b == 1 else [shortest + i * (longest - shortest) // (b - 1) for i in range(b)]
    )
    return [Ask(length, int(o["out"])) for length in lengths]


def arrivals(b: int, o: Numbers) -> list[Ask]:
    """Poisson arrivals: gaps are exponential with mean 1/rate; they come whether or not the engine keeps up."""
    generator = np.random.Generator(np.random.Philox(key=int(o["seed"])))
    lengths = generator.integers(int(o["shortest"]), int(o["longest"]) + 1, b)
    at = np.cumsum(generator.exponential(1.0, b)) / o["rate"] if o["rate"] else np.zeros(b)
    return [Ask(int(length), int(o["out"]), float(due)) for length, due in zip(lengths, at, strict=True)]


def yardstick(b: int, o: Numbers) -> list[Ask]:
    """The requests of nano-vllm's benchmark: lengths drawn in its order, so that the totals are its totals."""
    draw = random.Random(int(o["seed"]))
    lengths = []
    for _ in range(b):
        lengths.append(draw.randint(100, int(o["longest"])))
        for _ in range(lengths[-1]):
            draw.randint(0, 10_000)  # its prompt ids come from the same stream
    outs = [draw.randint(100, int(o["longest"])) for _ in range(b)]
    return [Ask(length, out) for length, out in zip(lengths, outs, strict=True)]


def shared_prefix(b: int, o: Numbers) -> list[Ask]:
    """B prompts with a common beginning."""
    return [Ask(int(o["shared"]) + int(o["own"]), int(o["out"]), 0.0, int(o["shared"]))] * b


def long_tail(b: int, o: Numbers) -> list[Ask]:
    """Log-normal lengths: most are short, a few are very long."""
    generator = np.random.Generator(np.random.Philox(key=int(o["seed"])))
    lengths = np.clip(generator.lognormal(np.log(o["median"]), o["sigma"], b), 4, o["longest"])
    return [Ask(int(length), int(o["out"])) for length in lengths]


KINDS: dict[str, tuple[Callable[[int, Numbers], list[Ask]], int, Numbers]] = {
    "uniform": (uniform, 8, {"prompt": 275, "out": 64}),
    "spread": (spread, 8, {"shortest": 16, "longest": 534, "out": 64}),
    "arrivals": (arrivals, 64, {"rate": 1.0, "load": 0.0, "shortest": 16, "longest": 534, "out": 64, "seed": 0}),
    "yardstick": (yardstick, 256, {"longest": 1024, "seed": 0}),
    "shared-prefix": (shared_prefix, 16, {"shared": 256, "own": 32, "out": 64}),
    "long-tail": (long_tail, 32, {"median": 48, "sigma": 1.0, "longest": 1024, "out": 64, "seed": 0}),
}
FIXTURES: Numbers = {"repeat": 0, "stops": 0}


def cell(name: str) -> Cell:
    """The cell of that name. Raises OptionError for an unknown name or option, with what is known."""
    match = _NAME.fullmatch(name)
    if match is None or match.group(1) not in KINDS:
        near = get_close_matches(name.partition(":")[0], KINDS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(KINDS)}, with -B (uniform-8)"
        raise OptionError(f"no cell {name!r}: {hint}")
    make, count, defaults = KINDS[match.group(1)]
    count = int(match.group(2) or count)
    if count < 1:
        raise OptionError(f"cell {name!r}: needs at least one request")
    options = FIXTURES | defaults | _numbers(name, match.group(3), {**FIXTURES, **defaults})
    return Cell(name, tuple(make(count, options)), repeat=bool(options["repeat"]), stops=bool(options["stops"]))


def load_of(name: str) -> float:
    """The share of the measured capacity that an `arrivals` cell asks for; 0 when it names its rate itself."""
    found = re.search(r"[:,]load=([0-9.]+)", name)
    return float(found.group(1)) if found else 0.0


def at_rate(name: str, rate: float) -> str:
    """The cell's name with a rate put in."""
    return _with(name, ("rate=",), f"rate={rate:.6g}")


def at_once(name: str) -> str:
    """The cell whose requests all come at once, which measures the capacity: the same for every load."""
    return _with(name, ("rate=", "load="), "rate=0")


def _with(name: str, dropped: tuple[str, ...], added: str) -> str:
    kept = [part for part in name.partition(":")[2].split(",") if part and not part.startswith(dropped)]
    return f"{name.partition(':')[0]}:{','.join([*kept, added])}"


def _numbers(name: str, text: str | None, known: Numbers) -> Numbers:
    found: Numbers = {}
    for part in (text or "").split(",") if text else []:
        key, _, value = part.partition("=")
        if key not in known:
            raise OptionError(f"cell {name!r}: unknown option {key!r}; known: {', '.join(known)}")
        try:
            found[key] = float(value)
        except ValueError:
            raise OptionError(f"cell {name!r}: {key}={value!r} is not a number") from None
        if found[key] < 0:
            raise OptionError(f"cell {name!r}: {key}={value} is below 0")
    return found
