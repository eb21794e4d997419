"""Whole questions by name: cells, arms and settings of the long tables. What is given beside a preset wins."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from teachkv.errors import OptionError

OFF = "enable_prefix_caching=off"
BUCKETED, RAGGED, PACKED = (  # one way to keep a batch, so that policies alone differ
    f"{name}: policy={name} batch_cache=incremental {OFF}" for name in ("bucketed", "ragged", "packed")
)
FLOORS = tuple(f"floor {n}: policy=ragged prefill_floor_steps={n} {OFF}" for n in (4, 16))
CAP = f"cap 4: policy=ragged prefill_max_seqs=4 {OFF}"  # acts on prompts of one length only
STRIPS = tuple(
    f"ragged, rebuild, {how}: policy=ragged batch_cache=rebuild strip={how} {OFF}" for how in ("deferred", "eager")
)
WHOLE = 1_000_000  # warm up with the whole cell: kernels are compiled and graphs recorded for its batch sizes


@dataclass(frozen=True, slots=True)
class Preset:
    """settings: fields of Setup that differ from its defaults."""

    tells: str
    cells: tuple[str, ...]
    arms: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)


QWEN: dict[str, Any] = {"shape": "qwen2.5-0.5b", "warmup": WHOLE}
PRESETS: dict[str, Preset] = {
    "quick": Preset(
        "this machine in about a minute, tiny model",
        ("uniform-4:prompt=48,out=8", "spread-4:longest=96,out=8"),
        ("bucketed: policy=bucketed", "ragged: policy=ragged", "packed: policy=packed"),
        {"model": "tiny", "rounds": 2, "identity": True},
    ),
    "seed-uniform": Preset(
        "the seed document's table, prompts of one length; for a GPU",
        tuple(f"uniform-{b}" for b in (8, 32, 128)),
        (BUCKETED, RAGGED, CAP, PACKED, *STRIPS),
        QWEN,
    ),
    "seed-spread": Preset(
        "the seed document's table, prompts of all lengths; for a GPU",
        tuple(f"spread-{b}" for b in (8, 32, 128)),
        (BUCKETED, RAGGED, *FLOORS, PACKED, *STRIPS),
        QWEN,
    ),
    "seed-inverted": Preset(
        "the cell that inverted, alone; for a GPU",
        ("uniform-32",),
        (BUCKETED, RAGGED, PACKED),
        QWEN,
    ),
    "seed-inverted-probed": Preset(
        "the same cell in a ladder behind a short drain probe: refused, and its variance shown; for a GPU",
        ("uniform-8", "uniform-32"),
        (BUCKETED, RAGGED, PACKED),
        QWEN | {"ladder": True, "probe": {"prompt": 40, "out": 64, "settle": False}},
    ),
    "yardstick": Preset(
        "256 requests, 100-1024 tokens in and out; for a GPU",
        ("yardstick",),
        tuple(f"{arm} max_num_seqs=256 max_model_len=2048" for arm in (PACKED, RAGGED)),  # a seat for each
        QWEN | {"warmup": 1, "rounds": 3},
    ),
    "arrivals": Preset(
        "open loop at 50, 80 and 95 % of the measured capacity; for a GPU",
        tuple(f"arrivals-128:load={load}" for load in (0.5, 0.8, 0.95)),
        (PACKED, BUCKETED, RAGGED, FLOORS[0]),
        QWEN | {"warmup": 8},
    ),
    "smollm2-small": Preset(
        "SmolLM2 on a CPU: small cells, and B=128 with short prompts (128 of 275 tokens take two cores six minutes)",
        ("uniform-8:out=16", "spread-8:out=16", "uniform-128:prompt=32,out=8", "spread-128:longest=48,out=8"),
        (BUCKETED, RAGGED, PACKED),
        {"model": "smollm2", "rounds": 3},
    ),
}


def preset(name: str) -> Preset:
    """Raises OptionError for an unknown name, with the known ones."""
    if name not in PRESETS:
        known = "; ".join(f"{known} ({found.tells})" for known, found in PRESETS.items())
        raise OptionError(f"no preset {name!r}: known are {known}")
    return PRESETS[name]
