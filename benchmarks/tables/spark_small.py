"""A small table on Spark: python benchmarks/tables/spark_small.py [--rows 300000] [--releases 3]

The job of ``run.py`` in one ``local[2]`` session with the settings that a session has by itself, release after release,
and on DuckDB in the same process. CPU seconds are those of all processes, Java's compilers included; Spark's start is
a line of its own.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import cluster
import run as job


def told(name: str, call: Callable[[], Any]) -> Any:
    """A line of the page."""
    cpu, start = cluster.descendants()[0], time.perf_counter()
    found = call()
    wall = time.perf_counter() - start
    print(f"| {name} | {cluster.descendants()[0] - cpu:.2f} | {wall:.2f} |", flush=True)
    return found


def measured(path: Path, folder: Path, releases: int) -> None:
    import warnings

    import tallystick as ts
    from tallystick.ledger import Ledger
    from tallystick.tables import run

    warnings.simplefilter("ignore")  # that the same question is paid for again

    with Ledger(folder / "budget.db") as ledger:
        account = ledger.open("people", budget=ts.zcdp(rho=100, delta=1e-3), unit="person")
        plan = job.asked(path, account)
        for i in range(releases):
            told(f"DuckDB, release {i + 1}", lambda: plan.release(why="benchmark"))
        spark = told("Spark starts", lambda: cluster.session("local[2]", folder))
        spark.read.parquet(str(path)).createOrReplaceTempView("table")
        moved = plan.on(spark)
        for i in range(releases):
            told(f"Spark, release {i + 1}", lambda: moved.release(why="benchmark"))
        here, there = (
            told(f"integers alone, {n}", lambda p=p: run.integers(p)) for n, p in (("DuckDB", plan), ("Spark", moved))
        )
        assert same(here, there)
        spark.stop()


def same(here: Any, there: Any) -> bool:
    """Whether two engines found the same integers."""
    if sorted(here.keys) != sorted(there.keys):
        return False
    places = {key: i for i, key in enumerate(there.keys)}
    order = [places[key] for key in here.keys]
    return all((there.numbers[part][order] == numbers).all() for part, numbers in here.numbers.items()) and all(
        (there.removed[part] == numbers).all() for part, numbers in here.removed.items()
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--releases", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TALLYSTICK_CONFIG_DIR"] = folder
        path = Path(folder) / "rows.parquet"
        job.generate(path, given.rows)
        print("| call | CPU s | wall s |\n|---|---:|---:|")
        measured(path, Path(folder), given.releases)


if __name__ == "__main__":
    main()
