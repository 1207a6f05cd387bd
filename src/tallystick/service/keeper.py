"""The keeper: the only process that writes the ledger of a service.

It holds the key of the ledger, decides who may do what, and runs the jobs. It has no network listener: other processes
of the host ask it on a unix socket. It opens the files of its connections, and never reads a row.

    python -m tallystick.service.keeper SETTINGS
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import stat
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tallystick.errors import InvalidInput, Refused, TallystickError, Unavailable
from tallystick.ledger.book import Ledger
from tallystick.ledger.chain import config_directory
from tallystick.place import Place
from tallystick.service import protocol, sandbox
from tallystick.service.actions import HANDLERS, Desk
from tallystick.service.connections import Connections
from tallystick.service.conversations import AtOnce, Conversations
from tallystick.service.defects import defect
from tallystick.service.failures import Failures
from tallystick.service.jobs import Jobs
from tallystick.service.opening import NeedsSlot, ServedReader
from tallystick.service.planner import Planners
from tallystick.service.rates import WORK, Metered
from tallystick.service.replays import Replays
from tallystick.service.running import Running, emptied
from tallystick.service.settings import Settings
from tallystick.service.template import Template
from tallystick.tables.files import OpenFile
from tallystick.tables.identity import populations_of
from tallystick.tables.reader import open_sources_by


class Keeper:
    """The keeper of one ledger."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        folder = Path(settings.folder)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.ExitStack() as opened:
            _require_private(folder)
            place = Place.of(settings.ledger)
            opened.enter_context(_only_keeper(folder / "lock"))
            if place.path is not None:  # another folder would have other suspensions and other slots
                opened.enter_context(_only_keeper(Path(f"{os.path.realpath(place.path)}.keeper")))
            template = Template()  # before there is a thread, a key or a connection
            opened.callback(template.close)
            open_sources_by(ServedReader)
            self.ledger = ledger = opened.enter_context(Ledger(settings.ledger, create=False, combine=True))
            require_service(ledger)
            ledger.is_served = True
            failures = Failures(folder / "failures")
            ledger.failure_log = failures.add
            queue = Jobs(folder / "jobs.db")
            opened.callback(queue.close)
            connections = Connections(
                folder / "connections.json",
                private=[config_directory()],
                ledger=place,
                belongs_to=lambda file: _population_of(file, ledger),
            )
            self._work = Metered(WORK)
            planners = Planners(template, settings.ledger, folder / "planners", self._work.bill, settings.planners)
            opened.callback(planners.close)
            replays = Replays(ledger)
            work = emptied(folder / "work")
            self.running = Running(settings, ledger, queue, connections, template, replays, self._work, work)
            self.running.end_left_jobs()
            self._desk = Desk(ledger, queue, connections, planners, replays, failures, self.running, settings)
            self._at_once = AtOnce()
            users = (os.geteuid(), settings.front)
            self._conversations = Conversations(folder / protocol.SOCKET, users, self.answer)
            opened.callback(self._conversations.close)
            self._opened = opened.pop_all()

    def run(self) -> None:
        """Serve until the service is stopped."""
        self._conversations.start()
        try:
            self.running.serve()
        finally:
            self._opened.close()

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of an action, or the problem with it. Of a defect the client gets a number alone."""
        try:
            action, token, fields = protocol.checked(message)
            view = self.ledger.with_token(token)
            with self._at_once.one(view.actor), self._work.metered(view.actor):
                return {"result": HANDLERS[action](self._desk, view, **fields)}
        except TallystickError as problem:
            return {"problem": self._told(message, problem)}
        except (Exception, NeedsSlot) as problem:
            return {"problem": defect(problem).to_data()}

    def _told(self, message: Mapping[str, Any], problem: TallystickError) -> dict[str, Any]:
        """Return a problem as the client gets it."""
        data = problem.to_data()
        return data if _is_about_places(message) else dict(self._desk.connections.without_places(data))


def _is_about_places(message: Mapping[str, Any]) -> bool:
    """True for an action of an operator, who names places."""
    action = message.get("action")
    return isinstance(action, str) and "place" in protocol.ACTIONS.get(action, {})


def require_service(ledger: Ledger) -> None:
    """Raise unless a service can keep this ledger: it has roles, this user has a key, and is its operator."""
    ledger.refresh()
    if not ledger.has_roles:
        raise Refused("a service needs a ledger with roles. Govern this one, then begin roles", code="no_roles")
    if not ledger.can_write():
        raise Refused("the user of this service has no key of the ledger. Add one", code="no_key")
    if not ledger.may("stop_jobs", None):
        raise Refused(
            "the user of this service is not an operator of the ledger, so it could not end jobs when it is stopped",
            code="no_operator",
        )


def _population_of(file: OpenFile, ledger: Ledger) -> str | None:
    """Return the population for which an opened file is registered; an empty text if there are several."""
    tops = {ledger.population_of(account) for account in populations_of(file, ledger)}
    return None if not tops else tops.pop() if len(tops) == 1 else ""


def _require_private(folder: Path) -> None:
    """Raise if another user of the system can enter the folder of the service, or made it."""
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise InvalidInput("folder", str(folder), "a folder that this user made and alone can enter (chmod 700)")


@contextlib.contextmanager
def _only_keeper(path: Path) -> Iterator[None]:
    """Hold a lock in a file: a folder has one keeper, and so has a ledger."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise Unavailable(f"a service runs in {path.parent} already: it holds {path.name}") from None
    try:
        yield
    finally:
        os.close(lock)


def main(text: str, ready: Callable[[], None] = lambda: None) -> None:
    """Run a keeper with settings as JSON, until SIGTERM or SIGINT; a second signal ends running jobs at once."""
    sandbox.keep_private()
    warnings.simplefilter("ignore")  # warnings quote requests, and are for people at a terminal
    keeper = Keeper(Settings.from_json(text))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: keeper.running.drain())
    ready()
    keeper.run()


def _say_ready() -> None:
    print("ready", flush=True)


if __name__ == "__main__":
    try:
        main(sys.argv[1], _say_ready)
    except TallystickError as problem:
        print(problem, file=sys.stderr)
        sys.exit(problem.exit_code)
