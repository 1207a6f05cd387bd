"""The SQLite store: one file, mode 0600, WAL, writers in a queue, syncs shared by all who wait for one.

Writers queue at an ``flock`` gate beside the file before ``BEGIN IMMEDIATE``: SQLite's own busy handler sleeps and
polls, which starves writers (measured in benchmarks/results/ledger.md). The kernel drops the gate when a process dies.
Nothing leaves ``write`` or ``read`` before it is on the disk: see ``Durability``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from tallystick.errors import InvalidInput, LedgerIntegrity, Remedy, TallystickError, Unavailable
from tallystick.ledger.chain import own_file
from tallystick.ledger.places import FILE, names_of_file
from tallystick.ledger.store import (
    STATEMENTS,
    Check,
    Listener,
    Lock,
    Probe,
    Row,
    Transaction,
    migrations,
    pending,
    unlocked,
)
from tallystick.ledger.texts import Tags
from tallystick.ledger.turns import Queue
from tallystick.ledger.users import is_user_of_system, user_in, user_of_system
from tallystick.place import Place, shown

APPLICATION_ID: Final = 0x7A115F1C  # marks the file, so that a foreign database is not adopted
BUSY_SECONDS: Final = 30
NOTHING: Final = (0, "")  # the newest entry of an empty ledger
LOG_PAGES: Final = 4000  # how long the log grows before a commit moves it into the file; fewer moves, longer each


class SqliteTransaction:
    """Named statements on one connection."""

    __slots__ = ("_execute", "_probe", "latest", "seen", "tags", "turn")

    def __init__(self, connection: sqlite3.Connection, probe: Probe | None, tags: Tags | None = None) -> None:
        self._execute = connection.execute
        self._probe = probe
        self.latest: tuple[int, str] | None = None
        self.tags = tags
        self.turn: Any = None
        self.seen: Any = None

    def run(self, statement: str, *values: Any) -> int:
        """Run a named statement; return how many rows it changed."""
        if self._probe is None:
            return self._execute(STATEMENTS[statement], values).rowcount
        self._probe(f"before {statement}")
        changed = self._execute(STATEMENTS[statement], values).rowcount
        self._probe(f"after {statement}")
        return changed

    def rows(self, statement: str, *values: Any) -> list[Row]:
        """Run a named query; return all its rows."""
        return self._execute(STATEMENTS[statement], values).fetchall()

    def row(self, statement: str, *values: Any) -> Row | None:
        """Run a named query; return its first row."""
        row: Row | None = self._execute(STATEMENTS[statement], values).fetchone()
        return row


class SqliteStore:
    """A ledger in one SQLite file.

    >>> import tempfile
    >>> store = SqliteStore(Path(tempfile.mkdtemp()) / "budget.db", create=True)
    >>> with store.read() as transaction:
    ...     len(transaction.rows("migrations"))
    3
    """

    pauses: tuple[float, ...] = (0.02, 0.1)

    def __init__(self, path: Path, *, create: bool, probe: Probe | None = None) -> None:
        given, real = names_of_file(path)  # its links are resolved once
        self._names = (given, real)
        self.path = Path(real.removeprefix(FILE))  # the log and the gate are beside the file itself, not beside a link
        self._name = str(self.path)  # every write looks at it
        self.place = Place.of(path)
        self._probe = probe
        self._mutex = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._gate: Queue | None = None
        self._durability: Durability | None = None  # None: SQLite syncs each commit itself, or nothing can be written
        self._committed = NOTHING
        self._process = 0
        self._file = (0, 0)  # which file the connection has open
        self._listener: Listener = _nobody
        self._check: Check = _anything
        self._seal: Check = _anything
        self._note: Callable[[], Any] = _anywhere
        self._ahead: Check = _anything
        self.tags: Tags | None = None
        self._lock: Lock = unlocked
        self._on_connect: Callable[[], None] = _anywhere
        self._create_file(create)
        try:
            with Translated(self.place):
                self._migrate()
        except BaseException:
            self.close()
            raise

    @property
    def schema(self) -> str:
        """A file has no schemas."""
        return ""

    def names(self, ledger_id: str = "") -> tuple[str, ...]:
        """The names under which a host remembers which ledger is here."""
        return self._names

    def _is_there(self) -> bool:
        """True if something is at the path. A link that leads nowhere is something."""
        try:
            is_there = self.path.exists()
        except OSError as error:
            raise Unavailable(f"the ledger {self.place} cannot be looked for: {error.strerror}") from None
        if not is_there and self.path.is_symlink():
            raise InvalidInput("ledger", str(self.path), "a file path; this link leads nowhere")
        return is_there

    def _create_file(self, create: bool) -> None:
        if self._is_there():
            if not self.path.is_file():
                raise InvalidInput("ledger", str(self.place), "a file path, not a directory or device")
            self._sole_name()
            return
        if not create:
            remedies = [Remedy("create_ledger", place=str(self.place))]
            problem = f"there is no ledger at {self.place}"
            raise InvalidInput("ledger", str(self.place), "", code="no_ledger", remedies=remedies, problem=problem)
        try:
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise Unavailable(f"cannot create the ledger {self.place}: {error.strerror}") from None

    def _sole_name(self) -> tuple[int, int]:
        """Which file has the ledger's name; refused when it has a second one.

        The log and the gate are named after the file: under two names there would be two of each, and two writers
        could both take the last of a budget.
        """
        status = os.stat(self._name)
        if status.st_nlink > 1:
            raise LedgerIntegrity(
                f"the ledger {self.place} has {status.st_nlink} names (hard links), and under each it would forget "
                "what is spent under the others; remove all but one"
            )
        return status.st_dev, status.st_ino

    def _connected(self) -> sqlite3.Connection:
        """The connection of this process: SQLite connections and locks must not cross a fork."""
        if self._connection is None or self._process != os.getpid():
            self._file = self._sole_name()
            mounted = _mounted(self.path)
            if mounted:
                raise LedgerIntegrity(
                    f"{mounted} is mounted as a single file. Processes that use the ledger under another name would "
                    "use other files beside it, and a budget could be spent twice. Mount the folder of the ledger "
                    "instead"
                )
            _require_rights(self.path, self.place)
            connection, logged = _connect(self.path)
            self._durability = Durability(self.path) if logged else None
            self._connection, self._gate, self._process = connection, Queue(Path(f"{self.path}.gate")), os.getpid()
            try:
                self._on_connect()
            except BaseException:
                self.close()  # the next call connects and checks again
                raise
        return self._connection

    def _migrate(self) -> None:
        connection = self._connected()
        if not pending("sqlite", _applied(connection)):
            return
        self._queue(connection, is_ahead=False)
        try:
            connection.execute("BEGIN IMMEDIATE")
            for step in pending("sqlite", _applied(connection)):
                for sql in statements_of(step.sql):
                    connection.execute(sql)
                connection.execute("INSERT INTO migration (version, name) VALUES (?, ?)", (step.version, step.name))
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute("COMMIT")
        except BaseException:
            _roll_back(connection)
            raise
        finally:
            self._leave_queue()
        self._settle(NOTHING)

    def _queue(self, connection: sqlite3.Connection, *, is_ahead: bool = True) -> None:
        """Wait for our turn. While another process has its turn, the listener reads what was committed before it."""
        if self._gate is not None and not self._gate.is_next():
            if is_ahead:
                self._read_ahead(connection)
            self._gate.wait()

    def _read_ahead(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN")
        try:
            self._ahead(SqliteTransaction(connection, None, self.tags))
        finally:
            _roll_back(connection)

    def _leave_queue(self) -> None:
        if self._gate is not None:
            self._gate.leave()

    @contextlib.contextmanager
    def write(self, operation: str) -> Iterator[SqliteTransaction]:
        """A transaction that is durable when the block ends and absent when the block raises."""
        probe = self._probe if self._probe is None else _prefixed(self._probe, operation)
        with Translated(self.place), _Later() as turn:
            with self._mutex:
                connection = self._connected()
                if self._durability:
                    self._durability.require_sound()  # before more is charged
                self._queue(connection)
                try:
                    if self._sole_name() != self._file:
                        raise LedgerIntegrity(f"the ledger {self.place} was replaced by another file; open it again")
                    if self._durability:
                        self._durability.require_log()
                    turn.enter(self._lock("{}:{}".format(*self._file)))  # after the gate, and held longer
                    connection.execute("BEGIN IMMEDIATE")
                    transaction = SqliteTransaction(connection, probe, self._known_tags(connection))
                    self._check(transaction)
                    if self._durability:
                        self._durability.require_newest(_newest(transaction)[0])
                    yield transaction
                    self._seal(transaction)
                    newest = _newest(transaction)
                    if probe:
                        probe("before COMMIT")
                    connection.execute("COMMIT")
                except BaseException:
                    _roll_back(connection)
                    raise
                finally:
                    self._leave_queue()
                self._committed = newest
            if probe:
                probe("after COMMIT")
            self._settle(newest)
            if probe:
                probe("after sync")
            self._listener(*newest)

    @contextlib.contextmanager
    def read(self) -> Iterator[SqliteTransaction]:
        """A consistent snapshot of what is on the disk: another writer's commit is not shown before its sync."""
        with self._mutex, Translated(self.place):
            connection = self._connected()
            if self._durability:
                self._durability.require_log()
            seen = self._note()
            connection.execute("BEGIN")
            try:
                transaction = SqliteTransaction(connection, None, self._known_tags(connection))
                transaction.seen = seen
                self._settle(_newest(transaction))  # a reader has no turn, so it moves no anchor
                yield transaction
            finally:
                _roll_back(connection)

    def _known_tags(self, connection: sqlite3.Connection) -> Tags | None:
        """The tags of the ledger, or None. A ledger of format 2 gets tags with its first write."""
        if self.tags is None:
            row = connection.execute(STATEMENTS["secret"]).fetchone()
            self.tags = None if row is None else Tags(*row)
        return self.tags

    def _settle(self, newest: tuple[int, str]) -> None:
        if self._durability:
            self._durability.settle(newest[0], self._newest_committed)

    def _newest_committed(self, is_alone: bool) -> tuple[int, str]:
        """Never waits: while another thread has the connection, what this process committed last will do.

        It will also do if no other process syncs: then there is no commit of another one to cover.
        """
        if is_alone or not self._mutex.acquire(blocking=False):
            return self._committed
        try:
            return _newest(SqliteTransaction(self._connected(), None))
        finally:
            self._mutex.release()

    def seconds(self) -> float:
        """Seconds since 1970 by this host's clock: all writers of a file are on one host."""
        return time.time()

    def user(self) -> str:
        """The user of the operating system."""
        return user_of_system()

    def lacks(self, subject: str) -> bool:
        """True for a user whom the operating system does not have."""
        name = user_in(subject)
        return name is not None and not is_user_of_system(name)

    def purge(self) -> None:
        """Rewrite the file without the pages of deleted rows, and empty its log."""
        with self._mutex, Translated(self.place):
            connection = self._connected()
            self._queue(connection, is_ahead=False)
            try:
                for statement in ("PRAGMA wal_checkpoint(TRUNCATE)", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
                    busy = connection.execute(statement).fetchone()
                    if busy is not None and busy[0]:
                        raise Unavailable(
                            f"the ledger {self.place} is read by another process, so its log cannot be emptied. Try "
                            "again later"
                        )
            finally:
                self._leave_queue()

    def log_failure(self, line: str) -> None:
        """Tell the operator of a failure, best effort: a file of mode 0600 beside the ledger."""
        with contextlib.suppress(OSError, LedgerIntegrity):
            log = own_file(f"{self.path}.failures", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            try:
                os.write(log, line.encode() + b"\n")
            finally:
                os.close(log)

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
        """Register a function that may read what others have committed, while one of them has its turn."""
        self._ahead = read

    def on_turn(self, lock: Lock) -> None:
        """Register a lock that is held from before the check of a write until its listener has returned."""
        self._lock = lock

    def on_connect(self, check: Callable[[], None]) -> None:
        """Register a function that may refuse a new connection, before anything is answered through it."""
        self._on_connect = check

    def layout_problems(self) -> list[str]:
        """Differences between the file's own objects and the migrations."""
        problems = []
        with self._mutex, Translated(self.place):
            present = _objects(self._connected())
        expected = _expected()
        for name in sorted(expected.keys() | present.keys()):
            if expected.get(name) != present.get(name):
                problems.append(f"schema object {name} was altered, added or removed")
        return problems

    def damage(self) -> list[str]:
        """Physical damage of the file and broken references; every page is read."""
        with self._mutex, Translated(self.place):
            connection = self._connected()
            pages = [row[0] for row in connection.execute("PRAGMA integrity_check(20)") if row[0] != "ok"]
            rows = [f"broken reference in {row[0]}" for row in connection.execute("PRAGMA foreign_key_check")]
        return [f"SQLite: {problem}" for problem in (*pages, *rows)]

    def translated(self) -> contextlib.AbstractContextManager[None]:
        """Turn the errors of SQLite into those of tallystick."""
        return Translated(self.place)

    def pipelined(self, transaction: Any) -> contextlib.AbstractContextManager[None]:
        """Do nothing: a statement has its result when it returns."""
        return contextlib.nullcontext()

    def close(self) -> None:
        """Let go of the connection and the gate."""
        with self._mutex:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
                if self._durability:
                    self._durability.close()
                if self._gate is not None:
                    self._gate.close()
            self._connection, self._durability, self._gate = None, None, None


BESIDE: Final = ("", "-wal", "-shm", ".gate", ".sync")
"""Endings of the ledger's file and of the files beside it that all its processes must share."""


def _mounted(path: Path) -> str | None:
    """Return the first file of a ledger that is a mount point, as a container sees a file of its host (Linux)."""
    try:
        mounts = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:
        return None
    points = {line.split()[4] for line in mounts}
    for ending in BESIDE:
        name = f"{path}{ending}"
        if re.sub(rb"[ \t\n\\]", lambda found: b"\\%03o" % found[0][0], os.fsencode(name)) in points:
            return name
    return None


def _inode(path: str) -> tuple[int, int] | None:
    """Return device and inode of a file, or None if it is not there."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _require_rights(path: Path, place: Place) -> None:
    """Refuse a ledger of which this user may not open a file. SQLite does not say which file it is."""
    rights = os.R_OK | (os.W_OK if os.access(path, os.W_OK) else 0)
    for name in (str(path), f"{path}-wal", f"{path}-shm"):
        if os.path.exists(name) and not os.access(name, rights):
            raise Unavailable(
                f"this user may not open {shown(name)}, a file of the ledger {place}. Users of one ledger need a "
                "folder and a group that they share, as the guide 'Many analysts' says"
            )


def _connect(path: Path) -> tuple[sqlite3.Connection, bool]:
    """A connection, and whether its commits go to a log that is ours to sync."""
    writable = os.access(path, os.W_OK)
    uri = path.as_uri()
    if not writable:
        # WAL needs a writable folder even for reading, unless there is no log and no process can write.
        uri += "?mode=ro" if os.path.exists(f"{path}-wal") else "?mode=ro&immutable=1"
    connection = sqlite3.connect(
        uri, uri=True, isolation_level=None, timeout=BUSY_SECONDS, check_same_thread=False, cached_statements=256
    )
    mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    if writable and mode != "wal":
        with contextlib.suppress(sqlite3.OperationalError):  # another opener is switching it now
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # opens the log
    logged = mode == "wal" and os.path.exists(f"{path}-wal")
    for pragma in (
        f"synchronous = {'NORMAL' if logged else 'FULL'}",
        f"wal_autocheckpoint = {LOG_PAGES}",
        "foreign_keys = ON",
        "trusted_schema = OFF",
        "cell_size_check = ON",
    ):
        connection.execute(f"PRAGMA {pragma}")
    return connection, logged


def _applied(connection: sqlite3.Connection) -> list[Row]:
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "migration" not in tables:
        if tables:
            raise LedgerIntegrity("this SQLite file holds other tables and no ledger; give another path")
        return []
    return connection.execute(STATEMENTS["migrations"]).fetchall()


def _objects(connection: sqlite3.Connection) -> dict[str, str]:
    """All but the statistics that SQLite keeps itself; no other program can make a table of these names."""
    query = (
        "SELECT name, type, tbl_name, coalesce(sql, '') FROM sqlite_master "
        "WHERE type <> 'table' OR name NOT IN ('sqlite_stat1', 'sqlite_stat4')"
    )
    return {name: " ".join([kind, table, *sql.split()]) for name, kind, table, sql in connection.execute(query)}


@cache
def _expected() -> dict[str, str]:
    fresh = sqlite3.connect(":memory:", isolation_level=None)
    for step in migrations("sqlite"):
        for sql in statements_of(step.sql):
            fresh.execute(sql)
    objects = _objects(fresh)
    fresh.close()
    return objects


def statements_of(script: str) -> Iterator[str]:
    """The statements of a script, one by one (a trigger body contains semicolons)."""
    buffer = ""
    for line in script.splitlines(keepends=True):
        buffer += line
        if sqlite3.complete_statement(buffer):
            yield buffer
            buffer = ""


def _newest(transaction: SqliteTransaction) -> tuple[int, str]:
    """The newest entry this transaction sees, its own included."""
    row = transaction.latest or transaction.row("head")
    return (int(row[0]), str(row[1])) if row else NOTHING


def _nobody(seq: int, head: str) -> None:
    """Announce nothing."""


def _anything(transaction: Transaction) -> None:
    """Accept every write, until a check is registered."""


def _anywhere() -> None:
    """Accept every connection, until a check is registered."""


def _prefixed(probe: Probe, operation: str) -> Probe:
    return lambda point: probe(f"{operation}: {point}")


def _roll_back(connection: sqlite3.Connection) -> None:
    with contextlib.suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")


class Translated:
    """Turns SQLite's errors into tallystick's; texts of statements and values are not repeated."""

    __slots__ = ("_place",)

    def __init__(self, place: Place) -> None:
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for known, explain in _EXPLAINED:
            if isinstance(error, known):
                raise explain(self._place, error) from error


class _Later:
    """Leaves a context that was entered in the middle of the block. An ``ExitStack`` takes longer."""

    __slots__ = ("_entered",)

    def __init__(self) -> None:
        self._entered: contextlib.AbstractContextManager[None] | None = None

    def enter(self, context: contextlib.AbstractContextManager[None]) -> None:
        """Enter a context. It is left with the block."""
        self._entered = context  # first: an interruption of what follows is undone, too
        context.__enter__()

    def __enter__(self) -> _Later:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._entered is not None:
            self._entered.__exit__(kind, error, trace)


def _cannot_be_used(place: Place, error: Any) -> TallystickError:
    reason = getattr(error, "strerror", None) or error
    return Unavailable(f"the ledger {place} cannot be used now: {reason}; nothing was granted")


def _refused_change(place: Place, error: Any) -> TallystickError:
    return LedgerIntegrity(f"the ledger {place} refused an inconsistent change: {error}")


# In this order: the first that fits is raised. Unicode errors come from the driver, which fails to read damaged text.
_EXPLAINED: Final[tuple[tuple[type[Exception], Callable[[Place, Any], TallystickError]], ...]] = (
    (sqlite3.IntegrityError, _refused_change),
    (sqlite3.OperationalError, _cannot_be_used),
    (
        UnicodeError,
        lambda place, e: LedgerIntegrity(f"the ledger {place} is damaged: it holds bytes that are not text"),
    ),
    (sqlite3.DatabaseError, lambda place, e: LedgerIntegrity(f"the ledger {place} is damaged or is not a ledger: {e}")),
    (OSError, _cannot_be_used),
)


# Group commit: one sync of the write-ahead log serves every writer that has committed by then.
#
# SQLite commits without a sync (``synchronous=NORMAL``); before anything of that commit leaves the store, its entries
# are made durable here. Who gets the lock first syncs the log and publishes the newest entry it covers; those who
# queued meanwhile find themselves covered. Why this is sound: docs/decisions/0011-ledger-group-commit.md. In doubt,
# sync again.

FAILED: Final = b"failed"
LONGEST_RECORD: Final = 256


class Durability:
    """The syncs of one connection in one process; made after the connection has opened its log, before it commits.

    ``<ledger>.sync`` holds one record: which database and log file it is about, the newest entry known to be on the
    disk, and a checksum. It is believed only after this process has itself written one, so a record left from before a
    restart, a restored copy or another file of the same name never counts.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mutex = threading.Lock()
        file = os.stat(path)
        self._log = os.open(f"{path}-wal", os.O_RDONLY | os.O_CLOEXEC)  # SQLite keeps no lock on this file
        log = os.fstat(self._log)
        # not opened here: closing it would drop SQLite's locks
        self._opened = [
            ("-wal", f"{path}-wal", (log.st_dev, log.st_ino)),
            ("-shm", f"{path}-shm", _inode(f"{path}-shm")),
        ]
        self._shared = Queue(Path(f"{path}.sync"))  # where it cannot be opened, every call syncs
        self._about = b"%d %d %d " % (file.st_dev, file.st_ino, log.st_ino)
        self._joined = False
        self._failed = False
        self._published: int | None = None  # the newest entry of the record that this connection wrote last
        self._known = b"", -1  # the record that was read last, and its entry
        self.syncs = 0

    def settle(self, seq: int, newest: Callable[[bool], tuple[int, str]]) -> None:
        """Return when entry ``seq`` and all before it are on the disk; raise when the disk did not confirm it.

        ``newest`` tells a committed entry; it is asked before the sync begins. Its seal was not checked, so it moves
        no anchor: every writer moves the anchor to its own entry. It hears if the last sync was ours, too: then other
        processes seem to be idle. An entry of theirs that is not covered costs them a sync, and no more.
        """
        if self.settled() >= seq:
            return
        with self._mutex, self._locked():
            settled = self.settled()
            if settled >= seq:
                return
            covered = max(seq, newest(settled == self._published)[0])
            self._sync()
            self._publish(b"%020d" % covered)
            self._published = covered
            self._joined = True

    def settled(self) -> int:
        """The newest entry that is known to be on the disk; refused after a failed sync."""
        record = os.pread(self._shared.descriptor, LONGEST_RECORD, 0) if self._shared.descriptor >= 0 else b""
        if record == self._known[0] and self._joined:
            self.require_sound()
            return self._known[1]
        body, _, check = record.partition(b"\n")[0].rpartition(b" ")
        mine = body.startswith(self._about) and check == b"%08x" % zlib.crc32(body)  # a torn read fails this
        value = body[len(self._about) :] if mine else b""
        if value == FAILED:
            self._failed = True
        self.require_sound()
        if not value or not self._joined:
            return -1
        self._known = record, int(value)
        return self._known[1]

    def require_sound(self) -> None:
        """Refuse when this process knows of a failed sync."""
        if self._failed:
            raise Unavailable(
                f"a sync of {shown(self._path)}-wal failed, so the disk may have lost what was committed last; "
                "nothing is delivered. Stop every process that uses this ledger, put it on a sound disk and verify it"
            )

    def require_log(self) -> None:
        """Refuse when the log of this connection, or the index of the log that processes share, was removed or
        replaced: others would not see what it commits.
        """
        for ending, name, inode in self._opened:
            if _inode(name) != inode:
                raise LedgerIntegrity(
                    f"{shown(self._path)}{ending} was removed or replaced while the ledger was open; close every "
                    "process that uses it"
                )

    def require_newest(self, seq: int) -> None:
        """Refuse to write after entry ``seq`` if another process has put a later one on the disk.

        A transaction that writes sees every commit. One that does not has another index of the log than the others: a
        file at the name can be exchanged for a moment.
        """
        if self.settled() > seq:
            raise LedgerIntegrity(
                f"the ledger {shown(self._path)} has entries that this process cannot see: the index of its log (-shm) "
                "was exchanged while it was open. Close every process that uses it"
            )

    def _sync(self) -> None:
        try:
            if not self._joined:  # the names of the files, once; SQLite syncs the folder for the log, not for the rest
                _sync_folder(self._path.parent)
            _sync_file(self._log)
        except OSError as error:
            # The kernel reports a failed write once and then calls the pages clean: the next sync must not be believed.
            self._failed = True
            self._publish(FAILED)
            raise Unavailable(
                f"the disk did not confirm what was written to {shown(self._path)}-wal: {error.strerror}; nothing was "
                "delivered, and what was charged stays paid"
            ) from error
        self.syncs += 1

    def _publish(self, value: bytes) -> None:
        if self._shared.descriptor >= 0:
            body = self._about + value
            with contextlib.suppress(OSError):  # an unpublished sync is only done again by others
                os.pwrite(self._shared.descriptor, b"%s %08x\n" % (body, zlib.crc32(body)), 0)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self._shared.wait()
        try:
            yield
        finally:
            self._shared.leave()

    def close(self) -> None:
        """Let go of the files."""
        os.close(self._log)
        self._shared.close()


def _sync_file(descriptor: int) -> None:
    getattr(os, "fdatasync", os.fsync)(descriptor)  # macOS has only fsync, as SQLite uses it there


def _sync_folder(folder: Path) -> None:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return  # we may not list it, so we did not make the ledger: its maker has synced its name
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems keep names without being asked
            raise
    finally:
        os.close(descriptor)
