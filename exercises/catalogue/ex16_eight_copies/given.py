"""8/8 identical

To show that a change leaves the text alone, both versions answer the same eight requests, and the answers are
compared: "8/8 identical". The eight requests were one text eight times, and each answer the same word. Such a
comparison finds nothing because there is nothing to find. With fewer than four distinct answers the control must
say that it cannot answer.

`identity(base, arm)` compares the outputs of two arms. Its `status` is "held", "refused" or "cannot-answer".

Your task: kill the mutant that accepts the vacuous control, and the one that counts requests instead of answers.
"""

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
