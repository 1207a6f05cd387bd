"""One way to pay: a failure before the charge costs nothing, one after it stays paid, and who was first is told."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

import pytest

import tallystick as ts
from tallystick.errors import BudgetExceeded, InvalidInput, Unavailable
from tallystick.ledger import Ledger
from tallystick.ledger.pay import FAILED, Charge, pay


@dataclass
class Survey:
    """A release that says what was asked of it."""

    source: str = "visits.csv"
    price: float = 0.1
    steps: list[str] = field(default_factory=list)
    fails: dict[str, BaseException] = field(default_factory=dict)
    request: str = "survey"

    @property
    def privacy(self) -> Any:
        return ts.zcdp(rho=self.price)

    def _at(self, step: str) -> None:
        self.steps.append(step)
        if step in self.fails:
            raise self.fails[step]

    def preflight(self) -> None:
        self._at("preflight")

    def draw(self) -> Any:
        self._at("draw")
        return 7


@pytest.fixture
def clinic(ledger):
    return ledger.open("clinic", budget=ts.zcdp(rho=0.5), unit="patient")


def states(account) -> list[str]:
    return [event.state for event in account.history()]


def test_the_ledger_says_which_answer_is_fresh(clinic):
    first, again = (pay(Survey(), clinic, why="x", key="k") for _ in range(2))
    assert (first.fresh, again.fresh) == (True, False)
    assert (first.answer, first.receipt) == (again.answer, again.receipt)
    assert states(clinic) == ["COMMITTED"]


def test_a_stored_answer_needs_neither_source_nor_draw(clinic):
    pay(Survey(), clinic, why="x", key="k")
    gone = Survey(fails={"preflight": OSError("gone"), "draw": OSError("gone")})
    assert pay(gone, clinic, why="x", key="k").answer == 7
    assert gone.steps == []


def test_the_one_who_comes_second_in_between_is_told_that_it_was_stored_before(clinic):
    slow = Survey()
    slow.preflight = lambda: pay(Survey(), clinic, why="x", key="k")
    paid = pay(slow, clinic, why="x", key="k")
    assert (paid.answer, paid.fresh) == (7, False)
    assert states(clinic) == ["COMMITTED"]


def test_what_fails_before_the_charge_leaves_no_trace(clinic):
    before = clinic.ledger.head()
    with pytest.raises(InvalidInput):
        pay(Survey(fails={"preflight": InvalidInput("source", "x", "y")}), clinic, why="x", key="k")
    denied = Survey(price=0.6)
    with pytest.raises(BudgetExceeded):
        pay(denied, clinic, why="x", key="k")
    assert denied.steps == []  # a denial comes before anything is opened
    assert clinic.ledger.head() == before
    assert pay(Survey(), clinic, why="x", key="k").fresh


@pytest.mark.parametrize("error", [ValueError("row of Ann: 37"), MemoryError(), SystemExit(3), BudgetExceeded("Ann")])
def test_what_fails_after_the_charge_stays_paid_and_is_told_in_one_constant_text(clinic, error):
    with pytest.raises(Unavailable) as failed:
        pay(Survey(fails={"draw": error}), clinic, why="x")
    assert str(failed.value) == FAILED
    assert failed.value.__cause__ is None
    assert failed.value.__context__ is None
    assert states(clinic) == ["CLOSED"]


def test_an_answer_that_cannot_be_stored_is_a_failure_like_any_other(clinic):
    odd = Survey()
    odd.draw = lambda: object()
    with pytest.raises(Unavailable, match="withheld"):
        pay(odd, clinic, why="x")
    assert states(clinic) == ["CLOSED"]


def test_a_lease_is_renewed_while_data_are_read_and_not_after_that(clinic, clock, place, config):
    """A short lease tells soon that a worker was killed, and must not end one that lives."""
    slow, lease = Survey(), 0.06

    def draw():
        with Ledger(place, config=config, clock=clock) as other:
            for _ in range(4):
                clock.seconds += 0.04
                waited = time.monotonic()
                while other.charge_row(clinic.history()[0].charge)[0].lease_until <= (clock.seconds + 0.04) * 1000:
                    assert time.monotonic() < waited + 20, "nobody renews it"
                    time.sleep(0.005)
            assert other.recover() == (0, 0)
        return 7

    slow.draw = draw
    before = threading.active_count()
    assert pay(slow, clinic, why="x", lease=lease).fresh
    with pytest.raises(Unavailable):
        pay(Survey(fails={"draw": ValueError()}), clinic, why="x", lease=lease)
    assert threading.active_count() == before
    assert states(clinic) == ["COMMITTED", "CLOSED"]
    head = clinic.ledger.head()
    time.sleep(0.1)
    assert clinic.ledger.head() == head
    assert clinic.ledger.verify().problems == ()


def test_a_store_that_is_away_for_a_moment_does_not_end_a_release(clinic, monkeypatch):
    tried = threading.Event()

    def away(charge, *, lease):
        tried.set()
        raise Unavailable("away")

    monkeypatch.setattr(Charge, "renew", away)
    slow = Survey()
    slow.draw = lambda: tried.wait(20) and 7
    assert pay(slow, clinic, why="x", lease=0.03).answer == 7


def test_an_interrupt_stays_an_interrupt(clinic):
    with pytest.raises(KeyboardInterrupt, match="stays paid"):
        pay(Survey(fails={"draw": KeyboardInterrupt("row of Ann")}), clinic, why="x")
    assert states(clinic) == ["CLOSED"]


def test_an_interrupt_after_the_answer_was_stored_does_not_say_that_there_is_none(clinic):
    def probe(point):
        if point == "commit: after COMMIT":
            clinic.ledger.store._probe = None
            raise KeyboardInterrupt

    clinic.ledger.store._probe = probe
    with pytest.raises(KeyboardInterrupt) as stopped:
        pay(Survey(), clinic, why="x", key="k")
    assert "no answer" not in str(stopped.value)
    assert pay(Survey(), clinic, why="x", key="k").answer == 7
    assert states(clinic) == ["COMMITTED"]


def test_an_interrupt_of_the_charging_says_that_it_may_be_paid(clinic):
    def probe(point):
        if point == "begin: after COMMIT":
            clinic.ledger.store._probe = None
            raise KeyboardInterrupt

    clinic.ledger.store._probe = probe
    with pytest.raises(KeyboardInterrupt, match="may be paid"):
        pay(Survey(), clinic, why="x", key="k")
    assert states(clinic) == ["EXECUTING"]


def test_an_interrupt_while_a_failure_is_recorded_does_not_bring_the_error_along(clinic, monkeypatch):
    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr("tallystick.ledger.pay.Charge.burn", interrupted)
    with pytest.raises(KeyboardInterrupt) as stopped:
        pay(Survey(fails={"draw": ValueError("row of Ann: 37")}), clinic, why="x")
    assert stopped.value.__context__ is None
    assert states(clinic) == ["EXECUTING"]


def test_who_holds_the_value_gets_the_error_itself(clinic):
    with pytest.raises(OSError, match="ward"):
        pay(Survey(source="", fails={"draw": OSError("ward")}), clinic, why="x")
    assert states(clinic) == ["BURNED"]


def test_a_mechanism_whose_input_is_a_function_gets_the_function(clinic):
    box = ts.select.uniform_box([(0, 1)])
    search = ts.select.by_rejection(epsilon=0.1, sensitivity=1.0, propose=box, score_bounds=(0, 4))
    asked = []

    def score(point):
        asked.append(point)
        return 4.0

    clinic.release(search, score, why="where")
    assert len(asked) >= 1
    assert states(clinic) == ["COMMITTED"]


def test_a_mechanism_whose_input_is_a_function_refuses_a_number_before_the_charge(clinic):
    box = ts.select.uniform_box([(0, 1)])
    search = ts.select.by_rejection(epsilon=0.1, sensitivity=1.0, propose=box, score_bounds=(0, 4))
    with pytest.raises(InvalidInput):
        clinic.release(search, 3.0, why="where")
    assert states(clinic) == []
