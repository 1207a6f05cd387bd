"""PostgreSQL, through psycopg: the plan's own SQL runs in the server, in one read-only snapshot."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from tallystick.errors import InvalidInput, Refused, Unavailable
from tallystick.tables.dialects import PostgresWords, Words
from tallystick.tables.engines.postgres_catalog import (
    READABLE,
    Relation,
    bind,
    check_present,
    columns_of,
    find,
    has_descendants,
    kind_of,
    lock,
    marks_of,
    reach,
    reads_of,
)
from tallystick.tables.engines.postgres_settings import begin_writable, settle, stop_clocks
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
_OPENED = "_opened"
"""Beginning of the names of the views through which opened tables are read."""

_FACTS: dict[str, Callable[[Any, Relation], Any]] = {
    "marks": lambda connection, relation: marks_of(connection, [relation.oid]),
    "reads": reads_of,
    "kind": kind_of,
    "columns": columns_of,
    "descendants": has_descendants,
}
"""What the engine asks the catalogue about a relation."""


def connect(reader: Reader) -> PostgresEngine:
    """A connection of our own."""
    return PostgresEngine(check_one_server(reader.source).connect())


class PostgresEngine:
    """One transaction; its stages are temporary tables that vanish with it."""

    words: Words = PostgresWords()
    in_shares = False  # the server spills what does not fit

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self._path: list[str] | None = None
        self._relations: dict[str, Relation] = {}
        self._facts: dict[tuple[str, str], Any] = {}
        self._is_used = False
        self._mark = uuid.uuid4().hex[:12]
        try:
            self._begin()
            self._settle()
        except BaseException:
            connection.close()
            raise

    def _begin(self) -> None:
        """Begin the transaction. After the first time no statement here takes a snapshot."""
        import psycopg

        connection = self.connection
        try:
            begin_writable(connection)
            stop_clocks(connection)
        except psycopg.errors.IdleInTransactionSessionTimeout:
            raise Refused(
                "the server ended the transaction at once: idle_in_transaction_session_timeout is too short. "
                "Run: ALTER ROLE ... RESET idle_in_transaction_session_timeout"
            ) from None
        connection.execute("SET LOCAL client_encoding = 'UTF8'")
        if self._path is None:
            [path] = connection.execute("SELECT pg_catalog.current_schemas(false)").fetchone()
            self._path = list(path)
        # The search path finds tables, and nothing else: functions and operators are those of the server. A role that
        # may create a function in a schema of the path could otherwise have div(bigint, bigint) called with data.
        # The schema of temporary objects is last: where the path leaves it out, the server searches it first, and a
        # temporary view pg_class of an earlier user of the session would stand for the catalogue.
        connection.execute("SET LOCAL search_path = pg_catalog, pg_temp")

    @property
    def path(self) -> list[str]:
        """The schemas in which tables without a schema are looked up."""
        return self._path or []

    def _settle(self) -> None:
        """Check the server and the settings of the transaction."""
        [encoding] = self.connection.execute("SHOW server_encoding").fetchone()
        if encoding != "UTF8":  # elsewhere a text may hold bytes that are not text, and fail to come back
            raise Refused(f"this database stores text as {encoding}; tables are read from databases in UTF8")
        settle(self.connection)

    def _relation(self, table: str) -> Relation:
        """The relation that a name means; found and locked once."""
        if table not in self._relations:
            self._open(table)
        return self._relations[table]

    def _open(self, table: str) -> None:
        """Find a relation, then begin a new transaction that locks all relations before it takes its snapshot.

        A query expands views and inheritance as they are when it runs. A snapshot that is older than the lock could
        show another definition, and the ledger would identify other rows than those that are read.
        """
        if self._is_used:
            raise Unavailable(f"table {table!r} was not opened before rows were read")
        self._restart()
        found = find(self.connection, whole_name(table), self.path)
        self._restart()
        relations = {**self._relations, table: found}
        lock(self.connection, relations)
        self._settle()
        for name, relation in relations.items():
            check_present(self.connection, whole_name(name), relation, self.path)
        for place, (name, relation) in enumerate(relations.items()):
            bind(self.connection, name, relation, self._view(place))
        self._relations = relations
        self._check_facts()
        self.connection.execute("SAVEPOINT opened")  # with the locks and the views, which ``reset`` keeps

    def _view(self, place: int) -> str:
        """The name of the view of an opened table. It differs between releases, which may share a pooled session."""
        return f"{_OPENED}_{self._mark}_{place}"

    def _restart(self) -> None:
        self.connection.rollback()
        self._begin()

    def _check_facts(self) -> None:
        """Refuse a table that changed after an earlier transaction looked at it."""
        for (fact, table), known in self._facts.items():
            if _FACTS[fact](self.connection, self._relations[table]) != known:
                raise Unavailable(f"table {table!r} was changed while it was opened; ask again")

    def _fact(self, fact: str, table: str) -> Any:
        """Return the catalogue's facts about a table, asked once."""
        relation = self._relation(table)
        if (fact, table) not in self._facts:
            self._facts[fact, table] = _FACTS[fact](self.connection, relation)
        return self._facts[fact, table]

    def identify(self, table: str) -> Identity:
        near = self.reads(table)
        is_plain = self.kind(table) == TABLE
        if not is_plain:  # a view can call functions, which read what no catalogue records
            near |= {UNKNOWN}
        return Identity(table, self.marks(table), near, is_plain)

    def marks(self, table: str) -> frozenset[str]:
        """Marks of a table, of its partitions, and of the tables that their rows are part of."""
        marks: frozenset[str] = self._fact("marks", table)
        return marks

    def reads(self, table: str) -> frozenset[str]:
        """Marks of the tables whose rows a view shows, or that a row policy looks at."""
        reads: frozenset[str] = self._fact("reads", table)
        return reads

    def kind(self, table: str) -> str:
        """``TABLE``, or words that say where the rows come from."""
        return str(self._fact("kind", table))

    def reset(self) -> None:
        self.connection.execute("ROLLBACK TO SAVEPOINT opened")
        self._is_used = False

    def stored(self, table: str, schema: Schema, *, rows: bool = True) -> exp.Query:
        columns = self._columns(table)
        place = list(self._relations).index(table)
        view = exp.Table(this=exp.to_identifier(self._view(place), quoted=True), db=exp.to_identifier("pg_temp"))
        query = read_stored(schema, self.words, view, dict(columns))
        if rows:
            return query
        reach(self.connection, table, self.words.render(view))
        return query.limit(0)

    def names(self, table: str) -> tuple[Any, ...] | None:
        return None  # the types of the server's columns count

    def _columns(self, table: str) -> list[tuple[str, str]]:
        """Name and type of each column."""
        columns: list[tuple[str, str]] = self._fact("columns", table)
        if not columns:
            raise InvalidInput("table", table, READABLE)
        return columns

    def schema(self, table: str) -> Schema:
        return Schema.of(tuple((column, family(kind)) for column, kind in self._columns(table)))

    def upload(self, name: str, public: Upload) -> None:
        self._is_used = True
        columns = ", ".join(f"{_quoted(column)} {_TYPES[kind]}" for column, kind in public.columns)
        self.connection.execute(f"CREATE TEMP TABLE {_quoted(name)} ({columns}) ON COMMIT DROP")
        with self.connection.cursor() as cursor, cursor.copy(f"COPY {_quoted(name)} FROM STDIN") as copy:
            for row in public.rows:
                copy.write_row(row)

    def try_reading(self, tables: Sequence[str]) -> None:
        """Do nothing: settings that decide are refused when the connection is made."""

    def like(self, tables: Sequence[str]) -> str | None:
        return None  # another server may stand at the address by now

    def show(self, name: str, sql: str) -> None:
        self._is_used = True
        self.connection.execute(f"CREATE TEMP VIEW {_quoted(name)} AS {sql}")

    def keep(self, name: str, sql: str) -> None:
        self._is_used = True
        self.connection.execute(f"CREATE TEMP TABLE {_quoted(name)} ON COMMIT DROP AS {sql}")
        self.connection.execute(f"ANALYZE {_quoted(name)}")

    def forget(self, name: str) -> None:
        self.connection.execute(f"DROP TABLE IF EXISTS {_quoted(name)}")

    def collect(self, sql: str) -> list[Sequence[Any]]:
        self._is_used = True
        answer = self.connection.execute(sql)
        width = len(answer.description or [])
        rows = answer.fetchall()
        return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]

    def close(self) -> None:
        self.connection.rollback()
        self.connection.close()


def _quoted(text: str) -> str:
    return exp.to_identifier(text, quoted=True).sql(dialect="postgres")
