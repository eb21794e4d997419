"""Threads that share the rows of a product: an error or Ctrl-C in one call does not reach into the next."""

import threading
import time

import pytest

from cuda_kernels.reference.threads import Team
from tests.toys import refuses


class Stop(KeyboardInterrupt):
    pass


def raises(error: BaseException) -> None:
    raise error


@pytest.mark.kills("team-interrupted/kept")
@pytest.mark.parametrize("where", ["own job", "start", "wait"])
def test_after_an_interruption_no_job_of_before_is_taken_for_one_of_now(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = Team(3)
    late: list[str] = []

    def slow() -> None:
        time.sleep(0.2)
        late.append("late")

    with monkeypatch.context() as patch:
        if where != "own job":
            worker = type(team._workers[0])
            real, calls = getattr(worker, where), list[int]()

            def interrupted(self: object, *args: object) -> object:
                calls.append(1)
                return real(self, *args) if len(calls) == 1 and where == "start" else raises(Stop())

            patch.setattr(worker, where, interrupted)
        own = (lambda: raises(Stop())) if where == "own job" else (lambda: None)
        with pytest.raises(KeyboardInterrupt):
            team.run([own, slow, slow])
    assert all(worker._thread.is_alive() for worker in team._workers)
    seen = len(late)
    done: list[int] = []

    def job() -> None:
        time.sleep(0.02)
        done.append(len(done))

    for number in range(5):
        problem = None
        try:
            team.run([lambda: None, job])
        except RuntimeError as error:
            problem = error
        assert problem is None
        assert len(done) == number + 1
    time.sleep(0.3)
    assert len(late) == seen
    assert sum(thread.name == "reference-kernels" for thread in threading.enumerate()) < 40


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_error_waits_for_all_jobs_and_keeps_the_threads(place: int) -> None:
    team = Team(3)
    workers, done = team._workers, list[int]()

    def job(number: int) -> None:
        time.sleep(0.02 * number)
        done.append(number)
        if number == place:
            raise ValueError(number)

    with refuses(ValueError, str(place)):
        team.run([lambda n=n: job(n) for n in range(3)])  # type: ignore[misc]
    assert sorted(done) == [0, 1, 2]
    assert team._workers is workers
