"""What breaks around the keeper: kills between two steps, a full disk, a damaged or open folder, a broken worker."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tallystick as ts
from served import Service, statement
from tallystick.errors import Unavailable
from tallystick.service import frames, running
from tallystick.service.jobs import DONE, FAILED, Jobs
from tallystick.service.opening import ServedReader
from tallystick.service.running import Running
from tallystick.service.settings import Settings

REPLIES = {"text": '"5"', "list": "[]", "deep": "[" * 50_000, "number": "7", "empty": "{}", "nested": '{"done": 1}'}


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_whatever_a_worker_sends_is_a_failure_at_the_tick(reply: str) -> None:
    here, there = socket.socketpair()
    reader = ServedReader.__new__(ServedReader)
    reader._child = SimpleNamespace(connection=here)  # type: ignore[assignment]
    with here, there:
        frames.send(there, {"done": reply})
        assert reader._drawn(SimpleNamespace(to_json=lambda: "{}")) is None  # type: ignore[arg-type]


def test_a_charge_that_was_not_noted_is_found_after_a_kill(fresh: Service) -> None:
    fresh.start()
    number = fresh.submit("ann", statement(rho=0.01), wait=0)["job"]["id"]
    until = time.monotonic() + 20
    while fresh.ask("root", "populations")[0]["used"] == "rho 0" and time.monotonic() < until:
        time.sleep(0.005)
    fresh.stop(signal.SIGKILL)
    with sqlite3.connect(fresh.state / "jobs.db") as jobs:  # as if the kill had come before the note
        jobs.execute("UPDATE job SET charge = NULL, state = 'RUNNING', ended = NULL")
    fresh.start()
    job = fresh.ask("ann", "job", id=number, wait=0)["job"]
    with fresh.ledger() as ledger:
        [row] = [each for each in ledger.open("anns").history() if each.key]
    assert (job["state"], row.state) in ((FAILED, "CLOSED"), (DONE, "COMMITTED"))
    assert job["charge"] == row.charge


def test_a_second_keeper_of_a_ledger_is_refused(service: Service) -> None:
    class Other(Service):
        state = property(lambda self: self.folder / "other")  # type: ignore[assignment]

    other = Other(service.folder, service.place)
    other.state.mkdir(mode=0o700)
    with pytest.raises(AssertionError, match=r"holds budget\.db\.keeper"):
        other.start()


def test_a_folder_that_others_can_enter_is_refused(fresh: Service) -> None:
    os.chmod(fresh.state, 0o711)
    with pytest.raises(AssertionError, match="alone can enter"):
        fresh.start()


@pytest.mark.parametrize("damage", [b"x" * 9000, b"SQLite format 3\0" + b"\0" * 5000], ids=["text", "zeros"])
def test_damaged_jobs_are_named_with_a_way_out(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "jobs.db").write_bytes(damage)
    with pytest.raises(Unavailable, match="Move it away"):
        Jobs(tmp_path / "jobs.db")


class _Full(Jobs):
    """Jobs whose disk is full for a while."""

    errors = 2

    def end(self, *args: Any, **words: Any) -> None:
        if self.errors:
            self.errors -= 1
            raise sqlite3.OperationalError("database or disk is full")
        super().end(*args, **words)

    def forget_old(self) -> None:
        if self.errors:
            raise sqlite3.OperationalError("database or disk is full")
        super().forget_old()


def test_a_full_disk_ends_neither_the_keeper_nor_the_note_of_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "PAUSE", 0.01)
    monkeypatch.setattr(running, "SWEEP", 0.01)
    queue = _Full(tmp_path / "jobs.db")
    none: Any = None
    slots = Running(Settings("", "", slots=1), none, queue, none, none, none, running.Metered(running_rate()), tmp_path)
    monkeypatch.setattr(slots, "_ending", lambda job: (DONE, 7, None))
    server = threading.Thread(target=slots.serve, daemon=True)
    server.start()
    job = queue.add({"a": 1}, principal="ann", via=None, population="clinic")
    assert queue.wait(job.id, 10).state == DONE
    assert server.is_alive()
    slots.drain()
    server.join(10)
    assert not server.is_alive()
    queue.close()


def running_rate() -> Any:
    """A rate that no test reaches."""
    from tallystick.service.rates import Rate

    return Rate(1, 100)


def test_charges_are_found_by_who_began_them(tmp_path: Path) -> None:
    with ts.Ledger(tmp_path / "budget.db", config=tmp_path / "config") as ledger:
        clinic = ledger.open("clinic", budget=ts.zcdp(rho=1), unit="person")
        charge = ledger.charge(ts.zcdp(rho=0.01), accounts=[clinic], why="w", request="r", source="file /x").begin()
        assert ledger.running_of("another", None) == []
        charge.burn()
