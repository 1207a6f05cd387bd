"""Opening of sources by the keeper: inside its connections, for a job that has a slot, and to be read elsewhere.

The keeper opens files, because their identity is compared with the ledger there. It never reads a row. The descriptors
go to the worker of the job.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tallystick.errors import Refused, TallystickError, Unavailable
from tallystick.ledger.chain import decode_answer
from tallystick.ledger.pay import PlannedStop
from tallystick.service import frames
from tallystick.service.connections import Connections, Folder, Server
from tallystick.service.frames import Ended
from tallystick.service.ticks import wait_for_tick
from tallystick.service.worker import identity_from_data
from tallystick.tables.files import OpenFile
from tallystick.tables.identity import Identity
from tallystick.tables.plan import Plan
from tallystick.tables.progress import Progress
from tallystick.tables.reader import Reader
from tallystick.tables.sources import Source
from tallystick.taken_charges import taken_charges

if TYPE_CHECKING:
    from tallystick.ledger.book import Ledger
    from tallystick.service.template import Child

KINDS: Final = ("csv", "parquet", "duckdb", "files", "postgres")
"""Kinds of sources that a service opens."""


class NeedsSlot(BaseException):
    """A source would be opened outside a slot: the answer is not stored, so the request has to become a job."""


class WorkerFailed(Exception):
    """The worker of a job failed or ended while it read the rows."""


class Slot:
    """The means of a running job: its population, a way to start its worker, and the moment when all stops."""

    def __init__(
        self,
        population: str,
        connections: Connections,
        folder: Path,
        start: Callable[[], Child],
        operator: Ledger,
        stopping: threading.Event,
        on_charge: Callable[[int], None],
    ) -> None:
        self.population = population
        self.connections = connections
        self.folder = folder
        """A folder for links to the files of the job, which its worker can only read."""
        self.start = start
        self.operator = operator
        self.stopping = stopping
        self.on_charge = on_charge
        """Gets the number of the charge before the rows are read."""
        self.charge: int | None = None
        """The charge, once it was taken."""
        self.has_failed = False
        """True once the worker has failed while it read the rows."""
        self.charges: list[Any] = []
        """The charges that this thread takes."""

    def note_charge(self) -> None:
        """Remember the charge that was taken for this job."""
        self.charge = int(self.charges[-1].id)
        self.on_charge(self.charge)


_slots = threading.local()


@contextmanager
def in_slot(slot: Slot) -> Iterator[None]:
    """Let this thread open the sources of one job."""
    _slots.now = slot
    try:
        with taken_charges() as charges:
            slot.charges = charges
            yield
    finally:
        _slots.now = None


class ServedReader(Reader):
    """One opening of a source, for a worker. Its files are opened here and read there."""

    def __init__(self, source: Source, *, rows: bool = True, tables: Iterable[str] | None = None) -> None:
        slot: Slot | None = getattr(_slots, "now", None)
        if slot is None:
            raise NeedsSlot
        if source.kind not in KINDS:
            raise Refused(f"a service does not open sources of kind {source.kind}")
        self._slot = slot
        self._tables = list(tables or ())
        self._child: Child | None = None
        super().__init__(source, rows=rows, tables=tables)
        self.worker = self

    def _open(self, path: str) -> OpenFile:
        file = _file_of(self._slot.connections, self._slot.population, path)
        self._opened.append(file)
        return file

    @property
    def engine(self) -> Any:
        """The engine of the worker. Here it answers one question: which data a table holds."""
        return self

    def identify(self, table: str) -> Identity:
        """Ask the worker which data a table holds."""
        return identity_from_data(self._ask({"do": "identify", "table": table}))

    def preflight(self, plan: Plan) -> None:
        """Ask the worker whether the plan can run, before anything is charged."""
        self._ask({"do": "preflight", "plan": plan.to_json()})

    def draw(self, plan: Plan, progress: Progress) -> dict[str, Any]:
        """Let the worker draw the answer of a paid plan. Answer and failure are held until the next tick.

        The end of a planned stop is a tick, too: an answer that is there then is stored.
        """
        slot, begun = self._slot, time.monotonic()
        slot.note_charge()
        answer = self._drawn(plan)
        was_ended = answer is None and slot.stopping.is_set()
        wait_for_tick(begun, slot.stopping)
        if was_ended:
            raise PlannedStop(slot.operator)
        if answer is None:
            slot.has_failed = True
            raise WorkerFailed
        return answer

    def _drawn(self, plan: Plan) -> dict[str, Any] | None:
        """Return the answer of the worker; None if it failed."""
        child = self._child
        if child is None:
            return None
        try:
            frames.send(child.connection, {"do": "draw", "plan": plan.to_json()})
            reply = frames.receive(child.connection)
            return dict(decode_answer(reply["done"]))
        except Exception:  # whatever a broken worker sends: its failure is held until the tick as any other
            return None

    def _ask(self, message: dict[str, Any]) -> Any:
        """Ask the worker before the charge; raise its problem. Nothing is paid yet, so failing is free."""
        try:
            child = self._child or self._started()
            frames.send(child.connection, message)
            reply = frames.receive(child.connection)
        except Ended:
            raise Unavailable("the source could not be read by a worker. Nothing was charged") from None
        if "problem" in reply:
            raise TallystickError.from_data(reply["problem"])
        if "done" not in reply:
            raise Unavailable("the plan could not be tried by a worker. Nothing was charged")
        return reply["done"]

    def _started(self) -> Child:
        """Start the worker, and hand it the opened files."""
        child = self._child = self._slot.start()
        message: dict[str, Any] = {
            "source": [self.source.kind, self.source.place],
            "tables": self._tables,
            "files": [self._given(number, path) for number, path in enumerate(self.files)],
        }
        if self.source.kind == "postgres":
            message["server"] = _server_of(self._slot.connections, self._slot.population, self.source.place)
        frames.send(child.connection, message, [file.descriptor for file in self.files.values()])
        reply = frames.receive(child.connection)
        if "problem" in reply:
            raise TallystickError.from_data(reply["problem"])
        return child

    def _given(self, number: int, path: str) -> list[str | None]:
        """Return the path of a file, its resolved path, and a link to it. A CSV file is read by its descriptor."""
        file = self.files[path]
        is_text = path in self.source.paths_of("csv")
        link = None if is_text else file.link_into(self._slot.folder, f"given{number}")
        return [path, file.real, None if link is None else str(link)]

    def check_unchanged(self) -> None:
        """Do nothing: the worker compares the files that it read."""

    def close(self) -> None:
        """End the worker, then close the files."""
        child, self._child = getattr(self, "_child", None), None
        if child is not None:
            child.close()
        for file in self._opened:
            file.close()
        self._opened.clear()


def _file_of(connections: Connections, population: str, path: str) -> OpenFile:
    """Open a registered file by the connection that it is on; refuse one that is on none of its population."""
    known = {each.name: each for each in connections.list() if isinstance(each, Folder)}
    allowed = connections.allowed(population)
    found = [known[name] for name in allowed if name in known and Path(path).is_relative_to(known[name].path)]
    if not found:
        raise _not_connected()
    nearest = max(found, key=lambda each: len(each.path.parts))
    return connections.opened(population, nearest.name, str(Path(path).relative_to(nearest.path)))


def _server_of(connections: Connections, population: str, place: str) -> str:
    """Return the pinned place of a registered server, by its connection."""
    known = {each.name: each for each in connections.list() if isinstance(each, Server)}
    found = [name for name in connections.allowed(population) if name in known and str(known[name].place) == place]
    if not found:
        raise _not_connected()
    return str(connections.place_of(population, found[0]))


def _not_connected() -> Refused:
    problem = "this dataset is not on a connection of its population. Nothing was charged. Tell the operator"
    return Refused(problem, code="not_connected")
