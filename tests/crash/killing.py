"""Kill a process at a named point of its work, then look at what it left behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg  # noqa: F401 - before the children are made, or each would import them again

import tallystick.ledger.postgres
import tallystick.ledger.sqlite  # noqa: F401
from crash.stores import charge_rows, raised, spend
from tallystick.ledger import Budget, Ledger

AMOUNT = 3
SCENARIOS = ("release", "two steps", "give back", "fail", "expire", "close")


@dataclass
class Traces:
    """What the world saw of a worker before it died: data opened, answers handed out."""

    touched: set[str]
    delivered: dict[str, str]


class Worker:
    """The work that gets killed; ``seen`` is a pipe that outlives it."""

    def __init__(self, place: str, config: Path, seen: int, probe: Callable[[str], None]) -> None:
        self.probe = probe
        self.seen = seen
        self.ledger = Ledger(place, config=config, probe=probe)
        self.account = self.ledger.open("people", budget=Budget.zcdp(100), unit="person")

    def say(self, kind: str, key: str, text: str = "") -> None:
        os.write(self.seen, f"{kind}\t{key}\t{text}\n".encode())

    def release(self, key: str) -> None:
        with spend(self.account, AMOUNT, key=key) as charge:
            self.probe("before data")
            self.say("touched", key)
            charge.answer = f"answer-{os.getpid()}-{os.urandom(4).hex()}"
            self.probe("after data")
        self.probe("before delivery")
        self.say("delivered", key, charge.answer)
        self.probe("after delivery")

    def two_steps(self, key: str) -> None:
        charge = spend(self.account, AMOUNT, key=key).reserve()
        self.probe("between reserve and start")
        charge.start()
        self.say("touched", key)
        answer = f"answer-{os.urandom(4).hex()}"
        charge.commit(answer)
        self.say("delivered", key, answer)

    def give_back(self, key: str) -> None:
        spend(self.account, AMOUNT, key=key).reserve().refund()

    def fail(self, key: str) -> None:
        try:
            with spend(self.account, AMOUNT, key=key):
                self.say("touched", key)
                raise ZeroDivisionError
        except ZeroDivisionError:
            self.probe("after burn")

    def expire(self, key: str) -> None:
        spend(self.account, AMOUNT, key=key, lease=1e-3).reserve()
        os.sched_yield()
        self.ledger._clock = lambda: time.time() + 1  # no more: the next worker has the right time
        self.ledger.recover()

    def close(self, key: str) -> None:
        """A plan on a source that fails, and the owner who opens it again."""
        raised(lambda: self.account.clear(why="what an earlier worker left", end_running=True))
        try:
            with spend(self.account, AMOUNT, key=key, source="visits.csv"):
                self.say("touched", key)
                raise ZeroDivisionError
        except ZeroDivisionError:
            self.probe("between the failure and the owner")
        self.account.clear(why="looked at the log", end_running=True)

    def perform(self, scenario: str, key: str) -> None:
        getattr(self, scenario.replace(" ", "_"))(key)


def in_child(
    work: Callable[[int], None], *, kill_after: int | None = None, wait: float = 0.0, by: int = signal.SIGKILL
) -> tuple[int, Traces]:
    """Run work in a forked process; returns how it ended and what it left in the pipe.

    With ``kill_after`` it is killed a moment (``wait`` seconds) after it has said that many things.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            work(writer)
            os._exit(0)
        except BaseException:
            os._exit(70)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        lines = []
        if kill_after is not None:
            lines = [pipe.readline().rstrip("\n") for _ in range(kill_after)]
            time.sleep(wait)
            os.kill(child, by)
        lines += pipe.read().splitlines()
    _, status = os.waitpid(child, 0)
    return status, collected(lines)


def collected(lines: Iterable[str]) -> Traces:
    """What workers said, by kind."""
    touched, delivered = set(), {}
    for line in lines:
        kind, key, text = line.split("\t")
        if kind == "touched":
            touched.add(key)
        else:
            delivered[key] = text
    return Traces(touched, delivered)


def points(place: str, config: Path, scenario: str) -> list[str]:
    """The named points a scenario passes, in order, each once."""
    reader, writer = os.pipe()

    def work(seen: int) -> None:
        names: list[str] = []
        worker = Worker(place, config, seen, names.append)
        names.clear()
        worker.perform(scenario, f"scout-{scenario}")
        os.write(writer, "\n".join(dict.fromkeys(names)).encode())

    in_child(work)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        return list(dict.fromkeys(pipe.read().splitlines()))


def kill_at(place: str, config: Path, scenario: str, point: str, key: str) -> Traces:
    """Run a scenario in a process that kills itself at the point."""

    def work(seen: int) -> None:
        armed = []

        def probe(name: str) -> None:
            if armed and name == point:
                os.kill(os.getpid(), signal.SIGKILL)

        worker = Worker(place, config, seen, probe)
        armed.append(True)
        worker.perform(scenario, key)

    status, traces = in_child(work)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, f"{point} was not reached"
    return traces


def complaints(place: str, config: Path, traces: Traces) -> Iterator[str]:
    """What is wrong after a kill: released but uncharged, other answers, stuck accounts, a broken record."""
    with Ledger(place, config=config, first_use="look at what is left") as ledger:
        yield from ledger.verify().problems
        with ledger.store.read() as transaction:
            charges = {row[2]: row for row in charge_rows(transaction) if row[4] != "REFUNDED"}
        for key in traces.touched:
            if key not in charges or charges[key][4] not in ("EXECUTING", "COMMITTED", "BURNED"):
                yield f"{key}: data was opened without a charge"
        for key, answer in traces.delivered.items():
            if key not in charges or charges[key][4] != "COMMITTED":
                yield f"{key}: released but uncharged"
            elif stored(ledger, key) != answer:
                yield f"{key}: a retry would return another answer"
        account = ledger.open("people", budget=Budget.zcdp(100), unit="person")
        if raised(lambda: _spend_once(account)) != "ok":
            yield "the account is stuck"


def _spend_once(account: Any) -> None:
    with spend(account, 1):
        pass


def stored(ledger: Ledger, key: str) -> str | None:
    from tallystick.errors import AlreadyCommitted

    try:
        with spend(ledger.open("people"), AMOUNT, key=key):
            return None
    except AlreadyCommitted as found:
        return found.answer
