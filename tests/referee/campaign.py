"""Judge the accountant: every leaf, under every transformation, through every read-out.

    python tests/referee/campaign.py     # make campaign-accounting; writes benchmarks/results/referee.md
    python tests/referee/campaign.py --leaf laplace --transformation sampled --draws 5

A draw is named by (seed, leaf, transformation, number) and is the same for ever.  A cell of the matrix is asked until
it has thirty judged numbers; what no oracle decides is counted and listed, never drawn again.  Exit 1 when any number
is on the wrong side, warns, crashes or takes more than five seconds, or when a cell that is not impossible has fewer.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from referee import matrix
from referee.asking import FAILURES, READOUTS, Record, ask_all
from referee.draws import MAKERS, TRANSFORMATIONS, drawn

ENOUGH = 30
MOST_DRAWS = 60
SLOW_ENOUGH = 2  # a read-out that was too slow this often is not asked again in this row
JUDGED = ("ok", "loose", *FAILURES)
RESULTS = ROOT / "benchmarks" / "results" / "referee.md"
GIVES = {
    "epsilon_bounds": ("epsilon_bounds.lower", "epsilon_bounds.upper"),
    "delta_bounds": ("delta_bounds.lower", "delta_bounds.upper"),
    "epsilon_bounds_rigorous": ("epsilon_bounds_rigorous.lower", "epsilon_bounds_rigorous.upper"),
    "delta_bounds_rigorous": ("delta_bounds_rigorous.lower", "delta_bounds_rigorous.upper"),
    "cdf": ("privacy_loss.cdf",),
    "quantile": ("privacy_loss.quantile",),
    "moments": ("privacy_loss.mean", "privacy_loss.variance"),
    "characteristic_function": ("privacy_loss.characteristic_function",),
    "order": ("<=",),
    "price": ("price.zcdp", "price.approx", "price.gdp", "price.rdp"),
    "meaning": tuple(cell for cell in matrix.CELLS if cell.startswith("meaning.")),
}
"""Which cells a question fills; the others fill the one of their own name."""


@dataclass
class Row:
    """One leaf under one transformation."""

    leaf: str
    transformation: str
    verdicts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    failures: list[Record] = field(default_factory=list)
    undecided: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    loosest: list[Record] = field(default_factory=list)
    slowest: list[Record] = field(default_factory=list)
    draws: int = 0
    seconds: float = 0.0

    def take(self, record: Record) -> None:
        self.verdicts[record.readout][record.verdict] += 1
        if record.verdict in FAILURES:
            self.failures.append(record)
        elif record.verdict == "undecided":
            self.undecided[record.readout].append(f"draw {self.draws}: {record.asked}")
        elif record.verdict == "loose":
            self.loosest = sorted([*self.loosest, record], key=lambda r: -r.excess)[:3]
        self.slowest = sorted([*self.slowest, record], key=lambda r: -r.seconds)[:2]

    def judged(self, cell: str) -> int:
        return sum(self.verdicts[cell][verdict] for verdict in JUDGED)

    def answered(self, cell: str) -> int:
        """Judged numbers, and refusals where a refusal is an answer."""
        return self.judged(cell) + (self.verdicts[cell]["refused"] if cell in matrix.REFUSABLE else 0)

    def wanted(self) -> tuple[str, ...]:
        """Questions that still fill a cell."""
        return tuple(
            question for question in READOUTS if any(self._open(cell) for cell in GIVES.get(question, (question,)))
        )

    def _open(self, cell: str) -> bool:
        if matrix.impossible(self.leaf, self.transformation, cell):
            return self.draws < 2
        return self.answered(cell) < ENOUGH and self.verdicts[cell]["slow"] < SLOW_ENOUGH

    def missing(self) -> list[str]:
        """Cells with too few judged numbers, and why they are not excused."""
        return [
            f"{self.leaf} / {self.transformation} / {cell}: {self.judged(cell)} judged, "
            f"{self.verdicts[cell]['undecided']} undecided, {self.verdicts[cell]['refused']} refused"
            for cell in matrix.CELLS
            if self.answered(cell) < ENOUGH and not matrix.impossible(self.leaf, self.transformation, cell)
        ]


Task = tuple[str, str, int, int, float]


def judge_row(task: Task) -> Row:
    """Draw until every cell of the row has enough judged numbers, or its share of the time is gone."""
    leaf, transformation, seed, most, patience = task
    row = Row(leaf, transformation)
    started = time.process_time()
    while row.draws < most and time.process_time() - started < patience and (wanted := row.wanted()):
        made = drawn(seed, leaf, transformation, row.draws)
        for record in ask_all(made, f"{seed}/{leaf}/{transformation}/{row.draws}", wanted):
            row.take(record)
        row.draws += 1
    row.seconds = time.process_time() - started
    return row


# -------------------------------------------------------------------------------------------------------- the page


def page(rows: list[Row], seed: int) -> str:
    totals: Counter[str] = Counter()
    for row in rows:
        for counts in row.verdicts.values():
            totals.update(counts)
    judged = sum(totals[v] for v in JUDGED)
    lines = [
        "# The referee",
        "",
        "Every public number of the accountant, judged by oracles that share no code with it",
        "([tests/referee](../../tests/referee)). `make campaign-accounting` draws it again.",
        "",
        f"Seed {seed}; {sum(row.draws for row in rows):,} expressions; **{judged:,} numbers judged**,",
        f"{totals['undecided']:,} undecided, {totals['refused']:,} refused;",
        f"{sum(row.seconds for row in rows) / 60:.0f} minutes of processor time.",
        "",
        "| verdict | numbers | what it says |",
        "|---|---|---|",
        *(f"| {name} | {totals[name]:,} | {MEANINGS[name]} |" for name in MEANINGS),
        "",
    ]
    lines += _matrix(rows) + _failures(rows) + _undecided(rows) + _extremes(rows)
    return "\n".join(lines) + "\n"


MEANINGS = {
    "ok": "on the safe side of the truth, or equal to it",
    "loose": "on the safe side, by more than five per cent (or infinite)",
    "WRONG": "on the wrong side, beyond the oracle's own error",
    "slow": "more than five seconds of processor time",
    "warned": "a warning of NumPy or Python",
    "crashed": "an exception that is not tallystick's",
    "referee": "the referee itself failed",
    "refused": "a typed error",
    "undecided": "no oracle reaches far enough",
}


def _matrix(rows: list[Row]) -> list[str]:
    """Judged numbers per leaf and transformation; the least of the cells in brackets."""
    by = {(row.leaf, row.transformation): row for row in rows}
    shown = list(dict.fromkeys(row.transformation for row in rows))
    lines = [
        "## Judged numbers (in brackets: of the emptiest cell)",
        "",
        "| | " + " | ".join(shown) + " |",
        "|---" * (len(shown) + 1) + "|",
    ]
    for leaf in dict.fromkeys(row.leaf for row in rows):
        entries = []
        for transformation in shown:
            row = by.get((leaf, transformation))
            if row is None:
                entries.append("")
                continue
            counts = [row.answered(c) for c in matrix.CELLS if not matrix.impossible(leaf, transformation, c)]
            entries.append(f"{sum(row.judged(c) for c in matrix.CELLS):,} ({min(counts)})")
        lines.append(f"| {leaf} | " + " | ".join(entries) + " |")
    return [*lines, ""]


def _failures(rows: list[Row]) -> list[str]:
    found = [(row, record) for row in rows for record in row.failures]
    if not found:
        return ["No number is on the wrong side; none warns, crashes or takes more than five seconds.", ""]
    lines = [
        f"## Failures ({len(found):,})",
        "",
        "| verdict | read-out | asked | printed | truth |",
        "|---|---|---|---|---|",
    ]
    seen: Counter[tuple[str, str, str, str]] = Counter()
    for row, record in found:
        key = (row.leaf, row.transformation, record.readout, record.verdict)
        seen[key] += 1
        if seen[key] <= 2:
            asked, printed, truth = (
                text.replace("|", "\\|")[:400] for text in (record.asked, record.printed, record.truth)
            )
            lines.append(f"| {record.verdict} | {record.readout} | `{asked}` | {printed} | {truth} |")
    return [*lines, ""]


def _undecided(rows: list[Row]) -> list[str]:
    lines = ["## Undecided draws, by cell", ""]
    for row in rows:
        for cell, draws in sorted(row.undecided.items()):
            lines.append(f"- {row.leaf} / {row.transformation} / {cell}: {len(draws)}, such as `{draws[0][:160]}`")
    return [*lines, ""]


def _extremes(rows: list[Row]) -> list[str]:
    loose = sorted((r for row in rows for r in row.loosest), key=lambda r: -r.excess)[:15]
    slow = sorted((r for row in rows for r in row.slowest), key=lambda r: -r.seconds)[:15]
    lines = ["## Loosest", "", "| asked | printed | truth |", "|---|---|---|"]
    lines += [f"| `{r.asked[:200]}` | {r.printed[:60]} | {r.truth[:80]} |" for r in loose]
    lines += ["", "## Slowest", "", "| asked | seconds |", "|---|---|"]
    return lines + [f"| `{r.asked[:200]}` | {r.seconds:.2f} |" for r in slow]


# ------------------------------------------------------------------------------------------------------------- running


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--draws", type=int, default=MOST_DRAWS, help="at most this many expressions per row")
    parser.add_argument("--seconds", type=float, default=60.0, help="of processor time, at most, per row")
    parser.add_argument("--leaf", choices=list(MAKERS))
    parser.add_argument("--transformation", choices=list(TRANSFORMATIONS))
    parser.add_argument("--page", type=Path, default=None, help="where to write; the committed page when all rows run")
    parser.add_argument("--findings", type=Path, default=None, help="append failures as JSON lines while they come")
    return parser.parse_args()


def run(options: argparse.Namespace) -> list[Row]:
    from rich.progress import Progress

    leaves = [options.leaf] if options.leaf else list(MAKERS)
    names = [options.transformation] if options.transformation else list(TRANSFORMATIONS)
    tasks: list[Task] = [
        (leaf, name, options.seed, options.draws, options.seconds) for leaf in leaves for name in names
    ]
    rows: list[Row] = []
    with Progress() as progress, multiprocessing.get_context("fork").Pool(options.workers, maxtasksperchild=8) as pool:
        bar = progress.add_task("judging", total=len(tasks))
        for row in pool.imap_unordered(judge_row, tasks):
            rows.append(row)
            if options.findings is not None:
                with options.findings.open("a", encoding="utf-8") as out:
                    out.writelines(json.dumps(as_line(row, record)) + "\n" for record in row.failures)
            wrong = sum(len(r.failures) for r in rows)
            judged = sum(r.judged(c) for r in rows for c in matrix.CELLS)
            progress.update(bar, advance=1, description=f"{judged:,} judged, {wrong} failures")
    order = {(leaf, name): i for i, (leaf, name, *_) in enumerate(tasks)}
    return sorted(rows, key=lambda row: order[row.leaf, row.transformation])


def as_line(row: Row, record: Record) -> dict[str, Any]:
    return {"leaf": row.leaf, "transformation": row.transformation, **vars(record)}


def main() -> int:
    options = parsed()
    rows = run(options)
    whole = not options.leaf and not options.transformation
    target = options.page or (RESULTS if whole else None)
    text = page(rows, options.seed)
    if target is not None:
        target.write_text(text, encoding="utf-8")
    failures = [record for row in rows for record in row.failures]
    for record in failures[:200]:
        print(f"{record.verdict} {record.asked}")
        print(f"    printed {record.printed}\n    truth   {record.truth} ({record.seconds:.1f} s)")
    missing = [line for row in rows for line in row.missing()]
    for line in missing[:100]:
        print("too few:", line)
    judged = sum(row.judged(cell) for row in rows for cell in matrix.CELLS)
    spent = sum(row.seconds for row in rows)
    print(
        f"{judged:,} judged, {len(failures):,} failures, {len(missing):,} cells with too few; {spent:.0f} CPU-seconds"
    )
    return 1 if failures or missing else 0


if __name__ == "__main__":
    sys.exit(main())
