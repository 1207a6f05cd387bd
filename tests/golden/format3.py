"""The questions that the golden ledgers of format 3 have answers to, and the folder of their registered file.

The maker (``make_v3.py``) charged them once, and the tests ask them again. The list belongs to the data in ``v3/``.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tallystick as ts
from golden import asked
from tallystick.ledger.stream import AnswerStream, Cost

STORED = Path(__file__).parent / "v3"
ROOT = Path("/tmp/tallystick-golden-v3")
"""The folder that holds the registered file. A ledger knows a file by its absolute path, so the path is fixed."""
LOCK = ROOT.with_suffix(".lock")
SCHEMA = "tallystick_golden_v3"
"""Schema of a PostgreSQL ledger in its dump. A test replaces the name by that of a fresh schema."""
FULL = "sqlite-governed"
"""The ledger that has a charge for every kind of loss, mechanism and answer."""
EXPORTS = {"postgres-governed": "answers", "sqlite-open": "chain", "postgres-open": "record"}
"""The export that is kept beside each ledger."""
FLAVOURS = ("open", "governed")
STORES = ("sqlite", "postgres")
CANARY = "zebedee-of-ward-7"
"""A name that was in texts and in an answer, and that was erased."""
SECOND = b"2" * 32
"""The private key of a second host. It was added and retired."""
DELTA = asked.DELTA


@contextlib.contextmanager
def registered_file() -> Iterator[Path]:
    """Hold the folder with the registered file, for one process at a time."""
    descriptor = os.open(LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        ROOT.mkdir(exist_ok=True)
        for name in ("visits.csv", "sexes.csv"):
            shutil.copyfile(asked.STORED / "data" / name, ROOT / name)
        yield ROOT
    finally:
        shutil.rmtree(ROOT, ignore_errors=True)
        os.close(descriptor)


def payers() -> dict[str, str]:
    """The account that pays for each loss: one in each currency in turn that has a price for it."""
    turns = ("zcdp", "approx", "gdp", "rdp")
    return {name: turns[number % len(turns)] for number, name in enumerate(asked.losses())}


def quick_mechanisms() -> dict[str, tuple[Any, Any]]:
    """Mechanisms whose price takes little time: they are asked again in every test run."""
    quick = ("add_gaussian", "add_laplace", "add_discrete_gaussian", "exponential", "randomize", "stable_counts")
    return {name: pair for name, pair in asked.mechanisms().items() if name in quick}


def stream(account: Any, *, whole: bool) -> AnswerStream:
    """A stream of 12 months that is paid as a whole, or month by month."""
    cost = Cost(ts.zcdp(rho=0.05), None, "a year of counts")

    def each(first: int, last: int) -> Cost:
        return Cost(ts.zcdp(rho=0.01), None, f"months {first} to {last}")

    key = "stream/whole" if whole else "stream/each"
    found = AnswerStream(account, key=key, why="golden", items=12, whole=cost if whole else None, each=each)
    found.open()
    return found


QUERY = (
    "query", "visits", "--by", "sex", "--keys", str(ROOT / "sexes.csv"), "--measures", "count,mean(age)",
    "--rho", "0.1", "--why", "golden",
)  # fmt: skip
STATEMENT = "SELECT sex, COUNT(*) AS n FROM visits WHERE sex IN ('f', 'm') GROUP BY sex"
RUN: dict[str, Any] = {"steps": 12, "block": 3, "whole": True}
STEP = ts.gaussian(sigma=20)


def answers() -> dict[str, Callable[[], Any]]:
    """Answers of every type that a ledger stores, by key."""
    return {f"answer/{name}": (lambda value=value: value) for name, value in asked.answers().items()}
