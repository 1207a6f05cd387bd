"""Charges that run at the same time tell one failure in all: the one that closed their data."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tallystick as ts
from tallystick.errors import Quarantined, Unavailable
from tallystick.ledger.pay import FAILED, Valued, pay

LOSS = ts.zcdp(rho=0.01)


class Draw:
    """A release that waits until all the others have started, and then answers or fails."""

    def __init__(self, barrier: threading.Barrier, fails: bool) -> None:
        self.barrier, self.fails = barrier, fails

    def __call__(self) -> float:
        self.barrier.wait(timeout=20)
        if self.fails:
            raise ValueError("a value of the data")
        return 1.0


def started_together(account: Any, outcomes: list[bool], source: str = "visits") -> list[tuple[str, object]]:
    """Begin as many releases as there are outcomes, let them end together, and return what each caller sees."""
    barrier = threading.Barrier(len(outcomes))
    seen: list[tuple[str, object]] = [("", None)] * len(outcomes)

    def run(number: int, fails: bool) -> None:
        release = Valued(lambda value: value, Draw(barrier, fails), LOSS, f"question {number}", source)
        try:
            paid = pay(release, account, why="report", key=f"key {number}")
            seen[number] = ("answer", paid.answer)
        except Unavailable as problem:
            seen[number] = ("closed", problem.message)

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(outcomes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seen


@pytest.fixture
def account(tmp_path: Path) -> Any:
    ledger = ts.Ledger(tmp_path / "ledger.db", config=tmp_path / "config")
    account = ledger.open("people", budget=ts.zcdp(rho=1.0))
    account.register("visits", source="visits")
    yield account
    ledger.close()


def first_failure_then(account: Any, *, fails: bool) -> str:
    """Two charges run; one fails, and then the other ends. Return what the second caller sees."""
    both_run, first_failed = threading.Barrier(2), threading.Event()
    seen = []

    def second() -> float:
        both_run.wait(timeout=20)
        assert first_failed.wait(timeout=20)
        if fails:
            raise ValueError
        return 2.0

    def run_second() -> None:
        try:
            pay(Valued(lambda v: v, second, LOSS, "second", "visits"), account, why="report", key="second")
        except Unavailable as problem:
            seen.append(problem.message)
        else:
            seen.append("answer")

    def first() -> float:
        both_run.wait(timeout=20)
        raise ValueError

    thread = threading.Thread(target=run_second)
    thread.start()
    with pytest.raises(Unavailable):
        pay(Valued(lambda v: v, first, LOSS, "first", "visits"), account, why="report", key="first")
    first_failed.set()
    thread.join()
    return seen[0]


def test_after_the_closing_an_answer_and_a_failure_look_the_same(account: Any, tmp_path: Path) -> None:
    other_ledger = ts.Ledger(tmp_path / "other.db", config=tmp_path / "config")
    other = other_ledger.open("people", budget=ts.zcdp(rho=1.0))
    other.register("visits", source="visits")
    assert first_failure_then(account, fails=False) == first_failure_then(other, fails=True)
    states = [[event.state for event in each.history()] for each in (account, other)]
    assert states[0] == states[1] == ["CLOSED", "CLOSED"]
    assert len(account.failures()) == len(other.failures()) == 1
    other_ledger.close()


def test_the_stored_answer_is_withheld_until_the_owner_clears(account: Any) -> None:
    assert first_failure_then(account, fails=False) == FAILED
    ask = lambda: pay(Valued(lambda v: v, lambda: 3.0, LOSS, "second", "visits"), account, why="report", key="second")  # noqa: E731
    with pytest.raises(Unavailable, match="withheld"):
        ask()
    assert len(account.clear(why="a broken disk")) == 1
    assert ask().answer == 2.0
    assert sorted(event.state for event in account.history()) == ["BURNED", "COMMITTED"]


def test_the_owner_who_clears_sees_how_many_failed(account: Any) -> None:
    assert first_failure_then(account, fails=True) == FAILED
    assert len(account.failures()) == 1  # the first one, for everybody
    assert len(account.clear(why="a broken disk")) == 2


@pytest.mark.parametrize("outcomes", [[True] * 3 + [False] * 3])
def test_of_six_charges_begun_together_those_that_end_after_the_first_failure_look_alike(
    account: Any, outcomes: list[bool]
) -> None:
    seen = started_together(account, outcomes)
    failed = [each for each, fails in zip(seen, outcomes, strict=True) if fails]
    assert set(failed) == {("closed", FAILED)}
    with pytest.raises(Quarantined):
        pay(Valued(lambda v: v, lambda: 1.0, LOSS, "seventh", "visits"), account, why="report", key="seventh")
    assert {event.state for event in account.history()} <= {"CLOSED", "COMMITTED"}  # none says that it failed


def test_an_answer_that_was_stored_before_the_failure_stays(account: Any) -> None:
    early = pay(Valued(lambda v: v, lambda: 5.0, LOSS, "early", "visits"), account, why="report", key="early")
    first_failure_then(account, fails=False)
    again = pay(Valued(lambda v: v, lambda: 6.0, LOSS, "early", "visits"), account, why="report", key="early")
    assert (again.answer, again.fresh) == (early.answer, False)


def test_charges_without_a_source_and_of_other_people_are_not_withheld(account: Any) -> None:
    other = account.ledger.open("others", budget=ts.zcdp(rho=1.0))
    first_failure_then(account, fails=False)
    held: Callable[[], Any] = lambda: account.pay(LOSS, why="made elsewhere", key="elsewhere")  # noqa: E731
    held()
    assert pay(Valued(lambda v: v, lambda: 7.0, LOSS, "q", "other data"), other, why="report", key="o").answer == 7.0
