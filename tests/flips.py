"""Entries of a folder that flip between an own one and a link to a foreign one, as fast as a second process can."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

OWN, FOREIGN = b"own", b"foreign"
RELATIVE = "one/two/visits.csv"
_EXCHANGE = 2  # RENAME_EXCHANGE of linux/fs.h
_HERE = -100  # AT_FDCWD


class Tree(NamedTuple):
    """A folder with a file three levels below it, and another such tree that no connection reaches."""

    folder: Path
    foreign: Path

    @property
    def positions(self) -> tuple[str, ...]:
        """The entries on the way to the file: the folder itself (empty), its folders, and the file."""
        return ("", "one", "one/two", RELATIVE)


def tree(place: Path) -> Tree:
    """Make the two trees."""
    made = Tree(place / "ward", place / "foreign")
    for folder, content in zip(made, (OWN, FOREIGN), strict=True):
        (folder / "one" / "two").mkdir(parents=True)
        (folder / RELATIVE).write_bytes(content)
    return made


@contextlib.contextmanager
def flipping(made: Tree, position: str) -> Iterator[None]:
    """Exchange an entry with a link to its like in the foreign tree, again and again, while the block runs."""
    entry = made.folder / position
    other = made.folder.parent / "other"
    other.symlink_to(made.foreign / position)
    child = os.fork()
    if child == 0:
        _exchange_for_ever(os.fsencode(entry), os.fsencode(other))
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if entry.is_symlink():
            _exchange(os.fsencode(entry), os.fsencode(other))
        other.unlink()


def _exchange(one: bytes, two: bytes) -> int:
    return int(ctypes.CDLL(None).renameat2(_HERE, one, _HERE, two, _EXCHANGE))


def _exchange_for_ever(one: bytes, two: bytes) -> None:
    exchange = ctypes.CDLL(None).renameat2
    while True:
        exchange(_HERE, one, _HERE, two, _EXCHANGE)


def counted(opened: Callable[[], int], tries: int) -> dict[bytes, int]:
    """How often each content was read through a descriptor; a refusal counts as no content."""
    found = {OWN: 0, FOREIGN: 0, b"": 0}
    for _ in range(tries):
        try:
            descriptor = opened()
        except (OSError, ValueError):  # InvalidInput is a ValueError
            found[b""] += 1
            continue
        found[os.read(descriptor, 100)] += 1
        os.close(descriptor)
    return found
