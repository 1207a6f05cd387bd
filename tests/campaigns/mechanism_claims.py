"""A million releases of every mechanism on each of two neighbours, against its price: make campaign-mechanisms

Writes benchmarks/results/mechanisms.md. About an hour on one core; --only takes a part of a name, --draws fewer draws.
Results are kept in build/mechanism_claims.json as they come, so an interrupted run goes on where it was
(--afresh forgets them). Exit 1 when a mechanism is contradicted or a broken twin is not.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from statistical.cases import CASES, MANY, Case
from statistical.claims import judge
from statistical.twins import TWINS

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "mechanism_claims.json"
PAGE = ROOT / "benchmarks" / "results" / "mechanisms.md"

HEAD = """# Are the prices true? A million releases on each neighbour

Written by `make campaign-mechanisms` (`tests/campaigns/mechanism_claims.py`). Every mechanism releases each of two
neighbouring inputs, the most telling ones known; the first fifth of the draws chooses events, the rest is counted.
*Certified* is a lower bound on the true epsilon at that delta (Clopper-Pearson over all events, wrong once in 1e9
runs). A mechanism is contradicted when some event shows more than `.privacy` allows, at any of six epsilons, in either
direction. The broken twins go through the same test. Inputs: `tests/statistical/cases.py`, `twins.py`.
"""


def measured(case: Case, claim: Any, draws: int) -> dict[str, Any]:
    """One row, and the seconds it took."""
    start = time.process_time()
    verdict = judge(*case.samples(draws), claim.privacy, delta=case.delta)
    return {**asdict(verdict), "seconds": time.process_time() - start}


def table(rows: dict[str, dict[str, Any]], names: list[str], verdict: dict[bool, str]) -> list[str]:
    lines = [
        "| mechanism | draws on each | delta | claimed epsilon | certified | verdict |",
        "|---|---|---|---|---|---|",
    ]
    for name in names:
        row = rows[name]
        lines.append(
            f"| {name} | {row['draws']:,} | {row['delta']:g} | {row['claimed']:.4f} | {row['lower']:.4f} "
            f"| {verdict[row['contradicted']]} |"
        )
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--draws", type=int, default=MANY)
    parser.add_argument("--afresh", action="store_true")
    options = parser.parse_args()
    rows = json.loads(KEPT.read_text()) if KEPT.exists() and not options.afresh else {}
    work = [(f"{twin.fault}: {twin.broken.name}", twin.broken, twin.promised) for twin in TWINS]
    twins = [name for name, _, _ in work]
    work += [(case.name, case, case.mechanism) for case in sorted(CASES, key=lambda case: -case.draws)]
    for name, case, claim in work:
        draws = min(options.draws, case.campaign)
        if options.only not in name or rows.get(name, {}).get("draws", 0) >= draws:
            continue
        rows[name] = row = measured(case, claim, draws)
        print(f"{name}: {row['lower']:.4f} of {row['claimed']:.4f}, contradicted: {row['contradicted']}", flush=True)
        KEPT.parent.mkdir(exist_ok=True)
        KEPT.write_text(json.dumps(rows, indent=1))
    ours = [case.name for case in CASES]
    if all(name in rows for name in [*twins, *ours]):
        lines = [HEAD, "## Ours", "", *table(rows, ours, {False: "not contradicted", True: "**contradicted**"}), ""]
        lines += ["## Broken on purpose", "", *table(rows, twins, {False: "**missed**", True: "contradicted"}), ""]
        seconds = sum(rows[name]["seconds"] for name in [*twins, *ours])
        PAGE.write_text("\n".join([*lines, f"{seconds:,.0f} CPU-seconds.", ""]), encoding="utf-8")
    wrong = [name for name in rows if rows[name]["contradicted"] is not (name in twins)]
    print("wrong verdicts:", wrong or "none")
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
