"""A solution of ex15_lost_tokens."""

from teachkv.bench.cells import Ask, Cell
from teachkv.bench.guards.requests import completeness
from teachkv.bench.samples import Sample, Served

CELL = Cell("four", tuple(Ask(prompt=5, out=10) for _ in range(4)))


def status(*tokens):
    """What completeness says when the four requests came back with so many tokens; 10 were asked of each."""
    served = tuple(Served(5, 10, 0.0, 0.0, times=tuple(0.1 * n for n in range(count))) for count in tokens)
    return completeness(Sample("arm", "four", 0, served=served), CELL).status


def test_every_token_is_counted():
    assert status(10, 10, 10, 9) == "refused"
    assert status(9, 11, 10, 10) == "refused"
