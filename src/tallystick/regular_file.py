"""Files that a user names: read only if they are regular files, and written as a whole or not at all.

A pipe or a device is refused at once, because opening or reading it could wait for ever.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tallystick.errors import Unavailable

_OPEN_FILES = ("/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/")
"""Beginnings of names that lead to an open file. Other files below /dev are ordinary: /dev/shm is a RAM disk."""

_MOST_TRIES = 1000
"""Each is lost only if a link is replaced at that moment."""

_REPLACED = (errno.EINVAL, errno.ENOENT)
"""Errors of a link that became a file, or is gone."""

_SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors that say nothing about the folder that was opened."""


def regular(path: str, flags: int) -> int:
    """Return the descriptor of a regular file, as an ``opener`` of ``open``; raise ``OSError`` for anything else."""
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY, 0o666)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, "not a regular file", path)


def real_path(path: Path | str) -> str:
    """Return the path to which a name leads now, with links resolved, also while a program replaces a link in it.

    Python's own function fails if a link is gone between looking at it and reading it. A link that this user may not
    read (``/proc/1/cwd``) leads nowhere: such a name is returned unresolved.

    >>> real_path("/proc/../tmp/./visits.csv") == os.path.realpath("/tmp/visits.csv")
    True
    """
    for _ in range(_MOST_TRIES):
        try:
            return os.path.realpath(path)
        except OSError as problem:
            if problem.errno not in _REPLACED:
                return os.path.abspath(path)
    raise Unavailable(
        "a path cannot be resolved: a program replaces a link of it again and again, or the working folder is gone. "
        "Ask again when the program is done, or from another folder"
    )


def files_below(folder: os.PathLike[str] | str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield path and status of all that is in a folder and in its folders, without the folders.

    Links are yielded and not followed. Nothing is yielded if it is not a folder. A folder that is gone or may not be
    entered is passed over. ``os.walk`` of Python 3.11 fails at a thousand folders inside each other.
    """
    folders = [os.fspath(folder)]
    while folders:
        for entry in _entries(folders.pop()):
            status = _status(entry)
            if status is None:
                continue
            if stat.S_ISDIR(status.st_mode):
                folders.append(entry.path)
            else:
                yield entry.path, status


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """Return what is in a folder; nothing if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as problem:
        is_short = problem.errno in _SHORT
    if is_short:
        raise Unavailable("too many files are open to look through a registered folder. Raise the limit (ulimit -n)")
    return []


def _status(entry: os.DirEntry[str]) -> os.stat_result | None:
    """Return the status of an entry itself; None if it is gone or may not be seen."""
    with suppress(OSError):
        return entry.stat(follow_symlinks=False)
    return None


def read_bytes(path: Path | str) -> bytes:
    """Return what is in a regular file."""
    with open(path, "rb", opener=regular) as file:
        return file.read()


def read_text(path: Path | str, encoding: str = "utf-8") -> str:
    """Return the text of a regular file."""
    with open(path, encoding=encoding, opener=regular) as file:
        return file.read()


@contextmanager
def written_whole(path: Path | str) -> Iterator[Path]:
    """Yield the name of a new file in the same folder, and put it in the place of ``path`` at the end.

    If writing fails, for example on a full disk, the earlier file stays and the new one is removed. A link is replaced,
    and the file that it leads to stays. A device, and a file in a folder that cannot be written, is written directly.

    >>> import tempfile
    >>> table = Path(tempfile.mkdtemp()) / "table.csv"
    >>> with written_whole(table) as new:
    ...     _ = new.write_text("ward,n")
    >>> table.read_text(), [file.name for file in table.parent.iterdir()]
    ('ward,n', ['table.csv'])
    """
    target = Path(path)
    new = _new_file(target)
    if new is None:
        yield target
        return
    try:
        yield new
        _put(new, target)
    finally:
        with suppress(FileNotFoundError):
            new.unlink()


def write_whole(path: Path | str, text: str, encoding: str = "utf-8") -> Path:
    """Write a text file as it is, newline for newline, and as a whole."""
    with written_whole(path) as new:
        new.write_text(text, encoding=encoding, newline="")
    return Path(path)


def require_writable(path: Path | str) -> None:
    """Raise ``OSError`` if ``written_whole`` could not write this file now; a new file is tried and removed.

    >>> import tempfile
    >>> require_writable(Path(tempfile.mkdtemp()) / "table.csv")
    >>> require_writable("/")
    Traceback (most recent call last):
    ...
    IsADirectoryError: [Errno 21] Is a directory: '/'
    """
    target = Path(path)
    _require_regular(target)
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    new = _name_beside(target)
    try:
        _create(new)
    except PermissionError:
        if not target.exists():  # a file that is there is written directly
            raise
    else:
        new.unlink()


def _require_regular(target: Path) -> None:
    """Raise for a folder, a pipe, a device, and a link to a missing file."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        if target.is_symlink():
            raise OSError(errno.ENOENT, "a link to a missing file", str(target)) from None
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file", str(target))


def _name_beside(target: Path) -> Path:
    """Return a new name in the folder of the target, at least as long as its name."""
    name = f".tallystick-{uuid.uuid4().hex}"
    return target.parent / name.ljust(len(os.fsencode(target.name)), "-")


def _create(new: Path) -> None:
    """Create an empty file."""
    os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))


def _new_file(target: Path) -> Path | None:
    """Create a file beside the target, with the rights that it will have; None if the target is written directly."""
    is_device = target.exists() and not target.is_file()
    if is_device or os.path.abspath(target).startswith(_OPEN_FILES):
        return None
    new = _name_beside(target)
    try:
        _create(new)
    except PermissionError:
        if target.is_file():
            return None
        raise
    if target.is_file() and not target.is_symlink():
        shutil.copymode(target, new)
    return new


def _put(new: Path, target: Path) -> None:
    """Rename a file into place. In a folder like /tmp a file of another user is not replaced but written."""
    try:
        os.replace(new, target)
    except PermissionError:
        shutil.copyfile(new, target)
