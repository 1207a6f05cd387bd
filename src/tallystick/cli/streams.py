"""Standard output and standard error of a command: a failure of theirs is an error, and never a lost answer."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, TextIO

from tallystick.errors import NotDelivered, Unavailable


class _Closed(io.TextIOBase):
    """Standard output of a process that was started without one."""

    encoding = "utf-8"

    def write(self, text: str) -> NoReturn:
        """Fail as a write to a closed file does."""
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


class _Dropping:
    """Standard error that drops what cannot be written. The command continues: it may be paid for."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text, or drop it."""
        try:
            self._stream.write(text)
        except OSError:
            _silence(self._stream)
        return len(text)

    def flush(self) -> None:
        """Flush the stream, or drop what it holds."""
        try:
            self._stream.flush()
        except OSError:
            _silence(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def standard_streams() -> Iterator[None]:
    """Run a command with streams that exist: closed output fails when it is written, standard error never does."""
    _occupy_descriptors()
    output, errors = sys.stdout, sys.stderr
    sys.stdout = output or _Closed()
    sys.stderr = _Dropping(errors or _null())
    try:
        yield
    finally:
        sys.stdout, sys.stderr = output, errors


@contextmanager
def to_stdout(recorded: NotDelivered | None = None) -> Iterator[None]:
    """Write to standard output and flush it.

    If that fails, raise ``recorded``, the error about an answer that is in the ledger. Without such an answer a reader
    that left is not an error.
    """
    try:
        yield
        sys.stdout.flush()
    except OSError as problem:
        silence_stdout()
        if recorded is not None:
            raise recorded from problem
        if isinstance(problem, BrokenPipeError):
            raise
        raise Unavailable(f"standard output cannot be written ({problem.strerror})") from None


@contextmanager
def or_silence() -> Iterator[None]:
    """Write a failure to standard output, or drop it: the exit code and standard error say the same."""
    try:
        yield
        sys.stdout.flush()
    except OSError:
        silence_stdout()


def silence_stdout() -> None:
    """Drop what standard output still holds and all that follows: flushing it at exit would fail again."""
    if isinstance(sys.stdout, _Closed):
        sys.stdout = _null()
    else:
        _silence(sys.stdout)


def _null() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")


def _silence(stream: Any) -> None:
    """Let a stream write to the null device from now on."""
    null = os.open(os.devnull, os.O_WRONLY)
    with suppress(OSError, ValueError):  # a stream without a descriptor holds nothing
        os.dup2(null, stream.fileno())
    os.close(null)


def _occupy_descriptors() -> None:
    """Open the null device in place of closed standard streams: a ledger must not get their descriptors."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
