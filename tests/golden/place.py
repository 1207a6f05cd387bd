"""Fill the fixed folder with the files that the golden ledgers have registered."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from golden.asked import DATABASE, ROOT, STORED

DATA = STORED / "data"
LOCK = ROOT.with_suffix(".lock")
OWNER = ROOT.with_suffix(".owner")
"""This file names the last test session that used the folder, and the data in it."""
COLUMNS = (
    "patient_id TEXT, region TEXT, sex TEXT, age INTEGER, days INTEGER, cost DOUBLE PRECISION, visited DATE, ill TEXT"
)


@contextlib.contextmanager
def filled(owner: str) -> Iterator[Path]:
    """Hold the folder with every file in it, for one process at a time.

    Hold it for one test and no longer: another worker waits meanwhile. The next test finds the folder as it is, and
    makes a link to its own server in it (``serve``).
    """
    with _locked():
        if _owner()[1:] != [_digest()]:
            OWNER.unlink(missing_ok=True)
            shutil.rmtree(ROOT, ignore_errors=True)
            shutil.copytree(DATA, ROOT)
            _make_copies()
        OWNER.write_text(f"{owner}\n{_digest()}")
        yield ROOT


def remove(owner: str) -> None:
    """Remove the folder if this owner was the last that used it."""
    with _locked():
        if _owner()[:1] == [owner]:
            OWNER.unlink()
            shutil.rmtree(ROOT, ignore_errors=True)


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    descriptor = os.open(LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _owner() -> list[str]:
    """The last owner and the digest of the data, or nothing if the folder is not complete."""
    return OWNER.read_text().split("\n") if ROOT.is_dir() and OWNER.is_file() else []


@functools.cache
def _digest() -> str:
    """Digest of the data: another checkout may have other data."""
    found = hashlib.sha256()
    for path in sorted(DATA.iterdir()):
        found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()


def _make_copies() -> None:
    """The same rows as other kinds of files. What is in them does not matter to an answer that is stored."""
    import duckdb

    visits = ROOT / "visits.csv"
    for name in ("rows.csv", "closed.csv", "cleared.csv", "moved.csv", "loose.csv", "suggested.csv"):
        shutil.copyfile(visits, ROOT / name)
    typed = f"SELECT * FROM read_csv('{visits}')"
    people = f"SELECT patient_id, min(sex) AS sex FROM ({typed}) GROUP BY patient_id ORDER BY patient_id"
    with duckdb.connect() as connection:
        for name in ("stays", "wards", "loose"):
            connection.execute(f"COPY ({typed}) TO '{ROOT / name}.parquet' (FORMAT parquet)")
        for name, table, rows in (("clinic", "costs", typed), ("clinic", "people", people), ("loose", "costs", typed)):
            connection.execute(f"ATTACH IF NOT EXISTS '{ROOT / name}.duckdb' AS {name}")
            connection.execute(f"CREATE TABLE {name}.{table} AS {rows}")


def serve(url: str) -> None:
    """Make the registered table in a running server, and a link to the folder of its socket."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute("SHOW unix_socket_directories").fetchone()
        assert found is not None
        known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone()
        if known is None:
            connection.execute(f"CREATE DATABASE {DATABASE}")
    link = ROOT / "server"
    link.unlink(missing_ok=True)
    link.symlink_to(str(found[0]).split(",")[0].strip())
    if known is None:
        _load(f"postgresql://postgres@/{DATABASE}?host={link}")


def _load(url: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        for table in ("admissions", "loose"):
            connection.execute(f"CREATE TABLE {table} ({COLUMNS})")
            with connection.cursor().copy(f"COPY {table} FROM STDIN (FORMAT csv, HEADER)") as copy:
                copy.write((ROOT / "visits.csv").read_bytes())
