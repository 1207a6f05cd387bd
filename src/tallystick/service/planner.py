"""A planner: a process that reads statements and plans, and says what they cost.

A statement is free to ask about, so it must not keep the keeper busy. A planner may take one second of processor time
for each question; if it takes more, the system ends it, and the keeper starts another one. It reads the ledger with the
eyes of the principal who asks. It has no key, and opens no data.
"""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tallystick.errors import InvalidInput, Refused, TallystickError, Unavailable
from tallystick.ledger.book import Ledger
from tallystick.place import Place
from tallystick.publish.outcome import Offer
from tallystick.publish.request import Request, price
from tallystick.service import frames, sandbox
from tallystick.service.defects import defect
from tallystick.service.frames import Ended
from tallystick.service.rates import MOST_PRINCIPALS
from tallystick.service.template import PLANNER, Child, Template
from tallystick.tables.reader import Reader, open_sources_by

CPU_SECONDS: Final = 1.0
"""Processor time that a question may take."""
MEMORY: Final = 1 << 30
TOO_COSTLY: Final = (
    "this question takes more than a second to plan, so it is refused. Ask for fewer measures, or in several questions"
)

Bill = Callable[[str, float], None]
"""Gets a principal and the processor time of their question."""


def serve(connection: socket.socket, *, ledger: str, folder: str) -> None:
    """Answer questions about costs until the keeper ends. ``folder`` holds what this reader remembers of the ledger."""
    sandbox.limit(memory=MEMORY)
    open_sources_by(_refused)
    place = Place.of(ledger)
    with Ledger(place, create=False, config=folder, inspect=True) as book:
        book.is_served = True
        if place.path is not None:
            sandbox.confine(writable=[Path(folder), *_files_of(place.path)], readable=sandbox.libraries())
        frames.send(connection, {"ready": True})
        while True:
            message, began = frames.receive(connection), time.process_time()
            answer = _answer(message, book)
            frames.send(connection, {**answer, "seconds": time.process_time() - began})


def _files_of(ledger: Path) -> list[Path]:
    """Return the files of a ledger, which its readers have to be able to write: SQLite keeps locks in them."""
    names = [ledger, *(ledger.with_name(f"{ledger.name}{ending}") for ending in ("-wal", "-shm", ".gate", ".sync"))]
    return [path.resolve() for path in names if path.exists()]


def _refused(*_: object, **__: object) -> Reader:
    raise Refused("a planner opens no data")


def _answer(message: Mapping[str, Any], book: Ledger) -> dict[str, Any]:
    """Return the offer for a request, or the problem with it, as data."""
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)  # the signal ends this process
    try:
        book.refresh()
        view = book.acting_for(message["principal"], message["via"])
        request = Request.from_data(message["request"])
        return {"offer": price(request, view, group_sizes=message["sizes"]).to_data()}
    except TallystickError as problem:
        return {"problem": problem.to_data()}
    except RecursionError:
        return {"problem": InvalidInput("request", "nested too deeply", "a simpler question").to_data()}
    except MemoryError:
        return {"problem": Refused(TOO_COSTLY, code="too_costly").to_data()}
    except Exception as problem:
        return {"problem": defect(problem).to_data()}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


class Planners:
    """A few planner processes, in the hands of the keeper.

    Principals take turns: the next free planner goes to the one who got one the longest ago. So a principal who asks
    much waits for their own questions, and another principal for one question of theirs at most.
    """

    def __init__(self, template: Template, ledger: str, folder: Path, bill: Bill, count: int = 2) -> None:
        self._template, self._ledger, self._folder, self._bill = template, ledger, folder, bill
        folder.mkdir(mode=0o700, exist_ok=True)
        self._changed = threading.Condition()
        self._free: list[Child | None] = [None] * count
        self._waiting: list[_Question] = []
        self._turns: dict[str, int] = {}
        """The newest turn of each principal, in the order of turns."""
        self._turn = 0

    def offer(self, message: Mapping[str, Any]) -> Offer:
        """Return the offer for a request; raise the problem with it."""
        principal = message["principal"]
        planner = self._taken(principal)
        seconds = CPU_SECONDS
        try:
            planner = planner or self._started()
            frames.send(planner.connection, message)
            answer = frames.receive(planner.connection)
            seconds = min(CPU_SECONDS, float(answer.pop("seconds")))
        except Ended:
            _closed(planner)
            planner = None
            raise Refused(TOO_COSTLY, code="too_costly") from None
        except BaseException:  # what it sends next could be the answer to this question
            _closed(planner)
            planner = None
            raise
        finally:
            self._put_back(planner)
            self._bill(principal, seconds)
        if "problem" in answer:
            raise TallystickError.from_data(answer["problem"])
        return Offer.from_data(answer["offer"])

    def _taken(self, principal: str) -> Child | None:
        """Wait for a planner and take it; None stands for one that has to be started."""
        question = _Question(principal)
        with self._changed:
            self._waiting.append(question)
            self._changed.wait_for(lambda: self._free and self._next() is question)
            self._waiting.remove(question)
            self._note_turn(principal)
            planner = self._free.pop()
            self._changed.notify_all()
            return planner

    def _next(self) -> _Question:
        return min(self._waiting, key=lambda each: self._turns.get(each.principal, 0))  # the first of equals is oldest

    def _note_turn(self, principal: str) -> None:
        self._turn += 1
        self._turns.pop(principal, None)
        self._turns[principal] = self._turn
        if len(self._turns) > MOST_PRINCIPALS:
            del self._turns[next(iter(self._turns))]

    def _put_back(self, planner: Child | None) -> None:
        with self._changed:
            self._free.append(planner)
            self._changed.notify_all()

    def _started(self) -> Child:
        child = self._template.fork(PLANNER, ledger=self._ledger, folder=str(self._folder))
        try:
            frames.receive(child.connection)
        except Ended:
            child.close()
            raise Unavailable("the ledger cannot be read by a planner. Nothing was charged") from None
        return child

    def close(self) -> None:
        """End the planners that are free."""
        with self._changed:
            for planner in self._free:
                if planner is not None:
                    planner.close()
            self._free = [None] * len(self._free)


def _closed(planner: Child | None) -> None:
    """End a planner, if it was started."""
    if planner is not None:
        planner.close()


class _Question:
    """A question that waits for a planner."""

    def __init__(self, principal: str) -> None:
        self.principal = principal
