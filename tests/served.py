"""A service for tests: a ledger with roles, data on a connection, a token for each person, and a keeper that runs.

The keeper is a process of its own, as it is for users: it changes how its process opens sources, and it can be killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import tallystick as ts
from tallystick.cli.app import app
from tallystick.service.connections import Connections, Folder
from tallystick.service.protocol import SOCKET, Caller
from tallystick.service.settings import Settings

PEOPLE: Mapping[str, tuple[str, str]] = {
    "ann": ("analyst", "clinic"),
    "bob": ("analyst", "clinic"),
    "cat": ("approver", "clinic"),
    "dan": ("approver", "clinic"),
    "aud": ("auditor", "clinic"),
    "max": ("runner", "clinic"),
    "sue": ("owner", "school"),
    "sam": ("analyst", "school"),
}
"""Role and population of each person but root, who owns the clinic and operates the service."""
VISITS = "SELECT ward, COUNT(*) AS n FROM visits WHERE ward IN ('north', 'east') GROUP BY ward"
WAIT = 30.0


@dataclass
class Service:
    """A ledger, its people and a service that may run."""

    folder: Path
    place: str
    tokens: dict[str, str] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    process: subprocess.Popen[str] | None = None
    program: tuple[str, ...] = ("-m", "tallystick.service.keeper")
    """What Python runs as the keeper; a broken twin has another one."""

    @property
    def config(self) -> Path:
        """The folder of the key, which the keeper finds by its environment."""
        return self.folder / "config"

    @property
    def data(self) -> Path:
        """The folder that is the connection."""
        return self.folder / "data"

    @property
    def state(self) -> Path:
        """The private folder of the service."""
        return self.folder / "state"

    def ledger(self) -> ts.Ledger:
        """The ledger, for the user who operates the service."""
        return ts.Ledger(self.place, create=False, config=self.config)

    def start(self, most_files: int | None = None) -> None:
        """Start the keeper, with a soft limit on open files if one is given, and wait until it answers."""
        settings = Settings(self.place, str(self.state), **self.options)
        environment = {**os.environ, "TALLYSTICK_CONFIG_DIR": str(self.config)}
        command = [sys.executable, "-P", *self.program, settings.to_json()]
        if most_files is not None:
            command = ["sh", "-c", f'ulimit -S -n {most_files}; exec "$@"', "sh", *command]
        with open(self.folder / "keeper.log", "a") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line == "ready\n", (line, self.log())

    def log(self) -> str:
        """What the keeper wrote for its operator."""
        return (self.folder / "keeper.log").read_text()

    def stop(self, number: int = signal.SIGTERM, patience: float = WAIT) -> int:
        """Send the keeper a signal, and wait for its end."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(patience)

    @contextlib.contextmanager
    def calling(self, who: str) -> Iterator[Caller]:
        """Call the keeper with the token of a person."""
        with Caller(self.state / SOCKET, self.tokens[who], patience=2 * WAIT) as caller:
            yield caller

    def ask(self, who: str, action: str, **fields: Any) -> Any:
        """Ask the keeper for one action."""
        with self.calling(who) as caller:
            return caller.ask(action, **fields)

    def submit(self, who: str, what: Mapping[str, Any], *, wait: float = WAIT, name: str | None = None) -> Any:
        """Submit a request."""
        return self.ask(who, "submit", request=dict(what), wait=wait, name=name, population=None)


def statement(text: str = VISITS, *, rho: float | None = 0.01, key: str | None = None, why: str = "trial") -> Any:
    """A request for a statement, as a client sends it."""
    return {
        "format": "tallystick/request/1",
        "what": {"kind": "statement", "text": text},
        "cost": {"rho": rho},
        "key": key,
        "why": why,
    }


def made(folder: Path, place: str | None = None, **options: Any) -> Service:
    """Make a ledger with roles, two populations with a dataset each, and a token for each person."""
    service = Service(folder, place or str(folder / "budget.db"), options=options)
    service.data.mkdir(parents=True)
    service.config.mkdir(parents=True)
    write_visits(service.data / "visits.csv", 2_000)
    write_visits(service.data / "pupils.csv", 2_000, seed=2)
    for name, population in (("visits", "clinic"), ("pupils", "school")):
        _register(service, name, population)
    with service.ledger() as ledger:
        ledger.govern(why="a team uses it")
        ledger.team.begin(why="a team uses it")
        service.ids["root"] = ledger.actor
        for name, (role, population) in PEOPLE.items():
            service.ids[name] = ledger.team.add(name)
            ledger.team.grant(name, role, population, why="works here")
        for name in ("ann", "bob"):
            ledger.team.allow(name, "clinic", ts.zcdp(rho=1), called=f"{name}s", why="a study")
        for name, principal in service.ids.items():
            role = PEOPLE[name][0] if name in PEOPLE else "owner"
            roles = ["owner", "operator"] if name == "root" else [role]
            view = ledger.acting_for(principal)
            service.tokens[name] = view.team.make_token(roles=roles).text
        sue = ledger.acting_for(service.ids["sue"])
        sue.team.revoke(service.ids["root"], "owner", "school", why="sue owns it now")
        sue.team.allow("sam", "school", ts.zcdp(rho=1), called="sams", why="a study")
    service.state.mkdir(mode=0o700)
    Connections(service.state / "connections.json").add(Folder("files", service.data), ["clinic", "school"])
    return service


def _register(service: Service, name: str, population: str) -> None:
    """Register a file as its owner would, before there are roles."""
    words = (
        f"dataset add {service.data / name}.csv --name {name} --population {population} --unit who --max-groups 2 "
        f"--max-rows-per-group 3 --bounds age=0:110 --type age=integer --limit rho=4 --ledger {service.place}"
    )
    done = CliRunner().invoke(app, words.split(), env={"TALLYSTICK_CONFIG_DIR": str(service.config)})
    assert done.exit_code == 0, done.output


def write_visits(path: Path, rows: int, seed: int = 1, ward: str = "north") -> None:
    """Write a CSV file of visits; a quarter of the rows are in the east, the others in ``ward``."""
    draw = random.Random(seed)
    lines = (
        f"p{draw.randrange(rows // 3)},{'east' if i % 4 == 0 else ward},{draw.randrange(90)}\n" for i in range(rows)
    )
    new = path.with_suffix(".new")
    new.write_text("who,ward,age\n" + "".join(lines))
    new.rename(path)


def ended(service: Service, who: str, number: str, patience: float = WAIT) -> Any:
    """Wait until a job has ended, and return it."""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        found = service.ask(who, "job", id=number, wait=1.0)
        if found["job"]["state"] not in ("WAITING", "RUNNING"):
            return found
    raise AssertionError(f"job {number} did not end: {json.dumps(found)}")
