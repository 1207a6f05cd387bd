"""A request is carried out as it was stored, or refused for a reason: what got in its way since is compared again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tallystick as ts
from tallystick.errors import InvalidInput, NotAuthorised, Refused, Retired
from tallystick.ledger.partition import Partition
from tallystick.ledger.team import Outcome

HALF = ts.zcdp(rho=0.5)


class Office:
    """A ledger with two populations, an owner, two approvers and an analyst of both."""

    def __init__(self, folder: Path) -> None:
        self.ledger = ts.Ledger(folder / "ledger.db", config=folder)
        self.clinic = self.ledger.open("clinic", budget=ts.zcdp(rho=1), unit="patient")
        self.school = self.ledger.open("school", budget=ts.zcdp(rho=1), unit="pupil")
        self.ledger.govern(why="a team")
        self.team = self.ledger.team
        self.team.begin(why="a team")
        for name, role in (("ann", "analyst"), ("bob", "approver"), ("cat", "approver")):
            self.team.grant(name, role, "clinic", why="works here")
        self.team.grant("ann", "analyst", "school", why="works here")

    def acting(self, name: str) -> ts.Ledger:
        [member] = [each for each in self.team.members() if each.name == name]
        return self.ledger.acting_for(member.id)

    def approve(self, number: int) -> Outcome:
        return self.acting("bob").team.approve(number, why="agreed")

    def state(self, number: int) -> str:
        [found] = [each for each in self.team.requests() if each.number == number]
        return found.state


@pytest.fixture
def office(tmp_path: Path, stranger: Any) -> Iterator[Office]:
    made = Office(tmp_path)
    yield made
    assert made.ledger.verify().problems == ()
    text = "".join(f"{line}\n" for line in made.ledger.export(level="chain"))
    assert stranger.check(text.encode("ascii"))["entries"] == made.ledger.head().seq
    made.ledger.close()


def test_a_second_request_for_one_name_is_void(office: Office) -> None:
    give = lambda book: book.team.allow("ann", "clinic", HALF, why="her share", called="share")  # noqa: E731
    first, second = (office.team.request(give, why="her share") for _ in range(2))
    assert office.approve(first).state == "EXECUTED"
    assert office.state(second) == "VOID"
    assert office.approve(second).state == "VOID"


def test_an_owner_raises_and_closes_an_allowance_without_approvals(office: Office) -> None:
    office.team.allow("ann", "clinic", HALF, why="her share", called="share")
    share = office.ledger.open("share")
    share.raise_limit(ts.zcdp(rho=0.6), why="more")
    share.close(why="over")
    assert share.closed


def test_a_block_is_requested_and_opened(office: Office) -> None:
    number = office.team.request(lambda book: book.open("north", budget=HALF, parent="clinic"), why="a region")
    assert office.approve(number).state == "EXECUTED"
    assert office.ledger.open("north").limit == office.ledger.open("north", budget=HALF, parent="clinic").limit


def test_blocks_that_share_rows_are_refused_when_they_are_carried_out(office: Office) -> None:
    wards = Partition("ward", by="unit id", one_block_per_unit=True, column="ward", values=("north",))
    ask = lambda name: office.team.request(  # noqa: E731
        lambda book: book.open(name, budget=HALF, parent="clinic", partition=wards), why="a ward"
    )
    first, second = ask("one"), ask("two")
    assert office.approve(first).state == "EXECUTED"
    with pytest.raises(Refused, match="share no value"):
        office.approve(second)
    assert office.state(second) == "OPEN"


@pytest.mark.parametrize("marks", [(), ("file 1",)], ids=["by source", "by mark"])
def test_data_that_another_population_registered_since_are_refused(office: Office, marks: tuple[str, ...]) -> None:
    mine, other = ("the table", "the table") if not marks else ("one name", "another name")
    number = office.team.request(lambda book: book.open("clinic").register("visits", source=mine, marks=marks), why="x")
    office.school.register("pupils", source=other, marks=marks)
    with pytest.raises(Refused, match="another population"):
        office.approve(number)
    assert office.state(number) == "OPEN"


def test_data_that_were_retired_since_are_refused(office: Office) -> None:
    register = lambda name: office.team.request(  # noqa: E731
        lambda book: book.open("clinic").register(name, source="the table"), why="x"
    )
    assert office.approve(register("visits")).state == "EXECUTED"
    again = register("stays")
    end = office.team.request(lambda book: book.open("clinic").retire("visits", why="over"), why="over")
    assert office.approve(end).state == "EXECUTED"
    with pytest.raises(Retired):
        office.approve(again)


def test_a_removal_is_requested_and_carried_out(office: Office) -> None:
    number = office.team.request(lambda book: book.open("clinic").register("visist", source="the table"), why="x")
    office.approve(number)
    number = office.team.request(lambda book: book.open("clinic").remove("visist"), why="misspelt")
    assert office.approve(number).state == "EXECUTED"
    assert office.ledger.datasets() == {}


def test_a_second_request_to_erase_the_same_texts_is_void(office: Office) -> None:
    paid = office.clinic.pay(ts.zcdp(rho=0.1), why="about Mrs Miller", key="m").charge
    first, second = (office.team.request(lambda book: book.erase(paid, why="asked"), why="asked") for _ in range(2))
    assert office.approve(first).state == "EXECUTED"
    assert office.approve(second).state == "VOID"


def test_a_refused_grant_adds_nobody(office: Office) -> None:
    before = office.ledger.head()
    with pytest.raises(NotAuthorised):
        office.team.grant("dan", "approver", "clinic", why="x")
    assert office.ledger.head() == before


def test_a_grant_to_a_new_person_can_be_rehearsed(office: Office) -> None:
    before = office.ledger.head()
    office.team.grant("dan", "analyst", "clinic", why="x", dry_run=True)
    assert office.ledger.head() == before


def test_a_rehearsed_request_is_not_made(office: Office) -> None:
    before = office.ledger.head()
    office.team.request(lambda book: book.open("clinic").raise_limit(ts.zcdp(rho=2), why="x"), why="x", dry_run=True)
    assert office.ledger.head() == before


def test_names_of_other_kinds_come_back_as_they_were_typed(office: Office) -> None:
    office.team.grant("role:ts_eve", "analyst", "clinic", why="x")
    office.team.grant("machine:nightly", "runner", "clinic", why="x")
    assert {"role:ts_eve", "machine:nightly"} <= {each.name for each in office.team.members()}
    office.team.revoke("machine:nightly", "runner", "clinic", why="x")


def test_a_list_of_tokens_has_no_secret_and_no_digest(office: Office) -> None:
    made = office.team.make_token(name="nightly", population="clinic", ceiling=ts.zcdp(rho=0.1))
    [shown] = office.team.tokens()
    assert (shown.number, shown.name, shown.state, shown.ceiling) == (made.seq, "nightly", "ACTIVE", "rho 0.1")
    assert made.text not in repr(shown)
    assert "digest" not in shown._fields
    office.team.end_token(made.seq)
    assert office.team.tokens()[0].state == "ENDED"


def test_requests_say_what_would_change_and_who_may_decide(office: Office) -> None:
    asked = [
        lambda book: book.open("clinic").raise_limit(ts.zcdp(rho=2), why="x"),
        lambda book: book.open("clinic").close(why="x"),
        lambda book: book.team.grant("ann", "approver", "clinic", why="x"),
        lambda book: book.team.set_quorum("clinic", {"money": 1}, why="x"),
        lambda book: book.add_key("ab" * 32, why="x"),
    ]
    for each in asked:
        office.team.request(each, why="x")
    found = office.team.requests()
    assert [each.change for each in found] == [
        "raise the limit of clinic from rho 1 (epsilon 7.77 at delta 1e-6) to rho 2 (epsilon 11.7 at delta 1e-6)",
        "close account clinic, for good",
        "give ann the role approver on clinic",
        "need 1 approval for money on clinic",
        f"let the holder of key {'ab' * 32} write",
    ]
    assert {each.deciders for each in found} == {("bob", "cat")}


def test_an_operation_that_changes_nothing_cannot_be_requested(office: Office) -> None:
    with pytest.raises(InvalidInput):
        office.team.request(lambda book: book.accounts(), why="x")
