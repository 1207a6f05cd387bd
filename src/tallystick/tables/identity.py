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
        return f"file {os.path.realpath(source.place)} {table.casefold()}"  # DuckDB's names ignore case
    if source.kind == "postgres":
        parts = urlsplit(source.place)
        options = "".join(f" {option}" for option in parse_qs(parts.query).get("options", ()))
        return f"postgres {parts.hostname or ''}:{parts.port or 5432}{parts.path}{options} {table}"
    return f"{source.kind} {table}"
