"""Every row of the accounting table, ours and the peers, in one run; writes benchmarks/results/accounting.md and .svg.

    python benchmarks/accounting/run.py [--rows W1 W2 ...] [--limit SECONDS] [--ours-only]

Each answer comes from its own process (imports and a warm-up excluded), under a limit of CPU seconds.  CPU seconds are
the measure: wall seconds on a shared machine say more about its neighbours.  A peer is valid when it is not below the truth.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent)]

from accountants import environment, versions
from workloads import ROWS, Row

RESULTS = ROOT / "benchmarks" / "results"
Result = dict[str, Any]


def one(command: list[str], limit: int) -> Result:
    """Run one measurement; ``error`` says why there is no value."""

    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))

    settings = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=3 * limit, env=settings, preexec_fn=bounded, check=False
        )
    except subprocess.TimeoutExpired:
        return {"error": f"> {3 * limit} s"}
    if done.returncode == 0:
        return dict(json.loads(done.stdout.strip().splitlines()[-1]))
    if done.returncode in (-24, -9, 137, 152):
        return {"error": f"> {limit} CPU-s"}
    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
    return {"error": f"error: {last[:80]}"}


def judged(row: Row, result: Result) -> str:
    """valid, below the truth, or why there is no number."""
    if "error" in result:
        return str(result["error"])
    if row.truth is None:
        return "time only"
    tolerance = 2e-8 if row.id in ("W13", "W6") else 1e-11  # digits to which the truth itself is known
    if result["value"] != result["value"] or result["value"] in (float("inf"), float("-inf")):
        return "no finite answer"
    return "valid" if result["value"] >= row.truth * (1 - tolerance) else "BELOW THE TRUTH"


def measure(rows: list[Row], limit: int, ours_only: bool) -> Iterator[dict[str, dict[str, Result]]]:
    python = None if ours_only else environment()
    table: dict[str, dict[str, Result]] = {}
    for row in rows:
        found = {"tallystick": one([sys.executable, str(HERE / "ours.py"), row.id], limit)}
        for peer in () if python is None else row.peers:
            found[peer] = one([str(python), str(HERE / "peers.py"), peer, row.id], limit)
        for name, result in found.items():
            result["verdict"] = judged(row, result)
            print(f"{row.id:4} {name:24} {result}", flush=True)
        table[row.id] = found
        yield table


def markdown(rows: list[Row], table: dict[str, dict[str, Result]], limit: int) -> str:
    lines = [
        "# Accounting: ours and the peers, one run",
        "",
        f"{time.strftime('%Y-%m-%d')}, Python {platform.python_version()}, {os.cpu_count()} shared cores, one thread per job, load "
        f"{os.getloadavg()[0]:.1f} at the end. {versions()}.",
        "Time is CPU seconds of the first read-out of the row in a fresh process. Warm are: imports (bytecode cached), and one or "
        "two read-outs of other losses, by each library, before the clock starts; no law, grid or tilt of the row itself is "
        "cached. Memory is the rise of the peak.",
        '"Excess" is (value - truth) / truth. A value below the truth claims more privacy than there is. '
        f"Ratio: CPU of the tightest valid peer / ours. Limit {limit} CPU seconds (or {3 * limit} s) for each answer.",
        "",
        "| id | workload | truth | who | value | excess | CPU s | MB | verdict | ratio |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        found = table.get(row.id, {})
        for name, result in found.items():
            lines.append(_line(row, name, result, found))
    return "\n".join([*lines, "", _goals(rows, table), "", "![CPU seconds](accounting.svg)", ""])


def _line(row: Row, name: str, result: Result, found: dict[str, Result]) -> str:
    first = name == "tallystick"
    head = f"| {row.id} | {row.title} | {'' if row.truth is None else f'{row.truth:.9g}'}" if first else "| | | "
    if "value" not in result:
        return f"{head} | {name} | | | | | {result['verdict']} | |"
    excess = "" if row.truth is None else f"{result['value'] / row.truth - 1:+.1e}"
    ratio = ""
    if first:
        rivals = [r for n, r in found.items() if n != name and r["verdict"] in ("valid", "time only")]
        tightest = min(rivals, key=lambda r: r["value"], default=None)
        ratio = f"{tightest['cpu'] / max(result['cpu'], 1e-6):.3g}" if tightest else "no valid peer"
    shown = f"**{name}**" if first else name
    value = f"{result['value']:.10g}"
    return (f"{head} | {shown} | {value} | {excess} | {result['cpu']:.4g} | {result['megabytes']:.0f} | "
            f"{result['verdict']} | {ratio} |")  # fmt: skip


def _goals(rows: list[Row], table: dict[str, dict[str, Result]]) -> str:
    lines = ["| id | goal | ours |", "|---|---|---|"]
    for row in rows:
        mine = table.get(row.id, {}).get("tallystick", {})
        if "value" in mine:
            excess = "" if row.truth is None else f", excess {mine['value'] / row.truth - 1:+.1e}"
            lines.append(
                f"| {row.id} | {row.goal} | {1000 * mine['cpu']:.3g} ms CPU{excess}, {mine['megabytes']:.0f} MB |"
            )
        elif mine:
            lines.append(f"| {row.id} | {row.goal} | {mine['verdict']} |")
    return "\n".join(lines)


def picture(rows: list[Row], table: dict[str, dict[str, Result]], path: Path) -> None:
    """CPU seconds by row; crosses are answers below the truth."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(10, 4.2))
    names = sorted({n for found in table.values() for n in found}, key=lambda n: (n != "tallystick", n))
    for colour, name in enumerate(names):
        for good, marker in ((True, "o"), (False, "x")):
            at = [(i, table[r.id][name]["cpu"]) for i, r in enumerate(rows)
                  if "cpu" in table.get(r.id, {}).get(name, {})
                  and (table[r.id][name]["verdict"] in ("valid", "time only")) is good]  # fmt: skip
            if at:
                axes.scatter(*zip(*at, strict=True), marker=marker, color=f"C{colour}", s=60 if colour == 0 else 30,
                             label=name if good else f"{name}: below the truth or not finite")  # fmt: skip
    axes.set_yscale("log")
    axes.set_xticks(range(len(rows)), [r.id for r in rows], rotation=45)
    axes.set_ylabel("CPU seconds")
    axes.set_title("One epsilon: tallystick and the peers")
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.tight_layout()
    figure.savefig(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="*")
    parser.add_argument("--limit", type=int, default=120, help="CPU seconds allowed to each answer")
    parser.add_argument("--ours-only", action="store_true")
    options = parser.parse_args()
    rows = [r for r in ROWS if not options.rows or r.id in options.rows]
    table: dict[str, dict[str, Result]] = {}
    for table in measure(rows, options.limit, options.ours_only):  # written after each row: a long run may be cut short
        if not options.rows and not options.ours_only:
            RESULTS.mkdir(exist_ok=True)
            (RESULTS / "accounting.md").write_text(markdown(rows, table, options.limit))
    if not options.rows and not options.ours_only:
        picture(rows, table, RESULTS / "accounting.svg")
    mine = [found["tallystick"]["verdict"] for found in table.values()]
    return 0 if all(v in ("valid", "time only") for v in mine) else 1


if __name__ == "__main__":
    sys.exit(main())
