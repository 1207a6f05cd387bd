"""How the ledger grows: the time of the n-th block, of a release on it, and of a check from a signed checkpoint.

CPU milliseconds of one process, on a RAM disk. `python benchmarks/ledger/growth.py --blocks 10000 --releases 20000`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import tallystick as ts
from tallystick.ledger import Account, Budget, Ledger, Partition

MECHANISM = ts.noise.add_gaussian(sigma=1000, sensitivity=1)
STEPS = 5
NEW = 20
"""Releases after the checkpoint."""


@contextmanager
def opened(*, is_governed: bool) -> Iterator[Account]:
    """An account of a new ledger."""
    where = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with (
        tempfile.TemporaryDirectory(prefix="tallystick-bench-", dir=where) as folder,
        Ledger(Path(folder) / "budget.db", config=Path(folder) / "config") as ledger,
    ):
        account = ledger.open("people", budget=Budget.zcdp(1_000_000), unit="person")
        if is_governed:
            ledger.govern(why="a benchmark")
        yield account


def milliseconds(action: Callable[[], Any], times: int = 1) -> float:
    """CPU milliseconds of one call."""
    start = time.process_time()
    for _ in range(times):
        action()
    return 1e3 * (time.process_time() - start) / times


def release(account: Account) -> None:
    """One release of a number that the caller holds."""
    account.release(MECHANISM, 120.0, why="benchmark")


def open_block(parent: Account, number: int) -> Account:
    """The block of one value of a column; the population pays the largest block."""
    one = Partition("day", by="public attribute", one_block_per_unit=True, column="day", values=(number,))
    return parent.ledger.open(f"day {number}", budget=Budget.zcdp(1), unit="person", parent=parent, partition=one)


def blocks(count: int) -> None:
    """Print the time of a further block and of a release on it, as the blocks become more."""
    print("\n| blocks | governed | next block, ms | release on it, ms |\n|---|---|---|---|")
    for is_governed in (False, True):
        with opened(is_governed=is_governed) as parent:
            done = 0
            for step in range(1, STEPS + 1):
                while done < step * count // STEPS - NEW:
                    open_block(parent, done)
                    done += 1
                start = time.process_time()
                for number in range(done, done + NEW):
                    block = open_block(parent, number)
                each = 1e3 * (time.process_time() - start) / NEW
                done += NEW
                paid = milliseconds(partial(release, block), NEW)
                print(f"| {done:,} | {'yes' if is_governed else 'no'} | {each:.2f} | {paid:.2f} |", flush=True)


def checks(count: int) -> None:
    """Print the time of a release and of both checks, as the releases become more."""
    print(
        "\n| releases | one more, ms | first one of a new process, ms | check from a checkpoint, ms | full check, ms |"
    )
    print("|---|---|---|---|---|")
    with opened(is_governed=True) as account:
        ledger, done = account.ledger, 0
        for step in range(1, STEPS + 1):
            while done < step * count // STEPS:
                release(account)
                done += 1
            ledger.make_checkpoint()
            one = milliseconds(lambda: release(account), NEW)
            quick = milliseconds(lambda: ledger.verify(full=False).require())
            full = milliseconds(lambda: ledger.verify().require())
            again = milliseconds(lambda: first_release(ledger.store.path, ledger._config))  # type: ignore[attr-defined]
            done += NEW + 1
            print(f"| {done:,} | {one:.2f} | {again:.1f} | {quick:.1f} | {full:,.0f} |", flush=True)


def first_release(place: Path, config: Path | None) -> None:
    """Open the ledger as a new process does, and make one release."""
    with Ledger(place, config=config) as ledger:
        release(ledger.open("people"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=10_000)
    parser.add_argument("--releases", type=int, default=20_000)
    options = parser.parse_args()
    blocks(options.blocks)
    checks(options.releases)
