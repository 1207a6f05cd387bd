"""A file that is opened once. Its identity, its bytes and its snapshot all come from one descriptor.

A path can lead to another file a moment later: its owner renames a new version into place, or an attacker flips a link.
So a release resolves each path once, before the charge. It compares the *opened* file with the registered ones, and the
engine reads a private snapshot that was made from the descriptor.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import struct
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from tallystick.errors import InvalidInput, Refused, Unavailable
from tallystick.place import shown
from tallystick.tables.scratch import is_private, private_root

_CLONE: Final = 0x40049409
"""FICLONE of linux/fs.h: the new file shares the old one's blocks until either is written."""

_FLOCK: Final = "hhqqi4x"
"""struct flock of fcntl.h on Linux: type, whence, start, length, process."""

_BLOCK: Final = 4 << 20
_REPLACED: Final = "was replaced while it was opened; nothing was charged. Ask again"
_CHANGED: Final = "changed while it was copied; nothing was charged. Ask again when no program writes to it"


class FileId(NamedTuple):
    """Device and inode: two names of one file share them."""

    device: int
    inode: int


class _Version(NamedTuple):
    """Size and time of the last write: they change when a program writes into the file."""

    size: int
    modified: int


class OpenFile:
    """A regular file behind one descriptor.

    ``path`` is the name that was given, ``real`` is the resolved path of the file that was opened.
    """

    def __init__(self, path: Path | str, argument: str = "source") -> None:
        self.path = str(path)
        self._linked: Path | None = None
        with _opening:
            _refuse_locked_here(self.path)
            self._descriptor = _open(self.path, argument)
            _own.add(self._descriptor)
        try:
            self.id = self._file_id()
            self._version = self._version_now()
            self.real = _real_path(self._descriptor, self.id, self.path)
            if _is_of_the_system(self.real, self.id):
                raise Refused(f"{shown(self.path)} leads to a file of the system, which holds no data of people")
            if is_private(self.real):
                raise Refused(f"{shown(self.path)} leads to a private snapshot of a release. Give the file itself")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> OpenFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def size(self) -> int:
        """Bytes when the file was opened."""
        return self._version.size

    @property
    def written(self) -> int:
        """Time of the last write when the file was opened, in nanoseconds."""
        return self._version.modified

    @contextlib.contextmanager
    def stream(self) -> Iterator[BinaryIO]:
        """The bytes from the start. One stream at a time: streams share the descriptor's position."""
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        with os.fdopen(os.dup(self._descriptor), "rb") as file:
            yield file

    def copy(self, target: Path) -> Path:
        """Write the bytes to ``target``, which only this user can open. In-place changes meanwhile are refused."""
        mode = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(os.open(target, mode, 0o600), "wb") as out:
            if not _cloned(self._descriptor, out.fileno()):
                _copied(self._descriptor, out)
        if self._version_now() != self._version:
            raise Unavailable(f"{shown(self.path)} {_CHANGED}")
        return target

    def snapshot(self, folder: Path, name: str) -> Path:
        """A private path to the bytes, for engines that open files by name.

        A clone is best. A hard link costs nothing, and ``unchanged`` must be asked after reading. Else it is a copy:
        put TMPDIR on the file system of the data to avoid it.
        """
        target = folder / name
        mode = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(os.open(target, mode, 0o600), "wb") as out:
            if _cloned(self._descriptor, out.fileno()):
                return target
        target.unlink()
        self._linked = self._link(folder, name)
        return self._linked or self.copy(target)

    def unchanged(self) -> bool:
        """False if the snapshot is a hard link and a program wrote into the file."""
        return self._linked is None or self._version_now() == self._version

    def lock(self) -> None:
        """Take the shared lock that DuckDB's readers take, or refuse while a writer has the file open.

        On Linux the lock belongs to the descriptor: one of the process would take the place of DuckDB's own.
        """
        try:
            if sys.platform == "linux":
                fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, _whole_file(fcntl.F_RDLCK))
            else:
                fcntl.lockf(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            raise Unavailable(
                f"{shown(self.path)} is open for writing elsewhere; nothing was charged. Ask again"
            ) from None

    def close(self) -> None:
        """Close the descriptor."""
        with _opening:
            if self._descriptor >= 0:
                _own.discard(self._descriptor)
                os.close(self._descriptor)
                self._descriptor = -1

    def _file_id(self) -> FileId:
        status = os.fstat(self._descriptor)
        return FileId(status.st_dev, status.st_ino)

    def _version_now(self) -> _Version:
        status = os.fstat(self._descriptor)
        return _Version(status.st_size, status.st_mtime_ns)

    def _link(self, folder: Path, name: str) -> Path | None:
        """A hard link from the descriptor in a private folder of the same file system; None if that is refused."""
        if os.fstat(self._descriptor).st_uid != os.geteuid():
            return None
        with contextlib.suppress(OSError):
            return self._linked_at(folder / name)
        return None

    def _linked_at(self, target: Path) -> Path:
        """A hard link to the opened file itself. With ``src_dir_fd`` Python calls linkat, which follows this name."""
        if sys.platform != "linux":
            raise OSError(errno.ENOTSUP, "no name leads from a descriptor to its file here")
        folder = os.open("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.link(str(self._descriptor), target, src_dir_fd=folder)
        finally:
            os.close(folder)
        if file_id(target) != self.id:
            raise OSError(errno.ESTALE, "another file was linked")
        return target


# A process that closes any descriptor of a file loses all its POSIX locks on that file, DuckDB's own included: another
# process could write into a database that this one has open. So a file that this process has locked is not opened.

_opening = threading.RLock()
_own: set[int] = set()
"""Descriptors of files that a release has open now."""


def _refuse_locked_here(path: str) -> None:
    """Refuse a file on which this process has a lock: a database that one of its connections has open."""
    meant = file_id(path)
    for descriptor in _descriptors() if meant is not None else ():
        try:
            status = os.fstat(descriptor)
            is_locked = FileId(status.st_dev, status.st_ino) == meant and _is_locked(descriptor)
        except OSError:  # it was closed meanwhile
            continue
        if is_locked:
            raise Unavailable(
                f"this process has {shown(path)} open, and reading it again would lose the lock of that connection. "
                "Close the connection (duckdb: connection.close()) and ask again; nothing was charged"
            )


def _descriptors() -> list[int]:
    """The descriptors of this process, without those of releases."""
    folder = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
    return [int(name) for name in os.listdir(folder) if int(name) not in _own]


def _is_locked(descriptor: int) -> bool:
    """True if this process has a lock on the file of a descriptor that is not a snapshot of ours.

    Other systems than Linux do not tell. There a file that is open for writing counts as locked.
    """
    if sys.platform != "linux":
        return fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
    if Path(os.readlink(f"/proc/self/fd/{descriptor}")).is_relative_to(private_root()):
        return False
    found = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _whole_file(fcntl.F_WRLCK))
    kind, *_, process = struct.unpack(_FLOCK, found)
    return bool(kind != fcntl.F_UNLCK and process == os.getpid())


def _whole_file(lock: int) -> bytes:
    return struct.pack(_FLOCK, lock, os.SEEK_SET, 0, 0, 0)


def _before_fork() -> None:
    _opening.acquire()


os.register_at_fork(before=_before_fork, after_in_parent=_opening.release, after_in_child=_opening.release)


def _open(path: str, argument: str) -> int:
    """The descriptor of a regular file. A pipe or a device would be waited for, so it is not opened to the end."""
    wish = "an existing file that can be read; patterns such as *.parquet are not read"
    if "\0" in path or not _is_text(path):
        raise InvalidInput(argument, shown(path.encode(errors="replace").decode()), wish)
    try:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        descriptor = os.open(path, flags)
    except OSError:
        descriptor = -1
    if descriptor < 0:  # not inside the handler: the system's error quotes the path, which may be a URL with a password
        raise InvalidInput(argument, shown(path), wish)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InvalidInput(argument, shown(path), wish)
    return descriptor


_SYSTEM: Final = ("/proc", "/sys", "/dev")
_MEMORY: Final = "/dev/shm/"
"""A file system in memory for files of users."""


def _is_of_the_system(real: str, opened: FileId) -> bool:
    """True for a file that the kernel makes up, such as the environment of this process. A link may lead there."""
    if real.startswith(_MEMORY):
        return False
    if real.startswith(tuple(f"{folder}/" for folder in _SYSTEM)):
        return True
    made_up = [file_id(folder) for folder in ("/proc", "/sys")]
    return opened.device in [folder.device for folder in made_up if folder is not None and folder.device != _root()]


def _root() -> int:
    """The device of the root folder, which /proc and /sys have if nothing is mounted there."""
    return os.stat("/").st_dev


def _is_text(path: str) -> bool:
    """False for names with bytes that are not UTF-8: the ledger records names as text."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _real_path(descriptor: int, opened: FileId, path: str) -> str:
    """The resolved path of an opened file, as the system knows it; a path that leads elsewhere by now is refused."""
    if sys.platform == "linux":
        real = _name_on_linux(descriptor)
    elif sys.platform == "darwin":
        real = os.fsdecode(fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
    else:
        raise Refused(f"{sys.platform} cannot tell which file was opened, so private files are not read here")
    if real is None or not _is_text(real):
        raise InvalidInput("source", shown(path), "a file whose whole path is UTF-8 and not too long for the system")
    if file_id(real) != opened:
        raise Unavailable(f"{shown(path)} {_REPLACED}")
    return real


def _name_on_linux(descriptor: int) -> str | None:
    """The resolved path of an opened file; None if it is longer than the system can tell (4,095 bytes)."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError as problem:
        if problem.errno != errno.ENAMETOOLONG:
            raise
    return None


def file_id(path: Path | str) -> FileId | None:
    """Device and inode of the file that a path leads to now, links followed; None without a file."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return FileId(status.st_dev, status.st_ino)


def _cloned(source: int, target: int) -> bool:
    """True if the file system made ``target`` a clone of ``source``."""
    if sys.platform != "linux":
        return False
    try:
        fcntl.ioctl(target, _CLONE, source)
    except OSError:
        return False
    return True


def _copied(source: int, target: BinaryIO) -> None:
    """Copy all bytes of a descriptor."""
    os.lseek(source, 0, os.SEEK_SET)
    with os.fdopen(os.dup(source), "rb") as file:
        shutil.copyfileobj(file, target, _BLOCK)
