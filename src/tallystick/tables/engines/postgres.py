"""PostgreSQL, through psycopg: the plan's own SQL runs in the server, in one read-only snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from tallystick.errors import InvalidInput, Refused
from tallystick.tables.dialects import PostgresWords, Words
from tallystick.tables.engines.postgres_catalog import READABLE, Relation, kind_of, marks_of, reads_of, resolve
from tallystick.tables.engines.postgres_settings import settle, stop_clocks
from tallystick.tables.identity import TABLE, UNKNOWN, Identity
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
# A domain may have the name of a type, tinyint or double say, and hold other values: it is not read.
_COLUMNS = """
    SELECT a.attname,
           CASE t.typnamespace
               WHEN 'pg_catalog'::pg_catalog.regnamespace THEN pg_catalog.format_type(t.oid, NULL)
               ELSE 'of its own'
           END
    FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
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
        self._relations: dict[str, Relation] = {}
        try:
            self.path = self._settle()
        except BaseException:
            connection.close()
            raise

    def _settle(self) -> list[str]:
        """Prepare the transaction, and return the schemas in which tables without a schema are looked up."""
        connection = self.connection
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        stop_clocks(connection)
        connection.execute("SET LOCAL client_encoding = 'UTF8'")
        # The search path finds tables, and nothing else: functions and operators are those of the server. A role that
        # may create a function in a schema of the path could otherwise have div(bigint, bigint) called with data.
        # The schema of temporary objects is last: where the path leaves it out, the server searches it first, and a
        # temporary view pg_class of an earlier user of the session would stand for the catalogue.
        [path] = connection.execute("SELECT pg_catalog.current_schemas(false)").fetchone()
        connection.execute("SET LOCAL search_path = pg_catalog, pg_temp")
        [encoding] = connection.execute("SHOW server_encoding").fetchone()
        if encoding != "UTF8":  # elsewhere a text may hold bytes that are not text, and fail to come back
            raise Refused(f"this database stores text as {encoding}; tables are read from databases in UTF8")
        settle(connection)
        return list(path)

    def _relation(self, table: str) -> Relation:
        """The relation that a name means; found and locked once."""
        if table not in self._relations:
            self._relations[table] = resolve(self.connection, whole_name(table), self.path)
            self.connection.execute("SAVEPOINT opened")  # with its lock, which ``reset`` keeps
        return self._relations[table]

    def identify(self, table: str) -> Identity:
        near = self.reads(table)
        is_plain = self.kind(table) == TABLE
        if not is_plain:  # a view can call functions, which read what no catalogue records
            near |= {UNKNOWN}
        return Identity(table, self.marks(table), near, is_plain)

    def marks(self, table: str) -> frozenset[str]:
        """Marks of a table, of its partitions, and of the tables that their rows are part of."""
        return marks_of(self.connection, [self._relation(table).oid])

    def reads(self, table: str) -> frozenset[str]:
        """Marks of the tables whose rows a view shows, or that a row policy looks at."""
        return reads_of(self.connection, self._relation(table))

    def kind(self, table: str) -> str:
        """``TABLE``, or words that say where the rows come from."""
        return kind_of(self.connection, self._relation(table))

    def reset(self) -> None:
        self.connection.execute("ROLLBACK TO SAVEPOINT opened")

    def stored(self, table: str, schema: Schema, *, rows: bool = True) -> exp.Query:
        # Always with its schema: a temporary table of a stage may have the same name.
        named = self._relation(table).tree
        query = read_stored(schema, self.words, named, dict(self._columns(table)))
        return query if rows else query.where(exp.false())

    def names(self, table: str) -> tuple[Any, ...] | None:
        return None  # the types of the server's columns count

    def _columns(self, table: str) -> list[tuple[str, str]]:
        """Name and type of each column."""
        relation = self._relation(table)
        columns: list[tuple[str, str]] = self.connection.execute(_COLUMNS, (relation.oid,)).fetchall()
        if not columns:
            raise InvalidInput("table", table, READABLE)
        return columns

    def schema(self, table: str) -> Schema:
        return Schema.of(tuple((column, family(kind)) for column, kind in self._columns(table)))

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

    def close(self) -> None:
        self.connection.rollback()
        self.connection.close()


def _quoted(text: str) -> str:
    return exp.to_identifier(text, quoted=True).sql(dialect="postgres")
