"""Commands in processes of their own that need no start: a copy of this process runs ``python -m tallystick``.

What a command does with its streams and its exit code is seen from outside alone. A new Python would import everything
again, which takes ten times as long as most commands.

A copy of a process that holds thousands of tests takes as long as the work of most children. Work that needs many
children is therefore done by a small process (``elsewhere``).
"""

from __future__ import annotations

import functools
import gc
import multiprocessing
import os
import runpy
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import servers

Found = TypeVar("Found")

CLOSED = None
"""A stream that is closed before the command starts: ``>&-`` in a shell."""
FULL = "/dev/full"
"""A device that has no space left."""
LEFT = "a pipe that nobody reads"
"""A pipe whose reader has ended: ``| true`` in a shell."""
KEPT = "a file"
"""What is written is kept and returned."""


def elsewhere(function: Callable[..., Found], *given: Any) -> Found:
    """Call a function of a module in a small process, which each worker starts once; return or raise what it does.

    >>> elsewhere(os.getpid) != os.getpid()
    True
    """
    return _small().submit(function, *given).result()


@functools.cache
def _small() -> ProcessPoolExecutor:
    return servers.keep(ProcessPoolExecutor(1, multiprocessing.get_context("spawn")))


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it wrote to streams that were kept."""

    code: int
    out: str
    errors: str


def command(
    words: Sequence[str], *, out: str | None = KEPT, errors: str | None = KEPT, encoding: str = "utf-8"
) -> Ended:
    """Run ``tallystick`` with these words in a copy of this process, and wait for it.

    >>> command(["--version"]).out.startswith("tallystick ")
    True
    >>> command(["--version"], out=FULL).code, command(["no such command"], errors=CLOSED).code
    (9, 2)
    """
    with tempfile.TemporaryDirectory() as folder:
        kept = [Path(folder, "out"), Path(folder, "errors")]
        child = os.fork()
        if child == 0:
            code = 70
            try:
                code = _run([str(word) for word in words], [out, errors], kept, encoding)
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        texts = [path.read_text("utf-8") if path.exists() else "" for path in kept]
    return Ended(os.waitstatus_to_exitcode(status), *texts)


def _run(words: list[str], targets: list[str | None], kept: list[Path], encoding: str) -> int:
    """Run the command as a new Python does, from its streams to its exit code."""
    gc.disable()  # nothing of this process is cleared, as its parent goes on using it
    for number, (target, path) in enumerate(zip(targets, kept, strict=True), start=1):
        _lead(number, target, path)
    sys.stdin = open(os.devnull)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = _stream(1, encoding, "strict")
    sys.stderr = sys.__stderr__ = _stream(2, encoding, "backslashreplace")
    sys.argv = ["tallystick", *words]
    try:
        runpy.run_module("tallystick", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        code = 1
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        code = 120  # as Python says
    return code


def _lead(number: int, target: str | None, path: Path) -> None:
    """Let one of the standard streams lead to its target."""
    if target is CLOSED:
        os.close(number)
        return
    if target == LEFT:
        reading, opened = os.pipe()
        os.close(reading)
    else:
        opened = os.open(path if target == KEPT else target, os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(opened, number)
    os.close(opened)


def _stream(number: int, encoding: str, errors: str) -> Any:
    """Return what Python makes of a standard stream when it starts: nothing if the stream is closed."""
    try:
        os.fstat(number)
    except OSError:
        return None
    return open(number, "w", 1 if number == 2 else -1, encoding=encoding, errors=errors, closefd=False)
