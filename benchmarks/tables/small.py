"""What small things cost: python benchmarks/tables/small.py [--calls N]

CPU milliseconds of calls in one process, all threads together: 3,000 rows of 800 people in 8 groups in a DuckDB file,
and a SQLite ledger. To compare two trees, run both in turn: the fastest call says more than the median on a busy machine.
"""

from __future__ import annotations

import argparse
import itertools
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

ROWS = """create table visits as select (hash(i) % 800)::bigint as person, 'w' || (hash(i, 2) % 8) as ward,
          (hash(i, 3) % 1000) / 10.0::double as amount from range(3000) t(i)"""
STATEMENT = """SELECT ward, COUNT(*) AS n, AVG(amount) AS mean FROM visits WHERE amount > {} GROUP BY ward
               HAVING COUNT(*) > 20 ORDER BY mean DESC LIMIT 5"""


def told(name: str, calls: int, call: Callable[[], object]) -> None:
    """A line of the page. The first call, which fills what is remembered, is not counted."""
    spent = []
    for _ in range(calls + 1):
        start = time.process_time()
        call()
        spent.append(1000 * (time.process_time() - start))
    spent = sorted(spent[1:])
    print(f"| {name} | {spent[0]:.1f} | {spent[calls // 2]:.1f} | {spent[int(0.95 * (calls - 1))]:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=40)
    calls: int = parser.parse_args().calls
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TALLYSTICK_CONFIG_DIR"] = folder
        with duckdb.connect(f"{folder}/clinic.duckdb") as connection:
            connection.execute(ROWS)
        print("| call | fastest ms | median ms | 95 of 100 ms |\n|---|---:|---:|---:|")
        measured(Path(folder), calls)


def measured(folder: Path, calls: int) -> None:
    import tallystick as ts
    from tallystick.ledger import Ledger

    with Ledger(folder / "budget.db") as ledger:
        account = ledger.open("people", budget=ts.zcdp(rho=10_000, delta=1e-3), unit="person")
        source = ts.Private(folder / "clinic.duckdb", account=account)
        visits = source.table("visits", unit="person").per_unit(max_groups=4, max_rows_per_group=5)
        visits = visits.bounds(amount=(0, 100))
        asked = visits.group_by("ward", keys=ts.private_keys(delta=1e-8)).agg(
            n=ts.count(), total=ts.sum("amount", 0, 100), mean=ts.mean("amount", 0, 100)
        )
        plan, prices, least = asked.plan(rho=0.5), itertools.count(1), itertools.count()

        def new_statement() -> object:
            text = "EXPLAIN " + STATEMENT.format(next(least) / 100)
            return source.sql(text, visits, keys={"ward": [f"w{i}" for i in range(8)]}, rho=0.1)

        told("release, the same plan again", calls, lambda: plan.release(why="again"))
        told("plan and release at a new price", calls, lambda: asked.plan(rho=next(prices) / 1000).release(why="new"))
        told("the same key again: the stored answer", calls, lambda: plan.release(why="once", key="once"))
        told("read, plan and explain a new SQL statement", calls, new_statement)


if __name__ == "__main__":
    main()
