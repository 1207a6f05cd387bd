"""One person who asks too much: others are answered, running jobs are recorded, and the keeper stays."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from served import VISITS, Service, ended, statement, write_visits
from tallystick.errors import InvalidInput, Unavailable
from tallystick.service import actions, frames, rates
from tallystick.service.connections import Connections
from tallystick.service.conversations import AtOnce
from tallystick.service.keeper import Keeper
from tallystick.service.planner import Planners
from tallystick.service.protocol import SOCKET
from tallystick.service.rates import Metered, Rate
from tallystick.service.template import Child


def connected(service: Service) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(60)
    connection.connect(str(service.state / SOCKET))
    return connection


def test_many_connections_neither_end_the_keeper_nor_fail_a_job(fresh: Service) -> None:
    write_visits(fresh.data / "visits.csv", 100_000)
    fresh.start(most_files=100)  # most systems have a soft limit
    with contextlib.ExitStack() as held, fresh.calling("ann") as ann:
        number = ann.ask("submit", request=statement(rho=0.01), name=None, wait=0, population=None)["job"]["id"]
        for _ in range(400):
            connection = held.enter_context(connected(fresh))
            with contextlib.suppress(OSError):
                connection.sendall(b"\0\0")  # half of a length
            time.sleep(0.001)
        assert ended(fresh, "ann", number)["job"]["state"] == "DONE"
        assert fresh.submit("bob", statement(f"{VISITS} ORDER BY n", rho=0.02))["job"]["state"] == "DONE"


class _Template:
    """Starts planners that answer when they are allowed to, and note whose question they get."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.allowed = threading.Semaphore(0)

    def fork(self, kind: str, **_: Any) -> Child:
        own, other = socket.socketpair()
        threading.Thread(target=self._serve, args=(other,), daemon=True).start()
        return Child(own, os.open("/dev/null", os.O_RDONLY))

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(frames.Ended):
            frames.send(connection, {"ready": True})
            while True:
                self.order.append(frames.receive(connection)["principal"])
                self.allowed.acquire()
                problem = InvalidInput("sql", "x", "another").to_data()
                frames.send(connection, {"problem": problem, "seconds": 0.25})


def test_a_person_who_plans_much_delays_another_by_a_question(tmp_path: Path) -> None:
    template, bills = _Template(), []
    planners = Planners(template, "", tmp_path / "p", lambda *bill: bills.append(bill), 1)  # type: ignore[arg-type]

    def ask(who: str) -> None:
        with contextlib.suppress(InvalidInput):
            planners.offer({"principal": who})

    askers = []
    for who in ("ann",) * 8 + ("bob",):
        askers.append(threading.Thread(target=ask, args=(who,), daemon=True))
        askers[-1].start()
        time.sleep(0.05)
    for _ in askers:
        template.allowed.release()
    for asker in askers:
        asker.join(10)
    assert template.order == ["ann", "bob"] + ["ann"] * 7
    assert sorted(bills) == [("ann", 0.25)] * 8 + [("bob", 0.25)]
    planners.close()


class _Book:
    """A ledger for which every token is that of its text."""

    def with_token(self, token: str) -> Any:
        view = type("View", (), {})()
        view.actor = token
        return view


def _keeper(rate: Rate) -> Keeper:
    keeper = Keeper.__new__(Keeper)
    keeper.ledger = _Book()  # type: ignore[assignment]
    keeper._work, keeper._at_once = Metered(rate), AtOnce()
    keeper._desk = SimpleNamespace(connections=Connections(Path("none")))  # type: ignore[assignment]
    return keeper


def test_processor_time_of_every_action_is_billed(monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(desk: Any, view: Any) -> dict[str, Any]:
        until = time.thread_time() + 0.05
        while time.thread_time() < until:
            pass
        return {}

    monkeypatch.setitem(actions.HANDLERS, "me", busy)  # type: ignore[arg-type]
    keeper = _keeper(Rate(0.001, 0.12))
    codes = []
    for _ in range(5):
        answer = keeper.answer({"action": "me", "token": "ann", "fields": {}})
        codes.append(answer.get("problem", {}).get("code"))
    assert codes == [None, None, None, "too_many_requests", "too_many_requests"]
    assert "result" in keeper.answer({"action": "me", "token": "bob", "fields": {}})


def test_a_principal_has_some_messages_at_once() -> None:
    now = AtOnce(most=2)
    with now.one("ann"), now.one("ann"):
        with pytest.raises(Unavailable, match="Wait for one"), now.one("ann"):
            pass
        with now.one("bob"):
            pass
    with now.one("ann"):
        pass


def test_work_has_a_limit_for_each_minute() -> None:
    assert rates.WORK.each_second * 60 == 30


@pytest.mark.parametrize(
    ("action", "fields"),
    [
        ("job", {"id": "x" * 5000, "wait": 0}),
        ("datasets", {"population": "x" * 5000}),
        ("submit", {"request": {}, "name": "x" * 5000, "wait": 0, "population": None}),
        ("connect", {"name": "x", "place": "/", "populations": ["x"] * 2000, "local": False}),
    ],
)
def test_long_names_are_refused_without_an_echo(service: Service, action: str, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as problem:
        service.ask("ann", action, **fields)
    assert len(json.dumps(problem.value.to_data())) < 1000
