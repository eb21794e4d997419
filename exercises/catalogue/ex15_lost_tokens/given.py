"""433 of 512

A benchmark run ended with exit code 0 and no error. It had been asked for 512 tokens; 433 came. Nobody counted, so
the run with the lost tokens was the fastest of the day.

`completeness(sample, cell)` compares what came with what was asked, request by request; its answer has a `status`,
"held" or "refused".

Your task: kill the mutant that trusts the absence of errors, and the one that compares the totals only.
"""

from teachkv.bench.cells import Ask, Cell
from teachkv.bench.guards.requests import completeness
from teachkv.bench.samples import Sample, Served

CELL = Cell("four", tuple(Ask(prompt=5, out=10) for _ in range(4)))


def status(*tokens):
    """What completeness says when the four requests came back with so many tokens; 10 were asked of each."""
    served = tuple(Served(5, 10, 0.0, 0.0, times=tuple(0.1 * n for n in range(count))) for count in tokens)
    return completeness(Sample("arm", "four", 0, served=served), CELL).status


def test_every_token_is_counted():
    assert status(10, 10, 10, 10) == "held"
