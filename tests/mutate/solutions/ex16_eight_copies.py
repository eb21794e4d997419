"""A solution of ex16_eight_copies."""

from teachkv.bench.guards.outputs import Outputs, identity
from teachkv.bench.samples import Sample, Served


def outputs(*answers):
    """An arm that answered so, both in the batch and each request alone."""
    served = tuple(Served(5, 1, 0.0, 0.0, times=(0.1,), digest=answer) for answer in answers)
    sample = Sample("arm", "cell", 0, served=served)
    return Outputs(sample, sample)


def status(*answers):
    """What the control says of two arms that both gave these answers."""
    return identity(outputs(*answers), outputs(*answers)).status


def test_the_control_needs_something_to_find():
    assert status("a", "b", "c", "d") == "held"
    assert status("a", "a", "a", "a", "a", "a", "a", "a") == "cannot-answer"
