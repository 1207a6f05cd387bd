"""Stop a table between its charge and its answer, in every way, and look at what it left behind.

    python tests/crash/table_stops.py [--few] [--each N] [--random N]     one JSON line: what was done, what was wrong

It runs in a process of its own that never opens DuckDB itself: every table is made in a forked child, as is every look.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb  # noqa: F401  # imported before the forks, opened only after them

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from crash.killing import in_child
from crash.stores import quick_folder
from tallystick.accounting.losses import zcdp
from tallystick.errors import TallystickError
from tallystick.ledger import Ledger
from tallystick.ledger.pay import FAILED
from tallystick.tables import measures, program, run  # noqa: F401
from tallystick.tables.engines import duckdb as engine  # noqa: F401
from tallystick.tables.session import Private

WAYS = ("kill", "terminate", "interrupt", "vanish", "change", "empty", "full disk")
LEASE_OVER = 7 * 3600.0
HEADER, ROWS = "patient,ward,age\n", [f"p{i % 90},{'ab'[i % 2]},{20 + i % 60}\n" for i in range(300)]


@dataclass
class Desk:
    """A ledger, a data file, and what happened at it."""

    folder: Path
    done: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    number: int = 0

    @property
    def source(self) -> Path:
        return self.folder / "visits.csv"

    def ledger(self, probe: Callable[[str], None] | None = None, ahead: float = 0.0) -> Ledger:
        return Ledger(
            self.folder / "budget.db", config=self.folder / "config", probe=probe, clock=lambda: time.time() + ahead
        )

    def plan(self, ledger: Ledger) -> Any:
        account = ledger.open("patients", budget=zcdp(rho=10_000), unit="patient")
        table = Private(str(self.source), account=account).table(unit="patient", types={"age": "number"})
        asked = table.per_unit(max_groups=2, max_rows_per_group=3).group_by("ward", keys=["a", "b"])
        return asked.agg(**measures.parse("count,mean(age,0,110)")).plan(rho=0.01)

    def fresh_source(self) -> None:
        self.source.write_text(HEADER + "".join(ROWS))

    def released(self, key: str, seen: int, probe: Callable[[str], None], armed: list[bool]) -> None:
        """One table, told what it was told: the bytes it got, or the text of its refusal."""
        with self.ledger(lambda point: probe(point)) as ledger:
            plan = self.plan(ledger)
            armed.append(True)
            os.write(seen, f"begun\t{key}\t\n".encode())
            try:
                made = plan.release(why="a table", key=key, progress=lambda stage: probe(f"stage {stage}"))
                probe("before delivery")
                text = hashlib.sha256(made.to_csv().encode()).hexdigest()
            except TallystickError as error:
                text = "withheld" if str(error) == FAILED else f"{type(error).__name__}: {error}"[:200]
            os.write(seen, f"told\t{key}\t{text}\n".encode())


def points(desk: Desk) -> list[str]:
    """The named points a table passes from its charge to its delivery, in order."""
    reader, writer = os.pipe()

    def work(seen: int) -> None:
        names: list[str] = []
        armed: list[bool] = []
        desk.released("scout", seen, lambda name: names.append(name) if armed else None, armed)
        os.write(writer, "\n".join(dict.fromkeys(names)).encode())

    in_child(work)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        return pipe.read().splitlines()


def stop(desk: Desk, way: str) -> None:
    """What happens to the process, its data or its disk."""
    if way in ("kill", "terminate", "interrupt"):
        os.kill(os.getpid(), {"kill": signal.SIGKILL, "terminate": signal.SIGTERM, "interrupt": signal.SIGINT}[way])
    elif way == "vanish":
        desk.source.unlink(missing_ok=True)
    elif way == "change":
        desk.source.write_text("somebody,else\n" + "x,y\n" * 5)
    elif way == "empty":
        desk.source.write_text("")
    else:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def one(desk: Desk, way: str, point: str | None, wait: float = 0.0) -> None:
    """Stop one table at a point (or after a time), then look."""
    desk.number += 1
    key = f"{way} {desk.number}"
    desk.fresh_source()

    def work(seen: int) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        armed: list[bool] = []

        def probe(name: str) -> None:
            if armed and name == point:
                stop(desk, way)

        desk.released(key, seen, probe, armed)

    _, told = in_child(work) if point is not None else in_child(work, kill_after=1, wait=wait)
    desk.fresh_source()
    _, found = in_child(lambda seen: look(desk, key, told.delivered.get(key) or None, seen))
    state = found.delivered.get("state", "the look failed")
    desk.done[f"{way}: {state}"] += 1
    desk.wrong += [f"{way} at {point}: {text}" for name, text in found.delivered.items() if name.startswith("wrong")]
    if state == "the look failed":
        desk.wrong.append(f"{way} at {point}: the look failed")


def look(desk: Desk, key: str, told: str | None, seen: int) -> None:
    """The charge of a stopped table, seven hours later, and the way back to work."""

    def say(name: str, text: object) -> None:
        os.write(seen, f"told\t{name}\t{str(text).replace(chr(10), ' ')}\n".encode())

    wrong: list[str] = []
    with desk.ledger(ahead=LEASE_OVER) as ledger:
        plan = desk.plan(ledger)
        account = plan.account
        mine = [event for event in account.history() if event.key == key]
        state = mine[0].state if mine else "not charged"
        say("state", state)
        if told is not None and told != "withheld" and ":" not in told:
            answer = hashlib.sha256(plan.release(why="a table", key=key).to_csv().encode()).hexdigest()
            wrong += [] if state == "COMMITTED" and answer == told else [f"delivered, and the ledger has {state}"]
        elif told == "withheld" and state not in ("BURNED", "EXECUTING"):
            wrong.append(f"withheld, and the charge is {state}")
        elif told is not None and told != "withheld" and state not in ("not charged", "COMMITTED"):
            wrong.append(f"told {told!r} after the charge")
        wrong += list(closed_until_cleared(plan, account, key, failed=state in ("BURNED", "EXECUTING")))
        wrong += ledger.verify().problems if desk.number % 20 == 1 else []
    for number, text in enumerate(wrong):
        say(f"wrong {number}", text)


def closed_until_cleared(plan: Any, account: Any, key: str, *, failed: bool) -> Iterator[str]:
    """A failed table closes its data once its lease is over; everybody else goes on at once."""
    try:
        plan.release(why="the next one", key=f"{key} next")
        if failed:
            yield "a plan was admitted after a failure"
    except TallystickError as error:
        if not failed or type(error).__name__ != "Quarantined":
            yield f"the next plan was refused with {type(error).__name__}"
        else:
            if len(account.clear(why="looked")) != 1:
                yield "more than one failure was to be cleared"
            plan.release(why="the next one", key=f"{key} next")


FEW = {
    "kill": ("begin: after COMMIT", "stage totals", "commit: before COMMIT", "commit: after COMMIT"),
    "interrupt": ("stage totals",),
    "vanish": ("begin: after sync",),
    "full disk": ("stage cells",),
}


def campaign(each: int, at_random: int, *, few: bool = False) -> dict[str, Any]:
    """``each`` stops of every kind at every point of the window, then kills at random times."""
    with tempfile.TemporaryDirectory(dir=quick_folder(), prefix="tallystick-stops-") as folder:
        desk = Desk(Path(folder))
        desk.fresh_source()
        start = time.monotonic()
        names = points(desk)
        duration = time.monotonic() - start
        window = names[names.index("begin: after COMMIT") : names.index("commit: after COMMIT")]
        for _ in range(each):
            for way in WAYS:
                for point in FEW.get(way, ()) if few else names if way == "kill" else window:
                    one(desk, way, point)
        draw = random.Random(20261116)
        for _ in range(at_random):
            one(desk, "kill", None, wait=duration * draw.random())
        return {"points": names, "window": window, "stops": desk.number, "done": dict(desk.done), "wrong": desk.wrong}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=1)
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--few", action="store_true")
    given = parser.parse_args()
    print(json.dumps(campaign(given.each, given.random, few=given.few)))
