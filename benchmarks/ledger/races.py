"""Many processes race for the last unit, on both stores, the server restarting under them."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from crash.stores import fresh_schema, raised, spend
from tallystick.ledger import Budget, Filter, Ledger


def race(
    place: str, config: Path, *, processes: int, each: int, limit: int, disturb: bool
) -> tuple[dict[str, int], int]:
    """Every attempt wants one unit; returns the outcomes and how often a client had to try again."""
    with Ledger(place, config=config) as ledger:
        ledger.open("people", budget=Budget(Filter("zcdp"), limit, 0), unit="person")
    reader, writer = os.pipe()
    children = []
    for number in range(processes):
        child = os.fork()
        if child == 0:
            os.close(reader)
            _client(place, config, number, each, writer)
        children.append(child)
    os.close(writer)
    breaker = _breaker(place) if disturb else 0
    outcomes: dict[str, int] = {}
    with os.fdopen(reader) as pipe:
        for line in pipe:
            outcomes[line.strip()] = outcomes.get(line.strip(), 0) + 1
    for child in children:
        os.waitpid(child, 0)
    if breaker:
        os.kill(breaker, signal.SIGKILL)
        os.waitpid(breaker, 0)
    return outcomes, outcomes.pop("Unavailable", 0)


def _client(place: str, config: Path, number: int, each: int, out: int) -> None:
    code = 70
    try:
        ledger = None
        for attempt in range(each):
            while True:
                try:
                    if ledger is None:
                        ledger = Ledger(place, config=config)
                    account = ledger.open("people")
                except Exception:
                    time.sleep(0.05)
                    continue
                outcome = raised(lambda account=account, attempt=attempt: _once(account, f"{number}-{attempt}"))
                os.write(out, f"{outcome}\n".encode())
                if outcome != "Unavailable":
                    break
                time.sleep(0.05)
        code = 0
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        os._exit(code)


def _once(account: object, key: str) -> None:
    with spend(account, 1, key=key, lease=600):
        pass


def _breaker(place: str) -> int:
    """A process that cuts every connection of the server now and then, as a restart does."""
    child = os.fork()
    if child:
        return child
    import psycopg

    while True:
        time.sleep(3)
        try:
            with psycopg.connect(place, autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
                )
        except psycopg.Error:
            pass


def run(scale: float, url: str) -> list[str]:
    """Rows of the table."""
    rows = []
    for store, processes, full in (("SQLite", 32, 500), ("PostgreSQL", 64, 200)):
        each = max(2, round(full * scale))
        limit = processes * each * 3 // 4
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "config"
            place = fresh_schema(url) if store == "PostgreSQL" else f"{folder}/budget.db"
            outcomes, retries = race(
                place, config, processes=processes, each=each, limit=limit, disturb=store == "PostgreSQL"
            )
            with Ledger(place, config=config) as ledger:
                account = ledger.open("people")
                used, problems = account.used.a0, ledger.verify().problems
                paid = sum(event.paid for event in account.history())
            lost = outcomes.get("IdempotencyConflict", 0)
            exact = used == limit == paid and not problems
            disturbed = f", all connections cut every 3 s, {retries} retries" if store == "PostgreSQL" else ""
            rows.append(
                f"| race for the last unit, {store} | {processes} processes x {each}, limit {limit:,}{disturbed} | "
                f"granted {outcomes.get('ok', 0):,}, answered again {outcomes.get('AlreadyCommitted', 0):,}, denied "
                f"{outcomes.get('BudgetExceeded', 0):,}, burned {lost}; used == limit: {'yes' if exact else '**no**'}; "
                f"verify {'clean' if not problems else '**' + problems[0] + '**'} |"
            )
    return rows
