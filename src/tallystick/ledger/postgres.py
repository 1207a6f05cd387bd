"""The PostgreSQL store: the same statements, for a team. Needs the extra ``tallystick[team]`` (psycopg 3).

READ COMMITTED with the conditional update. Each writing transaction first takes one advisory lock, because entries form
one chain anyway; SERIALIZABLE would only turn that queue into retries. Several ledgers share a database by schema: put
``?options=-csearch_path%3Dname`` in the URL.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from tallystick.errors import InvalidInput, LedgerIntegrity, Refused, Remedy, TallystickError, Unavailable
from tallystick.ledger import layout
from tallystick.ledger.layout import LEDGER_TABLES
from tallystick.ledger.places import name_of_url
from tallystick.ledger.store import (
    SCHEMA_VERSION,
    STATEMENTS,
    Check,
    Listener,
    Lock,
    NotChecked,
    Probe,
    Row,
    elapsed,
    pending,
    unlocked,
)
from tallystick.ledger.texts import Tags
from tallystick.ledger.users import role_in
from tallystick.place import Place

if TYPE_CHECKING:
    import psycopg

LOCK_CLASS: Final = 0x7A11
QUEUE: Final = (
    f"SELECT pg_catalog.pg_advisory_xact_lock({LOCK_CLASS}, "
    "pg_catalog.hashtext(pg_catalog.current_schema()::pg_catalog.text))"
)
"""Every function has its schema and its exact types, so that a function of another user cannot replace it."""
PATIENCE: Final = "30s"
"""How long a statement waits for a lock. A lock that is held for longer ends in an error, not in a hang."""
OUTSIDE: Final = f"SET lock_timeout = '{PATIENCE}'"
"""Setting of the session, for statements outside transactions. It is not sent through a pool, whose sessions others use
as well.
"""
SETTINGS: Final = (
    "SET LOCAL synchronous_commit = on",
    f"SET LOCAL lock_timeout = '{PATIENCE}'",
    "SET LOCAL statement_timeout = 0",
    "SET LOCAL idle_in_transaction_session_timeout = 0",
    "SET LOCAL row_security = off",
)
"""Settings of every transaction. They are local to it, so that a connection pool cannot mix up sessions."""
NOW: Final = "SELECT EXTRACT(EPOCH FROM pg_catalog.clock_timestamp())"
SESSION: Final = "SELECT pg_catalog.current_schema(), pg_catalog.pg_backend_pid()"
CLOCK_AGE: Final = 60.0
"""Seconds after which the server is asked for its time again. In between this host's elapsed time is added."""
NO_SCHEMA: Final = (
    "a place whose search path leads to a schema that exists and that this role may use (GRANT USAGE ON SCHEMA ...)"
)
HAS_ROLE: Final = "SELECT 1 FROM pg_catalog.pg_roles WHERE rolname = %s"
SERVER: Final = (
    "SELECT (SELECT system_identifier FROM pg_catalog.pg_control_system()), oid FROM pg_catalog.pg_database "
    "WHERE datname = pg_catalog.current_database()"
)
WRITE: Final = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
READ: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
TABLES: Final = "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = pg_catalog.current_schema()"
ALONE: Final = ""
"""Name of every copy in a database. A copied server has the names of the first one, and writers queue there anyhow."""
UNCOUNTED: Final = frozenset(name for name in STATEMENTS if name.endswith(("_insert", "_insert_3")))
"""Statements that change one row or fail. In a pipeline the next statement is sent before their results are there."""
ATTEMPTS: Final = 3
"""Errors of a pipeline that are passed over before it must be ready again: each attempt reports one."""
_DIALECT: Final = {name: sql.replace("?", "%s") for name, sql in STATEMENTS.items()}


class PostgresTransaction:
    """Named statements on one connection."""

    __slots__ = ("_execute", "_is_confirmed", "_probe", "latest", "pipeline", "seen", "tags", "turn")

    def __init__(self, connection: psycopg.Connection[Row], probe: Probe | None, tags: Tags | None = None) -> None:
        self._execute: Any = connection.execute
        self._probe = probe
        self.pipeline: psycopg.Pipeline | None = None
        self._is_confirmed = True
        self.latest: tuple[int, str] | None = None
        self.tags = tags
        self.turn: Any = None
        self.seen: Any = None

    def run(self, statement: str, *values: Any) -> int:
        """Run a named statement; return how many rows it changed."""
        if self._probe:
            self._probe(f"before {statement}")
        if self.pipeline is not None:
            changed = self._sent(self.pipeline, statement, values)
        else:
            changed = int(self._execute(_DIALECT[statement], values).rowcount)
        if self._probe:
            self._probe(f"after {statement}")
        return changed

    def _sent(self, pipeline: psycopg.Pipeline, statement: str, values: tuple[Any, ...]) -> int:
        """Send a statement, and wait for its result if that matters. A block ends when all its results are there."""
        if statement == "savepoint_undo":
            _await_all(pipeline)
        if statement == "savepoint_release" and not self._is_confirmed:
            pipeline.sync()
        cursor = self._execute(_DIALECT[statement], values)
        if statement in ("savepoint", "savepoint_release"):
            return 0
        if statement in UNCOUNTED:
            self._is_confirmed = False
            return 1
        pipeline.sync()
        self._is_confirmed = True
        return int(cursor.rowcount)

    def rows(self, statement: str, *values: Any) -> list[Row]:
        """Run a named query; return all its rows."""
        rows: list[Row] = self._execute(_DIALECT[statement], values).fetchall()
        self._is_confirmed = True
        return rows

    def row(self, statement: str, *values: Any) -> Row | None:
        """Run a named query; return its first row."""
        row: Row | None = self._execute(_DIALECT[statement], values).fetchone()
        self._is_confirmed = True
        return row


def _await_all(pipeline: psycopg.Pipeline) -> None:
    """Wait until the server is ready again after a statement that failed: it skips those that were sent after it."""
    import psycopg

    for _ in range(ATTEMPTS):
        with contextlib.suppress(psycopg.Error):
            return pipeline.sync()
    return pipeline.sync()


PATH_SOURCE: Final = "SELECT source, setting FROM pg_catalog.pg_settings WHERE name = 'search_path'"
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
        self._schema = ""
        self._process = 0
        self._clock = 0.0, 0.0  # the server's time, and this host's elapsed time when the server said so
        self._listener: Listener | None = None
        self._check: Check | None = None
        self._seal: Check | None = None
        self._note: Callable[[], Any] | None = None
        self.tags: Tags | None = None
        self._lock: Lock = unlocked
        self._on_connect: Callable[[], None] | None = None
        with self._translated():
            self._migrate(create)

    def _connected(self) -> psycopg.Connection[Row]:
        if self._process != os.getpid():
            self._connection = None  # a connection must not cross a fork; the parent still owns it
        if self._connection is None or self._connection.closed or self._connection.broken:
            connection: psycopg.Connection[Row] = self.place.connect(autocommit=True, client_encoding="UTF8")
            self._connection = connection
            self._process = os.getpid()
            try:
                self._begin_session(connection)
            except BaseException:
                connection.close()  # the next call connects and checks again
                raise
        return self._connection

    def _begin_session(self, connection: psycopg.Connection[Row]) -> None:
        """Find the schema on the first connection, and check where a later connection leads.

        A search path is resolved once: on a later connection it could lead to another schema.
        """
        [schema, process] = connection.execute(SESSION).fetchone() or ["", 0]
        self._set_clock(connection)
        if process != connection.info.backend_pid:
            connection.prepare_threshold = None  # a pool is in between: statements are prepared for no session
        else:
            connection.execute(OUTSIDE)
        if not self._schema:
            if schema is None or str(schema).startswith("pg_"):
                raise InvalidInput("ledger", str(self.place), NO_SCHEMA)
            self._schema = str(schema)
        if self._on_connect:
            self._on_connect()

    @property
    def schema(self) -> str:
        """The schema that holds the ledger."""
        return self._schema

    def names(self, ledger_id: str = "") -> tuple[str, ...]:
        """The names under which a host remembers which ledger is here.

        With an identifier, also the name of that ledger in its database, for every URL and schema that lead to it.
        """
        from psycopg.errors import InsufficientPrivilege

        with self._mutex, self._translated():
            connection = self._connected()
            given = name_of_url(self.place)
            try:
                with self._transaction(connection, READ):
                    [server, database] = connection.execute(SERVER).fetchone() or ["", ""]
            except InsufficientPrivilege:  # pg_control_system() was revoked
                return (given,)
        inside = f"postgresql server {server} database {database}"
        here = (given, f"{inside} schema {self._schema}")
        return (*here, f"{inside} ledger {ledger_id}") if ledger_id else here

    def _migrate(self, create: bool) -> None:
        connection = self._connected()
        with self._transaction(connection, READ):
            applied = self._applied(connection)
        if not pending("postgres", applied):
            return
        if not create and not applied:
            remedies = [Remedy("create_ledger", place=str(self.place))]
            problem = f"there is no ledger at {self.place}"
            raise InvalidInput("ledger", str(self.place), "", code="no_ledger", remedies=remedies, problem=problem)
        if not applied:
            self._refuse_second_ledger(connection)
        with self._migrated(connection, is_new=not applied):
            for step in pending("postgres", self._applied(connection)):
                connection.execute(step.sql.encode())
                connection.execute("INSERT INTO migration (version, name) VALUES (%s, %s)", (step.version, step.name))

    @contextlib.contextmanager
    def _migrated(self, connection: psycopg.Connection[Row], *, is_new: bool) -> Iterator[None]:
        """A transaction that makes or changes the layout; refused if this role may not."""
        from psycopg.errors import InsufficientPrivilege

        try:
            with self._transaction(connection, WRITE, QUEUE):
                yield
        except InsufficientPrivilege:
            if is_new:
                allowed = f"a role that may create tables in schema {self._schema!r} (GRANT CREATE ON SCHEMA ...)"
                raise InvalidInput("ledger", str(self.place), allowed) from None
            raise Refused(
                f"the ledger {self.place} has the layout of an earlier version, and this role may not change it. The "
                "role that owns its tables must open it once",
                remedies=[Remedy("verify_ledger")],
            ) from None

    def _refuse_second_ledger(self, connection: psycopg.Connection[Row]) -> None:
        """Refuse to make a ledger in the schema of a role while another schema of the database holds one.

        Without a schema in the place, each role has its own. A second role would get an empty ledger and a full budget.
        """
        [source, path] = connection.execute(PATH_SOURCE).fetchone() or ["default", ""]
        is_chosen = source == "client" and "," not in path  # of several schemas a role gets the first that it may use
        other = None if is_chosen else connection.execute(OTHER_LEDGERS).fetchone()
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
            if tables & set(LEDGER_TABLES):
                raise LedgerIntegrity(f"{self.place} holds other tables of the ledger's names; use another schema")
            return []
        return connection.execute(STATEMENTS["migrations"]).fetchall()

    def user(self) -> str:
        """The role that the server has checked. ``SET ROLE`` does not change it."""
        with self._mutex, self._translated():
            [name] = self._connected().execute("SELECT session_user").fetchone() or [""]
        return f"database role {name}"

    def lacks(self, subject: str) -> bool:
        """True for a role that the server does not have."""
        name = role_in(subject)
        if name is None:
            return False
        with self._mutex, self._translated():
            return self._connected().execute(HAS_ROLE, (name,)).fetchone() is None

    def seconds(self) -> float:
        """Seconds since 1970 by the server's clock, so that clients whose clocks differ agree when a lease ends.

        The time is known for a while, so this seldom waits for a thread that has the connection.
        """
        if self._process != os.getpid() or elapsed() - self._clock[1] > CLOCK_AGE:
            with self._mutex, self._translated():
                self._set_clock(self._connected())
        server, then = self._clock
        return server + (elapsed() - then)

    def _set_clock(self, connection: psycopg.Connection[Row]) -> None:
        """Ask the server for its time."""
        row = connection.execute(NOW).fetchone()
        if row is not None:
            self._clock = float(row[0]), elapsed()

    @contextlib.contextmanager
    def _transaction(self, connection: psycopg.Connection[Row], *begin: str) -> Iterator[None]:
        """A transaction with the settings of the ledger. They are sent in one message, so they cost no time.

        Temporary objects are last in the search path: elsewhere a temporary table called ``account`` would stand for
        the one of the ledger.
        """
        first, *rest = begin
        path = f"SET LOCAL search_path = {_quoted(self._schema)}, pg_temp"
        try:
            connection.execute("; ".join([first, *SETTINGS, path, *rest]).encode())
            yield
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(Exception):
                connection.execute("ROLLBACK")
            raise

    @contextlib.contextmanager
    def write(self, operation: str) -> Iterator[PostgresTransaction]:
        """A transaction that is durable when the block ends and absent when the block raises.

        When the connection breaks during COMMIT it is not known whether it happened. The caller gets ``Unavailable``
        and returns nothing, and a retry with the same key finds out.
        """
        probe = self._probe
        named: Probe | None = None if probe is None else (lambda point: probe(f"{operation}: {point}"))
        with self._mutex, self._translated():
            connection = self._connected()
            with self._lock(ALONE):
                with self._transaction(connection, WRITE, QUEUE):
                    transaction = PostgresTransaction(connection, named, self._known_tags(connection))
                    if self._check:
                        self._check(transaction)
                    yield transaction
                    if self._seal:
                        self._seal(transaction)
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
            seen = self._note() if self._note else None
            with self._transaction(connection, READ):
                transaction = PostgresTransaction(connection, None, self._known_tags(connection))
                transaction.seen = seen
                yield transaction

    def _known_tags(self, connection: psycopg.Connection[Row]) -> Tags | None:
        """The tags of the ledger, or None. A ledger of format 2 gets tags with its first write."""
        if self.tags is None:
            row = connection.execute(STATEMENTS["secret"]).fetchone()
            self.tags = None if row is None else Tags(*row)
        return self.tags

    def purge(self) -> None:
        """Rewrite the tables from which rows can be deleted. The role must own them: the server skips others."""
        skipped: list[str] = []

        def note(notice: psycopg.errors.Diagnostic) -> None:
            if notice.severity_nonlocalized == "WARNING":
                skipped.append(str(notice.message_primary))

        with self._mutex, self._translated():
            connection = self._connected()
            connection.add_notice_handler(note)
            try:
                for table in ("entry_text", "tag", "answer"):
                    connection.execute(f"VACUUM (FULL) {_quoted(self._schema)}.{table}".encode())
            finally:
                connection.remove_notice_handler(note)
        if skipped:
            raise Refused(
                f"erased texts are still in the files of the ledger {self.place}, because this role does not own its "
                f"tables ({skipped[0]}). Purge as an administrator who is a member of the role that owns them, "
                "with %20-crole%3Dts_owner at the end of the options of the place"
            )

    def log_failure(self, line: str) -> None:
        """Tell the operator of a failure, best effort: a separate table, beside the record."""
        with contextlib.suppress(TallystickError), self._mutex, self._translated():
            connection = self._connected()
            with self._transaction(connection, WRITE):
                connection.execute("INSERT INTO failure (line) VALUES (%s)", (line,))

    def on_commit(self, listener: Listener) -> None:
        """Register a function that receives the newest entry and its hash once they are durable (anchors)."""
        self._listener = listener

    def on_write(self, check: Check) -> None:
        """Register a function that may refuse a write that has begun, before anything is written."""
        self._check = check

    def on_read(self, note: Callable[[], Any]) -> None:
        """Register a function that is called before a snapshot is taken; a reader finds its result in ``seen``."""
        self._note = note

    def on_end(self, seal: Check) -> None:
        """Register a function that is called at the end of a write, before it is durable (seals)."""
        self._seal = seal

    def on_queue(self, read: Check) -> None:
        """Do nothing: a client waits for its turn inside the transaction."""

    def on_turn(self, lock: Lock) -> None:
        """Register a lock that is held from before the check of a write until its listener has returned."""
        self._lock = lock

    def on_connect(self, check: Callable[[], None]) -> None:
        """Register a function that may refuse a new connection, before anything is answered through it."""
        self._on_connect = check

    def damage(self) -> list[str]:
        """Nothing: a client of a server cannot look for damage. References hold while the layout is as it was."""
        return []

    def layout_problems(self) -> list[str]:
        """Differences between the schema's own objects and the migrations.

        If a shipped digest agrees, nothing differs. Otherwise the migrations are built afresh and rolled
        back. Raise ``NotChecked`` without a digest for this server's version and the right to create a schema.
        """
        with self._mutex, self._translated():
            connection = self._connected()
            with self._transaction(connection, READ):
                version = layout.version_of(connection)
                present = layout.objects(connection, self._schema)
            if layout.digest_of(present) in layout.shipped().values():
                return []
            try:
                expected = self._built_layout(connection)
            except NotChecked:
                if version not in layout.shipped():
                    raise
                return [f"the layout differs from that of version {SCHEMA_VERSION}"]
        shown = f"{self._schema}."
        named = sorted(item.replace(layout.SCHEMA, shown) for item in expected ^ present)
        return [f"schema object was altered, added or removed: {item[:80]}" for item in named]

    def _built_layout(self, connection: psycopg.Connection[Row]) -> set[str]:
        """The objects that the migrations make here, built afresh and rolled back."""
        from psycopg.errors import FeatureNotSupported, InsufficientPrivilege

        try:
            with self._transaction(connection, WRITE):
                expected = layout.built(connection, f"tallystick_check_{os.getpid()}_{threading.get_ident()}")
                raise _Undone
        except _Undone:
            return expected
        except InsufficientPrivilege:
            raise NotChecked("objects of the schema (this role may not create a schema in the database)") from None
        except FeatureNotSupported:
            raise NotChecked("objects of the schema (this server is a standby)") from None

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

    def translated(self) -> contextlib.AbstractContextManager[None]:
        """Turn the driver's errors into tallystick's."""
        return self._translated()

    @contextlib.contextmanager
    def pipelined(self, transaction: PostgresTransaction) -> Iterator[None]:
        """Send statements of this transaction before the results of earlier ones are there."""
        with self._connected().pipeline() as pipeline:
            transaction.pipeline = pipeline
            try:
                yield
            finally:
                transaction.pipeline = None

    def close(self) -> None:
        """Let go of the connection."""
        with self._mutex:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            self._connection = None


class _Undone(Exception):
    """Leaves a transaction that is not to be committed."""


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def _explained(place: Place, error: Exception) -> TallystickError | None:
    """The error of tallystick for an error of the driver; None for any other error."""
    import psycopg

    if isinstance(error, UnicodeError | psycopg.DataError):
        return LedgerIntegrity(f"the ledger {place} cannot hold this value, such as text that is not Unicode")
    if not isinstance(error, psycopg.Error):
        return None
    reason = error.diag.message_primary or type(error).__name__
    if isinstance(error, psycopg.errors.RaiseException | psycopg.IntegrityError):
        return LedgerIntegrity(f"the ledger {place} refused an inconsistent change: {reason}")
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return Unavailable(
            f"this role may not use the ledger {place} so: {reason}; nothing was granted. tallystick reads all tables "
            "of a ledger, and adds rows. Use a role that may, such as ts_keeper or a member of it"
        )
    return Unavailable(f"the ledger {place} cannot be used now: {reason}; nothing was granted")
