"""Running jobs: who gets the next slot, and what happens in it until the outcome may be seen."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tallystick.errors import NotAuthorised, TallystickError, Unavailable
from tallystick.ledger.book import Ledger
from tallystick.ledger.pay import FAILED as FAILED_TEXT
from tallystick.ledger.pay import STOPPED_TEXT
from tallystick.publish.request import Request, answer
from tallystick.service.connections import Connections
from tallystick.service.defects import defect
from tallystick.service.jobs import DONE, DROPPED, FAILED, REFUSED, RUNNING, STOPPED, WAITING, Job, Jobs
from tallystick.service.opening import NeedsSlot, Slot, in_slot
from tallystick.service.rates import Metered
from tallystick.service.replays import Replays
from tallystick.service.requests import check_served
from tallystick.service.settings import Settings
from tallystick.service.template import WORKER, Child, Template

SWEEP: Final = 60.0
"""Seconds between looks for jobs that are over."""
PAUSE: Final = 1.0
"""Seconds after an error of the system, before it is tried again."""
Ending = tuple[str, int | None, dict[str, Any] | None]
"""State, charge and problem of a job that has ended."""


class Running:
    """The slots of one keeper."""

    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        queue: Jobs,
        connections: Connections,
        template: Template,
        replays: Replays,
        work: Metered,
        folder: Path,
    ) -> None:
        self._settings = settings
        self._ledger = ledger
        self._queue = queue
        self._connections = connections
        self._template = template
        self._replays = replays
        self._work = work
        self._folder = folder
        self._lock = threading.Lock()
        self._running: dict[str, Job] = {}
        self._draining = threading.Event()
        self._stopping = threading.Event()
        """Set when running jobs have had their time."""

    @property
    def is_draining(self) -> bool:
        """True once no new job begins."""
        return self._draining.is_set()

    def drain(self) -> None:
        """Begin no new job. A second call ends the running ones now."""
        if self._draining.is_set():
            self._stopping.set()
        self._draining.set()
        threading.Thread(target=self._queue.wake).start()  # a signal handler may interrupt the holder of the lock

    def end_left_jobs(self) -> None:
        """End the jobs that ran when the last keeper was killed. Their charges stay spent, and close their data."""
        for job in self._queue.in_state(RUNNING):
            charge = job.charge or self._unnoted(job)
            state = FAILED if charge is None else self._ledger.end_abandoned(charge)
            if state == "COMMITTED":
                self._queue.end(job.id, DONE)
            else:
                self._queue.end(job.id, FAILED, charge=charge, problem=Unavailable(FAILED_TEXT).to_data())

    def _unnoted(self, job: Job) -> int | None:
        """Return the charge of a job whose keeper was killed before it noted the number; None without one."""
        noted = {each.charge for each in self._queue.in_state(RUNNING)}
        found = [each for each in self._ledger.running_of(job.principal, job.via) if each not in noted]
        return found[0] if found else None  # each job takes one, and all of them have ended

    def serve(self) -> None:
        """Start jobs while there are free slots, until the service drains; then wait for the running ones."""
        while not self._draining.is_set():
            try:
                self._serve_next()
            except (sqlite3.Error, RuntimeError) as problem:  # a full disk, or no thread: running jobs continue
                defect(problem)
                self._draining.wait(PAUSE)
        self._finish()

    def _serve_next(self) -> None:
        """Start the next job, or wait for a change."""
        job = self._next()
        if job is None:
            self._queue.wait_for_change(SWEEP, self._draining)
            self._queue.forget_old()
            return
        try:
            threading.Thread(target=self._run, args=(job,), name=f"job {job.id}", daemon=True).start()
        except RuntimeError:
            self._leave(job)
            self._queue.put_back(job.id)
            raise

    def _next(self) -> Job | None:
        """Take a slot for the next job; None if there is no slot or no job."""
        with self._lock:
            if len(self._running) >= self._settings.most_running:
                return None
            job = self._queue.next(self._running.values(), self._settings.most_running)
            if job is None or not self._queue.begin(job):
                return None
            self._running[job.id] = job
            return job

    def _finish(self) -> None:
        """Give running jobs their time, then end them."""
        left = self._settings.grace
        while self._is_busy() and left > 0 and not self._stopping.is_set():
            self._stopping.wait(0.1)
            left -= 0.1
        self._stopping.set()
        if self._is_busy():
            self._template.close()  # the workers end with it
        while self._is_busy():
            self._queue.wait_for_change(0.1)

    def _is_busy(self) -> bool:
        with self._lock:
            return bool(self._running)

    # -- one job

    def _run(self, job: Job) -> None:
        """Run one job in its slot, and note how it ended."""
        state, charge, problem = FAILED, None, None
        try:
            with self._work.billed(job.principal):
                state, charge, problem = self._ending(job)
        except (Exception, NeedsSlot) as error:
            problem = defect(error).to_data()
        finally:
            self._leave(job)
            self._note_end(job, state, charge, problem)

    def _leave(self, job: Job) -> None:
        """Give the slot of a job back."""
        with self._lock:
            self._running.pop(job.id, None)

    def _note_end(self, job: Job, state: str, charge: int | None, problem: dict[str, Any] | None) -> None:
        """Note how a job ended, as soon as the disk takes it. Until then it is RUNNING, as after a kill."""
        while True:
            try:
                if state == WAITING:
                    self._queue.put_back(job.id)
                else:
                    self._queue.end(job.id, state, charge=charge, problem=problem)
                return
            except sqlite3.Error as error:
                defect(error)
            if self._stopping.wait(PAUSE):
                return

    def _ending(self, job: Job) -> Ending:
        """Release what a job asks, and return how it ended."""
        view = self._ledger.acting_for(job.principal, job.via)
        if not _may_release(view, job):
            return DROPPED, None, None
        with _private(self._folder, job.id) as folder:
            slot = self._slot(job, folder)
            try:
                with in_slot(slot):
                    request = Request.from_data(check_served(json.loads(job.request), view))
                    outcome = answer(request, view).outcome
            except TallystickError as problem:
                return self._problem(job, slot, problem)
            self._replays.add(view, job.request, outcome)
        return DONE, None if outcome.paid is None else outcome.paid.charge, None

    def _slot(self, job: Job, folder: Path) -> Slot:
        return Slot(
            population=job.population,
            connections=self._connections,
            folder=private(folder / "given"),
            start=lambda: self._worker(private(folder / "own")),
            operator=self._ledger,
            stopping=self._stopping,
            on_charge=lambda charge: self._note_charge(job, charge),
        )

    def _note_charge(self, job: Job, charge: int) -> None:
        """Note the charge of a job. With a full disk the job continues: it is paid, and the ledger has its charge."""
        with contextlib.suppress(sqlite3.Error):
            self._queue.note_charge(job.id, charge)

    def _problem(self, job: Job, slot: Slot, problem: TallystickError) -> Ending:
        """Return how a job ended whose release raised a problem: refused for free, failed, or stopped."""
        if slot.charge is None and self._stopping.is_set():
            return WAITING, None, None
        told = self._connections.without_places(problem.to_data())
        if slot.charge is None:
            return REFUSED, None, told
        if str(problem) == STOPPED_TEXT:
            return STOPPED, slot.charge, told
        if slot.has_failed:
            self._queue.suspend(job.principal, job.population, slot.charge)
        return FAILED, slot.charge, told

    def _worker(self, folder: Path) -> Child:
        """Start the worker of a job, with its share of the memory."""
        settings = self._settings
        share = settings.memory // settings.most_running
        return self._template.fork(
            WORKER, folder=str(folder), memory=share, spill=settings.spill, cpu_seconds=settings.cpu_seconds
        )


def _may_release(view: Ledger, job: Job) -> bool:
    """True if the principal and the token of a job that waited are still good."""
    try:
        view.require_present()
    except NotAuthorised:
        return False
    return view.may("release", job.population)


@contextlib.contextmanager
def _private(parent: Path, name: str) -> Iterator[Path]:
    """Make a folder that only this user can enter, and remove it at the end."""
    folder = private(parent / name)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def private(folder: Path) -> Path:
    """Make a folder that only this user can enter."""
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def emptied(folder: Path) -> Path:
    """Return a private folder without what a killed keeper left in it."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder, mode=0o700)
    return folder
