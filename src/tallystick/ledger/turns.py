"""A queue of processes at a small file: each waits for its turn in the order in which it came, for a bounded time.

``flock`` is fair and has no time limit. Polling has a limit and starves those who wait. So a thread waits for the lock.
If the time is over, the thread keeps its descriptor: it leaves the queue as soon as it gets its turn.
"""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path
from typing import Final

from tallystick.errors import Unavailable
from tallystick.ledger.chain import own_file
from tallystick.place import shown

PATIENCE: Final = 30.0
"""Seconds after which a process that waits gives up. One that holds the lock for longer is stopped, or means harm."""


class Queue:
    """The lock of a file. Where the file cannot be opened, every process has its turn at once.

    >>> import tempfile
    >>> queue = Queue(Path(tempfile.mkdtemp()) / "gate")
    >>> queue.is_next(), queue.descriptor >= 0
    (True, True)
    >>> queue.leave()
    >>> queue.close()
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.descriptor = self._opened()

    def _opened(self) -> int:
        try:
            return own_file(self._path, os.O_RDWR | os.O_CREAT)
        except OSError:
            return -1  # a folder or a file that is read-only to us: nothing is shared

    def is_next(self) -> bool:
        """Take the lock if it is free; False if another process has it."""
        if self.descriptor < 0:
            return True
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def wait(self) -> None:
        """Take the lock, after those who came before."""
        if self.is_next():
            return
        waiting = _Waiting(self.descriptor)
        is_taken = False
        try:
            is_taken = waiting.is_served(PATIENCE)
        finally:  # an interruption gives up, too
            if not is_taken and waiting.gives_up():
                self.descriptor = self._opened()
        if not is_taken:
            raise Unavailable(
                f"another process has held {shown(self._path)} for {PATIENCE:.0f} seconds. Nothing was granted or "
                "delivered, and what was charged stays paid. Find the processes that have this file open, and end the "
                "one that is stopped"
            )

    def leave(self) -> None:
        """Give the lock to the next one."""
        if self.descriptor >= 0:
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of the file."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = -1


class _Waiting:
    """A thread that waits for a lock."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._guard = threading.Lock()
        self._served = threading.Event()
        self._has_given_up = False
        try:
            threading.Thread(target=self._wait, daemon=True).start()
        except RuntimeError:  # no thread can begin, as at the end of a process: wait here
            self._wait()

    def _wait(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        with self._guard:
            if not self._has_given_up:
                self._served.set()
                return
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)  # a forked child may have inherited the descriptor
        os.close(self._descriptor)

    def is_served(self, seconds: float) -> bool:
        """True if the lock was taken in this time."""
        return self._served.wait(seconds)

    def gives_up(self) -> bool:
        """Leave the descriptor to the thread. If the lock was taken just now, give it back; then return False."""
        with self._guard:
            self._has_given_up = not self._served.is_set()
        if not self._has_given_up:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        return self._has_given_up
