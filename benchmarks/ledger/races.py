"""Many processes race for the last unit, on both stores, the PostgreSQL server stopping and starting under them."""

from __future__ import annotations

import tempfile
from pathlib import Path

from crash.racing import race, restarting
from crash.stores import Server, fresh_schema
from tallystick.ledger import Ledger

EVERY = 5.0  # seconds between restarts


def run(scale: float, server: Server) -> list[str]:
    """Rows of the table."""
    rows = []
    for store, processes, full in (("SQLite", 32, 500), ("PostgreSQL", 64, 200)):
        each = max(2, round(full * scale))
        limit = processes * each * 3 // 4
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "config"
            place = fresh_schema(server.url) if store == "PostgreSQL" else f"{folder}/budget.db"
            disturb = restarting(server, every=EVERY, times=10**6) if store == "PostgreSQL" else None
            outcomes, retries = race(place, config, processes=processes, each=each, limit=limit, disturb=disturb)
            with Ledger(place, config=config) as ledger:
                ledger.recover()
                account = ledger.open("people")
                used, problems = account.used.a0, ledger.verify().problems
                events = account.history()
            committed, paid = sum(e.state == "COMMITTED" for e in events), sum(e.paid for e in events)
            exact = used == limit == paid and not problems
            restarts = outcomes.pop("restart", 0)
            disturbed = f", {restarts} immediate server restarts, {retries} retries" if disturb else ""
            rows.append(
                f"| race for the last unit, {store} | {processes} processes x {each}, limit {limit:,}{disturbed} | "
                f"granted {paid:,} ({committed:,} committed, {paid - committed:,} burned), denied "
                f"{outcomes.get('BudgetExceeded', 0):,}; used == limit: {'yes' if exact else '**no**'}; "
                f"verify {'clean' if not problems else '**' + problems[0] + '**'} |"
            )
    return rows
