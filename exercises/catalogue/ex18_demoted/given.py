"""The prompt that was computed twice

Guard hunt. Two requests of different length took turns, and the engine did twice the work: whoever had to wait for
a turn had its whole prompt computed again, although its keys and values were still there.

One guard was taken away. The test below is green on the real code and goes red without the guard.

Your task: find the line. Write ANSWER = ("path/from/the/root.py", line).
"""

from teachkv.schedule import Scheduler
from teachkv.schedule.simulate import Job, simulate

ANSWER = None


def test_each_prompt_is_computed_once():
    run = simulate(Scheduler("bucketed"), [Job(0, 100, 3), Job(1, 200, 50)])
    assert run.prefilled == 300
