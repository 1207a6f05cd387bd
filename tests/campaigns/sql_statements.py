"""``make campaign-sql``: 10,000 random statements, judged by what is not the reader.

    python tests/campaigns/sql_statements.py [--statements 10000] [--seed 1]

Writes benchmarks/results/sql.md; exit 1 when anything is wrong, or when too few of some construct were planned.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sql import generator, judge
from sql.corpus.tables import statements
from sql.trial import Trial
from tallystick.errors import TallystickError

PAGE = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "sql.md"
QUOTAS = {"planned in all": 3_000, "unit-local": 200, "other": 75}
HEAD = """# Statements nobody wrote: what the SQL door answers, and what it must not

Written by `make campaign-sql` (`tests/campaigns/sql_statements.py`, seed {seed}). Statement n of seed s is
`sql.generator.written(s, n)`: relations of one unit's rows inside each other, functions, groups, prices, and what
section "Not closed" of [unit-local relations](../../docs/theory/unit-local.md) forbids, mixed with what it allows. None
of the judges reads the plan's SQL:

- **The unit-local oracle.** The rows that a statement adds up are taken out of its own text, and plain DuckDB runs them
  on a small random database and on the rows of each of its units alone, public tables whole. As bags, the first must be
  the sum of the others.
- **Plain SQL.** Before its noise, and where no cap binds, a plan says what DuckDB says about the text.
- **Neighbours.** On a hostile table (NaN, infinities, 2^63, unsigned and decimal columns, look-alike text, days out of
  range, missing units), on the same without one unit, and on that unit's rows alone, the run after `start` ends in an
  answer; and every integer of the first is the sum of those of the other two. Units are numbers and texts in turn.

"""

CONTROLS = """Where the oracle rejects the text too it is a control: a reader that planned it would be convicted. Around
them stand filters that may leave no rows, so not every one is rejected on the one database it is asked on; a test
rejects each of them bare. Those that were planned, the oracle has accepted."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--statements", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compare-every", type=int, default=8, help="plans for one that is compared with plain SQL")
    parser.add_argument("--neighbours-every", type=int, default=16, help="plans for one that runs on neighbours")
    parser.add_argument("--page", type=Path, default=PAGE)
    given = parser.parse_args()
    trial, start = Trial(given.seed, given.compare_every, given.neighbours_every), time.process_time()
    shown = 0
    for number in range(given.statements):
        trial.take(number)
        if number % 250 == 249:
            told = ", ".join(f"{count} {name}" for name, count in trial.counts.items() if name != "statements")
            print(f"{number + 1} after {time.process_time() - start:.0f} CPU s: {told}", file=sys.stderr, flush=True)
            print(*trial.wrong[shown:], sep="\n", end="", file=sys.stderr, flush=True)
            shown = len(trial.wrong)
    corpus(trial)
    wrong = [*trial.wrong, *missed(trial)]
    page = HEAD.format(seed=given.seed) + written(trial, len(wrong), time.process_time() - start)
    given.page.write_text(page, encoding="utf-8")
    print(page, *wrong[:20], sep="\n")
    return 1 if wrong else 0


def missed(trial: Trial) -> list[str]:
    """Quotas that were not met; a run of fewer statements must meet its share of them."""
    share = min(1.0, trial.counts["statements"] / 10_000)
    short = trial.missed(int(share * QUOTAS["unit-local"]), generator.UNIT_LOCAL)
    others = tuple(kind for kind in (*generator.FUNCTIONS, *generator.FORMS) if kind not in generator.AWAITED)
    short += trial.missed(int(share * QUOTAS["other"]), others)
    if trial.counts["planned"] < share * QUOTAS["planned in all"]:
        short.append(f"{trial.counts['planned']} planned in all")
    return [f"too few: {line}" for line in short] + [f"never rejected by the oracle: {kind}" for kind in trial.tame()]


def corpus(trial: Trial) -> None:
    """Every planned statement of the frozen corpus, beside plain SQL."""
    engine = judge.plain()
    for record in statements():
        try:
            unlike = judge.differences(record["sql"], engine)
        except TallystickError:
            continue
        trial.counts["of the frozen corpus, compared with plain SQL"] += 1
        trial.wrong += [f"unlike plain SQL: {record['id']}: {row}" for row in unlike]


def written(trial: Trial, wrong: int, seconds: float) -> str:
    """The page below its head."""
    verdicts = ("not unit-local", "crashed", "noise at another level", "unlike plain SQL", "unequal on neighbours",
                "not judged", "refused without a way out")  # fmt: skip
    counts = {name: count for name, count in trial.counts.items() if name not in verdicts}
    lines = [f"- {count:,} {name}" for name, count in counts.items()]
    lines += [f"- **{trial.counts[name]} {name}**" for name in verdicts]
    lines += [f"- {wrong} lines of findings in all; {seconds:.0f} CPU seconds", ""]
    lines += table("Unit-local constructs", generator.UNIT_LOCAL, trial)
    lines += table("Functions of one row", generator.FUNCTIONS, trial)
    rest = sorted({*trial.written} - {*generator.UNIT_LOCAL, *generator.FUNCTIONS})
    lines += table("Aggregates, groups, and what is done with the answer", tuple(rest), trial)
    lines += ["## Forbidden constructs", "", CONTROLS, ""]
    lines += ["| construct | written | planned | refused, and rejected by the oracle |", "|---|---|---|---|"]
    for kind, each in sorted(trial.hostile.items()):
        lines.append(f"| {kind} | {each['written']} | {each['planned']} | {each['rejected by the oracle']} |")
    lines += ["", "## Reasons of refusal", "", "| word | statements |", "|---|---|"]
    common = Counter({word.replace("|", "\\|"): count for word, count in trial.refusals.items()}).most_common(60)
    lines += [f"| {word} | {count} |" for word, count in common]
    others = sum(trial.refusals.values()) - sum(count for _, count in common)
    return "\n".join([*lines, f"| {len(trial.refusals) - len(common)} others | {others} |"]) + "\n"


def table(title: str, kinds: tuple[str, ...], trial: Trial) -> list[str]:
    """How many statements with each construct were written and planned."""
    shown = [
        f"| {kind.replace('|', chr(92) + '|')} | {trial.written[kind]} | {trial.planned[kind]} |" for kind in kinds
    ]
    return [f"## {title}", "", "| construct | written | planned |", "|---|---|---|", *shown, ""]


if __name__ == "__main__":
    sys.exit(main())
