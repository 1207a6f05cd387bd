"""Jobs: what was asked of the service and waits, runs or has ended.

The states are kept in an SQLite file of the keeper, not in the ledger. A job that has ended keeps no answer: the ledger
has it, signed. So erasing an answer there erases the only copy.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from tallystick.errors import IdempotencyConflict, InvalidInput, Refused, Unavailable
from tallystick.place import shown
from tallystick.service.protocol import RUNNING as RUNNING
from tallystick.service.protocol import WAITING as WAITING

DONE: Final = "DONE"
"""It is charged, and its answer is in the ledger."""
REFUSED: Final = "REFUSED"
"""It was refused or denied before the charge, and cost nothing."""
DROPPED: Final = "DROPPED"
"""It was cancelled, or waited for too long, or its principal has ended. It cost nothing."""
FAILED: Final = "FAILED"
"""It is charged and has no answer, or one that is withheld until the owner has opened the data again."""
STOPPED: Final = "STOPPED"
"""It is charged and has no answer, because the service was stopped."""
ENDED: Final = (DONE, REFUSED, DROPPED, FAILED, STOPPED)

LONGEST_WAIT: Final = 24 * 3600.0
"""Seconds that a job waits for a slot."""
KEPT: Final = 24 * 3600.0
"""Seconds that an ended job is remembered."""
MOST_WAITING: Final = 20
MOST_RUNNING: Final = 2
"""Jobs of a principal."""

_LAYOUT: Final = """
CREATE TABLE IF NOT EXISTS job (
    number INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, principal TEXT NOT NULL, via INTEGER, population TEXT NOT NULL,
    name TEXT, request TEXT NOT NULL, state TEXT NOT NULL, asked REAL NOT NULL, ended REAL, charge INTEGER,
    problem TEXT
);
CREATE UNIQUE INDEX IF NOT EXISTS job_name ON job (principal, name) WHERE name IS NOT NULL;
CREATE INDEX IF NOT EXISTS job_state ON job (state, number);
CREATE TABLE IF NOT EXISTS suspended (principal TEXT NOT NULL, population TEXT NOT NULL, charge INTEGER NOT NULL,
    PRIMARY KEY (principal, population));
"""
_COLUMNS: Final = "id, principal, via, population, name, request, state, asked, ended, charge, problem"


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it is now."""

    id: str
    principal: str
    via: int | None
    population: str
    name: str | None
    """The name that the client gave it, so that asking again is not a second job."""
    request: str
    state: str
    asked: float
    ended: float | None
    charge: int | None
    problem: str | None

    def to_data(self) -> dict[str, Any]:
        """Return what its principal may see, as JSON data. Times are whole seconds."""
        return {
            "id": self.id,
            "state": self.state,
            "population": self.population,
            "asked": int(self.asked),
            "ended": None if self.ended is None else int(self.ended),
            "charge": self.charge if self.state in (DONE, FAILED, STOPPED) else None,
            "problem": None if self.problem is None else json.loads(self.problem),
        }


class Suspension(NamedTuple):
    """A principal whose release failed may not release on that population until its owner says so."""

    principal: str
    population: str
    charge: int


class Jobs:
    """The jobs of one keeper, in a file that only its user can read."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._lock = threading.RLock()
        self._clock = clock
        self.changed = threading.Condition(self._lock)
        """Notified when a job is added or changes its state."""
        try:
            self._prepare()
        except sqlite3.DatabaseError:
            self._database.close()
            raise Unavailable(
                f"{shown(path)} is damaged. Move it away to start without it: jobs that waited and suspensions are "
                "lost, and charges that ran end with their lease. The ledger is not affected"
            ) from None

    def _prepare(self) -> None:
        with self._lock:
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.execute("PRAGMA secure_delete = ON")
            self._database.executescript(_LAYOUT)

    # -- asking

    def add(
        self, request: Mapping[str, Any], *, principal: str, via: int | None, population: str, name: str | None = None
    ) -> Job:
        """Add a job that waits, or return the one that has this name already; refuse the name of another request."""
        text = json.dumps(request, sort_keys=True, separators=(",", ":"))
        with self._lock:
            known = None if name is None else self.named(principal, name)
            if known is not None:
                if known.request != text:
                    raise IdempotencyConflict("this name belongs to another job. Use a new name", code="name_used")
                return known
            if len(self._select("principal = ? AND state = ?", principal, WAITING)) >= MOST_WAITING:
                problem = f"{MOST_WAITING} jobs of yours wait already. Ask again when one has ended"
                raise Refused(problem, code="too_many_jobs")
            job = Job(
                uuid.uuid4().hex, principal, via, population, name, text, WAITING, self._clock(), None, None, None
            )
            marks = ", ".join("?" * len(_COLUMNS.split(",")))
            self._database.execute(f"INSERT INTO job ({_COLUMNS}) VALUES ({marks})", _values(job))
            self.changed.notify_all()
            return job

    def named(self, principal: str, name: str) -> Job | None:
        """Return the job of a principal with a name."""
        found = self._select("principal = ? AND name = ?", principal, name)
        return found[0] if found else None

    def get(self, number: str) -> Job:
        """Return a job by its id; refuse an id that is not known."""
        found = self._select("id = ?", number)
        if not found:
            raise unknown_job(number)
        return found[0]

    def of(self, principal: str | None = None) -> list[Job]:
        """Return the jobs of a principal, or all jobs, newest last."""
        return self._select("1 = 1") if principal is None else self._select("principal = ?", principal)

    def in_state(self, state: str) -> list[Job]:
        """Return the jobs in a state, oldest first."""
        return self._select("state = ?", state)

    # -- running

    def next(self, running: Iterable[Job], slots: int) -> Job | None:
        """Return the job that gets the next free slot; None if none may have it.

        It is the oldest of the principal with the least running jobs. A principal has at most two slots, and a
        population leaves one to others. A request that runs already waits: afterwards its answer is stored.
        """
        now = list(running)
        asked = {each.request for each in now}
        most = max(1, slots - 1)
        mine = _counted(each.principal for each in now)
        theirs = _counted(each.population for each in now)
        may = [
            job
            for job in self.in_state(WAITING)
            if mine.get(job.principal, 0) < MOST_RUNNING
            and theirs.get(job.population, 0) < most
            and job.request not in asked
        ]
        return min(may, default=None, key=lambda job: mine.get(job.principal, 0))  # the first of equal ones is oldest

    def begin(self, job: Job) -> bool:
        """Move a job from waiting to running; return False if it is no longer waiting."""
        return self._move(job.id, WAITING, RUNNING)

    def note_charge(self, number: str, charge: int) -> None:
        """Remember the charge of a running job, so that it can be ended if the keeper is killed."""
        with self._lock:
            self._database.execute("UPDATE job SET charge = ? WHERE id = ? AND state = ?", (charge, number, RUNNING))

    def end(
        self, number: str, state: str, *, charge: int | None = None, problem: Mapping[str, Any] | None = None
    ) -> None:
        """End a running job."""
        text = None if problem is None else json.dumps(problem)
        with self._lock:
            self._database.execute(
                "UPDATE job SET state = ?, ended = ?, charge = coalesce(?, charge), problem = ? "
                "WHERE id = ? AND state = ?",
                (state, self._clock(), charge, text, number, RUNNING),
            )
            self.changed.notify_all()

    def put_back(self, number: str) -> bool:
        """Let a running job wait again, which was not charged when the service was stopped."""
        return self._move(number, RUNNING, WAITING)

    def drop(self, number: str) -> bool:
        """Drop a job that waits; return False if it does not wait."""
        return self._move(number, WAITING, DROPPED)

    def wait(self, number: str, seconds: float) -> Job:
        """Return a job when it has ended, or as it is after so many seconds."""
        until = time.monotonic() + seconds
        with self.changed:
            while True:
                job = self.get(number)
                left = until - time.monotonic()
                if job.state in ENDED or left <= 0:
                    return job
                self.changed.wait(left)

    def wait_for_change(self, seconds: float, unless: threading.Event | None = None) -> None:
        """Wait until a job is added or ends, but no longer than so many seconds."""
        with self.changed:
            if unless is None or not unless.is_set():
                self.changed.wait(seconds)

    def wake(self) -> None:
        """Wake those who wait for a change."""
        with self.changed:
            self.changed.notify_all()

    def forget_old(self) -> None:
        """Drop jobs that have waited too long, and forget those that have ended long ago."""
        now = self._clock()
        for job in self.in_state(WAITING):
            if job.asked < now - LONGEST_WAIT:
                self.drop(job.id)
        with self._lock:
            self._database.execute("DELETE FROM job WHERE ended < ?", (now - KEPT,))

    # -- suspensions

    def suspend(self, principal: str, population: str, charge: int) -> None:
        """Keep a principal from releasing on a population."""
        with self._lock:
            self._database.execute("INSERT OR IGNORE INTO suspended VALUES (?, ?, ?)", (principal, population, charge))

    def suspensions(self, population: str) -> list[Suspension]:
        """Return who may not release on a population."""
        with self._lock, closing(self._database.cursor()) as cursor:
            rows = cursor.execute("SELECT * FROM suspended WHERE population = ?", (population,)).fetchall()
        return [Suspension(*row) for row in rows]

    def lift(self, principal: str, population: str) -> bool:
        """Let a principal release again; return False if it may already."""
        with self._lock:
            changed = self._database.execute(
                "DELETE FROM suspended WHERE principal = ? AND population = ?", (principal, population)
            )
            return changed.rowcount > 0

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    def _move(self, number: str, old: str, new: str) -> bool:
        ended = self._clock() if new in ENDED else None
        with self._lock:
            changed = self._database.execute(
                "UPDATE job SET state = ?, ended = ? WHERE id = ? AND state = ?", (new, ended, number, old)
            )
            self.changed.notify_all()
            return changed.rowcount > 0

    def _select(self, condition: str, *values: Any) -> list[Job]:
        with self._lock, closing(self._database.cursor()) as cursor:
            rows = cursor.execute(f"SELECT {_COLUMNS} FROM job WHERE {condition} ORDER BY number", values).fetchall()
        return [Job(*row) for row in rows]


def unknown_job(number: object) -> InvalidInput:
    """Return the error for a job that is not there, or not of who asks: both look the same."""
    return InvalidInput("job", number, "the id of a job of yours", code="no_job")


def _values(job: Job) -> tuple[Any, ...]:
    return tuple(getattr(job, name.strip()) for name in _COLUMNS.split(","))


def _counted(names: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return counts
