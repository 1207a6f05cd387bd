"""The front as a process: what it gets, when it ends, and what it logs."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fronted import Fronted
from tallystick.errors import InvalidInput, NotAuthorised, Unavailable
from tallystick.service.protocol import SOCKET
from tallystick.service.supervisor import Front, Listening
from tallystick.web import door as door_module
from tallystick.web.app import application
from tallystick.web.calling import Callers
from tallystick.web.door import OPENAPI, ROUTES, Door
from tallystick.web.problems import PREFIX

HOST = "127.0.0.1:1"


def asked(app: Any, path: str, method: str = "GET", headers: dict[str, str] | None = None, query: str = "") -> Any:
    """Return the status and the body of one request to an application in this process."""
    sent: list[Any] = []
    named = {"host": HOST, **(headers or {})}
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in named.items()],
    }

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], b"".join(each.get("body", b"") for each in sent[1:])


class _Failing:
    """Connections to a keeper that has a defect behind it."""

    def ask(self, token: str, action: str, **fields: Any) -> Any:
        raise ZeroDivisionError(f"the value {token} {fields}")


def _logged(callers: Any, ask: Callable[[Any], Any]) -> tuple[list[str], Any]:
    lines: list[str] = []
    found = ask(application(Door(callers), [HOST], log=lines.append))
    return lines, found


def test_the_log_has_method_route_and_status_alone() -> None:
    def ask(app: Any) -> None:
        asked(app, "/v1/populations/clinic/datasets", query="statement=SELECT")
        asked(app, "/v1/jobs/0123", "DELETE", {"x-more": "secret"})
        asked(app, "/no/such/path")
        asked(app, "/v1/me", "S3CRET")

    lines, _ = _logged(Callers("/nowhere"), ask)
    assert lines == [
        "GET /v1/populations/{population}/datasets 400",
        "DELETE /v1/jobs/{id} 401",
        "GET - 404",
        "OTHER /v1/me 405",
    ]


def test_a_defect_is_a_number_for_the_operator(capsys: pytest.CaptureFixture[str]) -> None:
    headers = {"authorization": "Bearer tsk_0123"}
    lines, (status, body) = _logged(_Failing(), lambda app: asked(app, "/v1/me", headers=headers))
    told = json.loads(body)
    assert (status, told["code"], lines) == (500, "defect", ["GET /v1/me 500"])
    number = told["detail"].rpartition(" ")[2]
    logged = capsys.readouterr().err
    assert f"defect {number}: ZeroDivisionError" in logged
    assert "tsk_" not in logged + body.decode()


def test_without_a_keeper_nothing_is_granted() -> None:
    headers = {"authorization": "Bearer tsk_0123"}
    _, (status, body) = _logged(Callers("/nowhere"), lambda app: asked(app, "/v1/me", headers=headers))
    assert (status, json.loads(body)["exit"]) == (503, 9)


@pytest.mark.parametrize(
    ("listening", "argument"),
    [
        (Listening(80_000), "port"),
        (Listening(0, "0.0.0.0"), "host"),
        (Listening(0, "clinic.example"), "host"),
        (Listening(0, "0.0.0.0", certificate=Path(__file__)), "tls_key"),
        (Listening(0, "0.0.0.0", Path("/nowhere"), Path("/nowhere")), "tls_cert"),
    ],
)
def test_tokens_cross_no_network_in_clear_text(listening: Listening, argument: str) -> None:
    with pytest.raises(InvalidInput) as problem:
        listening.check()
    assert problem.value.argument == argument


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(Unavailable, match=re.escape("pip install 'tallystick[serve]'")):
        Listening(0).check()


def test_a_port_that_is_taken_is_named_before_anything_starts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(Unavailable, match="is not free"):
        Front(Listening(taken.getsockname()[1]), Path("/nowhere"), lambda line: None)


def test_the_front_gets_no_ledger_no_key_and_no_token(door: Fronted, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TALLYSTICK_LEDGER", "TALLYSTICK_TOKEN", "TALLYSTICK_CONFIG_DIR", "PGPASSWORD", "HOME"):
        monkeypatch.setenv(name, "a secret")
    front = Front(Listening(0), door.service.state / SOCKET, lambda line: None)
    front.start()
    try:
        process = front._process
        assert process is not None
        given = Path(f"/proc/{process.pid}/environ").read_bytes()
        assert b"a secret" not in given
        opened = [os.readlink(each) for each in Path(f"/proc/{process.pid}/fd").iterdir()]
        assert not [each for each in opened if "budget" in each or "/data/" in each or "config" in each]
    finally:
        front.stop()


class _Running:
    """Connections to a keeper whose job never ends; its token ends after some looks."""

    def __init__(self, looks: int = 1_000) -> None:
        self.looks = looks

    def ask(self, token: str, action: str, **fields: Any) -> Any:
        self.looks -= 1
        if self.looks < 0:
            raise NotAuthorised("this token is not accepted", code="dead_token")
        return {"job": {"id": "1", "state": "RUNNING"}}


def _streamed(callers: Any, monkeypatch: pytest.MonkeyPatch, stop_after: int | None = None) -> list[bytes]:
    """Return the pieces of a stream, whose front stops after some of them."""
    monkeypatch.setattr(door_module, "LOOK", 0.001)
    monkeypatch.setattr(door_module, "HEARTBEAT", 0.01)
    door = Door(callers)

    async def read() -> list[bytes]:
        pieces = []
        async for each in door._states("tsk_1", "1", {"job": {"id": "1", "state": "WAITING"}}):
            pieces.append(each)
            door.is_stopping = len(pieces) == stop_after
        return pieces

    pieces = asyncio.run(asyncio.wait_for(read(), 20))
    assert not door._streams
    return pieces


def test_a_stream_ends_by_itself_when_the_front_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = _streamed(_Running(), monkeypatch, stop_after=4)
    assert [each.partition(b"\n")[0] for each in pieces] == [b"event: state"] * 2 + [b": still here"] * 2


def test_a_stream_ends_with_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    last = _streamed(_Running(looks=2), monkeypatch)[-1].split(b"\n")
    assert last[0] == b"event: problem"
    assert json.loads(last[1].removeprefix(b"data: "))["status"] == 401


def test_the_front_ends_with_the_process_that_started_it(door: Fronted) -> None:
    front = Front(Listening(0), door.service.state / SOCKET, lambda line: None)
    front._begin()
    process = front._process
    assert process is not None
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(15) is not None
    front._listener.close()


# -- the description


def test_the_description_has_the_routes_and_no_other() -> None:
    described = json.loads(OPENAPI.read_text())
    operations = {path: {method.upper() for method in each} for path, each in described["paths"].items()}
    assert operations == {path: set(methods) for path, methods in ROUTES.items()}
    names = {each["operationId"] for methods in described["paths"].values() for each in methods.values()}
    assert names == {handler.__name__ for methods in ROUTES.values() for handler in methods.values()}


def test_the_description_has_the_parameters_of_each_path_and_no_dead_reference() -> None:
    text = OPENAPI.read_text()
    described = json.loads(text)
    for path, methods in described["paths"].items():
        for each in methods.values():
            given = {parameter["name"] for parameter in each.get("parameters", []) if parameter["in"] == "path"}
            assert given == set(re.findall(r"\{(\w+)\}", path))
    for reference in re.findall(r'"#/components/(\w+)/(\w+)"', text):
        assert described["components"][reference[0]][reference[1]]


def test_answers_are_as_described(door: Fronted) -> None:
    described = json.loads(door.send("GET", "/v1/openapi.json").body)
    for path, methods in described["paths"].items():
        if "get" not in methods or "{" in path.replace("{population}", ""):
            continue
        for who in (None, "ann", "root"):
            reply = door.send("GET", path.replace("{population}", "clinic"), who)
            assert str(reply.status) in methods["get"]["responses"], (path, who)
            if reply.status == 200 and path != "/v1/openapi.json":
                schema = methods["get"]["responses"]["200"]["content"]["application/json"]["schema"]
                assert set(schema["required"]) <= reply.data.keys()
            elif reply.status != 200:
                members = described["components"]["schemas"]["Problem"]["required"]
                assert set(members) <= reply.data.keys()
                assert reply.data["type"] == PREFIX + reply.data["code"]
