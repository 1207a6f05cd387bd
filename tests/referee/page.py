"""The campaign's page, from what its shards say."""

from __future__ import annotations

from collections import Counter

from referee import matrix
from referee.asking import FAILURES, Record
from referee.shards import ENOUGH, JUDGED, Asked, Row

MEANINGS = {
    "ok": "on the safe side of the truth, or equal to it; an estimate within its stated error",
    "loose": "on the safe side, by more than five per cent",
    "infinite": "infinite where the truth is finite: on the safe side, and says nothing",
    "WRONG": "on the wrong side, beyond the oracle's own error; an estimate outside its stated error",
    "slow": "more than five seconds of processor time",
    "warned": "a warning of NumPy or Python",
    "crashed": "an exception that is not tallystick's",
    "referee": "the referee itself failed",
    "refused": "a typed error",
    "undecided": "no oracle reaches far enough",
}

GOAL = 100_000
UNFINISHED = (
    f"**Not finished:** the campaign is for {GOAL:,} numbers and {ENOUGH} answers in every cell; the cells that",
    "have fewer are listed. Started again it goes on where it was.",
    "",
)

EARLIER = (
    "Before this record, seeds 1 to 13 judged 272,350 numbers, up to commit `f81db85`, in the end with no failure;",
    "those lines were not kept. This record has other seeds, and draws that there were not then: sums of what is",
    "transformed. They and an adversary found two kinds of rigorous sums, the power of long curves and one divergence",
    "on the wrong side; all are mended and were asked again.",
    "",
)


def page(rows: list[Row]) -> str:
    totals: Counter[str] = Counter()
    for row in rows:
        for counts in row.verdicts.values():
            totals.update(counts)
    asked = [a for row in rows for a in row.asked]
    judged = sum(totals[v] for v in JUDGED)
    commits = Counter({a.commit: 0 for a in asked})
    for a in asked:
        commits[a.commit] += sum(n for counts in a.verdicts.values() for v, n in counts.items() if v in JUDGED)
    missing = [line for row in rows for line in row.missing()]
    cells = sum(not matrix.impossible(*cell) for cell in matrix.cells())
    seeds = ", ".join(str(seed) for seed in sorted({a.seed for a in asked}))
    lines = [
        "# The referee",
        "",
        "Every public number of the accountant, judged by oracles that share no code with it",
        "([tests/referee](../../tests/referee)). `make campaign-accounting` goes on with it (`AFRESH=1` begins anew);",
        "what it judged is kept beside this page.",
        "",
        *EARLIER,
        f"{len(asked):,} expressions of seeds {seeds}; **{judged:,} numbers judged**,",
        f"{sum(totals[v] for v in FAILURES):,} failures; {totals['undecided']:,} undecided,",
        f"{totals['refused']:,} refused.",
        f"Of {cells:,} cells (leaf, transformation, read-out) {cells - len(missing):,} have {ENOUGH} answers or more.",
        "",
        f"Judged on {', '.join(f'`{c}` ({n:,})' for c, n in commits.most_common())}. Processor time: accountant",
        f"{sum(a.engine for a in asked) / 60:.0f} minutes, referee {sum(a.referee for a in asked) / 60:.0f}.",
        "",
        *(UNFINISHED if judged < GOAL or missing else ()),
        "| verdict | numbers | what it says |",
        "|---|---|---|",
        *(f"| {name} | {totals[name]:,} | {MEANINGS[name]} |" for name in MEANINGS),
        "",
    ]
    lines += _matrix(rows) + _failures(rows) + _missing(missing) + _infinite(rows) + _undecided(rows) + _extremes(rows)
    return "\n".join(lines) + "\n"


def _matrix(rows: list[Row]) -> list[str]:
    """Judged numbers per leaf and transformation; the least of the cells in brackets."""
    by = {(row.leaf, row.transformation): row for row in rows}
    shown = list(dict.fromkeys(row.transformation for row in rows))
    lines = [
        "## Judged numbers (in brackets: answers of the emptiest cell)",
        "",
        "An answer is a judged number or, where the matrix says that a refusal is an answer (a price without a finite",
        "amount, a goal that nothing meets, no rigorous route), a typed refusal.",
        "",
        "| | " + " | ".join(shown) + " |",
        "|---" * (len(shown) + 1) + "|",
    ]
    for leaf in dict.fromkeys(row.leaf for row in rows):
        entries = []
        for name in shown:
            row = by[leaf, name]
            counts = [row.answered(c) for c in matrix.CELLS if not matrix.impossible(leaf, name, c)]
            entries.append(f"{sum(row.judged(c) for c in matrix.CELLS):,} ({min(counts)})")
        lines.append(f"| {leaf} | " + " | ".join(entries) + " |")
    return [*lines, ""]


def _failures(rows: list[Row]) -> list[str]:
    found = [(row, asked, record) for row in rows for asked, record in row.told(*FAILURES)]
    if not found:
        return ["No number is on the wrong side; none warns, crashes or takes more than five seconds.", ""]
    lines = [
        f"## Failures ({len(found):,})",
        "",
        "At most two of a kind in a row of the matrix.",
        "",
        "| verdict | read-out | asked | printed | truth | draw |",
        "|---|---|---|---|---|---|",
    ]
    seen: Counter[tuple[str, str, str, str]] = Counter()
    for row, asked, record in found:
        key = (row.leaf, row.transformation, record.readout, record.verdict)
        seen[key] += 1
        if seen[key] <= 2:
            lines.append(_told(record, asked))
    return [*lines, ""]


def _told(record: Record, asked: Asked) -> str:
    question, printed, truth = (text.replace("|", "\\|")[:400] for text in (record.asked, record.printed, record.truth))
    return f"| {record.verdict} | {record.readout} | `{question}` | {printed} | {truth} | {asked.seed}/{asked.draw} |"


def _missing(missing: list[str]) -> list[str]:
    """By row, with the worst cell of each; every cell by name when few are left."""
    if not missing:
        return [f"Every cell that is not empty has {ENOUGH} answers or more.", ""]
    lines = [f"## Cells below {ENOUGH} ({len(missing):,})", ""]
    if len(missing) <= 300:
        return [*lines, *(f"- {line}" for line in missing), ""]
    rows: dict[str, list[str]] = {}
    for line in missing:
        leaf, name, rest = line.split(" / ", 2)
        rows.setdefault(f"{leaf} / {name}", []).append(rest)
    fewest = {row: min(cells, key=lambda cell: int(cell.split(": ")[1].split()[0])) for row, cells in rows.items()}
    return [*lines, *(f"- {row}: {len(rows[row])} cells, such as {fewest[row]}" for row in rows), ""]


def _infinite(rows: list[Row]) -> list[str]:
    """Counted by read-out and row, with one example each."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        for _, record in row.told("infinite"):
            found.setdefault((row.leaf, row.transformation, record.readout), []).append(record.asked)
    lines = [f"## Infinite where the truth is finite ({sum(map(len, found.values())):,})", ""]
    lines += [f"- {' / '.join(key)}: {len(asked)}, such as `{asked[0][:200]}`" for key, asked in found.items()]
    return [*lines, ""]


def _undecided(rows: list[Row]) -> list[str]:
    lines = ["## Undecided draws, by cell (seed/number)", ""]
    for row in rows:
        draws: dict[str, list[str]] = {}
        for asked, record in row.told("undecided"):
            draws.setdefault(record.readout, []).append(f"{asked.seed}/{asked.draw}")
        for cell, which in sorted(draws.items()):
            lines.append(
                f"- {row.leaf} / {row.transformation} / {cell}: {len(which)} ({', '.join(dict.fromkeys(which))})"
            )
    return [*lines, ""]


def _extremes(rows: list[Row]) -> list[str]:
    loose = sorted((r for row in rows for _, r in row.told("loose")), key=lambda r: -r.excess)[:15]
    slow = sorted((a.slowest for row in rows for a in row.asked if a.slowest), key=lambda r: -r.seconds)[:15]
    lines = ["## Loosest", "", "| asked | printed | truth |", "|---|---|---|"]
    lines += [f"| `{r.asked[:200]}` | {r.printed[:60]} | {r.truth[:80]} |" for r in loose]
    lines += ["", "## Slowest", "", "| asked | seconds |", "|---|---|"]
    return lines + [f"| `{r.asked[:200]}` | {r.seconds:.2f} |" for r in slow]
