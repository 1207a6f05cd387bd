"""Golden ledgers as a user has them: the files at their place, and for each test a copy to spend from."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tallystick as ts
from crash.stores import postgres, tmp_path  # noqa: F401
from golden import place
from golden.asked import ROOT, SCHEMA, STORED
from tallystick.cli import main


@dataclass(frozen=True)
class Golden:
    """A copy of one golden ledger with everything beside it."""

    ledger: str
    folder: Path
    expected: dict[str, Any]

    def book(self, **options: Any) -> ts.Ledger:
        """The ledger, by the clock of the moment when it was made."""
        made_at = self.expected["made_at"] / 1000
        return ts.Ledger(self.ledger, create=False, **{"clock": lambda: made_at, **options})

    def run(self, *words: str) -> Outcome:
        """A command on this ledger, with its answer in JSON."""
        return run(*words, "--ledger", self.ledger, "--json")

    def used(self) -> dict[str, tuple[int, int]]:
        """What every account has used, in integers of its currency."""
        with self.book() as book:
            return {account.name: (account.used.a0, account.used.a1) for account in book.accounts()}

    def few(self, names: Iterable[str]) -> list[str]:
        """All names for the SQLite ledger, every fourth for the PostgreSQL one, whose answers ``verify`` compares."""
        return list(names)[:: 4 if "://" in self.ledger else 1]

    def files(self, folder: str, ending: str = ".json") -> dict[str, Path]:
        """The files of one kind, by name."""
        found = sorted((self.folder / folder).glob(f"*{ending}"))
        return {path.name.removesuffix(ending): path for path in found}


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    errors: str

    @property
    def found(self) -> dict[str, Any]:
        """What the command says."""
        assert self.code == 0, self.errors
        document: dict[str, Any] = json.loads(self.out)
        return document["found"]


def run(*words: str) -> Outcome:
    """A command in this process."""
    said, complained = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complained):
        code = main(list(words))
    return Outcome(code, said.getvalue(), complained.getvalue())


@pytest.fixture(scope="session")
def owner() -> Iterator[str]:
    """The name by which this test session fills the folder."""
    name = uuid.uuid4().hex
    yield name
    place.remove(name)


@pytest.fixture
def registered_files(owner: str) -> Iterator[Path]:
    """The registered files at the paths by which the ledgers know them, for one test."""
    if os.path.realpath(ROOT.parent) != str(ROOT.parent):
        pytest.skip(f"{ROOT.parent} is a link here, so the registered paths have other names")
    with place.filled(owner) as folder:
        yield folder


@pytest.fixture
def server(registered_files: Path, postgres: str) -> str:  # noqa: F811
    """The server with the registered table, under the socket path by which the ledgers know it."""
    place.serve(postgres)
    return postgres


@pytest.fixture(scope="session")
def shared() -> dict[str, Golden]:
    """The copies that tests read together, by store."""
    return {}


@pytest.fixture
def own_copy() -> None:
    """Use this in a test that writes: its ``golden`` is then a copy that no other test sees."""


@pytest.fixture(params=["sqlite", "postgres"])
def golden(
    request: pytest.FixtureRequest,
    server: str,
    shared: dict[str, Golden],
    tmp_path: Path,  # noqa: F811
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Golden:
    """Each full ledger: a copy for the tests that only read, or an own copy for a test that writes."""
    if "own_copy" in request.fixturenames:
        return copied(request.param, server, tmp_path, monkeypatch)
    if request.param not in shared:
        folder = tmp_path_factory.mktemp("golden")
        shared[request.param] = copied(request.param, server, folder, monkeypatch)
    found = shared[request.param]
    monkeypatch.setenv("TALLYSTICK_CONFIG_DIR", str(found.folder / "config"))
    return found


@pytest.fixture
def noted(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Golden:  # noqa: F811
    """A copy of the small ledger with notes that a program wrote."""
    return copied("notes", server, tmp_path, monkeypatch)


def copied(name: str, server: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Golden:
    """A copy with its own anchors and its own key, so that no test sees what another has spent."""
    shutil.copytree(STORED / name, folder / name)
    for packed in sorted((folder / name).rglob("*.gz")):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()
    (folder / name / "config" / "signing_key").chmod(0o600)
    ledger = folder / name / "budget.db"
    place_of_it = str(ledger)
    if name == "postgres":
        place_of_it = restored(folder / name / "ledger.sql", server)
    else:
        ledger.chmod(0o600)  # git does not keep the modes of files
    monkeypatch.setenv("TALLYSTICK_CONFIG_DIR", str(folder / name / "config"))
    expected = json.loads((folder / name / "expected.json").read_text())
    return Golden(place_of_it, folder / name, expected)


def restored(dump: Path, url: str) -> str:
    """The URL of a fresh schema with the dumped ledger in it."""
    import psycopg

    schema = f"golden_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(dump.read_text().replace(SCHEMA, schema).encode())
    return f"{url}&options=-csearch_path%3D{schema}"
