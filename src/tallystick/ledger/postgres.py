"""The PostgreSQL store: the same statements, for a team. Needs the extra ``tallystick[team]`` (psycopg 3).

READ COMMITTED with the conditional update. Each writing transaction first takes one advisory lock, because entries form
one chain anyway; SERIALIZABLE would only turn that queue into retries. Several ledgers share a database by schema: put
``?options=-csearch_path%3Dname`` in the URL.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from tallystick.errors import InvalidInput, LedgerIntegrity, Remedy, TallystickError, Unavailable
from tallystick.ledger.store import STATEMENTS, Check, Listener, Probe, Row, migrations, pending
from tallystick.place import Place

if TYPE_CHECKING:
    import psycopg

LOCK_CLASS: Final = 0x7A11
QUEUE: Final = f"SELECT pg_advisory_xact_lock({LOCK_CLASS}, hashtext(current_schema()))"
TABLES: Final = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
TRIGGERS: Final = (
    "SELECT concat_ws(' ', t.tgname, c.relname, t.tgenabled, pg_get_triggerdef(t.oid)) FROM pg_trigger t "
    "JOIN pg_class c ON c.oid = t.tgrelid WHERE NOT t.tgisinternal AND c.relnamespace = current_schema()::regnamespace"
)
FUNCTIONS: Final = (
    "SELECT proname || ' ' || prosrc FROM pg_proc WHERE pronamespace = current_schema()::regnamespace "
    "AND proname LIKE 'tallystick_%'"
)
COLUMNS: Final = (
    "SELECT table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable FROM information_schema.columns "
    "WHERE table_schema = current_schema()"
)
CONSTRAINTS: Final = (
    "SELECT conrelid::regclass::text || ' ' || conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint "
    "WHERE connamespace = current_schema()::regnamespace AND contype IN ('c', 'p', 'u', 'f')"
)
INDEXES: Final = "SELECT indexname || ' ' || indexdef FROM pg_indexes WHERE schemaname = current_schema()"
_DIALECT: Final = {name: sql.replace("?", "%s") for name, sql in STATEMENTS.items()}


class PostgresTransaction:
    """Named statements on one connection."""

    __slots__ = ("_execute", "_probe", "latest")

    def __init__(self, connection: psycopg.Connection[Row], probe: Probe | None) -> None:
        self._execute: Any = connection.execute
        self._probe = probe
        self.latest: tuple[int, str] | None = None

    def run(self, statement: str, *values: Any) -> int:
        """Run a named statement; return how many rows it changed."""
        if self._probe:
            self._probe(f"before {statement}")
        changed = int(self._execute(_DIALECT[statement], values).rowcount)
        if self._probe:
            self._probe(f"after {statement}")
        return changed

    def rows(self, statement: str, *values: Any) -> list[Row]:
        """Run a named query; return all its rows."""
        rows: list[Row] = self._execute(_DIALECT[statement], values).fetchall()
        return rows

    def row(self, statement: str, *values: Any) -> Row | None:
        """Run a named query; return its first row."""
        row: Row | None = self._execute(_DIALECT[statement], values).fetchone()
        return row


PATH_SOURCE: Final = "SELECT source FROM pg_catalog.pg_settings WHERE name = 'search_path'"
OTHER_LEDGERS: Final = """
    SELECT n.nspname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relname IN ('migration', 'entry', 'charge') AND c.relkind = 'r' AND n.nspname <> current_schema()
    GROUP BY n.nspname HAVING count(*) = 3 ORDER BY n.nspname LIMIT 1
"""


class PostgresStore:
    """A ledger in one schema of a PostgreSQL database."""

    pauses: tuple[float, ...] = (0.02, 0.1, 0.5, 2.0, 4.0)  # a restart of the server must not burn a drawn answer

    def __init__(self, place: Place, *, create: bool, probe: Probe | None = None) -> None:
        self.place = place
        self._probe = probe
        self._mutex = threading.RLock()
        self._connection: psycopg.Connection[Row] | None = None
        self._process = 0
        self._listener: Listener | None = None
        self._check: Check | None = None
        with self._translated():
            self._migrate(create)

    def _connected(self) -> psycopg.Connection[Row]:
        if self._process != os.getpid():
            self._connection = None  # a connection must not cross a fork; the parent still owns it
        if self._connection is None or self._connection.closed or self._connection.broken:
            connection: psycopg.Connection[Row] = self.place.connect(autocommit=True)
            self._connection = connection
            connection.execute("SET synchronous_commit = on")
            connection.execute("SET default_transaction_isolation = 'read committed'")
            self._process = os.getpid()
        return self._connection

    def _migrate(self, create: bool) -> None:
        connection = self._connected()
        if not pending("postgres", self._applied(connection)):
            return
        if not create:
            remedies = [Remedy("create_ledger", place=str(self.place))]
            raise InvalidInput("ledger", str(self.place), "an existing ledger", code="no_ledger", remedies=remedies)
        self._refuse_second_ledger(connection)
        with self._transaction(connection):
            connection.execute(QUEUE)
            for step in pending("postgres", self._applied(connection)):
                connection.execute(step.sql.encode())
                connection.execute("INSERT INTO migration (version, name) VALUES (%s, %s)", (step.version, step.name))

    def _refuse_second_ledger(self, connection: psycopg.Connection[Row]) -> None:
        """Refuse to make a ledger in the schema of a role while another schema of the database holds one.

        Without a schema in the place, each role has its own. A second role would get an empty ledger and a full budget.
        """
        [source] = connection.execute(PATH_SOURCE).fetchone() or ["default"]
        other = None if source == "client" else connection.execute(OTHER_LEDGERS).fetchone()
        if other is not None:
            raise InvalidInput(
                "ledger",
                str(self.place),
                f"the schema in the place: this database has a ledger in schema {other[0]!r}. "
                f"Add ?options=-csearch_path%3D{other[0]} for that one, or another schema for a new one",
            )

    def _applied(self, connection: psycopg.Connection[Row]) -> list[Row]:
        tables = {row[0] for row in connection.execute(TABLES)}
        if "migration" not in tables:
            if tables & {"entry", "account", "charge", "line", "answer", "dataset", "quarantine", "failure"}:
                raise LedgerIntegrity(f"{self.place} holds other tables of the ledger's names; use another schema")
            return []
        return connection.execute(STATEMENTS["migrations"]).fetchall()

    @contextlib.contextmanager
    def _transaction(self, connection: psycopg.Connection[Row], begin: str = "BEGIN") -> Iterator[None]:
        connection.execute(begin.encode())
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(Exception):
                connection.execute("ROLLBACK")
            raise

    @contextlib.contextmanager
    def write(self, operation: str) -> Iterator[PostgresTransaction]:
        """A transaction that is durable when the block ends and absent when the block raises.

        When the connection breaks during COMMIT nobody knows whether it happened; the caller gets ``Unavailable``,
        hands nothing out, and a retry with the same key finds out.
        """
        probe = self._probe
        named: Probe | None = None if probe is None else (lambda point: probe(f"{operation}: {point}"))
        with self._mutex, self._translated():
            connection = self._connected()
            with self._transaction(connection):
                connection.execute(QUEUE)
                transaction = PostgresTransaction(connection, named)
                if self._check:
                    self._check(transaction)
                yield transaction
                newest = transaction.latest or transaction.row("head")
                if named:
                    named("before COMMIT")
            if named:
                named("after COMMIT")
            if self._listener and newest:
                self._listener(int(newest[0]), str(newest[1]))

    @contextlib.contextmanager
    def read(self) -> Iterator[PostgresTransaction]:
        """A consistent snapshot."""
        with self._mutex, self._translated():
            connection = self._connected()
            with self._transaction(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"):
                yield PostgresTransaction(connection, None)

    def log_failure(self, line: str) -> None:
        """Tell the operator of a failure, best effort: a table of its own, beside the record."""
        with contextlib.suppress(TallystickError), self._mutex, self._translated():
            self._connected().execute("INSERT INTO failure (line) VALUES (%s)", (line,))

    def on_commit(self, listener: Listener) -> None:
        """Register a function that is told the newest entry and its hash once they are durable (anchors)."""
        self._listener = listener

    def on_write(self, check: Check) -> None:
        """Register a function that may refuse a write that has begun, before anything is written."""
        self._check = check

    def layout_problems(self) -> list[str]:
        """Differences between the schema's own objects and the migrations, built afresh and rolled back."""
        with self._mutex, self._translated():
            connection = self._connected()
            present = _objects(connection)
            connection.execute("BEGIN")
            try:
                name = f"tallystick_check_{os.getpid()}_{threading.get_ident()}"
                connection.execute(f"CREATE SCHEMA {name}".encode())
                original = connection.execute("SELECT current_schema()").fetchone()
                connection.execute(f"SET LOCAL search_path = {name}".encode())
                for step in migrations("postgres"):
                    connection.execute(step.sql.encode())
                expected = {
                    item.replace(f"{name}.", f"{original[0] if original else ''}.") for item in _objects(connection)
                }
            finally:
                connection.execute("ROLLBACK")
        return [f"schema object was altered, added or removed: {item[:80]}" for item in sorted(expected ^ present)]

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn the driver's errors into tallystick's. The driver's exceptions are dropped: they may quote values."""
        try:
            yield
        except Exception as error:
            problem = _explained(self.place, error)
            if problem is None:
                raise
            try:
                raise problem from None
            except TallystickError:
                problem.__context__ = None  # "from None" hides it from tracebacks alone
                raise

    def close(self) -> None:
        """Let go of the connection."""
        with self._mutex:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            self._connection = None


def _objects(connection: psycopg.Connection[Row]) -> set[str]:
    objects = set()
    for query in (TRIGGERS, FUNCTIONS, COLUMNS, CONSTRAINTS, INDEXES):
        objects |= {" ".join(str(row[0]).split()) for row in connection.execute(query.encode())}
    return objects


def _explained(place: Place, error: Exception) -> TallystickError | None:
    """The error of tallystick for an error of the driver; None for any other error."""
    import psycopg

    if not isinstance(error, psycopg.Error):
        return None
    reason = error.diag.message_primary or type(error).__name__
    if isinstance(error, psycopg.errors.RaiseException | psycopg.IntegrityError):
        return LedgerIntegrity(f"the ledger {place} refused an inconsistent change: {reason}")
    return Unavailable(f"the ledger {place} cannot be used now: {reason}; nothing was granted")
