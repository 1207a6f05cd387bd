"""The private table job: rows of people in Zipf groups, private keys, count + sum + mean, noise and ledger.

    python benchmarks/tables/run.py [--rows 1000000 10000000 50000000] [--peers PYTHON] [--skip spark ...]

Every job runs in its own process; CPU seconds and peak memory are the operating system's figures for that process and,
for Spark, for all processes of the cluster. Peers (opendp[polars], pipeline-dp) live in .peers/query, which is made on
first use, or in the environment of ``--peers``; PipelineDP runs at 1 M rows and OpenDP up to 10 M. Results go to
standard output as Markdown.
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
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tallystick.ledger import Account
    from tallystick.tables.plan import Plan

HERE = Path(__file__).resolve().parent
PEERS = HERE.parents[1] / ".peers" / "query"
PACKAGES = ("opendp[polars]==0.16.0", "pipeline-dp==0.3.1")


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


def asked(path: str | Path, account: Account) -> Plan:
    """The question: count, sum and mean of every group, which are chosen privately."""
    import tallystick as ts

    visits = ts.Private(path, account=account).table(unit="person").per_unit(max_groups=10, max_rows_per_group=5)
    groups = visits.group_by("place", keys=ts.private_keys(delta=1e-8))
    return groups.agg(n=ts.count(), total=ts.sum("amount", 0, 100), mean=ts.mean("amount", 0, 100)).plan(rho=0.5)


def ours(path: str, folder: str, session: object = None) -> int:
    import tallystick as ts
    from tallystick.ledger import Ledger

    with Ledger(Path(folder) / "budget.db") as ledger:
        plan = asked(path, ledger.open("people", budget=ts.zcdp(rho=1, delta=1e-6), unit="person"))
        if session is not None:
            session.read.parquet(path).createOrReplaceTempView("table")  # type: ignore[attr-defined]
            plan = plan.on(session)
        return len(plan.release(why="benchmark").rows)


def raw(path: str, folder: str) -> int:
    import duckdb

    query = "SELECT place, count(*), sum(amount), avg(amount) FROM read_parquet(?) GROUP BY place"
    return len(duckdb.connect().execute(query, [path]).fetchall())


def spark(path: str, folder: str) -> tuple[int, float, float]:
    """On a standalone master with two workers; CPU and memory of master, workers, executors and driver together."""
    sys.path.insert(0, str(HERE))
    import cluster

    os.environ.update(cluster.java())
    with cluster.master(Path(folder)) as url:
        settings = {"executor.memory": "2500m", "sql.shuffle.partitions": "16"}
        session = cluster.session(url, Path(folder), **settings)
        groups = ours(path, folder, session)
        cost = cluster.descendants()
        session.stop()
    return groups, *cost


JOBS = {"tallystick": ours, "raw DuckDB (not private)": raw, "tallystick on Spark, two workers": spark}
LARGEST = {"tallystick on Spark, two workers": 10_000_000, "OpenDP/Polars": 10_000_000, "PipelineDP": 1_000_000}


def peers() -> str:
    """The python of the peers' environment, which is made on first use."""
    python = PEERS / "bin" / "python"
    if not (PEERS / ".installed").exists():
        subprocess.run([sys.executable, "-m", "venv", str(PEERS)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
        (PEERS / ".installed").touch()
    return str(python)


def measured(python: str, script: Path, job: str, path: Path) -> dict[str, float | str]:
    """Run one job in a process of its own."""
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
    own = resource.getrusage(resource.RUSAGE_SELF)
    cpu, memory = own.ru_utime + own.ru_stime, own.ru_maxrss / 1024**2
    if isinstance(groups, tuple):  # a cluster has counted its processes itself
        groups, cpu, memory = groups
    print(json.dumps({"job": job, "groups": groups, "cpu": cpu, "wall": wall, "memory": memory}))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--job", nargs=3, metavar=("NAME", "PATH", "FOLDER"))
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000, 50_000_000])
    parser.add_argument("--peers", help="python of an environment with opendp[polars] and pipeline-dp")
    parser.add_argument("--skip", nargs="+", default=[], help="parts of the names of jobs not to run, such as spark")
    given = parser.parse_args()
    if given.job:
        alone(*given.job, jobs=JOBS)  # type: ignore[misc]
        return
    names = [*JOBS, "OpenDP/Polars", "PipelineDP"]
    chosen = [n for n in names if not any(part.lower() in n.lower() for part in given.skip)]
    other = (given.peers or peers()) if set(chosen) - set(JOBS) else ""
    print("| rows | job | groups shown | CPU s | wall s | peak GB |\n|---:|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for rows in given.rows:
            path = Path(folder) / f"{rows}.parquet"
            generate(path, rows)
            for job in chosen:
                if rows <= LARGEST.get(job, rows):
                    python, script = (sys.executable, "run.py") if job in JOBS else (other, "peers.py")
                    line(rows, measured(python, HERE / script, job, path))
            path.unlink()


def line(rows: int, found: dict[str, float | str]) -> None:
    if "failed" in found:
        print(f"| {rows:,} | {found['job']} | failed: {found['failed']} | | | |", flush=True)
        return
    numbers = f"{found['cpu']:.2f} | {found['wall']:.2f} | {found['memory']:.2f}"
    print(f"| {rows:,} | {found['job']} | {found['groups']:,} | {numbers} |", flush=True)


if __name__ == "__main__":
    main()
