"""A ledger in PostgreSQL lives by the clock of its server, whichever clock a client has."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

import tallystick as ts
from crash.stores import fresh_schema
from tallystick.ledger import postgres as postgres_store

LOSS = ts.zcdp(rho=0.1)
CLIENT_AHEAD = """
import sys, time
right = time.time
time.time = lambda: right() + 11 * 60  # before anything else can keep the right one
import tallystick as ts
place, config, action = sys.argv[1:]
with ts.Ledger(place, config=config) as ledger:
    if action == "recover":
        print(ledger.recover())
    elif action == "same key":
        try:
            ledger.open("people").charge(ts.zcdp(rho=0.1), why="report", key="k", lease=600).begin()
        except ts.errors.Unavailable as problem:
            print("EXECUTING in another worker" in str(problem))
    elif action == "closed source":
        people = ledger.open("people")
        people.charge(ts.zcdp(rho=0.1), why="report", lease=600, source="other.csv").begin().commit(1)
    else:
        ledger.open("people").pay(ts.zcdp(rho=0.1), why="report")
"""


@pytest.fixture
def place(postgres: str) -> str:
    return fresh_schema(postgres)


def client_ahead(place: str, config: Path, action: str) -> str:
    """Run a client whose clock is 11 minutes ahead, and return what it prints."""
    command = [sys.executable, "-c", CLIENT_AHEAD, place, str(config), action]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.strip()


def test_a_client_whose_clock_is_ahead_ends_the_lease_of_no_other_client(place: str, tmp_path: Path) -> None:
    with ts.Ledger(place, config=tmp_path) as ledger:
        people = ledger.open("people", budget=ts.zcdp(rho=1.0))
        charge = people.charge(LOSS, why="report", key="k", lease=600).begin()
        assert client_ahead(place, tmp_path, "recover") == "(0, 0)"
        charge.commit(1)
        assert [event.state for event in people.history()] == ["COMMITTED"]


@pytest.mark.parametrize("is_governed", [False, True])
def test_a_client_whose_clock_is_ahead_burns_nothing(place: str, tmp_path: Path, is_governed: bool) -> None:
    """Neither its sweep, nor the same key, nor a charge about data, before which leases are looked at."""
    with ts.Ledger(place, config=tmp_path) as ledger:
        people = ledger.open("people", budget=ts.zcdp(rho=1.0))
        if is_governed:
            ledger.govern(why="a team uses it")
        charge = people.charge(LOSS, why="report", key="k", lease=600, source="visits.csv").begin()
        held = people.charge(LOSS, why="report", key="held", lease=600).reserve()
        assert client_ahead(place, tmp_path, "recover") == "(0, 0)"
        assert client_ahead(place, tmp_path, "same key") == "True"
        client_ahead(place, tmp_path, "closed source")
        assert [event.state for event in people.history()] == ["EXECUTING", "RESERVED", "COMMITTED"]
        charge.commit(1)
        held.refund()
        assert [event.state for event in people.history()] == ["COMMITTED", "REFUNDED", "COMMITTED"]
        assert ledger.verify().problems == ()


def test_with_its_own_clock_the_client_would_burn(place: str, tmp_path: Path) -> None:
    with ts.Ledger(place, config=tmp_path) as ledger:
        people = ledger.open("people", budget=ts.zcdp(rho=1.0))
        people.charge(LOSS, why="report", key="k", lease=600).begin()
    with ts.Ledger(place, config=tmp_path, clock=lambda: time.time() + 11 * 60) as ahead:
        assert ahead.recover() == (0, 1)


def test_entries_have_the_time_of_the_server(place: str, tmp_path: Path) -> None:
    with ts.Ledger(place, config=tmp_path) as ledger:
        people = ledger.open("people", budget=ts.zcdp(rho=1.0))
        before = time.time()
        client_ahead(place, tmp_path, "pay")
        (event,) = people.history()
        assert before - 2 <= event.at / 1000 <= time.time() + 2


def test_the_server_is_asked_again_for_its_time(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ts.Ledger(place, config=tmp_path) as ledger:
        elapsed = postgres_store.elapsed
        monkeypatch.setattr(postgres_store, "elapsed", lambda: elapsed() + 3600)  # the host counts wrongly
        assert abs(ledger.now() / 1000 - time.time()) < 5
