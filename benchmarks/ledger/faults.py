"""Input/output errors at every statement, and a disk that is full: fail closed."""

from __future__ import annotations

import os
import resource
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

from crash.stores import Server, raised, spend
from tallystick.ledger import Account, Budget, Filter, Ledger


class Failing:
    """A connection whose n-th statement fails."""

    def __init__(self, connection: Any, after: int, message: str) -> None:
        self.connection, self.left, self.message = connection, after, message

    def execute(self, *given: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            raise sqlite3.OperationalError(self.message)
        return self.connection.execute(*given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)


MESSAGES = ("disk I/O error", "database or disk is full", "attempt to write a readonly database")


def _once(account: Account, key: str) -> None:
    with spend(account, 1, key=key) as charge:
        charge.answer = "x" * 3000


def run(scale: float, server: Server) -> list[str]:
    """Rows of the table."""
    wrong, injected = 0, 0
    rounds = max(1, round(50 * scale))
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config"
        with Ledger(f"{folder}/budget.db", config=config) as ledger:
            account = ledger.open("people", budget=Budget(Filter("zcdp"), 10**9, 0), unit="person")
            honest = ledger.store._connected()  # type: ignore[attr-defined]
            for number in range(rounds):
                for message in MESSAGES:
                    for after in range(1, 19):
                        before, key = account.used.a0, f"{number}-{message}-{after}"
                        ledger.store._connection = Failing(honest, after, message)  # type: ignore[attr-defined]
                        outcome = raised(lambda key=key: _once(account, key))
                        ledger.store._connection = honest  # type: ignore[attr-defined]
                        injected += 1
                        if outcome not in ("ok", "Unavailable") or (outcome == "ok") > (account.used.a0 - before == 1):
                            wrong += 1
            problems = ledger.verify().problems
        full_outcomes, full_problems = _full_disk(folder, config, max(60, round(400 * scale)))
    clean = not wrong and not problems
    closed = set(full_outcomes) <= {"ok", "Unavailable"} and not full_problems
    said = "all failed closed, verify clean" if clean else f"**{wrong} wrong, {len(problems)} problems**"
    counts = f"{full_outcomes.count('ok')} granted before it filled, {full_outcomes.count('Unavailable')} refused"
    end = "fail closed, verify clean" if closed else "**not closed**"
    return [
        f"| errors injected at each statement (I/O, full, read-only) | {injected:,} | {said} |",
        f"| a disk that is really full (RLIMIT_FSIZE) | {len(full_outcomes):,} releases | {counts}; {end} |",
    ]


def _full_disk(folder: str, config: Path, attempts: int) -> tuple[list[str], tuple[str, ...]]:
    place = f"{folder}/full.db"
    with Ledger(place, config=config) as ledger:
        ledger.open("people", budget=Budget(Filter("zcdp"), 10**9, 0), unit="person")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with Ledger(place, config=config) as ledger:
                account = ledger.open("people")
                resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
                for number in range(attempts):
                    os.write(writer, (raised(lambda n=number: _once(account, f"f{n}")) + "\n").encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        outcomes = pipe.read().split()
    os.waitpid(child, 0)
    with Ledger(place, config=config) as ledger:
        return outcomes, ledger.verify().problems
