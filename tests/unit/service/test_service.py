"""The service as its users meet it: ask, wait, replay, be refused."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import stat
import time
from pathlib import Path
from typing import Any

import pytest

import tallystick as ts
from served import VISITS, Service, ended, statement, write_visits
from tallystick.errors import BudgetExceeded, InvalidInput, NotAuthorised, Refused, TallystickError, Unavailable
from tallystick.service import frames
from tallystick.service.protocol import SOCKET, Caller


def test_a_statement_is_answered_once_and_then_from_the_ledger(service: Service) -> None:
    first = service.submit("ann", statement())
    assert first["job"]["state"] == "DONE"
    paid = first["outcome"]["paid"]
    assert paid["price"] == "rho 0.01"
    again = service.submit("ann", statement())
    assert "job" not in again
    began = _cpu(service)
    for _ in range(20):
        assert service.submit("ann", statement())["outcome"]["table"] == first["outcome"]["table"]
    assert _cpu(service) - began < 20 * 0.015  # it is not planned again, which takes 20 ms and more
    assert again["outcome"]["paid"]["again"]
    assert again["outcome"]["table"] == first["outcome"]["table"]
    assert again["outcome"]["receipt"]["charge"] == paid["charge"]


def test_a_colleague_gets_the_same_answer_without_a_charge(service: Service) -> None:
    text = f"{VISITS} ORDER BY n"
    first = service.submit("ann", statement(text))
    used = service.ask("ann", "populations")
    other = service.submit("bob", statement(text))
    assert other["outcome"]["table"]["rows"] == first["outcome"]["table"]["rows"]
    assert service.ask("ann", "populations") == used


def test_an_offer_opens_no_data_and_charges_nothing(service: Service) -> None:
    used = service.ask("ann", "populations")
    offer = service.ask("ann", "offer", request=statement(rho=0.02), sizes=[])
    assert offer["price"] == "rho 0.02"
    assert offer["fits"]
    assert service.ask("ann", "populations") == used


def test_what_does_not_fit_is_denied_before_there_is_a_job(service: Service) -> None:
    with pytest.raises(BudgetExceeded):
        service.submit("ann", statement(rho=3))
    assert all(job["state"] != "WAITING" for job in service.ask("ann", "jobs", all=False))


@pytest.mark.parametrize(
    ("who", "text"),
    [("ann", "SELECT COUNT(*) AS n FROM pupils"), ("sam", "SELECT COUNT(*) AS n FROM visits")],
)
def test_data_of_another_population_look_as_if_they_were_not_there(service: Service, who: str, text: str) -> None:
    absent = text.replace("pupils", "no_such").replace("visits", "no_such")
    problems = []
    for each in (text, absent):
        with pytest.raises(TallystickError) as problem:
            service.submit(who, statement(each))
        problems.append(problem.value.to_data())
    told, blank = (str(each).replace("pupils", "X").replace("visits", "X").replace("no_such", "X") for each in problems)
    assert told == blank


@pytest.mark.parametrize("who", ["cat", "aud", "max"])
def test_roles_that_may_not_release_are_refused(service: Service, who: str) -> None:
    with pytest.raises((NotAuthorised, TallystickError)):
        service.submit(who, statement(rho=0.03, why=f"by {who}"))
    assert not service.ask(who, "jobs", all=False)


def test_a_dead_or_wrong_token_is_refused_with_one_text(service: Service) -> None:
    texts = set()
    right = service.tokens["ann"]
    typo = right[:-1] + ("1" if right.endswith("0") else "0")
    for token in ("", "tsk_", "tsk_" + "0" * 70, typo):
        with Caller(service.state / SOCKET, token) as caller, pytest.raises(NotAuthorised) as problem:
            caller.ask("me")
        texts.add(problem.value.code)
    assert texts <= {"bad_token", "dead_token"}


def test_a_revoked_token_is_refused_at_the_next_message(service: Service) -> None:
    with service.ledger() as ledger:
        view = ledger.acting_for(service.ids["bob"])
        token = view.team.make_token(roles=["analyst"])
    with Caller(service.state / SOCKET, token.text) as caller:
        assert caller.ask("me")["principal"] == service.ids["bob"]
        with service.ledger() as ledger:
            ledger.acting_for(service.ids["bob"]).team.end_token(token.seq)
        with pytest.raises(NotAuthorised):
            caller.ask("me")


def test_only_operators_see_jobs_of_others_and_connections(service: Service) -> None:
    for action, fields in (("jobs", {"all": True}), ("connections", {}), ("stop", {})):
        with pytest.raises(NotAuthorised):
            service.ask("ann", action, **fields)
    assert [each["name"] for each in service.ask("root", "connections")] == ["files"]
    assert all("request" not in job for job in service.ask("root", "jobs", all=True))


def test_a_job_of_another_principal_looks_absent(service: Service) -> None:
    job = service.submit("ann", statement(rho=0.011))["job"]["id"]
    problems = []
    for number in (job, "0" * 32):
        with pytest.raises(InvalidInput) as problem:
            service.ask("bob", "job", id=number, wait=0)
        problems.append(str(problem.value).replace(number, ""))
    assert problems[0] == problems[1]


def test_the_socket_and_the_folder_are_private(service: Service) -> None:
    for name in (SOCKET, "jobs.db", "lock", "connections.json"):
        assert stat.S_IMODE((service.state / name).stat().st_mode) & 0o077 == 0, name
    assert stat.S_IMODE(service.state.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"action": "me"},
        {"action": "no_such", "token": "", "fields": {}},
        {"action": "me", "token": 7, "fields": {}},
        {"action": "me", "token": "", "fields": {"more": 1}},
        {"action": "job", "token": "", "fields": {"id": "x", "wait": 1e9}},
        {"action": ["me"], "token": "", "fields": {}},
    ],
)
def test_a_message_that_is_not_as_declared_is_refused(service: Service, message: dict[str, Any]) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(service.state / SOCKET))
        frames.send(connection, message)
        assert frames.receive(connection)["problem"]["kind"] == "InvalidInput"


@pytest.mark.parametrize("junk", [b"\xff\xff\xff\xff", b"\0\0\0\2{}", b"\0\0\0\5hello", b"GET / HTTP/1.1\r\n\r\n", b""])
def test_bytes_that_are_no_message_end_their_connection_only(service: Service, junk: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(str(service.state / SOCKET))
        connection.sendall(junk)
        connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionResetError):  # it may close before it has read everything
            while connection.recv(4096):
                pass
    assert service.ask("ann", "service")["version"] == 1


def test_a_client_names_no_place(service: Service) -> None:
    with service.ledger() as ledger:
        from tallystick.publish.datasets import find

        table = find("visits", ledger).opened(ledger.open("clinic"))
        plan = table.group_by("ward", keys=["north", "east"]).agg(n=ts.count()).plan(rho=0.012)
    data = json.loads(plan.to_json())
    what = {"kind": "question", "dataset": "visits", "plan": data, "account": "anns"}
    request = {"format": "tallystick/request/1", "what": what, "why": "a plan"}
    secret = service.folder / "secret.csv"
    write_visits(secret, 30)
    for place in ("/etc/passwd", str(secret), "http://169.254.169.254/latest", "postgresql://db/x"):
        data["query"]["table"]["source"] = {"kind": "csv", "place": place}
        outcome = service.submit("ann", request)["outcome"]  # the registered place is put in
        assert outcome["table"]["rows"]
    with pytest.raises(InvalidInput):
        service.submit("ann", {**request, "what": {**what, "source": str(secret)}})


def test_a_cancelled_job_costs_nothing_and_a_running_one_goes_on(fresh: Service) -> None:
    fresh.options["slots"] = 1
    fresh.start()
    running = fresh.submit("ann", statement(rho=0.01), wait=0)["job"]["id"]
    waiting = fresh.submit("bob", statement(rho=0.02), wait=0)["job"]["id"]
    assert fresh.ask("bob", "cancel", id=waiting)["job"]["state"] == "DROPPED"
    until = time.monotonic() + 20
    while fresh.ask("ann", "job", id=running, wait=0)["job"]["state"] == "WAITING" and time.monotonic() < until:
        time.sleep(0.01)
    with pytest.raises(Refused) as problem:
        fresh.ask("ann", "cancel", id=running)
    assert problem.value.code == "begun"
    assert ended(fresh, "ann", running)["job"]["state"] == "DONE"
    assert _used(fresh) == "rho 0.01"


def test_waiting_jobs_of_a_person_who_left_are_dropped(fresh: Service) -> None:
    fresh.options["slots"] = 1
    fresh.start()
    first = fresh.submit("ann", statement(rho=0.01), wait=0)["job"]["id"]
    second = fresh.submit("bob", statement(rho=0.02), wait=0)["job"]["id"]
    with fresh.ledger() as ledger:
        ledger.team.revoke("bob", "analyst", "clinic", why="he left")
    assert ended(fresh, "ann", first)["job"]["state"] == "DONE"
    until = time.monotonic() + 20
    states = {}
    while time.monotonic() < until and states.get(second) != "DROPPED":
        states = {each["id"]: each["state"] for each in fresh.ask("root", "jobs", all=True)}
        time.sleep(0.05)
    assert states[second] == "DROPPED"


def test_a_stop_under_load_closes_nothing_and_loses_nothing(fresh: Service) -> None:
    fresh.options["slots"] = 2
    fresh.start()
    numbers = {who: fresh.submit(who, statement(rho=0.01), wait=0)["job"]["id"] for who in ("ann",)}
    numbers["sam"] = fresh.submit("sam", statement("SELECT COUNT(*) AS n FROM pupils"), wait=0)["job"]["id"]
    waiting = fresh.submit("bob", statement(rho=0.02), wait=0)["job"]["id"]
    time.sleep(0.3)
    assert fresh.stop() == 0
    with fresh.ledger() as ledger:
        assert ledger.verify().intact
    fresh.start()
    for who, number in (*numbers.items(), ("bob", waiting)):
        assert ended(fresh, who, number)["job"]["state"] in ("DONE", "STOPPED")
    assert fresh.submit("ann", statement(rho=0.04))["job"]["state"] == "DONE"  # nothing is closed


def test_a_second_signal_ends_running_jobs_and_closes_nothing(fresh: Service) -> None:
    fresh.options.update(slots=1, grace=60.0)
    write_visits(fresh.data / "visits.csv", 400_000)
    fresh.start()
    number = fresh.submit("ann", statement(rho=0.01), wait=0)["job"]["id"]
    until = time.monotonic() + 20
    while fresh.ask("ann", "job", id=number, wait=0)["job"]["state"] == "WAITING" and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.4)
    assert fresh.process is not None
    os.kill(fresh.process.pid, signal.SIGTERM)
    time.sleep(0.1)
    assert fresh.stop() == 0
    fresh.start()
    job = fresh.ask("ann", "job", id=number, wait=0)["job"]
    assert job["state"] in ("DONE", "STOPPED", "WAITING", "RUNNING")
    assert fresh.submit("bob", statement(rho=0.02))["job"]["state"] == "DONE"
    with fresh.ledger() as ledger:
        assert ledger.verify().intact


def test_a_killed_keeper_keeps_charges_and_its_seal(fresh: Service) -> None:
    fresh.start()
    number = fresh.submit("ann", statement(rho=0.01), wait=0)["job"]["id"]
    until = time.monotonic() + 20
    while _used(fresh) == "rho 0" and time.monotonic() < until:
        time.sleep(0.005)
    fresh.stop(signal.SIGKILL)
    fresh.start()
    job = fresh.ask("ann", "job", id=number, wait=0)["job"]
    assert job["state"] in ("FAILED", "DONE")
    assert _used(fresh) == "rho 0.01"
    with fresh.ledger() as ledger:
        assert ledger.verify().intact


def test_a_failed_release_closes_its_data_and_suspends_its_principal(fresh: Service) -> None:
    from tallystick.service.jobs import FAILED

    write_visits(fresh.data / "visits.csv", 400_000)
    fresh.options["slots"] = 2
    fresh.start()
    number = fresh.submit("ann", statement(rho=0.01), wait=0)["job"]["id"]
    killed = _kill_worker(fresh)
    assert killed
    job = ended(fresh, "ann", number)["job"]
    assert job["state"] == FAILED
    with pytest.raises(TallystickError):
        fresh.submit("bob", statement(rho=0.02))
    assert [each["charge"] for each in fresh.ask("root", "failures", population="clinic")] == [job["charge"]]
    with pytest.raises((NotAuthorised, InvalidInput)):
        fresh.ask("ann", "failures", population="clinic")
    [suspension] = fresh.ask("root", "suspended", population="clinic")
    assert suspension["principal"] == fresh.ids["ann"]


def _cpu(service: Service) -> float:
    """Seconds of processor time that the keeper has taken."""
    assert service.process is not None
    fields = Path(f"/proc/{service.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _used(service: Service) -> str:
    """What the clinic has used."""
    used = {each["name"]: each["used"] for each in service.ask("root", "populations")}
    return str(used["clinic"])


def _kill_worker(service: Service) -> bool:
    """Kill the worker of the job that runs, once it reads rows."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if _used(service) != "rho 0":
            for process in _descendants(service.process.pid if service.process else 0):
                if "given" in _open_files(process) or _has_folder(process):
                    os.kill(process, signal.SIGKILL)
                    return True
        time.sleep(0.005)
    return False


def _descendants(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            parent = _parent(int(entry.name))
            while parent > 1 and parent != pid:
                parent = _parent(parent)
            if parent == pid:
                found.append(int(entry.name))
    return found


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def _open_files(pid: int) -> str:
    try:
        return " ".join(os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return ""


def _has_folder(pid: int) -> bool:
    return "visits.csv" in _open_files(pid) or "engine-" in _open_files(pid)


def test_two_keepers_of_one_folder_are_refused(service: Service) -> None:
    other = Service(service.folder, service.place)
    with pytest.raises(AssertionError, match="a service runs in"):
        other.start()


def test_a_ledger_without_roles_is_refused(tmp_path: Path) -> None:
    from tallystick.service.keeper import require_service

    with ts.Ledger(tmp_path / "budget.db") as ledger, pytest.raises(Refused) as problem:
        require_service(ledger)
    assert problem.value.code == "no_roles"


def test_planning_that_takes_too_long_is_refused(service: Service) -> None:
    text = "SELECT " + ", ".join(f"SUM(age + {i})" for i in range(3000)) + " FROM visits"
    began = time.monotonic()
    with pytest.raises(TallystickError):
        service.ask("ann", "offer", request=statement(text), sizes=[])
    assert time.monotonic() - began < 20
    assert service.ask("ann", "offer", request=statement(), sizes=[])["fits"]


def test_a_service_says_that_it_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no service answers"):
        Caller(tmp_path / SOCKET, "tsk_x")
