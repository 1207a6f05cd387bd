"""The private table job: rows of people in Zipf groups, private keys, count + sum + mean, noise and ledger.

    python benchmarks/query/run.py [--rows 1000000 10000000] [--spark] [--peers PYTHON]

Every job runs in its own process; CPU seconds and peak memory are the operating system's figures for that process.
``--peers`` is a Python of another environment that has opendp[polars] and pipeline-dp; they run on smaller sizes where
they cannot finish the same one. Results go to standard output as Markdown.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


def generate(path: Path, rows: int) -> None:
    """Ten rows per person on average, 10,000 groups with Zipf sizes, values in [0, 100)."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.execute("SELECT setseed(0.5)")
    connection.execute(
        f"""COPY (SELECT (random() * {rows // 10})::BIGINT AS person,
                 least(9999, floor(exp(random() * ln(10000))))::BIGINT AS place,
                 random() * 100 AS amount FROM range({rows})) TO '{path}' (FORMAT parquet)"""
    )


def ours(path: str, folder: str, session: object = None) -> int:
    import tallystick as ts
    from tallystick.ledger import Ledger

    with Ledger(Path(folder) / "budget.db") as ledger:
        account = ledger.open("people", budget=ts.zcdp(rho=1, delta=1e-6), unit="person")
        visits = ts.Private(path, account=account).table(unit="person").per_unit(max_groups=10, max_rows_per_group=5)
        asked = visits.group_by("place", keys=ts.private_keys(delta=1e-8))
        plan = asked.agg(n=ts.count(), total=ts.sum("amount", 0, 100), mean=ts.mean("amount", 0, 100)).plan(rho=0.5)
        if session is not None:
            session.read.parquet(path).createOrReplaceTempView("table")  # type: ignore[attr-defined]
            plan = plan.on(session)
        return len(plan.release(why="benchmark").rows)


def raw(path: str, folder: str) -> int:
    import duckdb

    query = "SELECT place, count(*), sum(amount), avg(amount) FROM read_parquet(?) GROUP BY place"
    return len(duckdb.connect().execute(query, [path]).fetchall())


def spark(path: str, folder: str) -> int:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(os.environ.get("SPARK_MASTER", "local[2]"))
    builder = builder.config("spark.ui.enabled", "false").config("spark.driver.memory", "4g")
    session = builder.config("spark.sql.shuffle.partitions", "16").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        return ours(path, folder, session)
    finally:
        session.stop()


JOBS = {"tallystick": ours, "raw DuckDB (not private)": raw, "tallystick on Spark": spark}


def measured(python: str, script: Path, job: str, path: Path) -> dict[str, float | str]:
    """Run one job in a process of its own; its children (Spark's JVM) are counted."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TALLYSTICK_CONFIG_DIR": folder, "OMP_NUM_THREADS": "1"}
        command = [python, str(script), "--job", job, str(path), folder]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        return {"job": job, "failed": (done.stderr.strip().splitlines() or ["?"])[-1][:120]}
    found: dict[str, float | str] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def alone(job: str, path: str, folder: str, jobs: dict[str, object]) -> None:
    start = time.perf_counter()
    groups = jobs[job](path, folder)  # type: ignore[operator]
    wall = time.perf_counter() - start
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
    memory = max(own.ru_maxrss, children.ru_maxrss) / 1024**2
    print(json.dumps({"job": job, "groups": groups, "cpu": cpu, "wall": wall, "memory": memory}))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--job", nargs=3, metavar=("NAME", "PATH", "FOLDER"))
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--peers", help="python of an environment with opendp[polars] and pipeline-dp")
    given = parser.parse_args()
    if given.job:
        alone(*given.job, jobs=JOBS)  # type: ignore[misc]
        return
    print("| rows | job | groups shown | CPU s | wall s | peak GB |\n|---:|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for rows in given.rows:
            path = Path(folder) / f"{rows}.parquet"
            generate(path, rows)
            wanted = [(sys.executable, HERE / "run.py", job) for job in JOBS if "Spark" not in job or given.spark]
            if given.peers:
                wanted.append((given.peers, HERE / "peers.py", "OpenDP/Polars"))
                if rows <= 1_000_000:
                    wanted.append((given.peers, HERE / "peers.py", "PipelineDP"))
            for python, script, job in wanted:
                line(rows, measured(python, script, job, path))
            path.unlink()


def line(rows: int, found: dict[str, float | str]) -> None:
    if "failed" in found:
        print(f"| {rows:,} | {found['job']} | failed: {found['failed']} | | | |", flush=True)
        return
    numbers = f"{found['cpu']:.2f} | {found['wall']:.2f} | {found['memory']:.2f}"
    print(f"| {rows:,} | {found['job']} | {found['groups']:,} | {numbers} |", flush=True)


if __name__ == "__main__":
    main()
