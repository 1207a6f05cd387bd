"""``make campaign-sql``: 10,000 random statements. None crashes; a plan says before its noise what DuckDB says about
the same text; with a unit less, and on hostile rows, it runs all the same. Prints how many of each kind were planned.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from sql import generator, judge
from sql.corpus.tables import statements
from tallystick.errors import TallystickError
from tallystick.tables.sql.statement import Statement


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--statements", type=int, default=10_000)
    parser.add_argument("--run-every", type=int, default=1, help="run only one in so many plans")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    writer, kinds, wrong = generator.Writer(random.Random(options.seed)), Counter[str](), list[str]()
    start, shapes = time.process_time(), generator.shapes()
    for number in range(options.statements):
        text, keys = writer.statement()
        made = generator.outcome(text)  # anything but a plan or a refusal ends the campaign
        if not isinstance(made, Statement):
            kinds["refused"] += 1
            continue
        kinds["planned"] += 1
        kinds.update(name for name, mark in shapes.items() if mark in text)
        if kinds["planned"] % options.run_every == 0:
            wrong += judged(text, keys, made, number)
            kinds["run"] += 1
    wrong += corpus(kinds)
    for name, count in kinds.most_common():
        print(f"{name:<12} {count}")
    print(f"{time.process_time() - start:.0f} s of processor time")
    print("\n".join(wrong[:20]) or "no plan differs from plain SQL, and none failed on hostile or neighbouring rows")
    return 1 if wrong else 0


def corpus(kinds: Counter[str]) -> list[str]:
    """Every planned statement of the frozen corpus, beside plain SQL."""
    engine, wrong = judge.plain(), []
    for record in statements():
        try:
            found = judge.differences(record["sql"], engine)
            kinds["of corpus"] += 1
        except TallystickError:
            continue
        wrong += [f"{record['id']}: {row}" for row in found]
    return wrong


def judged(text: str, keys: int, made: Statement, seed: int) -> list[str]:
    """What is wrong with a plan."""
    try:
        for gone in (None, seed % 9):
            generator.exact(made, generator.tables(random.Random(seed), odd=True, gone=gone))
    except Exception as problem:  # whatever it is, it depends on the rows
        return [f"{text}: {type(problem).__name__}"]
    if "AS whole" in text:
        return []
    data = generator.tables(random.Random(seed))
    return generator.differences(text, keys, generator.exact(made, data), generator.oracle(text, data))


if __name__ == "__main__":
    sys.exit(main())
