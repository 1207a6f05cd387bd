"""A stream that was paid before roles began belongs to several principals: each item is used once, by one of them."""

from __future__ import annotations

import pytest

import tallystick as ts
from tallystick.accounting.losses import zcdp
from tallystick.errors import AnswerLost
from tallystick.ledger.stream import AnswerStream, Cost


@pytest.fixture
def ledger(place, clock):
    with ts.Ledger(place, clock=clock) as ledger:
        ledger.open("clinic", budget=zcdp(rho=1), unit="person")
        ledger.govern(why="a team")
        yield ledger


def stream(ledger: ts.Ledger) -> AnswerStream:
    made = AnswerStream(
        ledger.open("clinic"), key="run", why="a run", items=8, block=2, whole=Cost(zcdp(rho=0.2), None, "the run"),
        each=lambda first, last: Cost(zcdp(rho=0.01), None, f"items {first} to {last}"),
    )  # fmt: skip
    made.open()
    return made


def second_owner(ledger: ts.Ledger) -> ts.Ledger:
    ledger.team.begin(why="a team")
    bob = ledger.team.add("bob")
    ledger.team.grant(bob, "owner", "clinic", why="owns it as well")
    return ledger.acting_for(bob)


def test_two_owners_take_the_items_of_one_stream(ledger):
    first = stream(ledger)
    assert [first.take() for _ in range(2)] == [0, 1]
    other = stream(second_owner(ledger))
    mine = stream(ledger)
    taken = [each.take() for _ in range(3) for each in (mine, other)]
    assert taken == [2, 4, 3, 5, 6, None]
    assert ledger.open("clinic").used.a0 == 200_000_000_000
    assert ledger.verify().problems == ()


def test_an_answer_of_another_principal_is_no_damage(ledger):
    stream(ledger)
    other = stream(second_owner(ledger))
    assert other.answer(4, lambda: 7).answer == 7
    with pytest.raises(AnswerLost, match="another principal"):
        stream(ledger).answer(4, lambda: 8)
    assert other.answer(4, lambda: 9).answer == 7
