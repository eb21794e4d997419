"""teachkv as an arm: what is asked for arrives, what is reported comes from the running engine."""

import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from fakes import in_process

from teachkv.bench.arms import parse_arm
from teachkv.bench.drive import Driver, Probe
from teachkv.bench.engine_target import EngineTarget, random_model
from teachkv.bench.judge import sample_answers
from teachkv.bench.launch import launch
from teachkv.bench.metrics import figures
from teachkv.bench.samples import Sample
from teachkv.bench.session import Setup, Task
from teachkv.bench.sources import packages_hash
from teachkv.bench.trees import HERE
from teachkv.bench.workloads import cell
from teachkv.options import EngineOptions

CELL = "spread-6:longest=40,out=6"


def sample(arm: str, name: str = CELL, **more: Any) -> Sample:
    target = EngineTarget("tiny", None, parse_arm(arm).options, HERE)
    return Driver(target).cell(cell(name), 0, **more)


def job(arm: str, name: str = CELL, **more: Any) -> dict[str, Any]:
    made = parse_arm(arm)
    base = {"arm": made.to_json(), "cells": [name], "round": 0, "position": 0, "serial": 0, "kind": "timed"}
    return (
        base
        | {"model": "tiny", "shape": None, "root": str(HERE), "texts": {}, "warmup": 1, "probe": None, "limit": 60.0}
        | more
    )


@pytest.mark.parametrize("arm", ["bucketed", "ragged", "packed"])
def test_a_clean_arm_passes_every_guard_that_looks_at_it(arm: str) -> None:
    found = sample(arm)
    assert [str(a) for a in sample_answers(found, parse_arm(arm)) if a.failed] == []
    made = figures(found)
    assert made.tokens == 36
    assert made.decode_tok_s > 0
    assert made.prefill_tok_s > 0
    assert sum(step.prefill for step in found.steps) == sum(ask.prompt for ask in cell(CELL).asks)
    assert made.ops_per_token is not None
    assert found.facts.sources == packages_hash(HERE)
    assert found.steps[-1].at == pytest.approx(max(one.times[-1] for one in found.served), abs=0.05)


# One change per option of the engine, and what must be seen of it in the report (mlx-lm#1808: parsed, never passed).
CHANGED: dict[str, Any] = {
    "max_num_seqs": 2,
    "max_model_len": 300,
    "max_num_batched_tokens": 16,
    "policy": "bucketed",
    "batch_cache": "rebuild",
    "strip": "eager",
    "window_cache": "ring",
    "kv_budget": 64 << 20,
    "enable_prefix_caching": False,
    "prefix_cache_bytes": 1 << 20,
    "prefill_floor_steps": 2,
    "prefill_max_seqs": 1,
    "coalesce": False,
    "backend": "reference",
    "invariance": False,
    "overlap": True,
    "speculative_tokens": 2,
    "seed": 5,
    "dtype": "float32",
    "cuda_graphs": False,
    "graphs_at_load": False,
    "fused_decode": False,
    "poison": True,
}


@pytest.mark.case("ml-explore/mlx-lm#1808")
def test_every_option_of_an_arm_reaches_the_running_engine() -> None:
    assert set(CHANGED) == {field.name for field in fields(EngineOptions)}
    ragged_only = ("prefill_floor_steps", "prefill_max_seqs", "coalesce")
    for name, value in CHANGED.items():
        beside = "policy=ragged " if name in ragged_only else "batch_cache=rebuild " if name == "strip" else ""
        words = f"x: {beside}{name}={value}"
        target = EngineTarget("tiny", None, parse_arm(words).options, HERE)
        assert target.facts().options[name] == value, name


@pytest.mark.case("ml-explore/mlx-lm#1808")
@pytest.mark.parametrize(
    ("arm", "seen"),
    [
        ("x: max_num_seqs=2", lambda s: max(step.running for step in s.steps) == 2),
        ("x: max_num_batched_tokens=16", lambda s: max(step.prefill for step in s.steps) <= 16),
        ("x: enable_prefix_caching=off", lambda s: "prefix cache off" in (s.facts.path or "")),
        ("x: policy=bucketed", lambda s: all(step.running == 1 for step in s.steps)),
        ("x: policy=ragged prefill_max_seqs=1", lambda s: "policy ragged" in (s.facts.path or "")),
        ("x: overlap=on", lambda s: "overlap on" in (s.facts.path or "") and s.facts.engaged["overlap"] > 0),
        ("x: max_model_len=300", lambda s: "context 300" in (s.facts.path or "")),
    ],
)
def test_options_show_in_the_trace(arm: str, seen: Any) -> None:
    assert not seen(sample("packed"))
    assert seen(sample(arm))


def test_a_probe_that_is_still_there_makes_a_uniform_cell_ragged() -> None:
    uniform = "uniform-4:prompt=40,out=6"
    clean = sample("packed: policy=packed enable_prefix_caching=off", uniform)
    assert not any(step.ragged for step in clean.steps)
    probed = sample("packed: policy=packed enable_prefix_caching=off", uniform, probe=Probe(24, 12, settle=False))
    assert any(step.ragged for step in probed.steps)
    assert not probed.idle
    assert [str(a.guard) for a in sample_answers(probed, parse_arm("packed")) if a.failed] == ["probe purity"]


def test_alone_and_together_are_equal_on_this_engine() -> None:
    together, alone = sample("packed"), sample("packed", kind="solo")
    assert [one.digest for one in together.served] == [one.digest for one in alone.served]
    assert max(step.running for step in alone.steps) == 1


def test_a_random_model_is_labelled_as_one() -> None:
    loaded = random_model("smollm2-135m")
    assert loaded.config.num_layers == 30
    assert loaded.report.kind == "random weights"


@pytest.mark.case("NVIDIA/TransformerEngine#3532")
def test_the_code_under_test_really_runs(tmp_path: Path) -> None:
    """TransformerEngine#3532: the attention is made to raise; a benchmark that still succeeds never ran it."""
    place = HERE / "teachkv" / "attention.py"
    broken = place.read_text().replace(
        "def attend(", "def attend(*_, **__):\n    raise RuntimeError('ran')\n\n\ndef unused(", 1
    )
    (died,) = launch(job("packed", texts={str(place): broken}))
    assert died.failed is not None
    assert "RuntimeError: ran" in died.failed
    (alive,) = launch(job("packed"))
    assert alive.failed is None
    assert alive.facts.overlaid == ()


def test_a_ladder_runs_its_cells_on_one_engine() -> None:
    names = ["uniform-2:prompt=20,out=3", "uniform-3:prompt=20,out=3"]
    rungs = in_process(job("packed") | {"cells": names})
    assert [rung.cell for rung in rungs] == names
    assert all(rung.ladder and rung.idle for rung in rungs)
    assert sum(one.cached for rung in rungs for one in rung.served) == 0


def test_the_plan_hands_every_setting_to_the_job() -> None:
    from teachkv.bench.session import Session, prepare
    from teachkv.bench.trees import Trees

    setup = Setup(
        (CELL,), model="tiny", shape="qwen2.5-0.5b", warmup=3, probe={"prompt": 4, "out": 2, "settle": True}, limit=7.0
    )
    record = prepare(setup, [parse_arm("packed")])
    made = Session(record, Path("unused")).job(setup, Task(record.arms[0], (CELL,), 2, 1, "solo"), 9, Trees())
    given = {
        key: made[key] for key in ("model", "shape", "warmup", "probe", "limit", "round", "position", "kind", "serial")
    }
    assert given == {
        "model": "tiny", "shape": "qwen2.5-0.5b", "warmup": 3, "probe": setup.probe, "limit": 7.0,
        "round": 2, "position": 1, "kind": "solo", "serial": 9,
    }  # fmt: skip
    assert made["root"] == str(HERE)
    assert sys.executable
