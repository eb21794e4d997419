"""Twenty on four seats

Guard hunt. A server with four seats ran well all day. At night it was idle for a while, then twenty requests came
at once: all twenty were admitted, and the memory ran out. During the day nobody could provoke it.

One guard was taken away. The test below is green on the real code and goes red without the guard: after an idle
time more requests run than there are seats.

Your task: find the line. Write ANSWER = ("path/from/the/root.py", line).
"""

from teachkv.schedule import Scheduler
from teachkv.schedule.simulate import Job, simulate

ANSWER = None


def test_the_seats_are_enough_after_an_idle_time():
    jobs = [Job(i, 10, 5) for i in range(10)] + [Job(i, 10, 5, at=1000) for i in range(10, 20)]
    run = simulate(Scheduler("ragged", max_num_seqs=4), jobs)
    assert run.run_max == 4
