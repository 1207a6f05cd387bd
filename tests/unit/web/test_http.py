"""A service over HTTP, as its users and those who attack it meet it."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from typing import Any

import pytest

import tallystick as ts
from fronted import Fronted
from served import VISITS, statement
from tallystick.errors import TallystickError
from tallystick.web.door import ROUTES

PEOPLE = ("root", "ann", "bob", "cat", "aud", "max", "sue", "sam")


def test_the_front_runs_and_says_no_more_without_a_token(door: Fronted) -> None:
    reply = door.send("GET", "/healthz")
    assert (reply.status, reply.body) == (200, b'{"status":"ok"}')
    for path in ("/v1", "/v1/me", "/v1/populations", "/v1/jobs", "/v1/connections"):
        assert door.send("GET", path).status == 401


def test_every_answer_forbids_caches_sniffing_and_other_origins(door: Fronted) -> None:
    for path, who in (
        ("/healthz", None),
        ("/v1/me", "ann"),
        ("/v1/me", None),
        ("/no/such", None),
        ("/v1/openapi.json", None),
    ):
        headers = door.send("GET", path, who, headers={"Origin": "https://elsewhere.example"}).headers
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert not [name for name in headers if name.startswith("access-control")]
        assert "server" not in headers


def test_a_person_sees_roles_budget_and_datasets_and_no_place(door: Fronted) -> None:
    assert door.send("GET", "/v1/me", "ann").data["roles"] == {"clinic": ["analyst"]}
    assert [each["name"] for each in door.send("GET", "/v1/populations", "ann").data["populations"]] == ["clinic"]
    reply = door.send("GET", "/v1/populations/clinic/datasets", "ann")
    assert [each["name"] for each in reply.data["datasets"]] == ["visits"]
    assert str(door.service.folder).encode() not in reply.body


def test_a_release_is_answered_once_and_then_from_the_ledger(door: Fronted) -> None:
    offer = door.send("POST", "/v1/populations/clinic/offers", "ann", {"request": statement(rho=0.012)})
    assert (offer.status, offer.data["price"]) == (200, "rho 0.012")
    first = door.release("ann", statement(rho=0.012), key="first")
    assert (first.status, first.data["job"]["state"]) == (200, "DONE")
    assert first.headers["location"] == f"/v1/jobs/{first.data['job']['id']}"
    again = door.release("ann", statement(rho=0.012), key="first")
    assert again.data["outcome"]["table"] == first.data["outcome"]["table"]
    stored = door.release("ann", statement(rho=0.012), key="other")
    assert stored.status == 200
    assert stored.data["outcome"]["paid"]["again"]
    assert stored.data["outcome"]["paid"]["charge"] == first.data["outcome"]["paid"]["charge"]


def test_a_key_belongs_to_one_body_and_one_principal(door: Fronted) -> None:
    assert door.release("ann", statement(rho=0.013), key="mine").status == 200
    other = door.release("ann", statement(rho=0.0131), key="mine")
    assert (other.status, other.data["code"], other.data["exit"]) == (409, "name_used", 8)
    assert door.release("bob", statement(rho=0.0132), key="mine").status == 200


def test_concurrent_twins_are_one_job_and_one_charge(door: Fronted) -> None:
    found: list[Any] = []
    body = {"request": statement(f"{VISITS} ORDER BY ward", rho=0.014)}

    def twin() -> None:
        headers = {"Idempotency-Key": "twin"}
        found.append(door.send("POST", "/v1/populations/clinic/releases", "ann", body, headers=headers))

    twins = [threading.Thread(target=twin) for _ in range(6)]
    for each in twins:
        each.start()
    for each in twins:
        each.join()
    assert {reply.status for reply in found} == {202}
    numbers = {reply.data["job"]["id"] for reply in found}
    assert len(numbers) == 1
    ended = door.send("GET", f"/v1/jobs/{numbers.pop()}", "ann", headers={"Prefer": "wait=30"})
    assert (ended.status, ended.data["job"]["state"]) == (200, "DONE")


def test_a_release_names_the_population_of_its_data(door: Fronted) -> None:
    foreign, absent = (door.release("ann", statement(rho=0.015), population=name) for name in ("school", "no_such"))
    assert (foreign.status, foreign.headers, foreign.body) == (404, absent.headers, absent.body)
    sizes = {"request": statement(rho=0.015), "sizes": ["many"]}
    assert door.send("POST", "/v1/populations/clinic/offers", "ann", sizes).status == 422


def test_a_path_about_another_population_of_the_same_person_is_refused(door: Fronted) -> None:
    with door.service.ledger() as ledger:
        two = ledger.team.add("two")
        ledger.team.grant("two", "analyst", "clinic", why="works here")
        sue = ledger.acting_for(door.service.ids["sue"])
        sue.team.grant("two", "analyst", "school", why="works there")
        ledger.team.allow("two", "clinic", ts.zcdp(rho=1), called="twos", why="a study")
        token = ledger.acting_for(two).team.make_token(roles=["analyst"]).text
    door.service.tokens["two"] = token
    used = door.send("GET", "/v1/populations", "root").body
    offered = {"request": statement(rho=0.022)}
    offer = door.send("POST", "/v1/populations/school/offers", "two", offered)
    assert (offer.status, offer.data["code"]) == (422, "other_population")
    wrong = door.release("two", statement(rho=0.022), population="school")
    assert (wrong.status, wrong.data["code"]) == (422, "other_population")
    assert door.send("GET", "/v1/populations", "root").body == used
    assert door.send("GET", "/v1/jobs", "two").data["jobs"] == []
    assert door.release("two", statement(rho=0.022), key="twos").status == 200
    for key in ("twos", "another"):  # a job, and a stored answer
        stored = door.release("two", statement(rho=0.022), population="school", key=key)
        assert (stored.status, stored.data["code"]) == (422, "other_population")


def test_what_is_refused_comes_back_as_the_error_that_it_is(door: Fronted) -> None:
    denied = door.release("ann", statement(rho=3))
    assert (denied.status, denied.data["kind"], denied.data["exit"]) == (409, "BudgetExceeded", 3)
    assert denied.data["remedies"]
    assert denied.headers["content-type"] == "application/problem+json"
    unknown = door.release("ann", statement("SELECT age FROM visits"))
    assert (unknown.status, unknown.data["type"]) == (422, f"urn:tallystick:problem:{unknown.data['code']}")
    data = {**denied.data, "message": denied.data["detail"]}
    assert TallystickError.from_data(data).exit_code == 3


# -- who may see what

_FILLED = {"population": "clinic", "id": "0" * 32, "principal": "0" * 32}
_BODIES = {"offers": {"request": statement(rho=0.016)}, "releases": {"request": statement(rho=0.016)}}


def _path(template: str, **names: str) -> str:
    return template.format(**{**_FILLED, **names})


def _ask(door: Fronted, method: str, template: str, who: str, **names: str) -> Any:
    body = _BODIES.get(template.rpartition("/")[2]) if method == "POST" else None
    headers = {"Idempotency-Key": f"{who}-{names}".replace(" ", "")}
    return door.send(method, _path(template, **names), who, body, headers=headers)


@pytest.mark.parametrize(
    ("method", "template"),
    [(method, path) for path, methods in ROUTES.items() for method in methods if "{population}" in path],
)
def test_another_population_looks_absent_to_every_role(door: Fronted, method: str, template: str) -> None:
    for who in PEOPLE:
        foreign = "clinic" if who in ("sue", "sam") else "school"
        theirs = _ask(door, method, template, who, population=foreign)
        absent = _ask(door, method, template, who, population="no_such")
        if who == "root" and theirs.status != 404:
            continue  # an operator sees every population
        assert (theirs.status, theirs.headers, theirs.body) == (404, absent.headers, absent.body), who


ALLOWED = {
    "datasets": {"root", "ann", "bob", "cat", "aud", "max"},
    "offers": {"root", "ann", "bob", "cat"},
    "failures": {"root"},
    "suspensions": {"root"},
}
"""People who may use a resource of the clinic, by the roles of docs/reference/service.md."""


@pytest.mark.parametrize("name", ALLOWED)
def test_a_role_of_the_population_decides(door: Fronted, name: str) -> None:
    (template,) = (each for each in ROUTES if each.endswith(f"}}/{name}"))
    (method,) = ROUTES[template]
    allowed = {who for who in PEOPLE if _ask(door, method, template, who).status == 200}
    statuses = {who: _ask(door, method, template, who).status for who in PEOPLE}
    assert allowed == ALLOWED[name], statuses
    assert {status for who, status in statuses.items() if who not in allowed} <= {403, 404}


def test_only_operators_see_connections_and_all_jobs(door: Fronted) -> None:
    for path in ("/v1/connections", "/v1/jobs?all=true"):
        statuses = {who: door.send("GET", path, who).status for who in PEOPLE}
        assert statuses.pop("root") == 200
        assert set(statuses.values()) == {403}


def test_a_job_of_another_person_looks_absent(door: Fronted) -> None:
    number = door.release("ann", statement(rho=0.017)).data["job"]["id"]
    for method, rest in (("GET", ""), ("GET", "/events"), ("DELETE", "")):
        theirs = door.send(method, f"/v1/jobs/{number}{rest}", "bob")
        absent = door.send(method, f"/v1/jobs/{'0' * 32}{rest}", "bob")
        assert (theirs.status, theirs.headers, theirs.body) == (404, absent.headers, absent.body)
    begun = door.send("DELETE", f"/v1/jobs/{number}", "ann")
    assert (begun.status, begun.data["code"]) == (409, "begun")


def test_a_revoked_token_is_refused_at_the_next_request_like_an_unknown_one(door: Fronted) -> None:
    with door.service.ledger() as ledger:
        token = ledger.acting_for(door.service.ids["bob"]).team.make_token(roles=["analyst"])
    assert door.send("GET", "/v1/me", token=token.text).status == 200
    with door.service.ledger() as ledger:
        ledger.acting_for(door.service.ids["bob"]).team.end_token(token.seq)
    ended = door.send("GET", "/v1/me", token=token.text)
    assert ended.status == 401
    right = door.service.tokens["ann"]
    typo = right[:-1] + ("1" if right.endswith("0") else "0")
    for other in (typo, "tsk_0", "tsk_" + "0" * 70, "tsk_" + "a" * 4000, "no token"):
        reply = door.send("GET", "/v1/me", token=other)
        assert (reply.status, reply.headers, reply.body) == (401, ended.headers, ended.body)
    assert door.send("GET", "/v1/me").body == ended.body
    assert door.send("GET", f"/v1/me?token={right}").status in (400, 401)


# -- requests that are not as they should be


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"null",
        b'{"request": {}, "request": {}}',
        b'{"request": 7}',
        b'{"request": {"what": {}}, "more": 1}',
        b'{"request": NaN}',
        b'{"request": {"a": 1e999}}',
        b'{"request": ' + b"[" * 200 + b"]" * 200 + b"}",
        b'{"request": "\xff"}',
    ],
)
def test_a_malformed_body_is_refused(door: Fronted, body: bytes) -> None:
    reply = door.send("POST", "/v1/populations/clinic/offers", "ann", body)
    assert (reply.status, reply.data["code"], reply.data["exit"]) == (400, "malformed", 2)


def test_a_request_with_an_unknown_field_is_refused(door: Fronted) -> None:
    reply = door.release("ann", {**statement(), "more": 1})
    assert reply.status == 422
    question = {"kind": "question", "dataset": "visits", "plan": {}, "source": "/etc/passwd"}
    assert door.release("ann", {**statement(), "what": question}).status == 422


def test_other_types_sizes_methods_and_hosts_are_refused(door: Fronted) -> None:
    path = "/v1/populations/clinic/offers"
    assert door.send("POST", path, "ann", "{}", headers={"Content-Type": "text/plain"}).status == 415
    assert door.send("POST", path, "ann", {"request": statement("SELECT " + "1" * 70_000)}).status == 413
    assert door.send("POST", path, "ann", b"", headers={"Content-Length": str(9 << 20)}).status == 413
    expanding = json.dumps({"request": {"what": {"kind": "é" * (3 << 20)}}}, ensure_ascii=False).encode()
    assert door.send("POST", path, "ann", expanding).status == 413
    wrong = door.send("DELETE", path, "ann")
    assert (wrong.status, wrong.headers["allow"]) == (405, "POST")
    assert door.send("PUT", "/v1/jobs/x", "ann").headers["allow"] == "GET, DELETE"
    assert door.send("POST", "/v1/populations/clinic/releases", "ann", {"request": statement()}).status == 400
    for host in ("elsewhere.example", "127.0.0.1", f"127.0.0.1:{'1'}"):
        reply = door.send("GET", "/healthz", headers={"Host": host})
        assert (reply.status, reply.data["code"]) == (400, "wrong_host")
    assert door.send("GET", "/v1/jobs?all=false&all=true", "ann").status == 400
    assert door.send("GET", "/v1/me?more=1", "ann").status == 400
    assert door.send("GET", "/v1/me/", "ann").status == 404


def test_a_body_in_pieces_is_counted_as_it_comes(door: Fronted) -> None:
    host, port = door.address.split(":")
    head = f"POST /v1/populations/clinic/offers HTTP/1.1\r\nHost: {door.address}\r\nTransfer-Encoding: chunked\r\n"
    head += f"Authorization: Bearer {door.service.tokens['ann']}\r\nContent-Type: application/json\r\n\r\n"
    piece = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(head.encode())
        with contextlib.suppress(OSError):
            for _ in range(10):
                connection.sendall(piece)
        assert b" 413 " in connection.recv(4096).partition(b"\r\n")[0]


# -- streams


def _stream(door: Fronted, number: str) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    connection = http.client.HTTPConnection(door.address, timeout=30)
    connection.request(
        "GET", f"/v1/jobs/{number}/events", headers={"Authorization": f"Bearer {door.service.tokens['ann']}"}
    )
    return connection, connection.getresponse()


def test_states_are_streamed_until_the_job_has_ended(door: Fronted) -> None:
    body, headers = {"request": statement(rho=0.018)}, {"Idempotency-Key": "streamed"}
    number = door.send("POST", "/v1/populations/clinic/releases", "ann", body, headers=headers).data["job"]["id"]
    connection, got = _stream(door, number)
    with contextlib.closing(connection):
        assert got.getheader("content-type", "").startswith("text/event-stream")
        events = [each.split("\n") for each in got.read().decode().strip().split("\n\n")]
    states = [json.loads(data.removeprefix("data: "))["state"] for _, data in events]
    assert states[-1] == "DONE"
    assert len(states) == len(set(states))
    assert "outcome" not in str(events)


def test_one_token_has_no_more_than_eight_connections_to_the_keeper(tmp_path: Any) -> None:
    from tallystick.web import calling

    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(64)
        callers = calling.Callers(path)
        with contextlib.ExitStack() as lent:
            first = [lent.enter_context(callers._lent("tsk_1")) for _ in range(calling.MOST_AT_ONCE)]
            with pytest.raises(TallystickError) as problem:
                callers.ask("tsk_1", "me")
            assert problem.value.code == "too_many_requests"
            assert lent.enter_context(callers._lent("tsk_2")) not in first
        with callers._lent("tsk_1") as again, callers._lent("tsk_3") as other:
            assert again in first
            assert other not in first
        callers.close()
