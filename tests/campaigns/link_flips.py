"""Links that flip between an own file and a registered file while releases are asked: no answer is about the second.

A second process flips a symbolic link as fast as it can. For each of CSV, Parquet, public tables and lists of groups
this asks 10,000 times (``--tries``), and counts answers that show the registered file. It uses public names only, so it
can be run against an older version: ``PYTHONPATH=old/src python tests/campaigns/link_flips.py --tries 300`` finds
foreign answers there.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import tallystick as ts
from tallystick.errors import TallystickError

OWN, PRIVATE = 20, 4_000
RHO = 1e-3
"""Noise of about 22: far from the distance of the two counts."""


def write(path: Path, people: range) -> Path:
    """A table of people with a value that is the same for all in a file."""
    if path.suffix == ".csv":
        path.write_text("who,note\n" + "".join(f"{who},{len(people)}\n" for who in people))
    else:
        pq.write_table(pa.table({"who": list(people), "note": [str(len(people))] * len(people)}), path)
    return path


def flip(link: str, targets: list[str], stop: Any) -> None:
    """Point the link to one file and the other until told to stop."""
    fresh = f"{link}.fresh"
    turn = 0
    while not stop.is_set():
        os.symlink(targets[turn % 2], fresh)
        os.replace(fresh, link)
        turn += 1


@contextlib.contextmanager
def flipping(link: Path, targets: list[Path]) -> Iterator[None]:
    """A process that flips the link while the block runs."""
    stop = multiprocessing.Event()
    link.symlink_to(targets[0])
    other = multiprocessing.Process(target=flip, args=(str(link), [str(each) for each in targets], stop))
    other.start()
    try:
        yield
    finally:
        stop.set()
        other.join(10)


def private_files(folder: Path, suffix: str, ledger: ts.Ledger) -> list[Path]:
    """An own file and a registered one."""
    own = write(folder / f"own{suffix}", range(OWN))
    private = write(folder / f"private{suffix}", range(PRIVATE))
    owner = ledger.open("clinic", budget=ts.zcdp(rho=1), unit="who")
    owner.register("people", source=str(private))
    return [own, private]


def table(path: Path, account: Any) -> Any:
    """The private table of a file."""
    types = {"who": "integer"} if path.suffix == ".csv" else None
    return ts.Private(path, account=account).table(unit="who", types=types).per_unit(max_rows_per_group=1)


def ask_table(suffix: str) -> Callable[[Path, ts.Ledger], Callable[[int], bool | None]]:
    """Ask how many people a flipping file holds, paid by an account that does not own the registered one."""

    def prepare(folder: Path, ledger: ts.Ledger) -> Callable[[int], bool | None]:
        account = ledger.open("own", budget=ts.zcdp(rho=100), unit="who")
        plan = table(folder / f"own{suffix}", account).agg(n=ts.count()).plan(rho=RHO)
        asked = plan.on(folder / f"link{suffix}")

        def once(number: int) -> bool | None:
            answer = asked.release(why="flip", key=f"{number}").rows[0]["n"]
            return bool(answer > (OWN + PRIVATE) / 2)

        return once

    return prepare


def ask_public(how: str) -> Callable[[Path, ts.Ledger], Callable[[int], bool | None]]:
    """Read a flipping file as a public table or as a list of groups."""

    def prepare(folder: Path, ledger: ts.Ledger) -> Callable[[int], bool | None]:
        account = ledger.open("own", budget=ts.zcdp(rho=100), unit="who")
        mine = table(write(folder / "mine.csv", range(3)), account)

        def once(number: int) -> bool | None:
            if how == "keys":
                grouped = mine.group_by("who", keys=folder / "link.csv")
                return len(grouped.keys.rows) > (OWN + PRIVATE) / 2
            bare = ts.Private(pa.table({"who": [1]}), account=account).table(unit="who")
            made = bare.join(folder / "link.parquet", on="who")
            return len(made.steps[-1].public.rows) > (OWN + PRIVATE) / 2

        return once

    return prepare


CASES = {
    "csv": (".csv", ask_table(".csv")),
    "parquet": (".parquet", ask_table(".parquet")),
    "public table": (".parquet", ask_public("join")),
    "list of groups": (".csv", ask_public("keys")),
}


def run(case: str, tries: int) -> tuple[int, int, int]:
    """How many answers, foreign answers and refusals there were."""
    suffix, prepare = CASES[case]
    answers = foreign = refused = 0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with ts.Ledger(folder / "budget.db", config=folder) as ledger:
            targets = private_files(folder, suffix, ledger)
            once = prepare(folder, ledger)
            with flipping(folder / f"link{suffix}", targets):
                for number in range(tries):
                    try:
                        found = once(number)
                    except TallystickError:
                        refused += 1
                        continue
                    answers += 1
                    foreign += bool(found)
    return answers, foreign, refused


def main() -> int:
    """Print a line per case; the exit code is 1 if any answer was foreign."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=10_000)
    parser.add_argument("--only", choices=list(CASES))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    failed = False
    for case in CASES if given.only is None else [given.only]:
        start = time.monotonic()
        answers, foreign, refused = run(case, given.tries)
        took = time.monotonic() - start
        counts = f"{answers:7,} answers {refused:7,} refused {foreign:5} foreign"
        print(f"{case:15} {given.tries:7,} tries {counts} {took:6.0f} s", flush=True)
        failed = failed or foreign > 0 or answers == 0 or refused == 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
