"""Conversations: connections to the socket of the keeper. Each has a thread, and their number is limited.

A flood of connections must not take the descriptors and threads that running jobs need: a job that cannot be recorded
fails, and a failure closes its data. So there is a most. Beyond it the connection that has been silent for longest is
closed; those whose answer is being made are kept.
"""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import struct
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tallystick.errors import InvalidInput, Unavailable
from tallystick.service import frames
from tallystick.service.frames import Ended

MOST: Final = 256
"""Connections at once."""
MOST_OF_ONE: Final = 32
"""Messages of a principal that are answered at once."""
_MOST_FILES: Final = 1 << 16
_SHARE: Final = 4
"""Connections get a fourth of the descriptors at most."""
_PAUSE: Final = 0.1
"""Seconds after an error of accept: without descriptors the next one fails at once."""
_PEER: Final = struct.Struct("3i")
"""Process, user and group at the other end of a unix socket."""

Answer = Callable[[Mapping[str, Any]], dict[str, Any]]


class Conversations:
    """The connections of one keeper to a socket at ``path``, for processes of some users of the system."""

    def __init__(self, path: Path, users: Collection[int | None], answer: Answer) -> None:
        self._users, self._answer = users, answer
        self._most = max(1, min(MOST, _descriptors() // _SHARE))
        self._lock = threading.Lock()
        self._silent: OrderedDict[socket.socket, None] = OrderedDict()
        """Connections without a whole message, the one that has been silent for longest first."""
        self._count = 0
        self._is_closed = False
        self._listener = _listening(path)

    def start(self) -> None:
        """Accept connections from now on."""
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accept no more connections."""
        self._is_closed = True
        self._listener.close()

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed, or no descriptor is left: those of ended conversations come back
                time.sleep(_PAUSE)
                continue
            if not self._begin(connection):
                connection.close()

    def _begin(self, connection: socket.socket) -> bool:
        """Begin a conversation; return False if there can be none."""
        if _user_of(connection) not in self._users or not self._has_room():
            return False
        with self._lock:
            self._count += 1
            self._silent[connection] = None
        try:
            threading.Thread(target=self._converse, args=(connection,), daemon=True).start()
        except RuntimeError:  # the system starts no more threads
            self._end(connection)
            return False
        return True

    def _has_room(self) -> bool:
        """True if there may be one more connection; the most silent one gives way."""
        with self._lock:
            if self._count < self._most:
                return True
            if not self._silent:
                return False
            silent, _ = self._silent.popitem(last=False)
            with contextlib.suppress(OSError):
                silent.shutdown(socket.SHUT_RDWR)  # its thread sees the end
            return True

    def _end(self, connection: socket.socket) -> None:
        with self._lock:
            self._count -= 1
            self._silent.pop(connection, None)

    def _converse(self, connection: socket.socket) -> None:
        """Answer the messages of one connection, one after the other."""
        with connection:
            try:
                while self._exchange(connection):
                    pass
            except Ended:
                return
            finally:
                self._end(connection)

    def _exchange(self, connection: socket.socket) -> bool:
        """Answer one message; return False if it is not a message, so that nothing behind it can be read."""
        try:
            message = frames.receive(connection, frames.LONGEST_ASKED)
        except InvalidInput as problem:
            frames.send(connection, {"problem": problem.to_data()})
            return False
        with self._answering(connection):
            answer = self._answer(message)
        frames.send(connection, answer)
        return True

    @contextlib.contextmanager
    def _answering(self, connection: socket.socket) -> Iterator[None]:
        """Keep a connection while its answer is made."""
        with self._lock:
            self._silent.pop(connection, None)
        try:
            yield
        finally:
            with self._lock:
                self._silent[connection] = None


class AtOnce:
    """Number of messages of each principal that are being answered."""

    def __init__(self, most: int = MOST_OF_ONE) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._now: dict[str, int] = {}

    @contextlib.contextmanager
    def one(self, principal: str) -> Iterator[None]:
        """Count one message of a principal while it is answered; refuse it if there are too many."""
        with self._lock:
            count = self._now.get(principal, 0)
            if count >= self._most:
                problem = f"{self._most} messages of yours are being answered. Wait for one of them"
                raise Unavailable(problem, code="too_many_requests")
            self._now[principal] = count + 1
        try:
            yield
        finally:
            with self._lock:
                self._now[principal] -= 1
                if not self._now[principal]:
                    del self._now[principal]


def _descriptors() -> int:
    """Let this process open as many files as the system allows it; return how many."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most


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
