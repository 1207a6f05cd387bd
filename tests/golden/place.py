"""Fill the fixed folder with the files that the golden ledgers have registered."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from golden.asked import DATABASE, ROOT, STORED

DATA = STORED / "data"
LOCK = ROOT.with_suffix(".lock")
COLUMNS = (
    "patient_id TEXT, region TEXT, sex TEXT, age INTEGER, days INTEGER, cost DOUBLE PRECISION, visited DATE, ill TEXT"
)


@contextlib.contextmanager
def filled() -> Iterator[Path]:
    """The folder with every file in it, for one process at a time; it is removed at the end."""
    descriptor = os.open(LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        shutil.rmtree(ROOT, ignore_errors=True)
        shutil.copytree(DATA, ROOT)
        _make_copies()
        yield ROOT
    finally:
        shutil.rmtree(ROOT, ignore_errors=True)
        os.close(descriptor)


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
