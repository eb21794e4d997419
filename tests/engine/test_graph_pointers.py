"""Which graph is replayed: that of the row count's class over the very buffers it was recorded on. No device needed."""

from types import SimpleNamespace
from typing import Any

import pytest

from teachkv import LLM
from teachkv.graphs import GraphedModel


def part(*places: int) -> Any:
    """A part whose layers' K lie at the given addresses, as CuPy tells them."""
    layers = [SimpleNamespace(k=SimpleNamespace(data=SimpleNamespace(ptr=place))) for place in places]
    return SimpleNamespace(cache=SimpleNamespace(layers=layers))


@pytest.fixture
def graphed(monkeypatch: pytest.MonkeyPatch) -> GraphedModel:
    """Recording only counts here."""
    with LLM("tiny") as llm:
        model = GraphedModel(llm._alive().engine.model)
    monkeypatch.setattr(model, "record", lambda part, size: SimpleNamespace(size=size))
    return model


@pytest.mark.kills("graph-pointers/by-size-only")
def test_buffers_that_lie_elsewhere_get_a_graph_of_their_own(graphed: GraphedModel) -> None:
    first = graphed.recorded_for(part(4096, 8192), 3)
    assert graphed.recorded_for(part(4096, 8192), 3) is first
    assert graphed.recorded_for(part(4096, 16384), 3) is not first
    assert graphed.recorded_for(part(8192, 4096), 3) is not first
    assert graphed.recorded_for(part(4096, 8192), 3) is first


@pytest.mark.kills("graphs-in-turn/one-for-all")
def test_with_a_step_in_flight_the_next_one_gets_another_graph(graphed: GraphedModel) -> None:
    graphed.turns = 2
    seen: list[Any] = []
    for graphed.replays in range(4):
        seen.append(graphed.recorded_for(part(4096), 3))
    assert seen[0] is seen[2]
    assert seen[1] is seen[3]
    assert seen[0] is not seen[1]


def test_row_counts_of_one_class_share_a_graph(graphed: GraphedModel) -> None:
    sizes: list[Any] = [graphed.recorded_for(part(4096), rows) for rows in (3, 4, 5, 8)]
    assert [one.size for one in sizes] == [4, 4, 8, 8]
    assert sizes[0] is sizes[1]
    assert sizes[2] is sizes[3]
