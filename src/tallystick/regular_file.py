"""Files that a user names: a pipe or a device is refused at once, because opening or reading it could wait for ever."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


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


def read_bytes(path: Path | str) -> bytes:
    """Return what is in a regular file."""
    with open(path, "rb", opener=regular) as file:
        return file.read()


def read_text(path: Path | str, encoding: str = "utf-8") -> str:
    """Return the text of a regular file."""
    with open(path, encoding=encoding, opener=regular) as file:
        return file.read()
