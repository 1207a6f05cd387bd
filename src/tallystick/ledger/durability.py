"""Group commit: one sync of the write-ahead log serves every writer that has committed by then.

SQLite commits without a sync (``synchronous=NORMAL``); before anything of that commit leaves the store, its entries are
made durable here. Whoever gets the lock first syncs the log and publishes the newest entry it covers; those who queued
meanwhile find themselves covered. Why this is sound: docs/decisions/0011-ledger-group-commit.md. In doubt, sync again.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from tallystick.errors import Unavailable

FAILED: Final = b"failed"
LONGEST_RECORD: Final = 256


class Durability:
    """The syncs of one connection in one process; made after the connection has opened its log, before it commits.

    ``<ledger>.sync`` holds one record: which database and log file it is about, the newest entry known to be on the
    disk, and a checksum. It is believed only after this process has itself written one, so a record left from before a
    restart, a restored copy or another file of the same name never counts.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mutex = threading.Lock()
        file = os.stat(path)
        self._log = os.open(f"{path}-wal", os.O_RDONLY | os.O_CLOEXEC)  # SQLite keeps no lock on this file
        log = os.fstat(self._log)
        try:
            self._shared = os.open(f"{path}.sync", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            self._shared = -1  # a folder that is read-only to us: nothing is shared, every call syncs
        self._about = b"%d %d %d " % (file.st_dev, file.st_ino, log.st_ino)
        self._joined = False
        self._failed = False
        self.syncs = 0

    def settle(self, seq: int, newest: Callable[[], tuple[int, str]], announce: Callable[[int, str], None]) -> None:
        """Return when entry ``seq`` and all before it are on the disk; raise when the disk did not confirm it.

        ``newest`` tells a committed entry and its hash; it is asked before the sync begins. Whoever syncs announces
        that entry before those it covers go on, so that they find their anchor already written.
        """
        if self.settled() >= seq:
            return
        with self._mutex, self._locked():
            if self.settled() >= seq:
                return
            covered = newest()
            self._sync()
            announce(*covered)
            self._publish(b"%020d" % max(seq, covered[0]))
            self._joined = True

    def settled(self) -> int:
        """The newest entry that is known to be on the disk; refused after a failed sync."""
        record = os.pread(self._shared, LONGEST_RECORD, 0) if self._shared >= 0 else b""
        body, _, check = record.partition(b"\n")[0].rpartition(b" ")
        mine = body.startswith(self._about) and check == b"%08x" % zlib.crc32(body)  # a torn read fails this
        value = body[len(self._about) :] if mine else b""
        if value == FAILED:
            self._failed = True
        self.require_sound()
        return int(value) if value and self._joined else -1

    def require_sound(self) -> None:
        """Refuse when this process knows of a failed sync."""
        if self._failed:
            raise Unavailable(
                f"a sync of {self._path}-wal failed, so the disk may have lost what was committed last; nothing is "
                "delivered. Stop every process that uses this ledger, put it on a sound disk and verify it"
            )

    def _sync(self) -> None:
        try:
            if not self._joined:  # the names of the files, once; SQLite syncs the folder for the log, not for the rest
                _sync_folder(self._path.parent)
            _sync_file(self._log)
        except OSError as error:
            # The kernel reports a failed write once and then calls the pages clean: the next sync must not be believed.
            self._failed = True
            self._publish(FAILED)
            raise Unavailable(
                f"the disk did not confirm what was written to {self._path}-wal: {error.strerror}; nothing was "
                "delivered, and what was charged stays paid"
            ) from error
        self.syncs += 1

    def _publish(self, value: bytes) -> None:
        if self._shared >= 0:
            body = self._about + value
            with contextlib.suppress(OSError):  # an unpublished sync is only done again by others
                os.pwrite(self._shared, b"%s %08x\n" % (body, zlib.crc32(body)), 0)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        if self._shared >= 0:
            fcntl.flock(self._shared, fcntl.LOCK_EX)
        try:
            yield
        finally:
            if self._shared >= 0:
                fcntl.flock(self._shared, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of the files."""
        os.close(self._log)
        if self._shared >= 0:
            os.close(self._shared)


def _sync_file(descriptor: int) -> None:
    getattr(os, "fdatasync", os.fsync)(descriptor)  # macOS has only fsync, as SQLite uses it there


def _sync_folder(folder: Path) -> None:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return  # we may not list it, so we did not make the ledger: whoever did has synced its name
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems keep names without being asked
            raise
    finally:
        os.close(descriptor)
