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
from collections.abc import Callable, Iterator
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
        with _opening:
            _refuse_used_here(file_id(path), str(path), _is_locked)
            self._take(_open(str(path), argument), path)
        self._check()

    @classmethod
    def from_descriptor(cls, descriptor: int, path: Path | str) -> OpenFile:
        """Take a descriptor that was opened for reading, or found (O_PATH, Linux); it is closed with this file.

        It is closed if the file is refused, too. ``path`` names the file in messages; no data are looked for there. A
        file that this process has locked or may write to is refused: a ledger is not a source, and closing any of its
        descriptors would lose the locks of SQLite. A found file is opened only after that check.

        >>> import tempfile
        >>> name = Path(tempfile.mkdtemp(), "visits.csv")
        >>> _ = name.write_text("who")
        >>> with OpenFile.from_descriptor(os.open(name, os.O_RDONLY), "ward/visits.csv") as file:
        ...     file.path, file.size
        ('ward/visits.csv', 3)
        """
        file = cls.__new__(cls)
        with _opening:
            try:
                _own.add(descriptor)
                _refuse_used_here(_id_of(descriptor), str(path), _is_used)
                readable = _for_reading(descriptor, may_reopen=True)
            except BaseException:
                _own.discard(descriptor)
                os.close(descriptor)
                raise
            file._take(readable, path)
            if readable != descriptor:
                _own.discard(descriptor)
                os.close(descriptor)
        file._check()
        return file

    @classmethod
    def received(cls, descriptor: int, path: Path | str, real: str, link: Path | None = None) -> OpenFile:
        """Take the descriptor of a file that another process has opened and checked.

        ``path`` and ``real`` are those of its ``OpenFile``. ``link`` is the name that its ``link_into`` made, in a
        folder that this process can read: ``snapshot`` returns it instead of a copy.

        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile(suffix=".csv") as made, OpenFile(made.name) as opened:
        ...     OpenFile.received(os.dup(opened.descriptor), opened.path, opened.real).id == opened.id
        True
        """
        file = cls.__new__(cls)
        with _opening:
            try:
                file._take(_for_reading(descriptor, may_reopen=False), path)
            except BaseException:
                os.close(descriptor)
                raise
        file.real = real
        if link is not None and file_id(link) != file.id:
            file.close()
            raise Unavailable(f"{shown(file.path)} {_REPLACED}")
        file._linked = file._given = link
        return file

    def _take(self, descriptor: int, path: Path | str) -> None:
        """Make a descriptor that of this file."""
        self.path = str(path)
        self._descriptor = descriptor
        self._linked: Path | None = None
        self._given: Path | None = None
        _own.add(descriptor)
        self.id = _id_of(self._descriptor)
        self._version = self._version_now()

    def _check(self) -> None:
        """Learn the resolved path of the opened file, and refuse files that are not the data of a user."""
        try:
            self.real = _real_path(self._descriptor, self.id, self.path)
            if is_of_the_system(self.real, self.id):
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
    def descriptor(self) -> int:
        """The descriptor, to hand it to another process.

        Both processes then share its position: after that the sender reads nothing from this file.
        """
        return self._descriptor

    @property
    def allowed_folder(self) -> Path | None:
        """The folder of the ``link`` with which this file was received, for engines that open files by name."""
        return None if self._given is None else self._given.parent

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
        put TMPDIR on the file system of the data to avoid it. A received file has its link already.
        """
        if self._given is not None:
            return self._given
        target = folder / name
        mode = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(os.open(target, mode, 0o600), "wb") as out:
            if _cloned(self._descriptor, out.fileno()):
                return target
        target.unlink()
        return self.link_into(folder, name) or self.copy(target)

    def link_into(self, folder: Path, name: str) -> Path | None:
        """Make a hard link to the opened file in a private folder; None if that is refused.

        The link is as writable as the file. A process that is to read only must not be able to write in the folder.
        After reading ``unchanged`` must be asked.
        """
        self._linked = self._link(folder, name)
        return self._linked

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


def _refuse_used_here(meant: FileId | None, path: str, is_used: Callable[[int], bool]) -> None:
    """Refuse a file that this process uses: one with a lock is a database that one of its connections has open."""
    for descriptor in _descriptors() if meant is not None else ():
        try:
            is_one = _id_of(descriptor) == meant and is_used(descriptor)
        except OSError:  # it was closed meanwhile
            continue
        if is_one:
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


def _is_used(descriptor: int) -> bool:
    """True if this process may write to the file of a descriptor, or has a lock on it: a ledger, for example."""
    return fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY or _is_locked(descriptor)


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


def _for_reading(descriptor: int, *, may_reopen: bool) -> int:
    """Return a descriptor of a regular file that is open for reading; a found one (O_PATH) is opened so."""
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    is_found = flags & getattr(os, "O_PATH", 0) != 0
    is_right = flags & os.O_ACCMODE == os.O_RDONLY and (may_reopen or not is_found)
    if not is_right or not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise InvalidInput("descriptor", descriptor, "a regular file that is open for reading")
    if not is_found:
        return descriptor
    reopened = -1
    with contextlib.suppress(OSError):  # the system's error quotes a path
        reopened = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    if reopened < 0:
        raise InvalidInput("descriptor", descriptor, "a file that this user may read")
    return reopened


_SYSTEM: Final = ("/proc", "/sys", "/dev")
_MEMORY: Final = "/dev/shm/"
"""A file system in memory for files of users."""


def is_of_the_system(real: str, opened: FileId) -> bool:
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


def _id_of(descriptor: int) -> FileId:
    """Device and inode of the file behind a descriptor."""
    status = os.fstat(descriptor)
    return FileId(status.st_dev, status.st_ino)


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
