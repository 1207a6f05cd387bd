"""The front as a process: what it gets, when it ends, and what it logs."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import http.client
import ipaddress
import json
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import tallystick as ts
from fronted import Fronted
from tallystick.errors import InvalidInput, NotAuthorised, Unavailable
from tallystick.service import frames
from tallystick.service.protocol import SOCKET
from tallystick.service.supervisor import Front, Listening
from tallystick.web import door as door_module
from tallystick.web import reading
from tallystick.web.app import application
from tallystick.web.calling import Callers
from tallystick.web.door import OPENAPI, ROUTES, Door
from tallystick.web.problems import PREFIX

HOST = "127.0.0.1:1"


async def _no_body() -> Any:
    return {"type": "http.request", "body": b"", "more_body": False}


def asked(
    app: Any,
    path: str,
    method: str = "GET",
    headers: dict[str, str] | None = None,
    query: str = "",
    receive: Callable[[], Any] = _no_body,
) -> Any:
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


def _certified(folder: Path) -> Listening:
    """Return an address with a certificate for 127.0.0.1 and budget.example, which signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "budget.example")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("budget.example"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(key.private_bytes(*plain))
    return Listening(0, "127.0.0.1", folder / "cert.pem", folder / "key.pem")


def test_over_tls_the_client_checks_the_certificate(
    door: Fronted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listening = _certified(tmp_path)
    assert "budget.example:443" in listening.hosts(443)
    front = Front(listening, door.service.state / SOCKET, lambda line: None)
    front.start()
    try:
        token = door.service.tokens["ann"]
        with pytest.raises(Unavailable):
            ts.connect(front.url, token=token).populations()
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        assert [each["name"] for each in ts.connect(front.url, token=token).populations()] == ["clinic"]
        context = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
        with contextlib.closing(http.client.HTTPSConnection(front.url[8:], context=context)) as connection:
            connection.request("GET", "/healthz")
            assert connection.getresponse().getheader("strict-transport-security")
    finally:
        front.stop()


def test_a_certificate_that_is_not_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("not a certificate")
    with pytest.raises(InvalidInput, match="tls_cert"):
        Listening(0, "127.0.0.1", tmp_path / "cert.pem", tmp_path / "cert.pem").hosts(1)


# -- requests that take long, and a keeper that starts again


def test_a_body_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BODY_PATIENCE", 0.05)

    async def receive() -> Any:
        await asyncio.sleep(60)

    headers = {"authorization": "Bearer tsk_0123", "content-type": "application/json"}

    def ask(app: Any) -> Any:
        return asked(app, "/v1/populations/clinic/offers", "POST", headers, receive=receive)

    assert _logged(Callers("/nowhere"), ask)[1][0] == 408


def test_a_connection_that_the_keeper_has_closed_is_not_used_again(tmp_path: Path) -> None:
    seen = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()

        def keep() -> None:
            for _ in range(2):
                connection, _ = listener.accept()
                with connection:
                    seen.append(frames.receive(connection)["token"])
                    frames.send(connection, {"result": len(seen)})

        keeping = threading.Thread(target=keep, daemon=True)
        keeping.start()
        callers = Callers(tmp_path / "s")
        assert callers.ask("tsk_1", "me") == 1
        until = time.monotonic() + 10
        while callers._held and time.monotonic() < until:
            if not next(iter(callers._held.values())).idle[0].is_usable:
                break
        assert callers.ask("tsk_1", "me") == 2
        keeping.join()
        callers.close()


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
