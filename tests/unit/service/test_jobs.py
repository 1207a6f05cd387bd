"""The queue of jobs: states, fairness, names, limits."""

from __future__ import annotations

import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import IdempotencyConflict, InvalidInput, Refused
from tallystick.service import jobs
from tallystick.service.jobs import DONE, DROPPED, RUNNING, WAITING, Job, Jobs


class Clock:
    """A clock that moves when it is told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def queue(tmp_path: Path) -> Any:
    queue = Jobs(tmp_path / "jobs.db", clock=Clock())
    yield queue
    queue.close()


def add(queue: Jobs, principal: str = "ann", text: str = "a", population: str = "clinic", name: Any = None) -> Job:
    return queue.add({"text": text}, principal=principal, via=1, population=population, name=name)


def test_only_the_user_of_the_service_can_read_the_jobs(queue: Jobs, tmp_path: Path) -> None:
    assert stat.S_IMODE((tmp_path / "jobs.db").stat().st_mode) == 0o600


def test_the_oldest_job_of_the_principal_with_the_least_running_jobs_is_next(queue: Jobs) -> None:
    first, second = add(queue, "ann", "1"), add(queue, "ann", "2")
    third = add(queue, "bob", "3")
    assert queue.next([], slots=8) == first
    assert queue.begin(first)
    assert queue.next([first], slots=8) == third
    assert queue.begin(third)
    assert queue.next([first, third], slots=8) == second


def test_a_principal_has_at_most_two_slots_and_a_population_leaves_one(queue: Jobs) -> None:
    running = [add(queue, "ann", str(i)) for i in range(2)]
    for job in running:
        queue.begin(job)
    add(queue, "ann", "third")
    assert queue.next(running, slots=8) is None
    other = add(queue, "bob", "bob's")
    assert queue.next(running, slots=8) == other
    assert queue.next(running, slots=3) is None  # the clinic has two of three slots
    school = add(queue, "sam", "sam's", population="school")
    assert queue.next(running, slots=3) == school


def test_one_slot_is_not_left_to_others(queue: Jobs) -> None:
    job = add(queue)
    assert queue.next([], slots=1) == job


def test_a_request_that_runs_already_waits_for_its_answer(queue: Jobs) -> None:
    first, _ = add(queue, "ann", "same"), add(queue, "bob", "same")
    queue.begin(first)
    assert queue.next([first], slots=8) is None
    assert queue.next([], slots=8) is not None


def test_a_name_is_one_job_of_one_principal_and_one_request(queue: Jobs) -> None:
    job = add(queue, name="n")
    assert add(queue, name="n") == job
    with pytest.raises(IdempotencyConflict):
        add(queue, text="b", name="n")
    assert add(queue, "bob", name="n") != job


def test_twins_of_one_name_are_one_job(queue: Jobs) -> None:
    found: list[Job] = []
    threads = [threading.Thread(target=lambda: found.append(add(queue, name="n"))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 16
    assert len({job.id for job in found}) == 1


def test_a_principal_may_have_twenty_jobs_that_wait(queue: Jobs) -> None:
    for i in range(jobs.MOST_WAITING):
        add(queue, text=str(i))
    with pytest.raises(Refused) as problem:
        add(queue, text="one more")
    assert problem.value.code == "too_many_jobs"
    add(queue, "bob", text="of another principal")


def test_only_a_job_that_waits_can_be_dropped_or_begin(queue: Jobs) -> None:
    job = add(queue)
    assert queue.drop(job.id)
    assert not queue.begin(job)
    assert queue.get(job.id).state == DROPPED
    other = add(queue, text="b")
    assert queue.begin(other)
    assert not queue.drop(other.id)
    assert queue.get(other.id).state == RUNNING


def test_a_job_that_waited_for_a_day_is_dropped_and_forgotten_after_another(queue: Jobs) -> None:
    job = add(queue)
    queue._clock.now += jobs.LONGEST_WAIT + 1  # type: ignore[attr-defined]
    queue.forget_old()
    assert queue.get(job.id).state == DROPPED
    queue._clock.now += jobs.KEPT + 1  # type: ignore[attr-defined]
    queue.forget_old()
    with pytest.raises(InvalidInput):
        queue.get(job.id)


def test_an_ended_job_keeps_no_answer_and_shows_its_charge(queue: Jobs) -> None:
    job = add(queue)
    queue.begin(job)
    queue.note_charge(job.id, 7)
    assert queue.get(job.id).to_data()["charge"] is None  # when it was charged is no secret, but it still runs
    queue.end(job.id, DONE)
    assert queue.get(job.id).to_data()["charge"] == 7


def test_waiting_for_a_job_ends_with_it(queue: Jobs) -> None:
    job = add(queue)
    queue.begin(job)
    threading.Timer(0.05, lambda: queue.end(job.id, DONE)).start()
    assert queue.wait(job.id, 10).state == DONE
    assert queue.wait(add(queue, text="b").id, 0.01).state == WAITING


def test_jobs_are_there_after_a_restart(tmp_path: Path) -> None:
    queue = Jobs(tmp_path / "jobs.db")
    job = add(queue)
    queue.suspend("ann", "clinic", 5)
    queue.close()
    again = Jobs(tmp_path / "jobs.db")
    assert again.get(job.id) == job
    assert [each.principal for each in again.suspensions("clinic")] == ["ann"]
    assert again.lift("ann", "clinic")
    assert not again.lift("ann", "clinic")
    again.close()
