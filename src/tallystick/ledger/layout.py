"""The layout of a ledger in PostgreSQL, compared with a digest that is shipped for each major version of the server.

A digest needs the right to read alone. Servers may write definitions in different ways, so each version has its own:

    python -m tallystick.ledger.layout postgresql://... postgresql://...

builds the layout on these servers, rolls it back, and writes ``schema/layouts.json`` again. Do it after every change of
a migration or of ``OBJECTS``, on one server of each version. The digests of other versions are dropped then.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tallystick.ledger.chain import canonical, digest
from tallystick.ledger.store import Row, migrations
from tallystick.place import Place

if TYPE_CHECKING:
    import psycopg

LEDGER_TABLES: Final = [
    "migration", "entry", "account", "dataset", "charge", "line", "answer", "quarantine", "failure",
    "entry_text", "tag", "secret", "seal", "checkpoint",
]  # fmt: skip
_OURS: Final = "n.nspname = %s AND c.relname = ANY(%s)"
_RELATIONS: Final = "pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
OBJECTS: Final = (
    f"""
    SELECT concat_ws(' ', c.relname, 'table', c.relkind, c.relpersistence, c.relrowsecurity, c.relforcerowsecurity,
                     EXISTS (SELECT FROM pg_catalog.pg_inherits h WHERE c.oid IN (h.inhparent, h.inhrelid)))
    FROM {_RELATIONS} WHERE {_OURS}
    """,
    f"""
    SELECT concat_ws(' ', p.proname, l.lanname, p.prosecdef, p.proconfig::text, p.prosrc)
    FROM pg_catalog.pg_trigger t JOIN {_RELATIONS} ON c.oid = t.tgrelid
         JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid JOIN pg_catalog.pg_language l ON l.oid = p.prolang
    WHERE NOT t.tgisinternal AND {_OURS}
    """,
    f"""
    SELECT concat_ws(' ', t.tgname, c.relname, t.tgenabled, pg_catalog.pg_get_triggerdef(t.oid))
    FROM pg_catalog.pg_trigger t JOIN {_RELATIONS} ON c.oid = t.tgrelid WHERE NOT t.tgisinternal AND {_OURS}
    """,
    f"""
    SELECT concat_ws(' ', c.relname, r.rulename, r.ev_enabled, pg_catalog.pg_get_ruledef(r.oid))
    FROM pg_catalog.pg_rewrite r JOIN {_RELATIONS} ON c.oid = r.ev_class WHERE {_OURS}
    """,
    f"""
    SELECT concat_ws(' ', c.relname, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull,
                     a.attidentity, a.attgenerated, pg_catalog.pg_get_expr(d.adbin, d.adrelid))
    FROM pg_catalog.pg_attribute a JOIN {_RELATIONS} ON c.oid = a.attrelid
         LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attnum > 0 AND NOT a.attisdropped AND {_OURS}
    """,
    f"""
    SELECT c.relname || ' ' || k.conname || ' ' || pg_catalog.pg_get_constraintdef(k.oid)
    FROM pg_catalog.pg_constraint k JOIN {_RELATIONS} ON c.oid = k.conrelid
    WHERE k.contype IN ('c', 'p', 'u', 'f') AND {_OURS}
    """,
    f"""
    SELECT i.relname || ' ' || pg_catalog.pg_get_indexdef(i.oid)
    FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
         JOIN {_RELATIONS} ON c.oid = x.indrelid WHERE {_OURS}
    """,
)
"""The ledger's tables with their columns, constraints, indexes, rules and triggers, and the functions that the triggers
call. Other tables and functions may be in the same schema.
"""
SCHEMA: Final = "{schema}."
"""Stands for the name of the schema, which is in most definitions. The server never writes it so."""
_VERSION: Final = "SELECT pg_catalog.current_setting('server_version_num')"
_SHOWN: Final = "SELECT pg_catalog.quote_ident(%s)"
_SHIPPED: Final = "layouts.json"


def objects(connection: psycopg.Connection[Row], schema: str) -> set[str]:
    """The objects of a ledger, with ``SCHEMA`` for the name of its schema.

    The search path has the server's schema alone: an operator of another user in the ledger's schema could match better
    than the server's, and would be called with the rights of this role.
    """
    connection.execute("SET LOCAL search_path = pg_catalog, pg_temp")
    connection.execute("SET LOCAL quote_all_identifiers = off")
    [shown] = connection.execute(_SHOWN, (schema,)).fetchone() or [schema]
    name = re.compile(rf'(?<![\w$".]){re.escape(str(shown))}\.')
    rows: list[Row] = []
    for query in OBJECTS:
        rows += connection.execute(query.encode(), (schema, LEDGER_TABLES)).fetchall()
    return {name.sub(SCHEMA, " ".join(str(row[0]).split())) for row in rows}


def built(connection: psycopg.Connection[Row], name: str) -> set[str]:
    """The objects that the migrations make, in a new schema of that name. The caller rolls back."""
    connection.execute(f"CREATE SCHEMA {name}".encode())
    connection.execute(f"SET LOCAL search_path = {name}, pg_temp".encode())
    for step in migrations("postgres"):
        connection.execute(step.sql.encode())
    return objects(connection, name)


def version_of(connection: psycopg.Connection[Row]) -> str:
    """The major version of the server."""
    [number] = connection.execute(_VERSION).fetchone() or ["0"]
    return str(int(number) // 10000)


def digest_of(found: set[str]) -> str:
    """The digest of a layout."""
    return digest(canonical(sorted(found)))


@cache
def shipped() -> dict[str, str]:
    """The digest of the newest layout, by major version of the server."""
    digests: dict[str, str] = json.loads(_folder().joinpath(_SHIPPED).read_text())["digests"]
    return digests


def _folder() -> Any:
    return resources.files("tallystick.ledger").joinpath("schema")


def sources() -> str:
    """The digest of the migrations and queries from which digests of layouts are made."""
    return digest(canonical([[step.sql for step in migrations("postgres")], list(OBJECTS), LEDGER_TABLES]))


def made(urls: Sequence[str]) -> dict[str, Any]:
    """The digests of the servers at these URLs, in the form in which they are shipped."""
    digests = {}
    for url in urls:
        with Place.of(url).connect() as connection:  # one transaction
            digests[version_of(connection)] = digest_of(built(connection, "tallystick_layout"))
            connection.rollback()
    return {"made_from": sources(), "digests": dict(sorted(digests.items(), key=lambda item: int(item[0])))}


def main(urls: Sequence[str]) -> None:
    """Write the digests of the servers at these URLs to the file that is shipped."""
    file = Path(str(_folder().joinpath(_SHIPPED)))
    file.write_text(json.dumps(made(urls), indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
