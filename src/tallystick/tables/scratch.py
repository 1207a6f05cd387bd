"""Private folders for snapshots, copies, and what does not fit in memory.

Each process has one root folder, which only its user can open. All its folders are inside. Each engine has one of them,
and may open files there and nowhere else. The root goes with its process. A killed process leaves its root behind, with
data. So each root holds a file that is locked while its process lives, and the next process of the same user removes
roots whose file is no longer locked.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import math
import os
import shutil
import stat
import tempfile
import threading
import time
from pathlib import Path
from typing import Final, NamedTuple

from tallystick.regular_file import real_path

PREFIX: Final = "tallystick-"
ALIVE: Final = "alive"
_BETWEEN_SWEEPS: Final = 60.0
"""Seconds. A small release opens two folders, and looking at all others would take a tenth of its time."""


class _Root(NamedTuple):
    path: Path
    lock: int


_roots: dict[tuple[int, str], _Root] = {}
_swept: dict[str, float] = {}
_mutex = threading.RLock()


def private_root() -> Path:
    """The root folder of this process. A forked child gets another root."""
    place = tempfile.gettempdir()
    key = (os.getpid(), place)
    with _mutex:
        root = _roots.get(key)
        if root is None or not root.path.is_dir():
            root = _roots[key] = _made(place)
        return root.path


def _made(place: str) -> _Root:
    path = Path(real_path(tempfile.mkdtemp(prefix=PREFIX, dir=place)))
    fresh = path / "fresh"
    lock = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    fresh.rename(path / ALIVE)  # a sweeper finds it only once it is locked
    return _Root(path, lock)


def is_private(path: str) -> bool:
    """True if a resolved path is inside a root folder, of this process or of any other one.

    A link to ``/proc/PID/fd/N`` leads to a snapshot without knowing its name.
    """
    folders = [folder for folder in Path(path).parents if folder.name.startswith(PREFIX)]
    return any(os.path.lexists(folder / ALIVE) for folder in folders)


class Scratch:
    """A folder inside the root of this process, or inside another folder there; ``close`` removes it."""

    def __init__(self, inside: Path | None = None) -> None:
        _sweep_now_and_then()
        self._process = os.getpid()
        self.path = Path(tempfile.mkdtemp(dir=inside or private_root()))

    def close(self) -> None:
        """Remove the folder. A forked child leaves the folder of its parent alone."""
        if os.getpid() == self._process:
            shutil.rmtree(self.path, ignore_errors=True)


def _sweep_now_and_then() -> None:
    place, now = tempfile.gettempdir(), time.monotonic()
    if now - _swept.get(place, -math.inf) >= _BETWEEN_SWEEPS:
        _swept[place] = now
        _sweep(Path(place))


def _sweep(place: Path) -> None:
    """Remove the roots that killed processes of this user left."""
    names: list[str] = []
    with contextlib.suppress(OSError):
        names = os.listdir(place)  # many times quicker than a pattern, and there are folders with many names
    for name in names:
        if name.startswith(PREFIX):
            with contextlib.suppress(OSError):
                _remove_if_dead(place / name)


def _remove_if_dead(folder: Path) -> None:
    """Remove one root if this user owns it and no process holds its lock. The lock's file is removed last."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        return
    lock = os.open(folder / ALIVE, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(folder)
    finally:
        os.close(lock)


def _remove(root: Path) -> None:
    """Remove a root, and last of all the file that marks it as one: a removal that is killed is done again."""
    for each in root.iterdir():
        if each.name == ALIVE:
            continue
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                each.unlink()
    shutil.rmtree(root, ignore_errors=True)


def _remove_own() -> None:
    """Remove the roots of this process at its end."""
    for (process, _), root in list(_roots.items()):
        if process == os.getpid():
            with contextlib.suppress(OSError):
                _remove(root.path)


atexit.register(_remove_own)
