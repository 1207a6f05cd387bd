"""Names and reasons in a ledger with roles are those of the chain: what was edited in the store is not shown."""

from __future__ import annotations

import pytest

import tallystick as ts
from crash.tampering import edited
from crash.teams import Team
from tallystick.accounting.losses import zcdp
from tallystick.errors import LedgerIntegrity, NotAuthorised
from tallystick.ledger.texts import ALTERED

EDIT = "UPDATE entry_text SET body = ? WHERE entry = ? AND field = ?"


@pytest.fixture
def team(place, clock):
    team = Team(place, clock)
    yield team
    team.ledger.close()


def edit(team: Team, entry: int, field: str, body: str) -> None:
    edited(team.place, (EDIT, (body, entry, field)))


def request_in(team: Team, number: int):
    [found] = [each for each in team.ledger.team.requests() if each.number == number]
    return found


def test_an_edited_reason_is_not_shown_and_not_carried_out(team):
    number = team.raise_to("ann", 2)
    edit(team, number, "why", "the owner agreed by telephone")
    assert request_in(team, number).why == ALTERED
    head = team.ledger.head()
    with pytest.raises(LedgerIntegrity, match="was altered"):
        team.by("bob").team.approve(number, why="agreed")
    assert team.ledger.head() == head


def test_an_edited_decision_is_not_shown(team):
    number = team.raise_to("ann", 2)
    team.by("bob").team.approve(number, why="agreed")
    decision = request_in(team, number).number + 1
    edit(team, decision, "why", "agreed with the minister")
    assert [each[1:] for each in request_in(team, number).decisions] == [("approve", ALTERED)]


def entry_of(team: Team, name: str) -> int:
    return int(team.authority.principals[team.ids[name]].seq)


def test_an_edited_name_is_not_shown(team):
    number = team.raise_to("ann", 2)
    receipt = team.by("ann").open("ann's").pay(zcdp(rho=0.01), why="a table")
    edit(team, entry_of(team, "ann"), "subject", "system user olga")
    assert request_in(team, number).by == ALTERED
    assert [each.name for each in team.ledger.team.members() if each.id == team.ids["ann"]] == [ALTERED]
    [event] = team.ledger.open("ann's").history()
    assert (event.charge, event.by) == (receipt.charge, ALTERED)


def test_an_edited_name_does_not_keep_another_user_out(team):
    edit(team, entry_of(team, "ann"), "subject", team.ledger.subject.rpartition(" ")[0] + " bob")
    assert team.ledger.team.add("bob") == team.ids["bob"]


def test_who_comes_back_after_the_end_begins_anew(team, stranger):
    before = team.by("ann").team.request(lambda book: book.open("clinic").raise_limit(zcdp(rho=2), why="x"), why="x")
    team.ledger.team.end("ann", why="left")
    team.ledger.team.grant("ann", "analyst", "clinic", why="is back")
    [old, new] = [each for each in team.ledger.team.members() if each.name in ("ann", "role:ann")]
    assert (old.id, old.ended, new.ended) == (team.ids["ann"], True, False)
    again = team.ledger.acting_for(new.id)
    for account in ("ann's", "clinic"):
        with pytest.raises(NotAuthorised):
            again.open(account).pay(zcdp(rho=0.01), why="a table")
    with pytest.raises(NotAuthorised, match="another principal"):
        again.team.withdraw(before)
    assert team.ledger.team.allow("ann", "clinic", zcdp(rho=0.1), called="second", why="is back") == "second"
    again.open("second").pay(zcdp(rho=0.01), why="a table")
    team.ledger.team.end("ann", why="left again")
    with pytest.raises(NotAuthorised):
        again.open("second").pay(zcdp(rho=0.01), why="a table")
    assert team.ledger.verify().problems == ()
    stranger.check("".join(f"{line}\n" for line in team.ledger.export(level="chain")).encode())


def test_a_machine_comes_back_with_another_owner(team):
    team.by("sue").team.grant("machine:robot", "runner", "school", why="pays")
    team.ledger.team.end("machine:robot", why="an old program")
    team.ledger.team.grant("machine:robot", "runner", "clinic", why="a new program")
    kinds = [each.ended for each in team.ledger.team.members() if each.name == "machine:robot"]
    assert kinds == [True, False]


def test_an_open_ledger_follows_a_user_who_comes_back(tmp_path):
    from contracts.other_users import acting_as

    with ts.Ledger(tmp_path / "x.db", config=tmp_path) as owner:
        owner.open("clinic", budget=zcdp(rho=1), unit="person")
        owner.govern(why="a team")
        owner.team.begin(why="a team")
        with acting_as("ann"):
            hers = ts.Ledger(tmp_path / "x.db", config=tmp_path)
        owner.team.grant("ann", "owner", "clinic", why="works here")
        hers.open("clinic").pay(zcdp(rho=0.01), why="the first write of this process")
        owner.team.end("ann", why="left")
        owner.team.grant("ann", "owner", "clinic", why="is back")
        hers.open("clinic").pay(zcdp(rho=0.01), why="is back")
        hers.close()
        assert owner.verify().problems == ()
