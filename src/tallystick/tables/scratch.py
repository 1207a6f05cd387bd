"""Private folders for snapshots, copies, and what does not fit in memory.

Only their user can open them, and they go with the process that made them. A killed process leaves its folder behind,
with data. So each folder holds a file that is locked while its maker lives. Making the next folder in the same place
removes the folders of the same user whose file is no longer locked.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path
from typing import Final

PREFIX: Final = "tallystick-"
ALIVE: Final = "alive"
_BETWEEN_SWEEPS: Final = 60.0
"""Seconds. A small release opens two folders, and looking at all others would take a tenth of its time."""

_swept: dict[Path, float] = {}


class Scratch:
    """A folder in the system's place for temporary files, or a hidden one in ``parent``; ``close`` removes it."""

    def __init__(self, parent: Path | None = None) -> None:
        place = Path(tempfile.gettempdir()) if parent is None else parent
        prefix = PREFIX if parent is None else f".{PREFIX}"
        _sweep_now_and_then(place)
        self._folder = tempfile.TemporaryDirectory(prefix=prefix, dir=place, ignore_cleanup_errors=True)
        self.path = Path(self._folder.name)
        fresh = self.path / "fresh"
        self._lock = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        fresh.rename(self.path / ALIVE)  # a sweeper finds it only once it is locked

    def close(self) -> None:
        """Remove the folder."""
        self._folder.cleanup()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _sweep_now_and_then(place: Path) -> None:
    now = time.monotonic()
    if now - _swept.get(place, -math.inf) >= _BETWEEN_SWEEPS:
        _swept[place] = now
        _sweep(place)


def _sweep(place: Path) -> None:
    """Remove the folders that killed processes of this user left."""
    names: list[str] = []
    with contextlib.suppress(OSError):
        names = os.listdir(place)  # many times quicker than a pattern, and there are folders with many names
    for name in names:
        if name.removeprefix(".").startswith(PREFIX):
            with contextlib.suppress(OSError):
                _remove_if_dead(place / name)


def _remove_if_dead(folder: Path) -> None:
    """Remove one folder if this user owns it and nobody holds its lock."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        return
    lock = os.open(folder / ALIVE, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
