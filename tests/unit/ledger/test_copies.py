"""Two copies of a ledger on one host share its anchor: while one is written, the other waits, and is then refused."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import stat
import threading

import pytest

from crash.stores import raised, spend
from tallystick.errors import Unavailable
from tallystick.ledger import Ledger
from tallystick.ledger.budget import Budget
from tallystick.ledger.copies import CopyLock

LONG = 60.0
"""Seconds in which everything that does not wait for a lock has ended."""


class Stop:
    """A probe that stops a write after its commit, before its anchor has moved."""

    def __init__(self) -> None:
        self.is_armed = False
        self.reached, self.go_on = threading.Event(), threading.Event()

    def __call__(self, point: str) -> None:
        if self.is_armed and point.endswith("after COMMIT"):
            self.is_armed = False
            self.reached.set()
            assert self.go_on.wait(LONG)


@pytest.fixture
def two(tmp_path, config):
    """The paths of a ledger with a budget and of its copy."""
    paths = (tmp_path / "budget.db", tmp_path / "copy.db")
    with Ledger(paths[0]) as ledger:
        ledger.open("people", budget=Budget.zcdp(100), unit="person")
    shutil.copy(*paths)
    return paths


def spent(path, amount=90, probe=None):
    """Spend from the ledger at a path; return the name of the error, or "ok"."""
    with Ledger(path, create=False, probe=probe) as ledger:
        if probe is not None:
            probe.is_armed = True
        return raised(spend(ledger.open("people"), amount).__enter__)


class Spender(threading.Thread):
    """A thread that spends; ``outcome`` is None until it has ended."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(daemon=True)
        self.arguments, self.outcome = arguments, None
        self.start()

    def run(self) -> None:
        self.outcome = spent(*self.arguments)

    def ended(self) -> str | None:
        self.join(LONG)
        return self.outcome


def test_two_copies_that_spend_at_the_same_moment_are_not_both_granted(two):
    stop = Stop()
    first = Spender(two[0], 90, stop)
    assert stop.reached.wait(LONG)
    second = Spender(two[1])
    second.join(1)
    while_first_was_written = second.outcome
    stop.go_on.set()
    assert (first.ended(), while_first_was_written, second.ended()) == ("ok", None, "LedgerIntegrity")


def test_two_processes_with_one_copy_each_are_not_both_granted(two):
    """The child is killed between its commit and its anchor: its lock ends with it, and no answer left it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        stop = Stop()
        threading.Thread(target=lambda: stop.reached.wait(LONG) and os.write(writer, b"!"), daemon=True).start()
        spent(two[0], 90, stop)
        os._exit(0)
    assert os.read(reader, 1) == b"!"
    second = Spender(two[1])
    second.join(1)
    while_the_child_lived = second.outcome
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reader)
    os.close(writer)
    assert (while_the_child_lived, second.ended()) == (None, "ok")
    assert raised(lambda: spent(two[0], 1)) == "LedgerIntegrity"  # the copy of the child is the old one now


def test_writers_of_one_copy_do_not_wait_for_each_others_sync(two):
    assert spent(two[0], 1) == "ok"
    stop = Stop()
    first = Spender(two[0], 1, stop)
    assert stop.reached.wait(LONG)
    second = Spender(two[0], 1)
    assert second.ended() == "ok"
    assert first.outcome is None
    stop.go_on.set()
    assert first.ended() == "ok"


def test_a_write_that_fails_gives_the_lock_back(two):
    assert spent(two[0], 1 << 60) == "BudgetExceeded"
    assert Spender(two[1], 1).ended() == "ok"


def test_every_store_holds_the_lock_while_it_writes(ledger, config):
    path = CopyLock(ledger.id).path
    with ledger.store.write("test"):
        assert not is_free(path)
    assert is_free(path)


def is_free(path):
    """True if a writer of another copy would get the lock."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        return raised(lambda: fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)) == "ok"
    finally:
        os.close(descriptor)


def test_without_a_place_for_the_lock_nothing_is_written(two, config):
    shutil.rmtree(config / "copies")
    (config / "copies").write_text("in the way")
    with Ledger(two[0], create=False) as ledger:
        before = ledger.head()
        with pytest.raises(Unavailable, match="Nothing was written to the ledger"):
            spend(ledger.open("people"), 1).__enter__()
        assert ledger.head() == before


def test_every_folder_of_the_state_is_for_its_user_alone(tmp_path):
    """A group that may write to a folder above could exchange the anchors and the key."""
    config = tmp_path / "home" / "config" / "tallystick"
    before = os.umask(0o007)
    try:
        with Ledger(tmp_path / "x.db", config=config) as ledger:
            ledger.open("clinic", budget=Budget.zcdp(1), unit="person")
            ledger.govern(why="a team uses it")
    finally:
        os.umask(before)
    made = [config.parent.parent, config.parent, *(each for each in config.rglob("*") if each.is_dir()), config]
    assert {stat.S_IMODE(each.stat().st_mode) for each in made} == {0o700}
