"""Copies of one ledger on one host: only one of them is written at a time.

A copied file and an imported export keep the identifier of their ledger, so they share its anchor. The anchor is
compared before a write and moved after it. Two copies that are written at the same moment would both find the old
anchor, and both would grant. So a writer holds the lock of the ledger's identifier from before the comparison until the
anchor has moved.

Writers of one copy share the lock: they queue at the store, and one sync of its log serves several of them
(docs/decisions/0011-ledger-group-commit.md). The file of the lock names their copy. A writer of another copy waits
until all of them are done, and is then alone. The kernel drops the lock when a process dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Final

from tallystick.errors import Unavailable
from tallystick.ledger.chain import config_directory, make_own_folder, own_file
from tallystick.place import shown

WIDTH: Final = 64
"""Bytes for the name of a copy. Names have one length, so a new name covers the whole old one."""


class CopyLock:
    """The lock of one ledger's identifier in the config directory.

    >>> import tempfile
    >>> lock = CopyLock("0" * 32, Path(tempfile.mkdtemp()))
    >>> with lock.held("66:12"):  # alone, because the file names no copy yet
    ...     lock.path.read_text().strip()
    '66:12'
    """

    def __init__(self, ledger_id: str, directory: Path | None = None) -> None:
        self.path = (directory or config_directory()) / "copies" / ledger_id
        self._name = str(self.path)  # every write opens it

    def held(self, copy: str) -> Held:
        """Hold the lock together with other writers of this copy; alone if the copy has no name."""
        return Held(self, copy)

    def open(self) -> int:
        """A new descriptor of the file of the lock."""
        try:
            try:
                return own_file(self._name, os.O_RDWR)
            except FileNotFoundError:
                make_own_folder(self.path.parent)
                return own_file(self._name, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise Unavailable(
                f"The file {shown(self.path)} cannot be written ({error.strerror}). Nothing was written to the ledger. "
                "Set TALLYSTICK_CONFIG_DIR to a directory that you can write and that is kept"
            ) from None


class Held:
    """The lock while one writer holds it."""

    __slots__ = ("_copy", "_descriptor", "_lock")

    def __init__(self, lock: CopyLock, copy: str) -> None:
        self._lock, self._copy = lock, copy
        self._descriptor = -1

    def __enter__(self) -> None:
        # one for each writer: threads with a common descriptor would have a common lock
        self._descriptor = self._lock.open()
        try:
            _wait(self._descriptor, self._copy)
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *error: object) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # a forked child may have inherited the descriptor
            os.close(descriptor)


def _wait(descriptor: int, copy: str) -> None:
    """Take the lock: shared if the file names this copy, else alone, and then the file names this copy."""
    name = copy.encode().ljust(WIDTH)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    if copy and os.pread(descriptor, WIDTH, 0) == name:
        return
    fcntl.flock(descriptor, fcntl.LOCK_UN)  # two writers that both wait to be alone must not wait for each other
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with contextlib.suppress(OSError):  # on a full disk the next writer is alone, too
        os.pwrite(descriptor, name, 0)
