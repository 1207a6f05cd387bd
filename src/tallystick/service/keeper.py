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
import socket
import struct
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tallystick.errors import InvalidInput, Refused, TallystickError, Unavailable
from tallystick.ledger.book import Ledger
from tallystick.ledger.chain import config_directory
from tallystick.place import Place
from tallystick.service import frames, protocol, sandbox
from tallystick.service.actions import HANDLERS, Desk
from tallystick.service.connections import Connections
from tallystick.service.defects import defect
from tallystick.service.failures import Failures
from tallystick.service.frames import Ended
from tallystick.service.jobs import Jobs
from tallystick.service.opening import NeedsSlot, ServedReader
from tallystick.service.planner import Planners
from tallystick.service.replays import Replays
from tallystick.service.running import Running, emptied
from tallystick.service.settings import Settings
from tallystick.service.template import Template
from tallystick.tables.files import OpenFile
from tallystick.tables.identity import populations_of
from tallystick.tables.reader import open_sources_by

_PEER: Final = struct.Struct("3i")
"""Process, user and group at the other end of a unix socket."""


class Keeper:
    """The keeper of one ledger."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        folder = Path(settings.folder)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.ExitStack() as opened:
            opened.enter_context(_only_keeper(folder))
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
            place = Place.of(settings.ledger)
            connections = Connections(
                folder / "connections.json",
                private=[config_directory()],
                ledger=place,
                belongs_to=lambda file: _population_of(file, ledger),
            )
            planners = Planners(template, settings.ledger, folder / "planners", settings.planners)
            opened.callback(planners.close)
            replays = Replays(ledger)
            self.running = Running(settings, ledger, queue, connections, template, replays, emptied(folder / "work"))
            self.running.end_left_jobs()
            self._desk = Desk(ledger, queue, connections, planners, replays, failures, self.running, settings)
            self._listener = _listening(folder / protocol.SOCKET)
            opened.callback(self._listener.close)
            self._opened = opened.pop_all()

    def run(self) -> None:
        """Serve until the service is stopped."""
        threading.Thread(target=self._accept, daemon=True).start()
        try:
            self.running.serve()
        finally:
            self._opened.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            if _user_of(connection) in (os.geteuid(), self.settings.front):
                threading.Thread(target=self._converse, args=(connection,), daemon=True).start()
            else:
                connection.close()

    def _converse(self, connection: socket.socket) -> None:
        """Answer the messages of one connection, one after the other."""
        with connection:
            while True:
                try:
                    message = frames.receive(connection, frames.LONGEST_ASKED)
                    frames.send(connection, self.answer(message))
                except Ended:
                    return
                except InvalidInput as problem:  # it is not a message, so nothing behind it can be read
                    with contextlib.suppress(Ended):
                        frames.send(connection, {"problem": problem.to_data()})
                    return

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of an action, or the problem with it. Of a defect the client gets a number alone."""
        try:
            action, token, fields = protocol.checked(message)
            return {"result": HANDLERS[action](self._desk, self.ledger.with_token(token), **fields)}
        except TallystickError as problem:
            return {"problem": problem.to_data()}
        except (Exception, NeedsSlot) as problem:
            return {"problem": defect(problem).to_data()}


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


@contextlib.contextmanager
def _only_keeper(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder: it has one keeper."""
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise Unavailable(f"a service runs in {folder} already") from None
    try:
        yield
    finally:
        os.close(lock)


def _listening(path: Path) -> socket.socket:
    """Return a listening socket at a path that only this user can reach."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        listener.bind(str(path))
    except OSError:
        listener.close()
        raise InvalidInput("folder", str(path.parent), "a folder with a shorter path (107 bytes)") from None
    os.chmod(path, 0o600)
    listener.listen(128)
    return listener


def _user_of(connection: socket.socket) -> int:
    """Return the user of the process at the other end."""
    _, user, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return int(user)


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
