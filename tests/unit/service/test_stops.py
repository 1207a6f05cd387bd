"""A planned stop closes no data. Only an operator may write one, and a forged one is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tallystick as ts
from crash.stores import Clock
from crash.tampering import append_forged
from crash.teams import Team
from tallystick.errors import NotAuthorised, Refused, Unavailable
from tallystick.ledger.authority import STOPPED
from tallystick.ledger.pay import STOPPED_TEXT, PlannedStop, pay


class Stopped:
    """A release of a source whose draw a stop ends."""

    privacy = ts.zcdp(rho=0.01)
    request = "a table"
    source = "file /data/visits.csv"

    def __init__(self, by: ts.Ledger) -> None:
        self.by = by

    def preflight(self) -> None:
        """Nothing to try."""

    def draw(self) -> Any:
        """End as the service does when it is stopped."""
        raise PlannedStop(self.by)


@pytest.fixture
def team(tmp_path: Path) -> Any:
    team = Team(str(tmp_path / "budget.db"), Clock(), config=tmp_path / "config")
    yield team
    team.ledger.close()


def test_a_stop_by_the_operator_is_paid_and_closes_nothing(team: Team) -> None:
    ann = team.by("ann")
    with pytest.raises(Unavailable, match="the data stay open") as problem:
        pay(Stopped(team.ledger), ann.open("ann's"), why="a table")
    assert str(problem.value) == STOPPED_TEXT
    assert str(ann.open("ann's").used) == "rho 0.01"
    again = Stopped(team.ledger)
    again.request = "another table"
    with pytest.raises(Unavailable, match="the data stay open"):
        pay(again, ann.open("ann's"), why="another table")
    assert team.ledger.verify().intact


def test_an_analyst_cannot_call_a_failure_a_stop(team: Team) -> None:
    ann = team.by("ann")
    with pytest.raises(NotAuthorised):
        pay(Stopped(ann), ann.open("ann's"), why="a table")
    [charge] = [row for row in ann.open("ann's").history() if row.state == "EXECUTING"]
    assert charge.state == "EXECUTING"  # it is paid, and its lease ends it, which closes its data


def test_an_ordinary_failure_closes_the_data(team: Team) -> None:
    class Failing(Stopped):
        def draw(self) -> Any:
            raise ValueError

    ann = team.by("ann")
    with pytest.raises(Unavailable):
        pay(Failing(team.ledger), ann.open("ann's"), why="a table")
    with pytest.raises(ts.errors.Quarantined):
        pay(Stopped(team.ledger), ann.open("ann's"), why="another table")


@pytest.mark.parametrize(("who", "is_right"), [("ann", False), ("bob", False), ("max", False), ("opal", True)])
def test_a_forged_stop_is_found_by_verify(team: Team, who: str, is_right: bool) -> None:
    ann = team.by("ann")
    charge = ann.charge(ts.zcdp(rho=0.01), accounts=[ann.open("ann's")], why="w", request="r", source="file /x").begin()
    fields = {"charge": charge.id, "fence": charge.fence, "principal": team.ids[who], "nonce": "0" * 32}
    entry = {**team.entry(who, "burn", **fields), "why": STOPPED}
    with team.ledger.store.read() as transaction:
        governed = team.ledger.believed(transaction).governed
    append_forged(team.place, {**entry, "governed": governed}, seal=team.ledger.signer())
    text = "\n".join(team.ledger.verify().problems)
    assert ("may not" not in text) == is_right, text


def test_a_ledger_without_roles_has_no_stops(tmp_path: Path) -> None:
    with ts.Ledger(tmp_path / "budget.db", config=tmp_path / "config") as ledger:
        clinic = ledger.open("clinic", budget=ts.zcdp(rho=1), unit="person")
        with pytest.raises(Refused):
            pay(Stopped(ledger), clinic, why="a table")
        assert ledger.verify().intact
        [charge] = clinic.history()
        assert charge.state == "EXECUTING"  # paid; its lease ends it
