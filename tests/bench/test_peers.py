"""Peers behind one door: what they give is stamped, what they raise is their answer, what they are is labelled."""

import importlib.util
import time

import pytest

from teachkv.bench.arms import parse_arm
from teachkv.bench.drive import Driver
from teachkv.bench.judge import sample_answers
from teachkv.bench.metrics import figures
from teachkv.bench.peers import PeerTarget, Stamped, check_peers, peer
from teachkv.bench.samples import Sample
from teachkv.bench.workloads import cell
from teachkv.errors import OptionError

CELL = cell("uniform-3:prompt=7,out=4")


def steady(prompts: list[list[int]], outs: list[int]) -> list[Stamped]:
    """One token per row every two milliseconds by its own account, which depends on its prompt."""
    began = time.perf_counter()
    return [
        [(began + 0.002 * (place + 1), (sum(prompt) + place) % 50) for place in range(max(outs))] for prompt in prompts
    ]


def measured(generate: object) -> Sample:
    return Driver(PeerTarget("transformers", 100, [3], generate, "a note")).cell(CELL, 0)  # type: ignore[arg-type]


def test_a_peer_is_measured_like_any_arm_and_labelled() -> None:
    sample = measured(steady)
    assert [len(one.times) for one in sample.served] == [4, 4, 4]
    assert figures(sample).itl[50] == pytest.approx(0.002)
    by_guard = {answer.guard: answer.status for answer in sample_answers(sample, parse_arm("transformers"))}
    assert by_guard["path gate"] == "unverified"
    assert "refused" not in by_guard.values()


def test_what_a_peer_raises_is_its_answer() -> None:
    def broken(prompts: list[list[int]], outs: list[int]) -> list[Stamped]:
        raise RuntimeError("no such device")

    sample = measured(broken)
    assert {one.error for one in sample.served} == {"RuntimeError: no such device"}
    refused = [answer.guard for answer in sample_answers(sample, parse_arm("transformers")) if answer.failed]
    assert refused == ["completeness", "in-band error", "probe purity"]


def test_a_peer_that_stops_early_is_refused_by_completeness() -> None:
    sample = measured(lambda prompts, outs: [row[:2] for row in steady(prompts, outs)])
    assert sample_answers(sample, parse_arm("transformers"))[0].reason == "6 of 12 tokens came back (0 errors reported)"


@pytest.mark.parametrize("name", ["transformers", "llama-cpp", "mistralrs"])
def test_a_peer_needs_a_model_on_disk_and_its_package(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionError, match="no model on disk"):
        peer(name, "tiny", {})
    monkeypatch.setattr("teachkv.bench.peers.find_spec", lambda module: None)
    with pytest.raises(OptionError, match="is not installed"):
        check_peers([parse_arm(name)])
    check_peers([parse_arm("ragged")])


@pytest.mark.peers
@pytest.mark.model
def test_transformers_itself_runs_a_cell() -> None:
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("transformers") is None:
        pytest.skip("needs the extra 'peers'")
    sample = Driver(peer("transformers", "smollm2", {})).cell(CELL, 0)
    assert not [answer for answer in sample_answers(sample, parse_arm("transformers")) if answer.failed]
