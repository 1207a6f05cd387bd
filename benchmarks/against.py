"""This tree against another one of the same project, interleaved: python benchmarks/against.py OTHER/src [--rounds 5]

Every measurement is a fresh process, old and new in turn, so that a busy machine slows both. The accounting rows are
those of benchmarks/accounting (CPU seconds of the call, imports aside); the table job is that of benchmarks/tables
(CPU seconds of the process). Writes Markdown to standard output: medians, and new over old.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
NEW = HERE.parent / "src"
sys.path.insert(0, str(HERE / "accounting"))

JOB = """
import sys, tempfile
from pathlib import Path
import tallystick as ts
with tempfile.TemporaryDirectory() as folder, ts.Ledger(Path(folder) / "budget.db", config=Path(folder)) as ledger:
    account = ledger.open("people", budget=ts.zcdp(rho=1, delta=1e-6), unit="person")
    visits = ts.Private(sys.argv[1], account=account).table(unit="person").per_unit(max_groups=10, max_rows_per_group=5)
    asked = visits.group_by("place", keys=ts.private_keys(delta=1e-8))
    plan = asked.agg(n=ts.count(), total=ts.sum("amount", 0, 100), mean=ts.mean("amount", 0, 100)).plan(rho=0.5)
    plan.release(why="benchmark")
"""


def seconds_of_row(source: Path, row: str) -> float | None:
    """CPU seconds of one accounting row; None where the tree does not know what the row asks."""
    command = [sys.executable, str(HERE / "accounting" / "ours.py"), row]
    done = subprocess.run(command, env=_with(source), capture_output=True, text=True, check=False)
    if "AttributeError: module 'tallystick' has no attribute" in done.stderr:
        return None
    done.check_returncode()
    return float(json.loads(done.stdout.splitlines()[-1])["cpu"])


def seconds_of_table(source: Path, table: str) -> float:
    """CPU seconds of the whole process of one table job."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", JOB, table], env=_with(source), check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _with(source: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def main() -> None:
    from workloads import ROWS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the table job; 0 leaves it out")
    given = parser.parse_args()
    print(f"| job | old, CPU s | new, CPU s | new / old |\n|---|---|---|---|   <!-- medians of {given.rounds} -->")
    with tempfile.TemporaryDirectory() as folder:
        table = str(Path(folder) / "people.parquet")
        if given.rows:
            made = [
                "-c",
                f"from run import generate; from pathlib import Path; generate(Path({table!r}), {given.rows})",
            ]
            subprocess.run([sys.executable, *made], cwd=HERE / "tables", check=True)
        jobs = [(row.id, row.id, seconds_of_row) for row in ROWS]
        jobs += [(f"table of {given.rows:,} rows", table, seconds_of_table)] if given.rows else []
        for name, argument, measure in jobs:
            taken = [(measure(given.other, argument), measure(NEW, argument)) for _ in range(given.rounds)]
            before = [old for old, _ in taken if old is not None]
            new = statistics.median(now for _, now in taken if now is not None)
            if len(before) < len(taken):
                print(f"| {name} | cannot be asked | {new:.4g} | |", flush=True)
                continue
            old = statistics.median(before)
            print(f"| {name} | {old:.4g} | {new:.4g} | {new / old:.2f} |", flush=True)


if __name__ == "__main__":
    main()
