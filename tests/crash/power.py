"""A power cut, simulated: what the disk holds is what it held when a sync began, and some of what came later.

Each sync first takes an image of the file and its log. The cut kills every worker; the ledger is then opened from the
newest image whose sync had ended, with a random choice of the log's sectors that were written after it (a disk keeps
unsynced sectors in any order). The image is taken by a forked process: closing the file here would drop SQLite's locks.
"""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crash.killing import SCENARIOS, Traces, Worker, collected, complaints
from crash.stores import raised
from tallystick.ledger import Ledger

SECTOR = 512


def imaging(path: Path, images: Path) -> Callable[[int], None]:
    """Stands where fdatasync is; runs under the lock of the syncs, so one image is taken at a time."""
    real, current = os.fdatasync, images / "current"

    def sync(descriptor: int) -> None:
        number = int(current.read_text()) + 1 if current.exists() else 1
        child = os.fork()
        if child == 0:
            gate = os.open(f"{path}.gate", os.O_RDWR)
            fcntl.flock(gate, fcntl.LOCK_EX)  # no commit and no checkpoint between the two copies
            for end in ("", "-wal"):
                shutil.copyfile(f"{path}{end}", images / f"{number}{end}")
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        real(descriptor)
        (images / "next").write_text(str(number))
        os.replace(images / "next", current)

    return sync


def cut(folder: Path, draw: random.Random, *, workers: int, durable: bool = True) -> tuple[int, list[str]]:
    """Let workers use a new ledger, cut the power, look at what is left: (answers delivered, complaints)."""
    path, images, config = folder / "budget.db", folder / "images", folder / "config"
    images.mkdir()
    Worker(str(path), config, -1, lambda name: None).ledger.close()

    def work(seen: int) -> None:
        os.fdatasync = imaging(path, images)
        worker = Worker(str(path), config, seen, lambda name: None)
        store: Any = worker.ledger.store
        store._connected().execute("PRAGMA wal_autocheckpoint = 25")  # the log is moved and begun anew all the time
        if not durable:
            store._durability = None
        number = 0
        while True:
            worker.perform(SCENARIOS[number % 4], f"{os.getpid()}-{number}")
            number += 1

    traces = _killed(work, workers, draw)
    current = int((images / "current").read_text())
    left = folder / "left.db"
    shutil.copyfile(images / str(current), left)
    (folder / "left.db-wal").write_bytes(_torn((images / f"{current}-wal").read_bytes(), Path(f"{path}-wal"), draw))
    found = list(complaints(str(left), folder / "other", traces))
    shutil.copyfile(folder / "left.db", folder / "seen.db")
    if raised(lambda: Ledger(folder / "seen.db", config=config).close()) != "ok":
        found.append("the anchor leads the ledger")
    return len(traces.delivered), found


def _killed(work: Callable[[int], None], workers: int, draw: random.Random) -> Traces:
    reader, writer = os.pipe()
    children = []
    for _ in range(workers):
        child = os.fork()
        if child == 0:
            try:
                work(writer)
            finally:
                os._exit(70)
        children.append(child)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        lines = [pipe.readline().rstrip("\n") for _ in range(draw.randint(4 * workers, 10 * workers))]
        time.sleep(0.004 * draw.random())
        for child in children:
            os.kill(child, signal.SIGKILL)
        lines += pipe.read().splitlines()
    for child in children:
        os.waitpid(child, 0)
    return collected(lines)


def _torn(image: bytes, log: Path, draw: random.Random) -> bytes:
    """The log of the image, with some of the sectors that were written after it."""
    newer = log.read_bytes() if log.exists() else b""
    if newer[:32] != image[:32]:
        return image  # the log was begun anew since
    length = max(len(image), len(newer)) if draw.random() < 0.5 else len(image)
    image, newer = image.ljust(length, b"\0"), newer.ljust(length, b"\0")
    keep = draw.random()
    sectors = range(0, length, SECTOR)
    return b"".join((newer if draw.random() < keep else image)[at : at + SECTOR] for at in sectors)
