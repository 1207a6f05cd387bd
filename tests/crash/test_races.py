"""Many processes want the last unit: exactly the right number get one."""

from __future__ import annotations

import os
from functools import partial

import pytest

from crash import racing
from crash.stores import fresh_schema, raised, spend
from tallystick.ledger import Budget, Filter, Ledger


def race(place, config, *, processes, each, amount, key=None):
    """Fork processes that all start at once; returns the outcomes of every attempt."""
    go_reader, go_writer = os.pipe()
    reader, writer = os.pipe()
    children = []
    for number in range(processes):
        child = os.fork()
        if child == 0:
            try:
                os.close(go_writer)
                os.close(reader)
                with Ledger(place, config=config) as ledger:
                    account = ledger.open("people")
                    os.read(go_reader, 1)
                    for attempt in range(each):
                        name = key or f"{number}-{attempt}"
                        os.write(writer, (raised(partial(once, account, amount, name)) + "\n").encode())
                os._exit(0)
            except BaseException:
                os._exit(70)
        children.append(child)
    os.close(go_reader)
    os.close(go_writer)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        outcomes = pipe.read().split()
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * processes
    return outcomes


def once(account, amount, key):
    with spend(account, amount, key=key) as charge:
        charge.answer = os.getpid()


@pytest.fixture
def shared(place, config):
    with Ledger(place) as ledger:
        ledger.open("people", budget=Budget(Filter("zcdp"), 100, 0), unit="person")
    return place


def test_processes_racing_for_the_last_units_get_exactly_those(shared, config):
    outcomes = race(shared, config, processes=8, each=6, amount=3)
    assert outcomes.count("ok") == 33
    assert outcomes.count("BudgetExceeded") == 8 * 6 - 33
    with Ledger(shared) as ledger:
        assert ledger.open("people").used.a0 == 99
        assert ledger.verify().problems == ()


def test_one_key_in_many_processes_is_charged_once(shared, config):
    outcomes = race(shared, config, processes=8, each=3, amount=5, key="same")
    assert outcomes.count("ok") == 1
    assert set(outcomes) <= {"ok", "AlreadyCommitted", "Unavailable"}
    with Ledger(shared) as ledger:
        assert ledger.open("people").used.a0 == 5


def test_processes_that_create_the_same_ledger_at_once_agree_on_it(place, config):
    reader, writer = os.pipe()
    children = []
    for _ in range(6):
        child = os.fork()
        if child == 0:
            try:
                with Ledger(place, config=config) as ledger:
                    ledger.open("people", budget=Budget.zcdp(1), unit="person")
                    os.write(writer, f"{ledger.id}\n".encode())
                os._exit(0)
            except BaseException:
                os._exit(70)
        children.append(child)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        names = pipe.read().split()
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 6
    assert len(names) == 6
    assert len(set(names)) == 1
    with Ledger(place) as ledger:
        assert ledger.verify().problems == ()
        assert len(ledger.accounts()) == 1


def test_a_server_that_stops_and_starts_under_its_clients_grants_exactly_the_limit(server, config):
    """A real stop, without goodbye, and a start with crash recovery: what was paid is exactly the limit."""
    place, before = fresh_schema(server.url), server.process
    outcomes, _ = racing.race(
        place, config, processes=6, each=30, limit=120, disturb=racing.restarting(server, every=0, times=1)
    )
    assert server.process != before
    assert outcomes.pop("restart") == 1
    assert sum(outcomes.values()) == 6 * 30
    assert outcomes["BudgetExceeded"] == 6 * 30 - 120
    with Ledger(place, config=config) as ledger:
        account = ledger.open("people")
        assert account.used.a0 == 120 == sum(event.paid for event in account.history())
        assert ledger.verify().problems == ()


def test_threads_share_one_ledger_object(ledger):
    from concurrent.futures import ThreadPoolExecutor

    account = ledger.open("people", budget=Budget(Filter("zcdp"), 20, 0), unit="person")
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda n: raised(lambda: once(account, 1, f"t{n}")), range(40)))
    assert outcomes.count("ok") == 20
    assert account.remaining.a0 == 0


def test_a_forked_child_does_not_disturb_its_parent(place, config):
    with Ledger(place) as ledger:
        account = ledger.open("people", budget=Budget(Filter("zcdp"), 10, 0), unit="person")
        child = os.fork()
        if child == 0:
            code = 70
            try:
                once(account, 1, "child")
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        once(account, 1, "parent")
        assert account.used.a0 == 2
        assert ledger.verify().problems == ()
