"""Interface of a store, and every SQL statement the ledger uses, written once for both back ends.

There is no ORM: these are the reviewed statements. ``?`` marks a parameter (PostgreSQL rewrites it to ``%s``).
One conditional UPDATE, ``spend``, decides whether a charge fits; nothing else can grow ``used``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from importlib import resources
from typing import Any, Final, NamedTuple, Protocol

from tallystick.errors import LedgerIntegrity, Remedy
from tallystick.ledger.texts import Tags
from tallystick.place import Place

SCHEMA_VERSION: Final = 3

Row = tuple[Any, ...]
Probe = Callable[[str], None]
Listener = Callable[[int, str], None]

ACCOUNT_COLUMNS: Final = (
    "id, name, parent_id, partition_name, kind, filter, unit, adjacency, milestones, owner, "
    "limit0, limit1, own0, own1, used0, used1, raises, state"
)
DATASET_COLUMNS: Final = "name, seq, account_id, population_id, source, least0, note"
NEWEST: Final = "(SELECT * FROM dataset d WHERE seq = (SELECT max(seq) FROM dataset WHERE name = d.name)) AS newest"
CHARGE_COLUMNS: Final = "id, principal, key, request, state, fence, lease_until, last_seq"
CHARGE_SHOWN: Final = (
    "c.id, c.principal, coalesce(k.body, c.key), c.request, c.state, c.fence, c.lease_until, c.last_seq"
)
CHARGE_READ: Final = f"SELECT {CHARGE_SHOWN} FROM charge c LEFT JOIN entry_text k ON k.entry = c.id AND k.field = 'key'"
"""Charges with the texts of their keys. A key that was erased is shown as its commitment."""
DATASET_READ: Final = (
    "SELECT d.name, d.seq, d.account_id, d.population_id, d.source, d.least0, coalesce(n.body, d.note) "
    "FROM dataset d LEFT JOIN entry_text n ON n.entry = d.seq AND n.field = 'note'"
)
"""Registrations with the texts of their notes."""

# Numbers that a function gets are cast: in PostgreSQL a function of another user in the ledger's schema could fit the
# type of a bare number better than the server's own, and would be called with the rights of the writer.
STATEMENTS: Final[dict[str, str]] = {
    "head": "SELECT seq, hash FROM entry ORDER BY seq DESC LIMIT 1",
    "entry_insert": "INSERT INTO entry (seq, hash, body) VALUES (?, ?, ?)",
    "entry_at": "SELECT seq, hash, body FROM entry WHERE seq = ?",
    "entries_after": "SELECT seq, hash, body FROM entry WHERE seq > ? ORDER BY seq LIMIT ?",
    "account_insert": (
        "INSERT INTO account (id, name, parent_id, partition_name, kind, filter, unit, adjacency, milestones, owner, "
        "limit0, limit1) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    ),
    "account_named": f"SELECT {ACCOUNT_COLUMNS} FROM account WHERE name = ?",
    "account_by_id": f"SELECT {ACCOUNT_COLUMNS} FROM account WHERE id = ?",
    "accounts": f"SELECT {ACCOUNT_COLUMNS} FROM account ORDER BY id",
    "children": f"SELECT {ACCOUNT_COLUMNS} FROM account WHERE parent_id = ? ORDER BY id",
    "blocks_after": (
        "SELECT a.id, e.body FROM account a JOIN entry e ON e.seq = a.id "
        "WHERE a.parent_id = ? AND a.partition_name = ? AND a.id > ? ORDER BY a.id"
    ),
    "spend": (
        "UPDATE account SET own0 = own0 + ?, own1 = own1 + ?, used0 = used0 + ?, used1 = used1 + ? "
        "WHERE id = ? AND state = 'open' AND used0 + ? <= limit0 AND used1 + ? <= limit1"
    ),
    "refund": (
        "UPDATE account SET own0 = own0 - ?, own1 = own1 - ?, used0 = used0 - ?, used1 = used1 - ? WHERE id = ?"
    ),
    "used": "SELECT used0, used1 FROM account WHERE id = ?",
    "largest_sibling": (
        "SELECT coalesce(max(used0), 0), coalesce(max(used1), 0) FROM account "
        "WHERE parent_id = ? AND partition_name = ? AND id <> ?"
    ),
    "raise_limit": (
        "UPDATE account SET limit0 = ?, limit1 = ?, raises = raises + 1 "
        "WHERE id = ? AND state = 'open' AND limit0 = ? AND limit1 = ?"
    ),
    "close_account": "UPDATE account SET state = 'closed' WHERE id = ? AND state = 'open'",
    "dataset_insert": f"INSERT INTO dataset ({DATASET_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",
    "dataset_named": f"{DATASET_READ} WHERE d.name = ? ORDER BY d.seq DESC LIMIT 1",
    "datasets": f"{DATASET_READ} ORDER BY d.seq",
    "datasets_stored": f"SELECT {DATASET_COLUMNS} FROM dataset ORDER BY seq",
    "registrations": (
        f"SELECT {', '.join(f'd.{name}' for name in DATASET_COLUMNS.split(', '))}, n.salt, n.body "
        "FROM dataset d LEFT JOIN entry_text n ON n.entry = d.seq AND n.field = 'note' ORDER BY d.seq"
    ),
    "datasets_noted": (
        "SELECT DISTINCT d.name FROM dataset d LEFT JOIN entry_text n ON n.entry = d.seq AND n.field = 'note' "
        "WHERE substr(coalesce(n.body, d.note), 1, CAST(? AS INTEGER)) = ?"
    ),
    "dataset_entries": ("SELECT d.name, d.source, e.body FROM dataset d JOIN entry e ON e.seq = d.seq ORDER BY d.seq"),
    "source_owner": "SELECT population_id FROM dataset WHERE source = ? LIMIT 1",
    "source_entry": "SELECT seq FROM dataset WHERE source = ? ORDER BY seq DESC LIMIT 1",
    "sources_of_one_dataset": (
        "SELECT 1 FROM dataset a JOIN dataset b ON b.name = a.name WHERE a.source = ? AND b.source = ? LIMIT 1"
    ),
    "least_of_source": f"SELECT max(least0) FROM {NEWEST} WHERE name IN (SELECT name FROM dataset WHERE source = ?)",
    "least_of_population": f"SELECT coalesce(max(least0), 0) FROM {NEWEST} WHERE population_id = ?",
    "quarantine_insert": "INSERT INTO quarantine (charge_id, population_id, source, cause) VALUES (?, ?, ?, ?)",
    "quarantine_clear": (
        "UPDATE quarantine SET cleared = ? WHERE charge_id = ? AND population_id = ? AND cleared IS NULL"
    ),
    "quarantine_of": (
        "SELECT coalesce(cause, charge_id) FROM quarantine WHERE cleared IS NULL AND (source = ? OR population_id = ?) "
        "ORDER BY coalesce(cause, charge_id) LIMIT 1"
    ),
    "quarantine_row": "SELECT 1 FROM quarantine WHERE charge_id = ? LIMIT 1",
    "withheld": "SELECT DISTINCT charge_id FROM quarantine WHERE cleared IS NULL",
    "quarantines_of": (
        "SELECT q.charge_id, q.population_id, coalesce(q.cause, q.charge_id), c.state "
        "FROM quarantine q JOIN charge c ON c.id = q.charge_id WHERE q.cleared IS NULL AND (q.population_id = ? "
        "OR q.source IN (SELECT source FROM dataset WHERE population_id = ?)) ORDER BY q.charge_id, q.population_id"
    ),
    "quarantines": (
        "SELECT charge_id, population_id, source, cleared, cause FROM quarantine ORDER BY charge_id, population_id"
    ),
    "charges_running": "SELECT id FROM charge WHERE state = 'EXECUTING' ORDER BY id",
    "charge_insert": f"INSERT INTO charge ({CHARGE_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    "charge_by_key": f"{CHARGE_READ} WHERE c.principal = ? AND c.key = ? AND c.state <> 'REFUNDED' AND c.id < ?",
    "charge_by_tag": f"{CHARGE_READ} JOIN tag t ON t.charge_id = c.id WHERE t.key_tag = ?",
    "charge_by_tags": (
        f"{CHARGE_READ} JOIN tag t ON t.charge_id = c.id WHERE t.key_tag IN (?, ?) ORDER BY t.key_tag = ?"
    ),
    "charge_keys": (
        "SELECT key FROM charge WHERE principal = ? AND state <> 'REFUNDED' AND substr(key, 1, CAST(? AS INTEGER)) = ? "
        "AND id < ? "
        "ORDER BY id"
    ),
    "charge_keys_tagged": (
        "SELECT k.body FROM tag t JOIN entry_text k ON k.entry = t.charge_id AND k.field = 'key' WHERE t.stem_tag = ? "
        "ORDER BY t.charge_id"
    ),
    "charge_by_id": f"{CHARGE_READ} WHERE c.id = ?",
    "charge_alike": (
        f"{CHARGE_READ} WHERE c.principal = ? AND c.request = ? AND c.state = 'COMMITTED' AND c.id < ? "
        "ORDER BY c.id LIMIT 100"
    ),
    "charge_alike_tagged": (
        f"{CHARGE_READ} JOIN tag t ON t.charge_id = c.id WHERE t.request_tag = ? AND c.state = 'COMMITTED' "
        "ORDER BY c.id LIMIT 100"
    ),
    "charges": f"SELECT {CHARGE_COLUMNS} FROM charge WHERE id > ? ORDER BY id",
    "charge_stored": f"SELECT {CHARGE_COLUMNS} FROM charge WHERE id = ?",
    "charges_of": (
        f"SELECT {CHARGE_SHOWN}, l.a0, l.a1, e.body, w.body "
        "FROM line l JOIN charge c ON c.id = l.charge_id JOIN entry e ON e.seq = c.id "
        "LEFT JOIN entry_text k ON k.entry = c.id AND k.field = 'key' "
        "LEFT JOIN entry_text w ON w.entry = c.id AND w.field = 'why' "
        "WHERE l.account_id = ? AND c.id > ? ORDER BY c.id LIMIT ?"
    ),
    "charges_newest": (
        f"{CHARGE_READ} JOIN line l ON l.charge_id = c.id WHERE l.account_id = ? AND c.state = 'COMMITTED' "
        "ORDER BY c.id DESC LIMIT ?"
    ),
    "charge_entries": "SELECT c.id, e.body FROM charge c JOIN entry e ON e.seq = c.id ORDER BY c.id",
    "charge_move": "UPDATE charge SET state = ?, last_seq = ? WHERE id = ? AND state = ? AND fence = ?",
    "charge_lease": (
        "UPDATE charge SET fence = ?, lease_until = ?, last_seq = ? "
        "WHERE id = ? AND fence = ? AND state IN ('RESERVED', 'EXECUTING')"
    ),
    "charge_move_replay": "UPDATE charge SET state = ?, last_seq = ? WHERE id = ?",
    "charge_lease_replay": "UPDATE charge SET fence = ?, lease_until = ?, last_seq = ? WHERE id = ?",
    "charges_expired": (
        f"{CHARGE_READ} WHERE c.state IN ('RESERVED', 'EXECUTING') AND c.lease_until <= ? ORDER BY c.lease_until, c.id"
    ),
    "line_insert": "INSERT INTO line (charge_id, account_id, a0, a1) VALUES (?, ?, ?, ?)",
    "lines_of": "SELECT account_id, a0, a1 FROM line WHERE charge_id = ? ORDER BY account_id",
    "lines": "SELECT charge_id, account_id, a0, a1 FROM line WHERE charge_id > ? ORDER BY charge_id, account_id",
    "answer_insert": "INSERT INTO answer (charge_id, body, salt) VALUES (?, ?, ?)",
    "answer_of": "SELECT body, salt FROM answer WHERE charge_id = ?",
    "answer_ids": "SELECT charge_id FROM answer WHERE charge_id > ? ORDER BY charge_id",
    "answer_delete": "DELETE FROM answer WHERE charge_id = ?",
    "text_insert": "INSERT INTO entry_text (entry, field, salt, body) VALUES (?, ?, ?, ?)",
    "text_insert_3": (
        "INSERT INTO entry_text (entry, field, salt, body) VALUES (?, ?, ?, ?), (?, ?, ?, ?), (?, ?, ?, ?)"
    ),
    "text_delete": "DELETE FROM entry_text WHERE entry = ? AND field = ?",
    "text_at": "SELECT salt, body FROM entry_text WHERE entry = ? AND field = ?",
    "texts_of": "SELECT field, salt, body FROM entry_text WHERE entry = ? ORDER BY field",
    "subject_entry": "SELECT entry, salt FROM entry_text WHERE field = 'subject' AND body = ? ORDER BY entry",
    "subjects": "SELECT entry, body FROM entry_text WHERE field = 'subject' ORDER BY entry",
    "texts": "SELECT entry, field, salt, body FROM entry_text WHERE entry > ? ORDER BY entry, field",
    "tag_insert": "INSERT INTO tag (charge_id, key_tag, stem_tag, request_tag) VALUES (?, ?, ?, ?)",
    "tag_delete": "DELETE FROM tag WHERE charge_id = ?",
    "tags": "SELECT charge_id, key_tag, stem_tag, request_tag FROM tag WHERE charge_id > ? ORDER BY charge_id",
    "secret": "SELECT since, body FROM secret",
    "secret_insert": "INSERT INTO secret (since, body) VALUES (?, ?)",
    "seal_insert": "INSERT INTO seal (seq, key, signature) VALUES (?, ?, ?)",
    "seal_at": "SELECT key, signature FROM seal WHERE seq = ?",
    "seals": "SELECT seq, key, signature FROM seal WHERE seq > ? ORDER BY seq",
    "checkpoint_insert": "INSERT INTO checkpoint (seq, body, key, signature) VALUES (?, ?, ?, ?)",
    "checkpoints": "SELECT seq, body, key, signature FROM checkpoint ORDER BY seq",
    "checkpoint_newest": "SELECT seq, body, key, signature FROM checkpoint ORDER BY seq DESC LIMIT 1",
    "migrations": "SELECT version, name FROM migration ORDER BY version",
    "savepoint": "SAVEPOINT block",
    "savepoint_release": "RELEASE SAVEPOINT block",
    "savepoint_undo": "ROLLBACK TO SAVEPOINT block",
}


class Transaction(Protocol):
    """Statements run inside one database transaction.

    ``latest`` is the newest entry, once it was looked at. ``tags`` find charges by their keys and questions; None in a
    ledger of format 2 that was not written to since. ``turn`` is what the ledger notes at the start of a write, and
    ``seen`` what it notes before the snapshot of a reader.
    """

    latest: tuple[int, str] | None
    tags: Tags | None
    turn: Any
    seen: Any

    def run(self, statement: str, *values: Any) -> int:
        """Run a named statement; return how many rows it changed."""

    def rows(self, statement: str, *values: Any) -> list[Row]:
        """Run a named query; return all its rows."""

    def row(self, statement: str, *values: Any) -> Row | None:
        """Run a named query; return its first row."""


Check = Callable[[Transaction], None]
Lock = Callable[[str], AbstractContextManager[None]]


def unlocked(copy: str) -> AbstractContextManager[None]:
    """The lock of a store until one is registered: every writer has it."""
    return nullcontext()


class Store(Protocol):
    """A back end: durable transactions, one writer at a time."""

    place: Place
    tags: Tags | None  # of the ledger, as soon as they are known
    pauses: tuple[float, ...]  # seconds between attempts to store an answer that is already drawn

    def write(self, operation: str) -> AbstractContextManager[Transaction]:
        """A transaction that is durable when the block ends and absent when the block raises."""

    def read(self) -> AbstractContextManager[Transaction]:
        """A consistent snapshot."""

    def translated(self) -> AbstractContextManager[None]:
        """Turn the errors of the driver into those of tallystick."""

    def pipelined(self, transaction: Any) -> AbstractContextManager[None]:
        """Let statements of this transaction be sent before the results of earlier ones are there, if a store can."""

    @property
    def schema(self) -> str:
        """The schema of a database that holds the ledger; empty for a file."""

    def names(self, ledger_id: str = "") -> tuple[str, ...]:
        """The names under which a host remembers which ledger is here.

        With an identifier, also the name of that ledger in its database, for every URL and schema that lead to it.
        """

    def layout_problems(self) -> list[str]:
        """Differences between the database's own objects and the migrations.

        Raise ``NotChecked`` if this user may not compare them.
        """

    def damage(self) -> list[str]:
        """Physical damage of the whole store and broken references, as far as a client can see them."""

    def seconds(self) -> float:
        """Seconds since 1970 by the clock of the store: every writer must agree when a lease ends."""

    def purge(self) -> None:
        """Rewrite the files of the store, so that deleted rows are gone from them."""

    def user(self) -> str:
        """Who uses the store: a user of the operating system, or the role that the database has checked."""

    def lacks(self, subject: str) -> bool:
        """True if a subject is certainly not there: a user of this machine, or a role of the database."""

    def log_failure(self, line: str) -> None:
        """Tell the operator of a failure, best effort, where analysts do not look."""

    def on_commit(self, listener: Listener) -> None:
        """Register a function that receives the newest entry and its hash once they are durable (anchors)."""

    def on_write(self, check: Check) -> None:
        """Register a function that may refuse a write that has begun, before anything is written."""

    def on_read(self, note: Callable[[], Any]) -> None:
        """Register a function that is called before a snapshot is taken; a reader finds its result in ``seen``."""

    def on_end(self, seal: Check) -> None:
        """Register a function that is called at the end of a write, before it is durable (seals)."""

    def on_queue(self, read: Check) -> None:
        """Register a function that may read what others have committed, before a write. A store need not call it."""

    def on_turn(self, lock: Lock) -> None:
        """Register a lock that is held from before the check of a write until its listener has returned.

        It gets the name of this copy of the ledger. Writers with one name may hold it together; a writer without a name
        holds it alone.
        """

    def on_connect(self, check: Callable[[], None]) -> None:
        """Register a function that may refuse a new connection, before anything is answered through it."""

    def close(self) -> None:
        """Let go of the connection."""


def elapsed() -> float:
    """Seconds since this host started, sleep included. Setting the clock of the host does not change it."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class _Tried(Exception):
    """Leaves a write that is only tried."""


@contextmanager
def tried(store: Store, operation: str) -> Iterator[Transaction]:
    """A write that is undone when the block ends; refusals are the same."""
    try:
        with store.write(operation) as transaction:
            yield transaction
            raise _Tried
    except _Tried:
        pass


class NotChecked(Exception):
    """A part of the record that this user may not check; the message names it and says why."""


class Migration(NamedTuple):
    """One numbered forward-only script."""

    version: int
    name: str
    sql: str


@cache
def migrations(dialect: str) -> tuple[Migration, ...]:
    """The numbered scripts of one dialect, in order.

    >>> [m.version for m in migrations("sqlite")]
    [1, 2, 3]
    """
    scripts = []
    for item in resources.files("tallystick.ledger").joinpath("schema").iterdir():
        if item.name.endswith(f".{dialect}.sql"):
            number, _, rest = item.name.partition("_")
            scripts.append(Migration(int(number), rest.removesuffix(f".{dialect}.sql"), item.read_text()))
    return tuple(sorted(scripts))


def pending(dialect: str, applied: Sequence[Row]) -> list[Migration]:
    """Migrations still to run; a database from the future or with a gap is refused.

    >>> [m.version for m in pending("sqlite", [(1, "tables")])]
    [2, 3]
    """
    known = migrations(dialect)
    newest = max((version for version, _ in applied), default=0)
    if newest > SCHEMA_VERSION:
        raise LedgerIntegrity(
            f"this ledger has schema version {newest}, newer than {SCHEMA_VERSION}, the newest this tallystick knows; "
            "upgrade tallystick (nothing was changed)"
        )
    if [tuple(row) for row in applied] != [(m.version, m.name) for m in known[: len(applied)]]:
        altered = "the list of applied schema migrations was altered"
        raise LedgerIntegrity(altered, remedies=[Remedy("verify_ledger")])
    return list(known[len(applied) :])
