"""Stop a table between its charge and its answer, in every way, and look at what it left behind.

    python tests/crash/table_stops.py [--few] [--kills N] [--others N] [--random N] [--seconds S]     one JSON line

``--kills`` and ``--others`` are numbers of stops at named points, by kill -9 and by each other way; ``--random`` is the
number of kills at random times after the charge. It runs in a process of its own that has no DuckDB open when it forks:
every table is made in a child, as is every look.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import itertools
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import duckdb

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from crash.killing import in_child
from crash.stores import raised
from ramdisk import quick_folder
from tallystick.accounting.losses import zcdp
from tallystick.errors import TallystickError
from tallystick.ledger import Ledger
from tallystick.ledger.pay import CHARGING, FAILED, INTERRUPTED, LEASE
from tallystick.tables import measures
from tallystick.tables.engines.duckdb import close_waiting
from tallystick.tables.plan import Plan
from tallystick.tables.private import Private
from tallystick.tables.run import Asked
from tallystick.tables.scratch import ALIVE

SIGNALS = {"kill": signal.SIGKILL, "terminate": signal.SIGTERM, "interrupt": signal.SIGINT}
DATA = ("vanish", "change", "empty", "reorder", "lock")
WAYS = (*SIGNALS, "full disk", *DATA)
KINDS = ("csv", "parquet", "duckdb")
ONLY = {"empty": "csv", "reorder": "csv", "lock": "duckdb"}  # the other ways take every kind of source in turn
LEASE_OVER = LEASE + 60.0
STOPS_PER_LEDGER = 60
SECRET = "zebedee"
"""Stands in every row, and so in every message that quotes data."""
ROWS = [(f"{SECRET}{i % 90}", "ab"[i % 2], 20 + i % 60) for i in range(300)]


@dataclass
class Desk:
    """A ledger, one file of each kind, and what happened at them."""

    base: Path
    done: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    number: int = 0
    kind: str = "csv"
    plans: dict[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """A ledger that grew long would be most of the work."""
        return self.base / f"desk{self.number // STOPS_PER_LEDGER}"

    @property
    def source(self) -> Path:
        return self.base / f"visits.{self.kind}"

    @property
    def temporary(self) -> Path:
        return self.base / "temporary"

    def ledger(self, probe: Callable[[str], None] | None = None, ahead: float = 0.0) -> Ledger:
        self.folder.mkdir(exist_ok=True)
        config = self.folder / "config"
        passed = self.folder / "passed"  # time does not run backwards in a ledger, for no process
        ahead += float(passed.read_text()) if passed.exists() else 0.0
        passed.write_text(str(ahead))
        return Ledger(self.folder / "budget.db", config=config, probe=probe, clock=lambda: time.time() + ahead)

    def plan(self, ledger: Ledger) -> Plan:
        account = ledger.open("patients", budget=zcdp(rho=10_000), unit="patient")
        if self.kind in self.plans:
            return Plan.from_json(self.plans[self.kind], account=account)
        types = {"age": "number"} if self.kind == "csv" else None
        name = "visits" if self.kind == "duckdb" else None
        table = Private(str(self.source), account=account).table(name, unit="patient", types=types)
        asked = table.per_unit(max_groups=2, max_rows_per_group=3).group_by("ward", keys=["a", "b"])
        return asked.agg(**measures.parse("count,mean(age,0,110)")).plan(rho=0.01)

    def fresh_source(self) -> None:
        self.temporary.mkdir(exist_ok=True)
        shutil.copyfile(self.base / f"good.{self.kind}", replacement := self.base / "copying")
        replacement.replace(self.source)

    def released(self, key: str, seen: int, probe: Callable[[str], None]) -> None:
        """One table, told what it was told: the bytes it got, or the text of its refusal."""
        armed: list[bool] = []

        def told(point: str) -> None:
            if armed and point == "begin: after COMMIT":
                os.write(seen, f"touched\t{key}\t\n".encode())
            if armed:
                probe(point)

        with self.ledger(told) as ledger:
            plan = self.plan(ledger)
            armed.append(True)
            try:
                made = plan.release(why="a table", key=key, progress=lambda stage: told(f"stage {stage}"))
                told("before delivery")
                text = _bytes_of(made)
            except TallystickError as error:
                text = "withheld" if str(error) == FAILED else f"{type(error).__name__}: {error}"[:200]
            except KeyboardInterrupt as error:
                text = "withheld" if str(error) in (INTERRUPTED, CHARGING) else f"KeyboardInterrupt: {error}"[:200]
            os.write(seen, f"told\t{key}\t{text}\n".encode())


def _bytes_of(made: Any) -> str:
    return hashlib.sha256(made.to_csv().encode()).hexdigest()


def prepare(desk: Desk) -> tuple[list[str], float]:
    """The sources, their plans, the named points a table passes, and the seconds from its charge to its end."""

    def files(seen: int) -> None:
        lines = "".join(f"{who},{ward},{age}\n" for who, ward, age in ROWS)
        (desk.base / "good.csv").write_text("patient,ward,age\n" + lines)
        read = f"SELECT * FROM read_csv('{desk.base}/good.csv')"
        with duckdb.connect(str(desk.base / "good.duckdb")) as connection:
            connection.execute(f"CREATE TABLE visits AS {read}")
            connection.execute(f"COPY ({read}) TO '{desk.base}/good.parquet'")

    def scout(seen: int) -> None:
        names: list[str] = []
        desk.released(f"scout {desk.kind} {os.getpid()}", seen, names.append)
        with desk.ledger() as ledger:
            (desk.base / f"{desk.kind}.json").write_text(json.dumps([names, desk.plan(ledger).to_json()]))

    in_child(files)
    desk.fresh_source()
    with desk.ledger() as ledger:  # what is imported and remembered here need not be in every child
        desk.plan(ledger).release(why="first", key="first")
    close_waiting()  # as every fork does
    assert len(os.listdir("/proc/self/task")) == 1, "DuckDB is still at work, and would not survive a fork"
    lasted, found = [], []
    for desk.kind in KINDS:
        desk.fresh_source()
        for _ in range(2):
            start = time.monotonic()
            in_child(scout)
            lasted.append(time.monotonic() - start)
        names, desk.plans[desk.kind] = json.loads((desk.base / f"{desk.kind}.json").read_text())
        found.append(list(dict.fromkeys(names)))
    assert found[0] == found[1] == found[2], "the points differ by the kind of source"
    return found[0], median(lasted) / 3  # the preflight and the plan are the larger part


@contextmanager
def locker(desk: Desk, way: str) -> Iterator[Callable[[], None]]:
    """A process that locks the source when it is told to, as a program that writes to it would."""
    if way != "lock":
        yield lambda: None
        return
    (asked, ask), (answered, answer) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.read(asked, 1)
            with desk.source.open("r+b") as file:
                raised(lambda: fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB))
                os.write(answer, b".")
                signal.pause()
        finally:
            os._exit(0)

    def lock() -> None:
        os.write(ask, b".")
        os.read(answered, 1)

    try:
        yield lock
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        for end in (asked, ask, answered, answer):
            os.close(end)


def stop(desk: Desk, way: str, lock: Callable[[], None]) -> None:
    """What happens to the process, its data or its disk."""
    if way in SIGNALS:
        os.kill(os.getpid(), SIGNALS[way])
    elif way == "vanish":
        desk.source.unlink(missing_ok=True)
    elif way == "lock":
        lock()
    elif way == "full disk":
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    elif way == "empty":
        desk.source.write_text("")  # in place: a reader that has it open sees its end
    else:
        moved = "".join(f"{age},x,{ward},{who}\n" for who, ward, age in ROWS)
        other = {"change": "somebody,else\n" + "x,y\n" * 5, "reorder": "age,new,ward,patient\n" + moved}[way]
        (desk.base / "other").write_text(other)
        (desk.base / "other").replace(desk.source)


def one(desk: Desk, way: str, point: str | None, wait: float = 0.0) -> None:
    """Stop one table at a point (or a time after its charge), then look."""
    desk.number += 1
    desk.kind = ONLY.get(way, KINDS[desk.number % len(KINDS)])
    key = f"{way} {desk.number}"
    desk.fresh_source()
    said = desk.base / "said"

    with locker(desk, way) as lock:

        def work(seen: int) -> None:
            os.umask(0)
            os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
            os.dup2(2, 1)
            tempfile.tempdir = str(desk.temporary)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            desk.released(key, seen, lambda name: stop(desk, way, lock) if name == point else None)

        if point is not None:
            _, traces = in_child(work)
        else:
            _, traces = in_child(work, kill_after=1, wait=wait, by=SIGNALS[way])
    told = traces.delivered.get(key)
    problems = [f"{text} of {desk.kind}" for text in left_behind(desk, way)]
    if SECRET in said.read_text() + (told or ""):
        problems.append("data in a message")
    desk.fresh_source()
    _, found = in_child(lambda seen: look(desk, key, told, seen))
    state = found.delivered.pop("state", "the look failed")
    name = way if point else f"{way} at random"
    desk.done[f"{name}: {state}"] += 1
    problems += [*found.delivered.values(), *unexpected(way, point, state)]
    desk.wrong += [f"{name}: {text} ({point})" for text in problems]


def left_behind(desk: Desk, way: str) -> Iterator[str]:
    """Files with data that a stopped table left where it works: none, or after a kill none that others can read."""
    # the folder of a process, its lock and its empty folders stay while the process lives
    found = [path for path in desk.temporary.rglob("*") if path.is_file() and path.name != ALIVE]
    if found and way not in ("kill", "terminate"):
        yield f"left {found[0].name} behind"
    for path in desk.temporary.iterdir():  # a hard link keeps the rights of its file: the folder keeps others out
        if path.stat().st_mode & 0o077:
            yield f"{path.name} can be read by others"
    for path in (*desk.folder.glob("budget.db*"),):
        if path.stat().st_mode & 0o077:
            yield f"{path.name} of the ledger can be read by others"
    shutil.rmtree(desk.temporary)


def unexpected(way: str, point: str | None, state: str) -> Iterator[str]:
    """Data are opened after the charge and read before the answer is stored; in between both can be."""
    if state not in ("CLOSED", "EXECUTING", "COMMITTED"):
        yield f"the charge is {state}"
    elif point is None or way in SIGNALS:
        return
    elif way == "full disk" and state == "COMMITTED":
        yield "an answer on a full disk"
    elif way == "reorder" and state != "COMMITTED":
        yield f"columns go by name, and the charge is {state}"
    elif way == "vanish" and state != "COMMITTED":
        yield f"the snapshot was there, and the charge is {state}"
    elif way in DATA and point.startswith("commit") and state != "COMMITTED":
        yield f"the data had been read, and the charge is {state}"


def look(desk: Desk, key: str, told: str | None, seen: int) -> None:
    """The charge of a stopped table, now and when its lease is over, and the way back to work."""

    def say(name: str, text: object) -> None:
        os.write(seen, f"told\t{name}\t{str(text).replace(chr(10), ' ')[:300]}\n".encode())

    try:
        wrong = list(complaints(desk, key, told, lambda state: say("state", state)))
    except BaseException as error:
        wrong = [f"the look ended in {type(error).__name__}: {error}"]
    for number, text in enumerate(wrong):
        say(f"wrong {number}", text)


def complaints(desk: Desk, key: str, told: str | None, found: Callable[[str], None]) -> Iterator[str]:
    """What is wrong with the record after a stop."""
    with desk.ledger() as ledger:
        state = _state(desk.plan(ledger), key)
        found(state)
        if state == "EXECUTING" and (met := raised(_charge(desk.plan(ledger), key).begin)) != "Unavailable":
            yield f"the key of a charge in another worker met {met}"
    with desk.ledger(ahead=LEASE_OVER) as ledger:
        plan = desk.plan(ledger)
        if told == "withheld" and state == "COMMITTED" and key.startswith("interrupt"):
            pass  # interrupted between the storing and the handing out: the same key has it
        elif told == "withheld" and state not in ("CLOSED", "EXECUTING"):
            yield f"withheld, and the charge is {state}"
        elif told is not None and told != "withheld" and (state != "COMMITTED" or ":" in told):
            yield f"told {told!r}, and the ledger has {state}"
        if state in ("CLOSED", "EXECUTING"):
            yield from closed_until_cleared(plan, key)
        elif state == "COMMITTED":
            again = plan.release(why="a table", key=key)
            if again.fresh or told not in (None, "withheld", _bytes_of(again)):
                yield "the same key gave another answer"
        if desk.number % 10 == 1:
            plan.release(why="the next table", key=f"{key} next")
        else:
            _charge(plan, f"{key} next").begin().commit("the next answer")
        yield from ledger.verify().problems
    log = desk.folder / "budget.db.failures"
    if log.exists() and SECRET in log.read_text():
        yield "data in the operator's log"


def _state(plan: Plan, key: str) -> str:
    assert plan.account is not None
    return next((event.state for event in plan.account.history() if event.key == key), "not charged")


def _charge(plan: Plan, key: str, source: str | None = None) -> Any:
    """The charge of a table, as its release makes it."""
    assert plan.account is not None
    asked = Asked.of(plan, plan.account, None)
    return plan.account.charge(
        plan.privacy, why="a table", key=key, lease=LEASE, request=asked.request, source=source or asked.names[0]
    )


def closed_until_cleared(plan: Plan, key: str) -> Iterator[str]:
    """A failed table closes its data and those of its population, once its lease is over, until the owner clears it."""
    assert plan.account is not None
    for source in (None, "other data of the same people"):
        if (met := raised(_charge(plan, f"{key} next", source).begin)) != "Quarantined":
            yield f"after a failure the next plan met {met}"
    if _state(plan, key) != "CLOSED":
        yield f"its lease is over, and the charge is {_state(plan, key)}"
    if len(plan.account.clear(why="looked")) != 1:
        yield "more than one failure was to be cleared"
    if (met := raised(_charge(plan, key).begin)) != "IdempotencyConflict":
        yield f"the key of a burned charge met {met}"


FEW = (
    ("kill", "begin: after COMMIT"),
    ("kill", "commit: before COMMIT"),
    ("kill", "commit: after COMMIT"),
    ("interrupt", "stage totals"),
    ("interrupt", "commit: after COMMIT"),
    ("vanish", "begin: after sync"),
    ("change", "begin: after sync"),
    ("reorder", "begin: after sync"),
    ("lock", "begin: after COMMIT"),
    ("full disk", "stage cells"),
)


def campaign(kills: int, others: int, at_random: int, *, few: bool = False, seconds: float = 1e9) -> dict[str, Any]:
    """Stops at every point of the window in turn, then at random times; no more are begun when the time is over."""
    with tempfile.TemporaryDirectory(dir=quick_folder(), prefix="tallystick-stops-") as folder:
        desk = Desk(Path(folder))
        end = time.monotonic() + seconds
        names, lasts = prepare(desk)
        window = names[names.index("begin: after COMMIT") : names.index("commit: after COMMIT")]
        stops: list[tuple[str, str | None]] = list(FEW) if few else []
        for way in WAYS:
            stops += itertools.islice(
                zip(itertools.repeat(way), itertools.cycle(window)), kills if way == "kill" else others
            )
        stops += [("kill", None)] * at_random
        stops += [(way, None) for way in ("terminate", "interrupt") for _ in range(at_random // 10)]
        draw = random.Random(20261116)
        if not few:
            draw.shuffle(stops)  # so that a run that is cut short has done some of everything
        for way, point in stops:
            if time.monotonic() > end:
                break
            one(desk, way, point, wait=0.0 if point else lasts * draw.random())
        return {"points": names, "window": window, "stops": desk.number, "done": dict(desk.done), "wrong": desk.wrong}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--others", type=int, default=0)
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--few", action="store_true")
    given = parser.parse_args()
    print(json.dumps(campaign(given.kills, given.others, given.random, few=given.few, seconds=given.seconds)))
