"""Graphs of all batch sizes are there before the first request, and nobody can tell by anything else."""

import sys
from typing import Any

import numpy as np
import pytest
from played_device import Device, engine_on

from teachkv import LLM, SamplingParams
from teachkv.graphs import CLASSES, GraphedModel

PROMPTS = [[5, 9, 11], [7], [3, 4, 5, 6, 8, 13, 21], [40] * 17, [2, 2]]
WANTED = SamplingParams(temperature=0.8, seed=4, max_tokens=9, logprobs=2, stop_token_ids=list(range(97, 103)))
OPTIONS: dict[str, Any] = {"max_num_seqs": 5, "max_model_len": 64, "seed": 1, "poison": True}


def graphed(llm: LLM) -> GraphedModel:
    model = llm._alive().engine.model
    assert isinstance(model, GraphedModel)
    return model


def answers(llm: LLM) -> list[Any]:
    outputs = [o.outputs[0] for o in llm.generate(PROMPTS, WANTED)]
    return [(o.token_ids, o.text, o.finish_reason, o.logprobs) for o in outputs]


def seen(llm: LLM) -> tuple[Any, ...]:
    """Everything an engine tells of itself, times apart."""
    stats = llm.stats()
    steps = {key: value for key, value in stats["steps"].items() if "per_s" not in key}
    records = [(r.step, r.plan, r.rows, r.tokens, r.events) for r in llm.trace.records]
    return steps, stats["now"], stats["cache"], stats["prefix"], stats["engaged"], records


@pytest.mark.parametrize(("overlap", "turns"), [(True, 2), (False, 1)])
def test_every_size_is_recorded_at_load_for_each_turn_and_no_step_records(
    overlap: bool, turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Device()
    with engine_on(device, monkeypatch, overlap=overlap, **OPTIONS) as llm:
        made = {key[:2] for key in graphed(llm).recorded}
        assert made == {(size, turn) for size in (1, 2, 4, 8) for turn in range(turns)}
        assert device.recorded == device.uploads == len(made)
        assert device.launches == graphed(llm).replays == 0
        assert device.pools == 1
        answers(llm)
        assert device.recorded == len(made)
        assert device.launches == graphed(llm).replays >= 8


@pytest.mark.parametrize(("seats", "sizes"), [(1, 1), (8, 4), (9, 5), (512, 15), (600, 15)])
def test_the_sizes_are_those_that_the_seats_allow(seats: int, sizes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {**OPTIONS, "max_num_seqs": seats, "max_model_len": 8, "overlap": False, "kv_budget": 1 << 30}
    with engine_on(Device(), monkeypatch, **options) as llm:
        assert sorted(key[0] for key in graphed(llm).recorded) == list(CLASSES[:sizes])


def test_answers_and_all_that_is_told_are_those_without(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for options in ({}, {"graphs_at_load": False}, {"cuda_graphs": False}):
        device = Device()
        with engine_on(device, monkeypatch, overlap=True, trace=True, **options, **OPTIONS) as llm:
            found.append((answers(llm), seen(llm)))
            assert (device.launches > 0) == (options != {"cuda_graphs": False})
    assert found[0] == found[1] == found[2]
    assert len({tuple(answer[0]) for answer in found[0][0]}) == len(PROMPTS)


def test_recording_writes_to_no_row_and_moves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with engine_on(Device(), monkeypatch, overlap=True, **OPTIONS) as llm:
        cache: Any = llm._alive().engine.cache
        before = [side for pair in cache.batch.buffers.arrays.values() for side in pair]
        assert all(np.isnan(side).all() for side in before)
        assert (cache.stats().joins, cache.geometry_epoch, cache.take_events()) == (0, 0, [])
        answers(llm)
        after = [side for pair in cache.batch.buffers.arrays.values() for side in pair]
        assert [side.data.ptr for side in after] == [side.data.ptr for side in before]


def test_the_line_of_the_load_says_what_was_recorded_and_the_path_stays_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    with engine_on(Device(), monkeypatch, overlap=True, log=said.append, **OPTIONS) as llm:
        assert "; CUDA graphs: 8 recorded in 0." in said[0]
        assert " s for 1 .. 5 rows, 3 MB; seed 1" in said[0]
        assert "CUDA graphs: " not in llm.stats()["path"]
        assert "decode steps plain, as CUDA graphs" in llm.stats()["path"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"graphs_at_load": False}, "graphs_at_load is off"),
        ({"batch_cache": "rebuild"}, "the batch cache makes its buffers anew"),
    ],
)
def test_what_is_left_to_the_steps_is_said(options: dict[str, Any], why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    device = Device()
    with engine_on(device, monkeypatch, log=said.append, overlap=True, **options, **OPTIONS) as llm:
        assert f"; CUDA graphs: recorded by the steps that first need them ({why}); seed" in said[0]
        assert device.recorded == 0
        answers(llm)
        assert device.recorded > 0


def test_without_a_device_nothing_is_said_and_nothing_done() -> None:
    said: list[str] = []
    with LLM("tiny", log=said.append, **OPTIONS):
        assert "graph" not in said[0]


def failing(after: int, error: Exception) -> Device:
    """A device that refuses every recording after the first few."""

    def refuse(device: Device) -> None:
        if device.recorded >= after:
            device.calls = None
            raise error

    return Device(refuses=refuse)


@pytest.mark.parametrize(("at_load", "after"), [(True, 0), (True, 3), (False, 0), (False, 1)])
def test_a_failure_gives_one_line_and_the_engine_goes_on(
    at_load: bool, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with engine_on(Device(), monkeypatch, overlap=True, **OPTIONS) as llm:
        right = answers(llm)
    said: list[str] = []
    device = failing(after, RuntimeError("cudaErrorStreamCapture\nUnsupported"))
    with engine_on(device, monkeypatch, overlap=True, graphs_at_load=at_load, log=said.append, **OPTIONS) as llm:
        assert answers(llm) == answers(llm) == right
        told = [line for line in said if line.startswith("note: no CUDA graph")]
        assert len(told) == 1
        assert "(RuntimeError: cudaErrorStreamCapture Unsupported)" in told[0]
        assert device.recorded == after
        assert (device.launches > 0) == (after > 0)
        if at_load:
            assert ("without CUDA graphs" if after == 0 else "CUDA graphs of 4 .. 8 rows") in llm.stats()["path"]


def test_a_pass_that_fails_while_it_is_recorded_leaves_no_stream_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device()
    said: list[str] = []
    monkeypatch.setattr(GraphedModel, "compute", broken(device, GraphedModel.compute))
    with engine_on(device, monkeypatch, overlap=True, log=said.append, **OPTIONS) as llm:
        assert device.calls is None
        assert graphed(llm).recorded == {}
        assert sum("out of handles" in line for line in said) == 1
        assert len(answers(llm)) == len(PROMPTS)


def broken(device: Device, compute: Any) -> Any:
    def one(*given: Any) -> Any:
        made = compute(*given)
        if device.calls is not None:
            raise OSError("out of handles")
        return made

    return one


def test_an_interrupt_while_recording_is_no_failure_of_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(device: Device) -> None:
        device.calls = None
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine_on(Device(refuses=stop), monkeypatch, **OPTIONS)
    assert "cupy" in sys.modules
