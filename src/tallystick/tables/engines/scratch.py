"""A folder for what does not fit in memory: only its user can open it, and it goes with the engine that made it.

A killed process leaves its folder behind, with data. So each holds a file that is locked while its engine lives, and
whoever makes the next folder removes those of the same user whose file is no longer locked.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from pathlib import Path

PREFIX = "tallystick-"
ALIVE = "alive"


class Scratch:
    """The folder; ``close`` removes it."""

    def __init__(self) -> None:
        _sweep(Path(tempfile.gettempdir()))
        self._folder = tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True)
        self.path = Path(self._folder.name)
        fresh = self.path / "fresh"
        self._lock = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        fresh.rename(self.path / ALIVE)  # so that nobody finds it before it is locked

    def close(self) -> None:
        """Remove the folder."""
        self._folder.cleanup()
        os.close(self._lock)


def _sweep(folder: Path) -> None:
    """Remove what killed processes of this user left."""
    for left in folder.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            found = left.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
                continue
            lock = os.open(left / ALIVE, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(lock)
