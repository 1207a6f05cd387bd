"""Anchors: the newest head this user has seen of each ledger, kept outside the ledger.

A restored old copy of a ledger has an intact chain; only memory kept elsewhere can tell that it is old.
One small file per ledger id holds ``seq hash``; it is written after each commit, best effort, and never leads
the ledger. Receipts and cards carry the same pair.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import threading
from pathlib import Path
from typing import Final, NamedTuple

RECORD: Final = re.compile(rb"^(\d{20}) ([0-9a-f]{64})\n")


class Anchor(NamedTuple):
    """A position in a chain and the hash found there."""

    seq: int
    head: str


def config_directory() -> Path:
    """Where user state lives: ``$TALLYSTICK_CONFIG_DIR``, or tallystick under ``$XDG_CONFIG_HOME`` or ``~/.config``."""
    if chosen := os.environ.get("TALLYSTICK_CONFIG_DIR"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "tallystick"


class AnchorFile:
    """The anchor of one ledger. Failures to read or write are silent: an anchor is a witness, not a gate.

    >>> import tempfile
    >>> witness = AnchorFile("0" * 32, Path(tempfile.mkdtemp()))
    >>> witness.write(Anchor(3, "ab" * 32)); witness.read().seq
    3
    """

    def __init__(self, ledger_id: str, directory: Path | None = None) -> None:
        self.path = (directory or config_directory()) / "anchors" / ledger_id
        self._descriptor: int | None = None
        self._process = 0
        self._mutex = threading.Lock()
        self._seen: Anchor | None = None  # by this process; a file that cannot be written remembers nothing

    def read(self) -> Anchor | None:
        """The newest anchor on file or seen by this process, or None when there is none."""
        try:
            match = RECORD.match(self.path.read_bytes())
        except OSError:
            match = None
        held, seen = Anchor(int(match[1]), match[2].decode()) if match else None, self._seen
        return seen if held is None or (seen is not None and seen.seq > held.seq) else held

    def write(self, anchor: Anchor) -> None:
        """Move the anchor forward; a lower position never replaces a higher one."""
        with contextlib.suppress(OSError), self._mutex:  # the kernel's lock does not hold between threads
            if self._seen is None or self._seen.seq < anchor.seq:
                self._seen = anchor
            descriptor = self._open()
            held = os.pread(descriptor, 20, 0)
            if held.isdigit() and held >= b"%020d" % anchor.seq:
                return  # whoever synced for us has been here
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            try:
                match = RECORD.match(os.pread(descriptor, 128, 0))
                if match is None or int(match[1]) <= anchor.seq:
                    os.pwrite(descriptor, b"%020d %s\n" % (anchor.seq, anchor.head.encode()), 0)
            finally:
                fcntl.flock(descriptor, fcntl.LOCK_UN)

    def _open(self) -> int:
        if self._descriptor is None or self._process != os.getpid():
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._process = os.getpid()
        return self._descriptor

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None and self._process == os.getpid():
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
        self._descriptor = None
