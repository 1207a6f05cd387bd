"""A process that holds a file of the ledger for good does not hang the others: they give up, and nothing is lost."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crash.stores import spend
from tallystick.errors import Unavailable
from tallystick.ledger import Ledger, turns
from tallystick.ledger.budget import Budget


@pytest.fixture
def path(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(turns, "PATIENCE", 0.2)
    return tmp_path / "x.db"


@pytest.fixture
def ledger(path) -> Iterator[Ledger]:
    with Ledger(path, config=path.parent) as ledger:
        ledger.open("clinic", budget=Budget.zcdp(1), unit="person")
        yield ledger


@contextlib.contextmanager
def held(path: Path, ending: str) -> Iterator[None]:
    """Hold the lock of a file beside the ledger, as another process would."""
    descriptor = os.open(f"{path}{ending}", os.O_RDONLY)  # the right to read is enough
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def in_time(seconds: float, work) -> None:
    """Run this in a thread, which must end."""
    problems: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            problems.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "it hangs"
    for problem in problems:
        raise problem


def test_a_writer_gives_up_and_comes_back(ledger, path):
    clinic = ledger.open("clinic")
    with held(path, ".gate"):
        for _ in range(3):
            with pytest.raises(Unavailable, match=r"has held .*\.gate for"):
                in_time(20, lambda: spend(clinic, 1000, key="one").reserve())
    spend(clinic, 1000, key="one").reserve()
    assert ledger.verify().problems == ()
    assert clinic.used.a0 == 1000


def test_a_reader_gives_up_and_comes_back(ledger, path):
    with Ledger(path, config=path.parent) as other:
        spend(other.open("clinic"), 1000, key="one").reserve()
    with held(path, ".sync"), pytest.raises(Unavailable, match=r"\.sync for"):
        in_time(20, lambda: Ledger(path, config=path.parent).close())
    spend(ledger.open("clinic"), 1000, key="two").reserve()
    assert ledger.verify().problems == ()


def test_who_gave_up_does_not_hold_the_lock_later(path):
    first, second = (turns.Queue(path.parent / "gate") for _ in range(2))
    assert first.is_next()
    with pytest.raises(Unavailable):
        second.wait()
    first.leave()
    first.wait()  # the thread of the second one had its turn, and has left
    first.leave()
    second.wait()
    assert not first.is_next()
    second.leave()
    first.close()
    second.close()


def test_turns_are_given_in_order(path, monkeypatch):
    monkeypatch.setattr(turns, "PATIENCE", 20.0)
    queues = [turns.Queue(path.parent / "gate") for _ in range(5)]
    queues[0].wait()
    served: list[int] = []

    def take(number: int) -> None:
        queues[number].wait()
        served.append(number)
        queues[number].leave()

    threads = []
    for number in range(1, 5):
        threads.append(threading.Thread(target=take, args=(number,)))
        threads[-1].start()
        time.sleep(0.2)
    queues[0].leave()
    for thread in threads:
        thread.join(20)
    assert served == [1, 2, 3, 4]


def test_an_interruption_leaves_the_queue(path, monkeypatch):
    first, second = (turns.Queue(path.parent / "gate") for _ in range(2))
    first.wait()

    def interrupt(self: object, seconds: float) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(turns._Waiting, "is_served", interrupt)
        with pytest.raises(KeyboardInterrupt):
            second.wait()
    first.leave()
    first.wait()
    first.leave()
    second.wait()
