"""The script that makes the PostgreSQL roles of a ledger. tallystick prints it, and an administrator runs it."""

from __future__ import annotations

import re
from importlib import resources
from typing import Final

from tallystick.errors import InvalidInput

ROLES: Final = ("ts_owner", "ts_keeper", "ts_reader")
_LONGEST: Final = 63
"""Bytes of a name in PostgreSQL. The server cuts a longer one off, so it would name something else."""
_ASCII: Final = 128


def script(schema: str, database: str) -> str:
    """Return the script for the ledger in a schema of a database."""
    names = {"schema": _checked("schema", schema), "database": _checked("database", database)}
    if schema.startswith("pg_") or schema == "information_schema":
        raise InvalidInput("schema", schema, "the schema of a ledger, and not one of the server's own")
    template = resources.files("tallystick.ledger").joinpath("schema", "roles.sql").read_text()
    return re.sub(r"\{(schema|database)\}", lambda found: names[found[1]], template)


def _checked(argument: str, name: str) -> str:
    """The name as an identifier; refused if the server could not have it."""
    if not name or not name.isprintable() or len(name.encode(errors="replace")) > _LONGEST:
        raise InvalidInput(argument, name, f"a name of 1 to {_LONGEST} bytes without control characters")
    return identifier(name)


def identifier(name: str) -> str:
    r"""The name in the quotes of SQL, in ASCII: its meaning does not depend on the encoding of a terminal or a client.

    >>> print(identifier("ledger"), identifier('a"; DROP'), identifier("café"))
    "ledger" "a""; DROP" U&"caf\00e9"
    """
    quoted = name.replace('"', '""')
    if quoted.isascii():
        return f'"{quoted}"'
    letters = quoted.replace("\\", "\\\\")
    return 'U&"' + "".join(c if ord(c) < _ASCII else _escaped(c) for c in letters) + '"'


def _escaped(character: str) -> str:
    number = ord(character)
    return f"\\{number:04x}" if number < 0x10000 else f"\\+{number:06x}"
