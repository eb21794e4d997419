"""What the roster does when a step has broken off, without a step."""

from teachkv import SamplingParams
from teachkv.finish import finish
from tests.engine.markov import alphabet


def test_after_a_break_those_that_have_not_ended_run_on_and_the_others_do_not() -> None:
    """One of two had been told its end when the step broke off. Lost, the other would be waited for without end."""
    llm, _ = alphabet(seed=7, poison=True)
    stream = llm.stream(["a", "hh"], SamplingParams(temperature=0, max_tokens=6))
    next(iter(stream))
    roster = llm._alive().engine.roster
    ended, going = roster.sequences.values()
    finish(ended, "stop")
    assert ended.finish_reason == "stop"
    roster.start_over()
    assert list(roster.sequences) == list(roster.scheduler.state.entries) == [going.id]
