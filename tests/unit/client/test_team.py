"""``ts.connect``: asking a service from Python."""

from __future__ import annotations

import json
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

import served
import tallystick as ts
from fronted import Fronted
from served import VISITS
from tallystick.client.team import Release, Team
from tallystick.errors import BudgetExceeded, InvalidInput, NotAuthorised, TallystickError, Unavailable
from tallystick.service import sandbox

TOKEN = "tsk_0123456789abcdef"


def connected(door: Fronted, who: str) -> Team:
    return ts.connect(door.front.url, token=door.service.tokens[who])


def test_a_team_shows_what_a_person_may_see(door: Fronted) -> None:
    team = connected(door, "ann")
    assert team.me["principal"] == door.service.ids["ann"]
    assert [each["name"] for each in team.populations()] == ["clinic"]
    assert [each["name"] for each in team.datasets()] == ["visits"]
    assert team.offer(VISITS, rho=0.02)["price"] == "rho 0.02"
    assert TOKEN not in repr(team) + repr(team._connection)


def test_a_statement_is_answered_and_its_table_is_that_of_the_ledger(door: Fronted, tmp_path: Path) -> None:
    team, states = connected(door, "ann"), []
    release = team.sql(VISITS, rho=0.02, why="weekly report", population="clinic", progress=states.append)
    assert states
    assert set(states) <= {"WAITING", "RUNNING"}
    assert {row["ward"] for row in release.rows} == {"north", "east"}
    assert release.paid["price"] == "rho 0.02"
    assert not release.is_stored
    again = team.sql(VISITS, rho=0.02, why="weekly report")
    assert again.is_stored
    assert again.rows == release.rows
    assert again.paid["charge"] == release.paid["charge"]
    text = release.to_csv(tmp_path / "table.csv")
    assert (tmp_path / "table.csv").read_text() == text
    assert (tmp_path / "table.about.csv").read_text().startswith("what,value")
    with door.service.ledger() as ledger:
        local = ts.sql(VISITS, ledger=ledger.acting_for(door.service.ids["ann"]), rho=0.02, why="weekly report")
    assert local.to_csv() == text
    assert [list(row.values()) for row in local.rows] == [list(row.values()) for row in release.rows]
    assert team.jobs()[-1]["charge"] == release.paid["charge"]


@pytest.mark.parametrize(
    ("kind", "who", "ask"),
    [
        (BudgetExceeded, "ann", lambda team: team.sql(VISITS, rho=3, why="too much")),
        (InvalidInput, "ann", lambda team: team.sql(VISITS, rho=-1, why="negative")),
        (InvalidInput, "ann", lambda team: team.sql(VISITS, rho=float("nan"), why="no number")),
        (TallystickError, "ann", lambda team: team.sql("SELECT age FROM visits", rho=0.01, why="rows")),
        (TallystickError, "ann", lambda team: team.sql("SELECT COUNT(*) AS n FROM pupils", rho=0.01, why="foreign")),
        (NotAuthorised, "ann", lambda team: team.datasets("school")),
        (NotAuthorised, "cat", lambda team: team.sql(VISITS, rho=0.01, why="approver", population="clinic")),
        (InvalidInput, "cat", lambda team: team.datasets()),
    ],
)
def test_errors_are_those_of_the_service(door: Fronted, kind: Any, who: str, ask: Callable[[Team], Any]) -> None:
    with pytest.raises(kind) as problem:
        ask(connected(door, who))
    assert problem.value.exit_code in (2, 3, 4, 7)
    assert str(door.service.folder) not in str(problem.value)


def test_a_denial_offers_what_fits_as_the_local_one_does(door: Fronted) -> None:
    with pytest.raises(BudgetExceeded) as denied:
        connected(door, "ann").sql(VISITS, rho=3, why="too much")
    fitting = next(each["value"] for each in denied.value.remedies if each.kind == "lower_price")
    assert connected(door, "ann").offer(VISITS, rho=fitting)["fits"]


def test_a_dead_token_is_refused_with_its_exit_code(door: Fronted) -> None:
    with pytest.raises(NotAuthorised) as problem:
        ts.connect(door.front.url, token=TOKEN).populations()
    assert (problem.value.exit_code, problem.value.code) == (7, "dead_token")


# -- addresses and tokens


@pytest.mark.parametrize(
    "url",
    [
        "http://budget.example",
        "http://127.0.0.1.example",
        "https://ann:secret@budget.example",
        "https://budget.example/path",
        "https://budget.example?token=1",
        "ftp://budget.example",
        "budget.example",
        "https://",
        "https://budget.example:port",
    ],
)
def test_an_address_that_would_lose_the_token_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput) as problem:
        ts.connect(url, token=TOKEN)
    assert problem.value.argument == "url"
    assert "secret" not in str(problem.value)


def test_the_token_comes_from_the_environment_or_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TALLYSTICK_TOKEN", "TALLYSTICK_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InvalidInput):
        ts.connect("https://budget.example")
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    monkeypatch.setenv("TALLYSTICK_TOKEN_FILE", str(tmp_path / "token"))
    assert ts.connect("https://budget.example")._connection._token == TOKEN
    monkeypatch.setenv("TALLYSTICK_TOKEN", "not a\r\nX-Token: one")
    with pytest.raises(InvalidInput) as problem:
        ts.connect("https://budget.example")
    assert "X-Token" not in str(problem.value)


def test_a_token_is_neither_shown_nor_pickled() -> None:
    team = ts.connect("https://budget.example", token=TOKEN)
    assert TOKEN not in f"{team} {team!r} {team._connection!r}"
    with pytest.raises(TypeError):
        pickle.dumps(team)


def test_connecting_loads_no_engine_and_no_numpy() -> None:
    code = f"import sys, tallystick as ts; ts.connect('https://budget.example', token='{TOKEN}'); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "scipy", "duckdb", "sqlglot", "starlette", "uvicorn", "cryptography"} & set(loaded)
    assert not [name for name in loaded if name.startswith(("tallystick.ledger", "tallystick.tables"))]


# -- answers of something else than a service


@contextmanager
def answering(status: int, kind: str, body: bytes, breaks: int = 0) -> Iterator[tuple[str, list[Any]]]:
    """Serve one answer at a free port; break so many connections before it."""
    seen: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers["Authorization"])
            if len(seen) <= breaks:
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        (200, "text/html", b"<html>a portal</html>"),
        (302, "text/html", b""),
        (200, "application/json", b"{"),
        (200, "application/json", b'{"a": 1, "a": 2}'),
        (200, "application/json", b"[]"),
        (500, "application/problem+json", b"[]"),
        (500, "application/problem+json", b'{"detail": 7}'),
        (404, "application/problem+json", b'{"type": "about:blank", "title": "Not Found", "status": 404}'),
    ],
)
def test_an_answer_of_something_else_is_an_error_of_ours(status: int, kind: str, body: bytes) -> None:
    with answering(status, kind, body) as (url, seen):
        with pytest.raises((Unavailable, InvalidInput)):
            ts.connect(url, token=TOKEN).populations()
        assert len(seen) == 1  # a redirection is not followed, so the token goes nowhere else


def test_a_broken_connection_is_tried_once_more() -> None:
    body = json.dumps({"populations": []}).encode()
    with answering(200, "application/json", body, breaks=1) as (url, _):
        assert ts.connect(url, token=TOKEN).populations() == []
    with answering(200, "application/json", body, breaks=2) as (url, seen):
        with pytest.raises(Unavailable):
            ts.connect(url, token=TOKEN).populations()
        assert len(seen) == 2


def test_a_service_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(Unavailable) as problem:
        ts.connect("http://127.0.0.1:1", token=TOKEN).me  # noqa: B018
    assert problem.value.exit_code == 9


def test_cells_of_a_file_are_not_run_by_a_spreadsheet() -> None:
    table = {
        "columns": ["day", "note", "x"],
        "rows": [["2026-01-02", "=1+1", 0.5], ["2026-01-03", 'a,"b"', None]],
        "dates": ["day"],
        "about": "",
    }
    release = Release({"outcome": {"table": table, "paid": None, "notes": []}})
    assert release.to_csv() == 'day,note,x\n2026-01-02,\'=1+1,0.5\n2026-01-03,"a,""b""",\n'
    assert release.rows[0]["day"].year == 2026


# -- the command


@pytest.mark.skipif(bool(sandbox.problem()), reason=sandbox.problem())
def test_the_command_serves_http_and_ends_with_its_front(tmp_path: Path) -> None:
    service = served.made(tmp_path / "s")
    settings = {**os.environ, "TALLYSTICK_CONFIG_DIR": str(service.config)}
    words = f"-m tallystick serve --ledger {service.place} --folder {service.state} --port 0"
    command = [sys.executable, *words.split()]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=settings) as process:
        try:
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            url = next(found[0] for line in lines if (found := re.search(r"http://[\d.:]+", line)))
            team = ts.connect(url, token=service.tokens["ann"])
            assert team.sql(VISITS, rho=0.01, why="first").paid["price"] == "rho 0.01"
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
    with pytest.raises(Unavailable):
        team.populations()
