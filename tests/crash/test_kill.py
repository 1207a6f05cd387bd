"""kill -9 at every named point: nothing is ever released without being charged, and nothing gets stuck."""

from __future__ import annotations

import os
import random
import signal

import pytest

from crash.killing import SCENARIOS, Traces, Worker, complaints, in_child, kill_at, points
from processes import elsewhere


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_process_killed_at_any_point_leaves_a_whole_record(place, config, scenario):
    names = elsewhere(points, place, config, scenario)
    assert len(names) >= 6
    seen = Traces(set(), {})
    for point in names:
        traces = elsewhere(kill_at, place, config, scenario, point, point)
        seen.touched |= traces.touched
        seen.delivered |= traces.delivered
    assert list(complaints(place, config, seen)) == []
    assert seen.touched or scenario in ("give back", "expire")


def test_the_points_cover_every_statement_of_a_release(tmp_path, config):
    names = elsewhere(points, str(tmp_path / "budget.db"), config, "release")
    for wanted in (
        "begin: before spend", "begin: after entry_insert", "begin: after line_insert", "begin: before COMMIT",
        "begin: after COMMIT", "before data", "after data", "commit: after charge_move", "commit: after answer_insert",
        "commit: before COMMIT", "commit: after COMMIT", "before delivery", "after delivery",
    ):  # fmt: skip
        assert wanted in names


def test_a_ledger_that_delivers_before_it_commits_would_be_caught(tmp_path, config):
    class Hasty(Worker):
        def release(self, key):
            self.say("touched", key)
            self.say("delivered", key, "42")
            super().release(key)

    place = str(tmp_path / "budget.db")

    def work(seen):
        def probe(name):
            if name == "begin: before COMMIT":
                os.kill(os.getpid(), signal.SIGKILL)

        Hasty(place, config, seen, probe).release("hasty")

    _, traces = in_child(work)
    assert "hasty: released but uncharged" in list(complaints(place, config, traces))


def test_random_kills_leave_a_whole_record(place, config):
    draw = random.Random(20261115)
    touched, delivered = set(), {}

    def work_until_killed(seen):
        worker = Worker(place, config, seen, lambda name: None)
        for number in range(10_000):
            worker.perform(SCENARIOS[number % 4], f"{os.getpid()}-{number}")

    for _ in range(12):
        _, traces = in_child(work_until_killed, kill_after=draw.randint(2, 8), wait=0.004 * draw.random())
        touched |= traces.touched
        delivered |= traces.delivered
        assert list(complaints(place, config, traces)) == []
    assert len(delivered) > 10
    assert touched >= set(delivered)
