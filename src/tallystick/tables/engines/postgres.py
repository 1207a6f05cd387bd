"""PostgreSQL, through psycopg: the plan's own SQL runs in the server, in one read-only snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from tallystick.errors import InvalidInput, Refused
from tallystick.tables.dialects import PostgresWords, Words
from tallystick.tables.identity import Identity
from tallystick.tables.program import read_stored
from tallystick.tables.schema import Schema, family
from tallystick.tables.sources import check_one_server, whole_name

if TYPE_CHECKING:
    from tallystick.tables.keyset import Upload
    from tallystick.tables.reader import Reader

_TYPES = {
    "integer": "bigint",
    "number": "double precision",
    "text": 'text COLLATE "C"',
    "boolean": "boolean",
    "date": "date",
}
# a domain may have the name of a type of ours, tinyint or double say, and hold what that cannot: it is not read
_COLUMNS = """
    SELECT n.nspname, a.attname,
           CASE t.typnamespace WHEN 'pg_catalog'::regnamespace THEN format_type(t.oid, NULL) ELSE 'of its own' END
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
         JOIN pg_type t ON t.oid = a.atttypid
    WHERE c.relname = %s AND c.relpersistence <> 't' AND n.nspname = CASE %s
            WHEN '' THEN (SELECT m.nspname FROM pg_class k JOIN pg_namespace m ON m.oid = k.relnamespace
                          JOIN unnest(%s::name[]) WITH ORDINALITY AS s(name, place) ON s.name = m.nspname
                          WHERE k.relname = c.relname ORDER BY s.place LIMIT 1)
            ELSE %s END
      AND a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
    ORDER BY a.attnum
"""


def connect(reader: Reader) -> PostgresEngine:
    """A connection of our own."""
    return PostgresEngine(check_one_server(reader.source).connect())


class PostgresEngine:
    """One transaction; its stages are temporary tables that vanish with it."""

    words: Words = PostgresWords()
    in_shares = False  # the server spills what does not fit

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SET LOCAL client_encoding = 'UTF8'")
        # Where tables are looked for, and nothing else: functions and operators are the server's own. Whoever may
        # create a function in a schema of the path could otherwise have div(bigint, bigint) called with data.
        [self.path] = connection.execute("SELECT pg_catalog.current_schemas(false)").fetchone()
        connection.execute("SET LOCAL search_path = pg_catalog")
        [encoding] = connection.execute("SHOW server_encoding").fetchone()
        if encoding != "UTF8":  # elsewhere a text may hold bytes that are not text, and fail to come back
            raise Refused(f"this database stores text as {encoding}; tables are read from databases in UTF8")
        # a URL may set these: what is text to the server must come back, and how long it takes must not decide
        for setting in (
            "statement_timeout = 0",
            "datestyle = 'ISO, YMD'",
            "timezone = 'UTC'",
            "extra_float_digits = 3",
            "standard_conforming_strings = on",
            "jit = off",
        ):
            connection.execute(f"SET LOCAL {setting}")
        connection.execute("SAVEPOINT opened")

    def stored(self, table: str, schema: Schema, *, rows: bool = True) -> exp.Query:
        # Always with its schema: a temporary table of ours may have the same name.
        columns = self._columns(table)
        named = exp.Table(
            this=exp.to_identifier(whole_name(table).rpartition(".")[2], quoted=True),
            db=exp.to_identifier(columns[0][0], quoted=True),
        )
        query = read_stored(schema, self.words, named, {column: kind for _, column, kind in columns})
        return query if rows else query.where(exp.false())

    def names(self, table: str) -> tuple[Any, ...] | None:
        return None  # the types of the server's columns count

    def _columns(self, table: str) -> list[tuple[str, str, str]]:
        """Schema, name and type of each column; without a schema the first of the search path that has the table."""
        namespace, _, plain = whole_name(table).rpartition(".")
        arguments = (plain, namespace, self.path, namespace)
        columns: list[tuple[str, str, str]] = self.connection.execute(_COLUMNS, arguments).fetchall()
        if not columns:
            raise InvalidInput("table", table, "a table of this database that the user may read")
        return columns

    def schema(self, table: str) -> Schema:
        return Schema.of(tuple((column, family(kind)) for _, column, kind in self._columns(table)))

    def upload(self, name: str, public: Upload) -> None:
        columns = ", ".join(f"{_quoted(column)} {_TYPES[kind]}" for column, kind in public.columns)
        self.connection.execute(f"CREATE TEMP TABLE {_quoted(name)} ({columns}) ON COMMIT DROP")
        with self.connection.cursor() as cursor, cursor.copy(f"COPY {_quoted(name)} FROM STDIN") as copy:
            for row in public.rows:
                copy.write_row(row)

    def like(self, tables: Sequence[str]) -> str | None:
        return None  # another server may stand at the address by now

    def show(self, name: str, sql: str) -> None:
        self.connection.execute(f"CREATE TEMP VIEW {_quoted(name)} AS {sql}")

    def keep(self, name: str, sql: str) -> None:
        self.connection.execute(f"CREATE TEMP TABLE {_quoted(name)} ON COMMIT DROP AS {sql}")
        self.connection.execute(f"ANALYZE {_quoted(name)}")

    def forget(self, name: str) -> None:
        self.connection.execute(f"DROP TABLE IF EXISTS {_quoted(name)}")

    def collect(self, sql: str) -> list[Sequence[Any]]:
        answer = self.connection.execute(sql)
        width = len(answer.description or [])
        rows = answer.fetchall()
        return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]

    def identify(self, table: str) -> Identity:
        return Identity(table)

    def reset(self) -> None:
        self.connection.execute("ROLLBACK TO SAVEPOINT opened")

    def close(self) -> None:
        self.connection.rollback()
        self.connection.close()


def _quoted(text: str) -> str:
    return exp.to_identifier(text, quoted=True).sql(dialect="postgres")
