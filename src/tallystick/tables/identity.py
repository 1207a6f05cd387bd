"""Which data a table is, as a public text: the same for every spelling of its place that can be told apart safely.

The ledger binds to this text who pays for the data, the least price of a plan, and the closing after a failure.
"""

from __future__ import annotations

import os
from urllib.parse import parse_qs, urlsplit

from tallystick.tables.sources import Source


def identity(source: Source, table: str) -> str:
    """The text; without user name and password.

    A file is known by its real path (symbolic links resolved), a database table by server, database and name. A table
    in memory has no name of its own; whoever pays for it is its name.

    >>> from tallystick.tables.sources import source_of
    >>> identity(source_of("postgresql://ana:secret@DB.example/clinic"), "visits")
    'postgres db.example:5432/clinic visits'
    """
    if source.kind in ("csv", "parquet"):
        return f"file {os.path.realpath(source.place)}"
    if source.kind == "duckdb":
        # DuckDB's names ignore case, and main is where a table without a schema is.
        return f"file {os.path.realpath(source.place)} {table.casefold().removeprefix('main.')}"
    if source.kind == "postgres":
        return f"postgres {_server(source.place)} {table.removeprefix('public.')}"
    if source.kind == "spark":
        return f"spark {table.casefold().removeprefix('spark_catalog.').removeprefix('default.')}"
    return f"{source.kind} {table}"


def request(plan: str, table: str, data: str) -> str:
    """The public text of a request: the hash of the plan, the table's name, and which data they are asked of."""
    return f"query {plan} {table} of {data}"


def _server(url: str) -> str:
    """Host, port, database and options of a PostgreSQL URL, as libpq would fill them in; this machine has one name."""
    parts = urlsplit(url)
    given = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    host = given.get("host") or parts.hostname or os.environ.get("PGHOST", "")
    port = given.get("port") or parts.port or os.environ.get("PGPORT", "5432")
    database = given.get("dbname") or parts.path.lstrip("/") or os.environ.get("PGDATABASE", "")
    if host.startswith("/") or host.lower() in ("", "localhost", "127.0.0.1", "::1"):
        host = "localhost"
    options = f" {given['options']}" if "options" in given else ""
    return f"{host.lower()}:{port}/{database}{options}"
