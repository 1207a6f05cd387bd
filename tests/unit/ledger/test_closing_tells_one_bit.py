"""Charges that run at the same time tell one failure in all: the one that closed their data."""

from __future__ import annotations

import json
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tallystick as ts
from tallystick.errors import Quarantined, Unavailable
from tallystick.ledger.pay import FAILED, Valued, find_answer, paid_before, pay
from tallystick.ledger.stream import AnswerStream, Cost

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


# Two worlds that differ only in the outcomes of charges that ran when the data closed. Every look must be the same.

WAYS = (
    "the line that raised", "stored", "free key", "stream", "other population", "other data", "paid before", "history",
    "failures", "look up", "same key", "find answer", "verify", "export",
)  # fmt: skip


def looks(folder: Path, *, fails: bool) -> dict[str, str]:
    """What every look tells while the data are closed; ``fails`` is the outcome of the charges that still ran."""
    ledger = ts.Ledger(folder / f"{fails}.db", config=folder / "config", clock=lambda: 1_800_000_000.0)
    people = ledger.open("people", budget=ts.zcdp(rho=1.0))
    people.register("visits", source="visits")
    mine = ledger.open("mine", budget=ts.zcdp(rho=1.0))
    end, begun, raised = threading.Event(), threading.Semaphore(0), {}

    def draw() -> float:
        begun.release()
        end.wait(20)
        if fails:
            raise ValueError("a value of the data")
        return 2.0

    def asked(request: str, answer: Callable[[], float] = lambda: 1.0) -> Valued:
        return Valued(lambda value: value, answer, LOSS, request, "visits")

    def run(name: str, ask: Callable[[], object]) -> None:
        try:
            ask()
        except Unavailable as problem:
            raised[name] = traceback.extract_tb(problem.__traceback__)[-1].lineno

    def stream() -> AnswerStream:
        return AnswerStream(
            people, key="stream", why="report", items=3, whole=None, each=lambda first, _: Cost(LOSS, None, f"{first}")
        )

    opened = stream()
    opened.open()
    jobs = {
        "plain": lambda: pay(asked("plain", draw), people, why="report", key="plain"),
        "also": lambda: pay(asked("also", draw), people, why="report", key="also", also=[mine]),
        "twice": lambda: pay(asked("twice", draw), people, why="report", key="first time"),
        "stream": lambda: opened.answer(1, draw, source="visits"),
    }
    threads = [threading.Thread(target=run, args=job) for job in jobs.items()]
    for thread in threads:
        thread.start()
        assert begun.acquire(timeout=20)
    pay(asked("twice"), people, why="report", key="second time")  # answered before anything failed
    with pytest.raises(Unavailable):
        pay(asked("broken", lambda: 1 / 0), people, why="report", key="broken")
    end.set()
    for thread in threads:
        thread.join()

    def charge() -> Any:
        return ledger.charge(LOSS, accounts=[people], why="report", key="plain", request="plain", source="visits")

    ways: dict[str, Callable[[], object]] = {
        "the line that raised": lambda: sorted(raised.items()),
        "stored": lambda: charge().stored(),
        "free key": lambda: charge().require_free_key(),
        "stream": lambda: stream().replay(1),
        "other population": lambda: mine.failures(),
        "other data": lambda: pay(Valued(float, 1.0, LOSS, "own", "my data"), mine, why="report", key="own"),
        "paid before": lambda: type(paid_before(asked("twice"), people, delta=None)).__name__,
        "history": lambda: [event.state for event in people.history()],
        "failures": people.failures,
        "look up": lambda: charge().look_up()[0].state,
        "same key": lambda: pay(asked("plain"), people, why="report", key="plain"),
        "find answer": lambda: find_answer(asked("plain"), people, key="plain", delta=None),
        "verify": lambda: ledger.verify().problems,
        "export": lambda: list(ledger.export()),
    }
    assert tuple(ways) == WAYS
    seen = {name: told(look) for name, look in ways.items()}
    ledger.close()
    return seen


def told(look: Callable[[], object]) -> str:
    try:
        return repr(look())
    except ts.errors.TallystickError as problem:
        return f"{type(problem).__name__}: {problem.message}"


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], dict[str, str]]:
    folder = tmp_path_factory.mktemp("worlds")
    return looks(folder, fails=False), looks(folder, fails=True)


@pytest.mark.parametrize("way", WAYS)
def test_a_look_does_not_tell_an_answer_from_a_failure(worlds: tuple[dict[str, str], dict[str, str]], way: str) -> None:
    answered, failed = worlds
    assert answered[way] == failed[way]


def test_the_owner_who_clears_sees_how_many_failed_and_gets_the_answers(account: Any) -> None:
    started_together(account, [True, False, True])
    assert len(account.clear(why="the owner looked at the log")) == 2
    kept = pay(Valued(float, 3.0, LOSS, "question 1", "visits"), account, why="report", key="key 1")
    assert (kept.answer, kept.fresh) == (1.0, False)


def test_the_hash_of_a_failure_cannot_be_guessed(account: Any) -> None:
    started_together(account, [True])
    with account.ledger.store.read() as transaction:
        entries = [json.loads(row[2]) for row in transaction.rows("entries_after", 0, 100)]
    [burned] = [entry for entry in entries if entry["kind"] == "burn"]
    assert len(bytes.fromhex(burned["nonce"])) == 16


def test_data_are_not_cleared_while_a_release_on_them_runs(account: Any) -> None:
    running = account.ledger.charge(LOSS, accounts=[account], why="report", key="long", source="visits").begin()
    with pytest.raises(Unavailable):
        pay(Valued(float, lambda: 1 / 0, LOSS, "broken", "visits"), account, why="report", key="broken")
    with pytest.raises(Unavailable, match="have not ended"):
        account.clear(why="too early")
    running.commit(1.0)
    assert len(account.clear(why="now all have ended")) == 1


def test_the_owner_can_end_a_release_that_runs_for_ever(account: Any) -> None:
    running = account.ledger.charge(LOSS, accounts=[account], why="report", key="long", source="visits").begin()
    with pytest.raises(Unavailable):
        pay(Valued(float, lambda: 1 / 0, LOSS, "broken", "visits"), account, why="report", key="broken")
    used = account.used
    assert len(account.clear(why="its process was killed", end_running=True)) == 1
    assert account.used == used, "it stays paid"
    with pytest.raises(ts.errors.Refused, match="no longer held"):
        running.commit(1.0)
    assert account.ledger.verify().problems == ()
