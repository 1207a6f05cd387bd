"""kill -9 of a process whose threads charge together: the whole transaction is durable and sealed, or nothing of it."""

from __future__ import annotations

import random

import pytest

from crash.combined import Hasty, Talkative, at_points, at_random, broken, govern, opened, problems, work
from crash.killing import in_child
from processes import elsewhere


@pytest.fixture
def shared(place, config):
    govern(place, config)
    return place


def test_random_kills_leave_whole_transactions(shared, config):
    delivered, found = elsewhere(at_random, shared, config, 8, random.Random(20261120))
    assert found == []
    assert delivered > 20


def test_kills_at_points_of_a_shared_transaction_leave_whole_transactions(shared, config):
    named, found = elsewhere(at_points, shared, config, random.Random(20261121), 10)
    assert found == []
    assert named >= 20


def killed(place, config, kind, draw):
    """What is wrong after kills of a process that combines its charges in a broken way."""

    def until_killed(seen):
        work(broken(opened(place, config), kind), seen, 40)

    for _ in range(12):
        _, traces = in_child(until_killed, kill_after=2, wait=0.02 * draw.random())
        found = list(problems(place, config, traces))
        if found:
            return found
    return []


def test_a_seal_before_the_last_block_would_be_caught(shared, config):
    [found] = elsewhere(killed, shared, config, Hasty, random.Random(1))
    assert "no valid seal" in found


def test_an_answer_before_its_transaction_is_durable_would_be_caught(shared, config):
    found = elsewhere(killed, shared, config, Talkative, random.Random(2))
    assert any("released but uncharged" in text or "without a charge" in text for text in found)


def at_work(place, config):
    """How a process ended that was not killed, the answers that it gave, and what is wrong."""
    status, traces = in_child(lambda seen: work(opened(place, config), seen, 12))
    return status, len(traces.delivered), list(problems(place, config, traces))


def test_a_process_that_was_not_killed_has_nothing_wrong(shared, config):
    status, delivered, found = elsewhere(at_work, shared, config)
    assert (status, found) == (0, [])
    assert delivered >= 40
