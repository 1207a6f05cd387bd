"""The ledger: a durable book of accounts, charges and answers that several processes may share."""

from __future__ import annotations

import contextlib
import json
import math
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from tallystick.errors import InvalidInput, LedgerIntegrity, Refused, Remedy, Unavailable
from tallystick.ledger import acting, erasure, first_write, governance, journal, opening, places, views
from tallystick.ledger.account import Account, check_account
from tallystick.ledger.authority import Act
from tallystick.ledger.chain import Anchor, AnchorFile, SourceId, check_text, checked, decode_answer, encode_answer
from tallystick.ledger.combiner import combined
from tallystick.ledger.copies import CopyLock
from tallystick.ledger.erasure import Erased
from tallystick.ledger.filters import LARGEST
from tallystick.ledger.governance import Writer, require_signed, require_vouched
from tallystick.ledger.journal import AccountRow, Asked, ChargeRow, Position, Terms
from tallystick.ledger.partition import Blocks, Partition
from tallystick.ledger.pay import CHARGE_LEASE, FAILED, Charge, Receipt
from tallystick.ledger.registry import DatasetRow, Registered, registered
from tallystick.ledger.replay import FORMAT_2, FORMAT_3, Book, WriterKey
from tallystick.ledger.signing import Signer
from tallystick.ledger.store import Probe, Row, Store, Transaction, tried
from tallystick.ledger.team import Team
from tallystick.ledger.texts import Tags, committed, is_answer, opens
from tallystick.ledger.transfer import ANSWERS, export_lines, import_lines
from tallystick.ledger.verify import Report, entries, make_checkpoint, verify
from tallystick.place import Place, is_foreign_url, shown

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

OLD_FORMATS = ("tallystick/ledger/1",)
BACKWARDS = 2000
"""Milliseconds by which a clock may be behind the newest entry: clocks are adjusted by fractions of a second."""
LATEST = 253_402_300_800.0
"""Seconds since 1970 of the first day of the year 10000: a clock that says so, or more, is wrong."""
LONGEST_LEASE = 366 * 24 * 3600.0


class Ledger:
    """A ledger in an SQLite file, or in PostgreSQL when the place is a ``postgresql://`` URL.

    Opening creates it when it is not there (``create=False`` refuses instead). A ledger older than what this user has
    already seen of it is refused: someone restored an old copy, and what was spent since would be forgotten.

    A ledger that this host did not create and has not seen opens for reading. Its first write needs ``expect_head``
    (the hash of one of its entries, known from another host, a receipt or a card), or ``first_use`` (the owner's
    reason to go on without one, which is recorded). Both are ignored once this host has an anchor of the ledger, except
    that ``expect_head`` must always be an entry of the chain.

    A host that knows a ledger at a place reads and writes that ledger there, and no other one. If another ledger or
    none is at the place, opening it and making a new one needs one of the two again. ``inspect`` opens any ledger, so
    that ``verify`` can say what is wrong with it.

    ``older`` is the owner's reason to go on with an older copy, if the newest one is lost. It is recorded together with
    the newest entry that this host has seen. The charges in between are lost, and must be charged again by hand.

    Times are those of the PostgreSQL server, or of this host if the ledger is a file. ``clock`` replaces them in tests.

    ``combine`` is for a service with many threads: charges that several threads make at the same time share one
    transaction, one seal and one sync. Each of them returns when that transaction is durable.
    """

    def __init__(
        self,
        place: Place | Path | str,
        *,
        create: bool = True,
        clock: Callable[[], float] | None = None,
        config: Path | str | None = None,
        probe: Probe | None = None,
        expect_head: str | None = None,
        first_use: str | None = None,
        older: str | None = None,
        inspect: bool = False,
        combine: bool = False,
    ) -> None:
        self.acting: Act | None = None
        self.captured: list[journal.Proposed] | None = None
        self.failure_log: Callable[[str], None] | None = None
        self.is_served = False  # True in a service: a principal sees nothing of other populations, not even names
        first_write.check_arguments(expect_head, first_use, older)
        is_there = expect_head is not None or older is not None or inspect
        create = create and not is_there  # a new ledger cannot contain a known head
        self._clock = clock
        self._is_inspected = inspect
        config = _folder(config)
        self._config = config
        self._last: tuple[tuple[object, ...], Terms | None] = ((), None)
        self.lost: first_write.Missing | None = None
        self.known_blocks: dict[tuple[int, str], tuple[int, Blocks]] = {}  # by parent and partition; see opening.py
        self.store = self._opened_store(place, create, probe, is_accepted=first_use is not None)
        try:
            self._subject = self.store.user()
            self._known = places.KnownPlaces(self.store.names(), config).read()
            self.id = self._genesis(create, is_accepted=first_use is not None)
            self._names = self.store.names(self.id)
            self._places = places.KnownPlaces(self._names, config, inside=self.store.schema)
            self._known = self._places.read()
            self._anchor = AnchorFile(self.id, config)
            self.writer = Writer(self.id, Signer.of_user_if_there(config))
            self.store.on_end(self.writer.end)
            self.store.on_read(self._anchor.read)  # before the snapshot: another writer may move it on meanwhile
            self.store.on_queue(self.writer.read_ahead)
            if older is not None:
                self._use_older(older)
            if not inspect:
                self._check_opened(is_accepted=expect_head is not None or first_use is not None)
            if expect_head is not None:
                first_write.accept_head(self.store, self._anchor, expect_head)
                self._keep_place()
            self.store.on_turn(CopyLock(self.id, config).held)
            self.store.on_commit(self._keep_anchor)
            if first_use is not None:
                self._use_first(first_use)
        except BaseException:
            self.store.close()
            raise
        self.store.on_write(self._require_anchored)
        self.store.on_connect(self._check_connection)
        if combine:
            self.store = combined(self.store, self.writer)

    def _opened_store(
        self, place: Place | Path | str, create: bool, probe: Probe | None, *, is_accepted: bool
    ) -> Store:
        """Open the store of a place. If the place is empty and this host knows a ledger there, that is an error."""
        checked_place = _checked_place(place)
        path = checked_place.path
        is_new_file = create and path is not None and not os.path.exists(path)
        if is_new_file and not is_accepted:
            places.require_unknown(checked_place, self._config)
        try:
            return open_store(place, create=create, probe=probe)
        except InvalidInput as problem:
            if problem.code == "no_ledger":
                places.require_unknown(checked_place, self._config)
            raise

    def _check_opened(self, *, is_accepted: bool) -> None:
        """Raise ``LedgerIntegrity`` if this host knows another ledger at this place, or newer entries."""
        if not is_accepted:
            self._require_known(to_write=False)
        self.check_anchor()
        self._follow_seal()

    def _follow_seal(self) -> None:
        """Move the anchor of a host that reads a governed ledger: it must not forget who may write."""
        anchor = self._anchor.read()
        if anchor is None:
            return
        with contextlib.suppress(LedgerIntegrity), self.store.read() as transaction:
            newest = journal.head(transaction)
            keys = self.writer.keys_now(transaction, Position(*anchor))
            if keys and newest != Position(*anchor):
                governance.require_seal(transaction, self.id, newest, keys)
                self._anchor.write(Anchor(*newest))
            if keys:
                self.writer.book_now(transaction, Position(*anchor), newest)  # does the ledger have roles?
                known = acting.principal_of(transaction, self.subject)
                self.writer.actors |= {} if known is None else {self.subject: known}

    def believed(self, transaction: Transaction, *, whole: bool = False) -> Book | None:
        """The state of a governed ledger that its hashed chain gives; None if the ledger is not governed.

        Rows and bodies of entries can be edited in the store. What a question rests on is compared with this state.
        With ``whole`` no checkpoint is used, so that the state has every charge.
        """
        anchor = transaction.seen or self._anchor.read()  # a writer has no snapshot, and nobody else can write
        known, newest = None if anchor is None else Position(*anchor), journal.head(transaction)
        book = self.writer.book_now(transaction, known, newest, whole=whole)
        if book is not None and known is not None and known != newest:
            self._anchor.write(Anchor(*newest))  # its seal was checked: this host must not see less after that
        return book

    def _check_connection(self) -> None:
        """Raise ``LedgerIntegrity`` if a new connection does not lead to the ledger that was opened."""
        is_here = self.store.names(self.id) == self._names
        if not is_here or self._genesis(create=False, is_accepted=False) != self.id:
            raise places.led_elsewhere(self.store.place)
        self.check_anchor()

    def acting_for(self, principal: str, via: int | None = None) -> Ledger:
        """Return the same open ledger for another principal, whose keys are apart; close only the first one.

        It is for a service that has checked who asks, and by which token. ``with_token`` checks a token itself.
        """
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.acting = Act(str(checked("principal", principal)), via)
        return other

    def with_token(self, token: str) -> Ledger:
        """Return the same open ledger for the principal of a token; close only the first one.

        >>> import tempfile, tallystick as ts
        >>> with tempfile.TemporaryDirectory() as folder, ts.Ledger(f"{folder}/ledger.db") as ledger:
        ...     ledger.with_token("tsk_unknown")
        Traceback (most recent call last):
        tallystick.errors.NotAuthorised: this is not a token of tallystick
        """
        with self.store.read() as transaction:
            found = acting.token_in(self.believed(transaction), token, self.now())
        return self.acting_for(found.principal, found.seq)

    def proposing(self) -> Ledger:
        """Return the same open ledger, whose writes are undone and noted in ``captured``: for what a request asks."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.captured = []
        return other

    @property
    def principal(self) -> str:
        """Whose named keys are used: everybody's in a ledger without roles, those of who acts in another."""
        if self.acting is not None:
            return self.acting.principal
        return self.actor if self.has_roles else journal.SHARED

    @property
    def actor(self) -> str:
        """The id of who acts. It says nothing about the name. It is empty for a user who never wrote."""
        if self.acting is not None and self.has_roles:
            return self.acting.principal
        return self.writer.actors.get(self.subject, "")

    @property
    def subject(self) -> str:
        """The user of the operating system or of the database that has this ledger open."""
        return self._subject

    @property
    def has_roles(self) -> bool:
        """True if every entry needs a role. Only a governed ledger has roles, and they do not end."""
        return self.writer.has_roles or self.writer.watch.book.authority.since is not None

    @contextlib.contextmanager
    def write(self, operation: str, *, dry_run: bool = False) -> Iterator[Transaction]:
        """A write by who acts here: durable when the block ends, or with ``dry_run`` undone."""
        is_undone = dry_run or self.captured is not None
        with tried(self.store, operation) if is_undone else self.store.write(operation) as transaction:
            turn = transaction.turn
            if isinstance(turn, journal.Turn):
                turn.introduce = lambda changed, begun: acting.introduce(self, changed, begun, operation)
                if turn.governed is not None:
                    journal.begin_entries(transaction, turn)
            yield transaction

    def __reduce_ex__(self, protocol: Any) -> Any:  # copy, deepcopy and pickle all ask here
        raise Refused("an open ledger cannot be copied, stored or sent to another process. Try: ts.Ledger(place) there")

    def _genesis(self, create: bool, *, is_accepted: bool) -> str:
        with self.store.read() as transaction:
            row = transaction.row("entry_at", 1)
        if row is None and create:
            if self._known and not is_accepted:
                raise places.exchanged(self.store.place, self._known.values(), None)
            with self.store.write("genesis") as transaction:
                row = transaction.row("entry_at", 1)
                if row is None:
                    self._begin_chain(transaction)
                    row = transaction.row("entry_at", 1)
        try:
            body = json.loads(row[2] if row else "{}")
            if body["kind"] == "genesis" and body["format"] in OLD_FORMATS:
                raise LedgerIntegrity(
                    f"{self.store.place} is of an older format, {body['format']}. Keep this file: a later "
                    "version converts it. Use another path for a new ledger meanwhile"
                )
            if body["kind"] != "genesis" or body["format"] not in (FORMAT_2, FORMAT_3):
                raise ValueError
            return uuid.UUID(body["ledger"]).hex
        except (KeyError, ValueError, TypeError, AttributeError):
            raise LedgerIntegrity(f"{self.store.place} has no valid first entry; it is damaged or empty") from None

    def _begin_chain(self, transaction: Transaction) -> None:
        """Append the first entry, and write its anchor before it is durable: this host needs no proof later."""
        ledger_id = uuid.uuid4().hex
        tags = Tags.new(since=1)
        position = journal.append(
            transaction, "genesis", self.now(), format=FORMAT_3, ledger=ledger_id, **self._introduced()
        )
        transaction.run("secret_insert", *tags)
        anchor = AnchorFile(ledger_id, self._config)
        anchor.require_writable()
        anchor.write(Anchor(*position))
        anchor.close()

    def _use_first(self, why: str) -> None:
        """Record the first use of a ledger that this host has not seen here; do nothing if it has."""
        if self.is_seen and not self.is_exchanged:
            return
        self._anchor.require_writable()
        with self.store.write("first use") as transaction:
            self._begin_turn(transaction, None)
            transaction.turn.introduce = lambda changed, begun: acting.introduce(self, changed, begun)
            first_write.record_first_use(transaction, self.now(), principal=self.principal, why=why)
        self._keep_place()

    def _use_older(self, why: str) -> None:
        """Record that the owner continues with this copy, at this place; do nothing if no entry is missing."""
        missing = self.missing()
        if missing is None:
            return
        self._anchor.require_writable()
        with self.store.write("older copy") as transaction:
            self._begin_turn(transaction, None)
            transaction.turn.introduce = lambda changed, begun: acting.introduce(self, changed, begun)
            newest = first_write.record_older(transaction, self.now(), missing.seen, principal=self.principal, why=why)
        self._anchor.replace(newest)
        self._keep_place()
        self.lost = missing

    def missing(self) -> first_write.Missing | None:
        """The entries that this host has seen and this copy lacks; None if it has all of them."""
        anchor = self._anchor.read()  # before the snapshot: another writer may move it on meanwhile
        with self.store.read() as transaction:
            return self._missing(anchor, transaction)

    @property
    def is_exchanged(self) -> bool:
        """True if this host knows another ledger at this place."""
        own = places.record_of(self.id, self.store.schema)
        return any(known != own for known in self._known.values())

    def check_place(self) -> None:
        """Raise ``LedgerIntegrity`` if this host knows another ledger at this place."""
        self._require_known(to_write=True)

    def _require_known(self, *, to_write: bool) -> None:
        """Raise ``LedgerIntegrity`` for another ledger than the known one. A record that cannot be read, because it
        belongs to another user, says nothing about the ledger: then the ledger can be read.
        """
        others = set(self._known.values()) - {places.record_of(self.id, self.store.schema)}
        if not to_write:
            others.discard(places.UNREADABLE)
        if others:
            raise places.exchanged(self.store.place, others, places.record_of(self.id, self.store.schema))

    def _keep_place(self) -> None:
        """Remember that this ledger is at its place."""
        self._known = self._places.write(self.id)

    def _keep_anchor(self, seq: int, head: str) -> None:
        """Move the anchor to an entry that a writer of this process has made durable."""
        self._anchor.write(Anchor(seq, head))

    def require_entry(self, head: str) -> None:
        """Raise ``LedgerIntegrity`` unless an entry of the chain has this hash; every hash is computed again."""
        with self.store.read() as transaction:
            first_write.newest_after(transaction, head)

    @property
    def is_seen(self) -> bool:
        """True if this host has an anchor of the ledger, so that it may write."""
        return self._anchor.read() is not None

    def check_anchor(self) -> None:
        """Refuse a ledger that is older than, or differs from, what this user has seen of it."""
        missing = self.missing()
        if missing is not None:
            raise first_write.refusal_of_older(self.store.place, missing, str(self._anchor.path))

    def _require_anchored(self, transaction: Transaction) -> None:
        """Check the place before every write: a ledger can be replaced or copied while it is open."""
        self._anchor.require_writable()
        anchor = self._anchor.read()  # no other process can write now, so the anchor stays behind
        self.check_place()
        if anchor is None:
            raise first_write.refusal()
        if not self._places.is_complete(self._known):
            self._keep_place()
        newest = transaction.latest = journal.head(transaction)
        if (anchor.seq, anchor.head) != newest:  # a writer may be about to write its anchor
            self._compare(anchor, transaction)
        self._begin_turn(transaction, anchor)

    def _begin_turn(self, transaction: Transaction, anchor: Anchor | None) -> None:
        """Note the start of a turn. Every write begins so, also the first one of this host."""
        newest = transaction.latest = journal.head(transaction)
        known = None if anchor is None else Position(*anchor)
        transaction.turn = turn = self.writer.begin(transaction, newest, known)
        if turn.governed is not None:
            self._require_clock(turn.newest_at)
        turn.upgrade = self._upgrade if transaction.tags is None else None

    def _require_clock(self, newest_at: int) -> None:
        """Raise ``Unavailable`` if the clock is behind the newest entry.

        In a ledger that is not governed the times of entries stand still until the clock has caught up: a host whose
        clock was wrong once must not lock its only user out.
        """
        behind = newest_at - self.now()
        if behind > BACKWARDS:
            raise Unavailable(
                f"The clock of this ledger is {behind / 1000:.0f} seconds behind its newest entry. Nothing was "
                "written. Set the clock, or wait"
            )

    def _upgrade(self, transaction: Transaction) -> None:
        """Append the entry from which a ledger of format 2 keeps texts beside the chain."""
        tags = Tags.new(since=journal.head(transaction).seq + 1)
        journal.append(transaction, "upgrade", self.now(), format=FORMAT_3, **self._introduced())
        transaction.tags = tags
        transaction.run("secret_insert", *tags)

    def _introduced(self) -> dict[str, Any]:
        """Fields that name who writes the first entry of the format."""
        return {"act": list(Act(acting.new_principal())), "subject": committed(self.subject)}

    def _missing(self, anchor: Anchor | None, transaction: Transaction) -> first_write.Missing | None:
        row = transaction.row("entry_at", anchor.seq) if anchor else None
        if anchor is None or (row is not None and row[1] == anchor.head):
            return None
        return first_write.Missing(anchor, Anchor(*journal.head(transaction)))

    def _compare(self, anchor: Anchor | None, transaction: Transaction) -> None:
        missing = self._missing(anchor, transaction)
        if missing is not None:
            raise first_write.refusal_of_older(self.store.place, missing, str(self._anchor.path))

    def now(self) -> int:
        """Milliseconds since 1970 by this ledger's clock."""
        seconds = self.store.seconds() if self._clock is None else self._clock()
        if not 0 <= seconds < LATEST:  # NaN is not, either
            raise InvalidInput("clock", seconds, "a function that returns seconds since 1970, such as time.time")
        return int(seconds * 1000)

    def lease_end(self, seconds: float) -> int:
        """When a lease of that many seconds ends."""
        if not (isinstance(seconds, int | float) and math.isfinite(seconds) and 0 < seconds <= LONGEST_LEASE):
            raise InvalidInput("lease", seconds, f"seconds between 0 and {LONGEST_LEASE:.0f}")
        return self.now() + int(seconds * 1000)

    def head(self) -> Position:
        """The newest entry's position and hash, whose seal was checked if keys govern: an anchor to keep elsewhere."""
        with self.store.read() as transaction:
            if self._is_inspected:
                return journal.head(transaction)
            self.require_seen(transaction)
            book = self.believed(transaction)
            return journal.head(transaction) if book is None else self.writer.watch.position

    def require_seen(self, transaction: Transaction) -> None:
        """Raise ``LedgerIntegrity`` unless a snapshot has the newest entry that this host or process has seen."""
        sealed = self.writer.sealed
        self._compare(transaction.seen or (None if sealed is None else Anchor(*sealed)), transaction)

    # -- accounts

    def open(
        self,
        name: str,
        *,
        budget: PrivacyLoss | None = None,
        unit: str | None = None,
        parent: Account | str | None = None,
        partition: Partition | None = None,
        milestones: Sequence[float] = (),
    ) -> Account:
        """An account by name: with a budget it is created (or checked to be the same), without one it must exist.

        The budget's type picks the filter: ``zcdp``, ``approx_dp``/``pure_dp``, ``gdp`` or ``renyi_dp`` at one order.
        ``parent=`` makes a block that its parent also pays for: the sum of blocks, or with ``partition=`` the largest.
        """
        if budget is None:
            return self._account(self.account_row(checked("name", name)))
        above = self.open(parent) if isinstance(parent, str) else parent
        row = opening.open_account(
            self, name, budget=budget, unit=unit, parent=above, partition=partition, milestones=milestones
        )
        return self._account(row)

    def _account(self, row: AccountRow) -> Account:
        with self.store.read() as transaction:
            book = self.believed(transaction)
            if book is None:
                return Account(self, row, journal.path_of(transaction, row.id))
            self._require_account(book, row)
            return Account(self, row, book.path(row.id))

    def _require_account(self, book: Book, row: AccountRow) -> None:
        """Raise ``LedgerIntegrity`` if an account differs from the chain in what never changes: currency, unit, path.

        The cost of a plan rests on these: in another currency the same number is less.
        """
        known = book.accounts.get(row.id)
        if known is None or known[:_CHANGING] != row[:_CHANGING]:
            raise _edited_account(row.id)

    def _believed_rows(self, transaction: Transaction, rows: list[AccountRow], parent: int | None = None) -> None:
        """Raise ``LedgerIntegrity`` if these are not the accounts of the chain, or those below ``parent``."""
        book = self.believed(transaction)
        if book is not None:
            known = [row for row in book.accounts.values() if parent in (None, row.parent_id)]
            for row, own in zip_longest(rows, known):
                if row != own:
                    raise _edited_account((own or row).id)

    def account_row(self, name: str) -> AccountRow:
        """The account's numbers now."""
        check_text("name", name)
        with self.store.read() as transaction:
            row = transaction.row("account_named", name)
            found = None if row is None else AccountRow(*row)
            book = self.believed(transaction)
            if found is not None and book is not None and book.accounts.get(found.id) != found:
                raise _edited_account(found.id)
            if found is not None and self._sees_account(book, found):
                return found
            rows = [AccountRow(*each) for each in transaction.rows("accounts")]
            known = [each.name for each in rows if self._sees_account(book, each)]
        raise opening.unknown_account(name, known)  # one error for what is absent and for what is another person's

    def _sees_account(self, book: Book | None, row: AccountRow) -> bool:
        """True if who acts may see an account: that of an own population, and not the allowance of another person.

        Only a principal of a service can be refused.
        """
        if not self.is_served or book is None or self.acting is None or book.authority.since is None:
            return True
        name = book.accounts[book.population(row.id)].name
        if row.kind == journal.ALLOWANCE and row.owner != self.acting.principal:
            return acting.may(book, self.acting, "see_reasons", name)
        return acting.may(book, self.acting, "see_population", name)

    def account_by_id(self, account_id: int) -> Account:
        """The account with that number."""
        _check_number("account_id", account_id, "an account")
        with self.store.read() as transaction:
            row = journal.account_row(transaction, account_id)
        return self._account(row)

    def accounts(self) -> list[Account]:
        """All accounts, oldest first."""
        with self.store.read() as transaction:
            rows = [AccountRow(*row) for row in transaction.rows("accounts")]
            self._believed_rows(transaction, rows)
        return [self._account(row) for row in rows]

    def seen_accounts(self) -> list[Account]:
        """The accounts that who acts may see, oldest first."""
        with self.store.read() as transaction:
            book = self.believed(transaction)
            rows = [AccountRow(*row) for row in transaction.rows("accounts")]
            rows = [row for row in rows if self._sees_account(book, row)]
        return [self._account(row) for row in rows]

    def children_of(self, account_id: int) -> list[Account]:
        """The blocks of an account."""
        with self.store.read() as transaction:
            rows = [AccountRow(*row) for row in transaction.rows("children", account_id)]
            self._believed_rows(transaction, rows, account_id)
        return [self._account(row) for row in rows]

    def partition_of(self, account_id: int) -> Partition:
        """Return how a block was cut from its parent."""
        with self.store.read() as transaction:
            book = self.believed(transaction)
            if book is None:
                return opening.partition_of(transaction, account_id)
        return Partition(*book.partitions[account_id])

    def datasets(self) -> dict[str, Registered]:
        """The registered datasets, by name."""
        return registered(self)

    def fixed_for(self, source: str) -> dict[str, str | None] | None:
        """Whom registered data protect: their unit and neighbours; None where the source is not registered."""
        with self.store.read() as transaction:
            book = self.believed(transaction)
            if book is None:
                return journal.fixed_for(transaction, SourceId.of(source))
        names = [row.name for row in book.datasets if row.source == SourceId.of(source)]
        return book.fixed[names[-1]] if names else None

    def names_of(self, source: str) -> list[str]:
        """The names under which a source is registered."""
        own = SourceId.of(source)
        return sorted(name for name, dataset in self.datasets().items() if own in dataset.sources)

    # -- charges

    def charge(
        self,
        loss: PrivacyLoss,
        *,
        accounts: Sequence[Account],
        why: str,
        key: str | None = None,
        delta: float | None = None,
        lease: float = CHARGE_LEASE,
        request: str = "",
        source: str = "",
        older_request: str = "",
    ) -> Charge:
        """A charge on several accounts, all or none, not yet taken: enter it, or call ``reserve()``."""
        for account in accounts:
            check_account(account)
        check_text("request", request)
        check_text("source", source)
        if not accounts or len({account.id for account in accounts}) != len(accounts):
            raise InvalidInput("accounts", [a.name for a in accounts], "one or more different accounts")
        terms = self._terms(loss, tuple(accounts), delta, request, source, older_request)
        return Charge(self, terms, why=why, key=key, lease=lease)

    def _terms(
        self,
        loss: PrivacyLoss,
        accounts: tuple[Account, ...],
        delta: float | None,
        request: str,
        source: str,
        older_request: str,
    ) -> Terms:
        """Return the request with its cost, remembered for the last one: a busy service repeats its requests."""
        last, terms = self._last
        plan = (loss, delta, request, source, older_request, *accounts)
        if terms is None or len(last) != len(plan) or not all(map(_is_known, last, plan)):
            amounts = [account.price(loss, delta=delta) for account in accounts]
            lines = tuple((account, amount.a0, amount.a1) for account, amount in zip(accounts, amounts, strict=True))
            terms = Terms.of(lines, loss.to_json(), request, source, older_request)
            self._last = (plan, terms)
        return terms

    def stored_answer(self, charge: ChargeRow, asked: Asked | None = None) -> tuple[Any, Receipt]:
        """The stored answer of a committed charge, and its receipt.

        ``asked`` is the key and the question for which the charge was found; None if it was asked for by its number.
        """
        anchor = self._anchor.read()  # before the snapshot: another writer may move it on meanwhile
        with self.store.read() as transaction:
            if journal.told_state(transaction, charge) == journal.WITHHELD:
                raise Unavailable(FAILED)
            row = transaction.row("answer_of", charge.id)
            reserved = journal.stored_entry(transaction, charge.id)
            done = transaction.row("entry_at", charge.last_seq)
            keys = self.writer.keys_now(transaction, None if anchor is None else Position(*anchor))
            final = journal.stored_entry(transaction, charge.last_seq)
            if keys:
                self._require_told(transaction, charge.id, final, done)
            if keys and max(charge.id, charge.last_seq) < keys[0].added:
                require_vouched(transaction, self.id, keys, charge.id, reserved, str(final.get("answer_hash")))
            if row is None and self._is_erased(transaction, charge.id):
                raise Refused(f"the answer of ledger entry {charge.id} was erased. Asked again, it is charged again")
            if asked is not None:
                self._require_asked(transaction, charge.id, reserved, asked)
            lines = []
            for account_id, a0, a1 in journal.lines_of(reserved):
                account = self._payer(transaction, account_id)
                lines.append((account.id, account.name, account.filter, a0, a1))
        is_its = (final.get("kind"), final.get("charge")) == ("commit", charge.id)
        if row is None or done is None or not is_its or not is_answer(str(final["answer_hash"]), row[0], row[1]):
            altered = f"the stored answer of ledger entry {charge.id} was altered"
            raise LedgerIntegrity(altered, remedies=[Remedy("verify_ledger")])
        if keys and max(charge.id, charge.last_seq) >= keys[0].added:
            require_signed(self.id, keys, charge, reserved, final)
        receipt = Receipt(
            self.id, charge.id, tuple(lines), reserved["plan_hash"], reserved["request"], final["answer_hash"],
            int(done[0]), str(done[1]), final["at"],
        )  # fmt: skip
        return decode_answer(row[0]), receipt

    def may_see_answers(self, account: Account) -> bool:
        """True if who acts may see the stored answers of an account: in a ledger with roles, by the table of actions.

        >>> import tempfile, tallystick as ts
        >>> with tempfile.TemporaryDirectory() as folder, ts.Ledger(f"{folder}/ledger.db") as ledger:
        ...     ledger.may_see_answers(ledger.open("clinic", budget=ts.zcdp(rho=1), unit="patient"))
        True
        """
        return self.may("replay", account.name)

    def _payer(self, transaction: Transaction, account_id: int) -> AccountRow:
        """An account that paid a stored charge; of a governed ledger as the chain has it."""
        book = self.believed(transaction)
        if book is None:
            return journal.account_row(transaction, account_id)
        if account_id not in book.accounts:
            raise _edited_account(account_id)
        return book.accounts[account_id]

    def _require_asked(self, transaction: Transaction, charge_id: int, entry: dict[str, Any], asked: Asked) -> None:
        """Raise unless the first entry of a charge has the key and the question for which the charge was found."""
        if transaction.row("text_at", charge_id, "key") is None and "space" in entry:
            raise Refused(f"the texts of ledger entry {charge_id} were erased. Asked again, it is charged again")
        book = self.believed(transaction)
        rows = transaction.rows("datasets_stored") if book is None else book.datasets
        sources = journal.sources_alike((DatasetRow(*row) for row in rows), asked.about.source)
        journal.require_asked(transaction, charge_id, entry, asked, sources)

    def _require_told(self, transaction: Transaction, charge_id: int, final: dict[str, Any], done: Row | None) -> None:
        """Refuse an answer that the chain of a governed ledger lacks, or calls erased or withheld. Rows do not count.

        A checkpoint lists no answers. For those before it a signature is enough, unless its key is retired: the thief
        of a key can sign in place of an earlier entry. ``done`` is the row of the last entry of the charge, whose
        position a receipt names.
        """
        book = self.believed(transaction)
        if book is None:
            return
        if charge_id not in book.charges and any(
            key.public == final.get("release_key") and key.retired is not None for key in book.keys_of_writers
        ):
            book = self.believed(transaction, whole=True) or book
        is_known = charge_id in book.charges or charge_id > book.start
        if is_known and book.answers.get(charge_id) != final.get("answer_hash"):
            altered = f"the stored answer of ledger entry {charge_id} is not the one of the chain"
            raise LedgerIntegrity(altered, remedies=[Remedy("verify_ledger")])
        if charge_id in book.distrusted():
            raise governance.signed_by_thief(charge_id)
        if charge_id in book.erased_answers:
            raise Refused(f"the answer of ledger entry {charge_id} was erased. Asked again, it is charged again")
        if any(number == charge_id and row[1] is None for (number, _), row in book.quarantines.items()):
            raise Unavailable(FAILED)
        self.writer.watch.require_position(transaction, done, final)

    def _is_erased(self, transaction: Transaction, charge_id: int) -> bool:
        """True if an entry says that the answer of a charge was erased."""
        bodies = (json.loads(body) for _, _, body in entries(transaction))
        return any(body["kind"] == "erase" and charge_id in body["answers_of"] for body in bodies)

    def has_answer(self, receipt: Receipt, answer: Any) -> bool:
        """True if this is the answer that is stored for the charge of a receipt."""
        with self.store.read() as transaction:
            row = transaction.row("answer_of", receipt.charge)
        body = encode_answer(answer)
        return row is not None and row[0] == body and is_answer(receipt.answer_hash, body, row[1])

    def is_about(self, charge_id: int, *requests: str) -> bool | None:
        """True if a charge was made for one of these request texts; None if its own text was erased."""
        _check_number("charge_id", charge_id, "a charge")
        with self.store.read() as transaction:
            entry = journal.stored_entry(transaction, charge_id)
            if not journal.is_new_format(transaction, charge_id):
                digests = [journal.request_digest(entry["lines"], entry["plan"], text) for text in requests]
                return entry["request"] in digests
            row = transaction.row("text_at", charge_id, "request")
        if row is None:
            return None
        return row[1] in requests and opens(entry["request"], row[0], row[1])

    def told(self, charge: ChargeRow) -> ChargeRow:
        """The charge as it may be shown: in the state CLOSED while its outcome is withheld."""
        with self.store.read() as transaction:
            return charge._replace(state=journal.told_state(transaction, charge))

    def charge_row(self, charge_id: int) -> tuple[ChargeRow, dict[str, Any]]:
        """A charge, as it may be shown, and the entry that reserved it."""
        with self.store.read() as transaction:
            is_number = type(charge_id) is int and 0 < charge_id <= LARGEST
            row = transaction.row("charge_by_id", charge_id) if is_number else None
            if row is None:
                raise InvalidInput("charge", charge_id, "the number of an existing charge")
            charge = ChargeRow(*row)
            state = journal.told_state(transaction, charge)
            return charge._replace(state=state), journal.entry_body(transaction, charge_id)

    def newest_registration(self) -> int:
        """The newest entry that registers or changes a dataset; 0 without one."""
        with self.store.read() as transaction:
            book = self.believed(transaction)
        return max((row.seq for row in book.datasets), default=0) if book is not None else 0

    def can_write(self) -> bool:
        """True if this user may write: the ledger is not governed, or a key of this user may seal."""
        keys = [key.public for key in self.keys() if key.retired is None]
        signer = self.writer.signer
        return not keys or (signer is not None and signer.public in keys)

    @property
    def token(self) -> int | None:
        """The entry of the token by which a principal acts here; None without one."""
        return None if self.acting is None else self.acting.via

    def require_present(self) -> None:
        """Raise ``NotAuthorised`` if who acts has ended, or the token."""
        with self.store.read() as transaction:
            book = self.believed(transaction)
            if book is None or self.acting is None:
                return
            if not acting.is_present(book, self.acting, self.now()):
                raise acting.unknown(self)

    def usable_roles(self, population: str) -> set[str]:
        """The roles that who acts may use on a population: those of the token, if there is one."""
        with self.store.read() as transaction:
            book = self.believed(transaction)
        if book is None or self.acting is None or population not in book.names:
            return set()
        return book.authority.usable_roles(self.acting, book.population(book.names[population]))

    def charges_on(self, population: str) -> list[int]:
        """The charges that a population pays for."""
        number = self.account_row(population).id
        with self.store.read() as transaction:
            book = self.believed(transaction)
        payers = {} if book is None else book.payers
        return [charge for charge, populations in payers.items() if number in populations]

    def running_of(self, principal: str, token: int | None) -> list[int]:
        """Return the charges that a principal began with a token and that have not ended."""
        found = []
        with self.store.read() as transaction:
            for (number,) in transaction.rows("charges_running"):
                by = journal.entry_body(transaction, number).get("act")
                if by is not None and list(by[:2]) == [principal, token]:
                    found.append(number)
        return found

    def end_abandoned(self, charge_id: int) -> str:
        """Burn a charge that runs although its process is gone; return its state. Its data are closed."""
        with self.store.read() as transaction:
            row = transaction.row("charge_by_id", charge_id)
        if row is None:
            raise InvalidInput("charge", charge_id, "the number of an existing charge")
        charge = ChargeRow(*row)
        if charge.state != "EXECUTING":
            return charge.state
        holder = self.acting_for(charge.principal)
        with holder.write("burn") as transaction:
            journal.burn(transaction, charge, self.now(), why="error", principal=charge.principal)
        return "BURNED"

    def log_failure(self, line: str) -> None:
        """Tell the operator of a failure: in the log of the service, or else in that of the store."""
        (self.failure_log or self.store.log_failure)(line)

    def sees(self, population: str) -> bool:
        """True if who acts may see a population, or an account of one.

        Only a principal of a service can be refused.

        >>> import tempfile, tallystick as ts
        >>> with tempfile.TemporaryDirectory() as folder, ts.Ledger(f"{folder}/ledger.db") as ledger:
        ...     ledger.sees("clinic")
        True
        """
        if not self.is_served or self.acting is None or not self.has_roles:
            return True
        with self.store.read() as transaction:
            book = self.believed(transaction)
        number = None if book is None else book.names.get(population)
        if book is None or number is None:
            return False
        return self._sees_account(book, book.accounts[number])

    def may(self, action: str, population: str | None) -> bool:
        """True if who acts may do something on a population, or with None on the ledger, without a request."""
        with self.store.read() as transaction:
            book = self.believed(transaction)
        if book is None or book.authority.since is None:
            return True
        return acting.may(book, self.acting or Act(self.actor), action, population)

    def population_of(self, account: str) -> str:
        """Return the name of the account at the top of an account."""
        path = self._account(self.account_row(account)).path
        return self.account_by_id(path[-1][0]).name

    def refresh(self) -> None:
        """Read the entries that others have written since: ``has_roles`` and ``may`` then know them."""
        with self.store.read() as transaction:
            self.believed(transaction)

    def recover(self) -> tuple[int, int]:
        """Refund reservations and burn executions whose lease ran out; returns (refunded, burned)."""
        if self.captured is not None:
            return 0, 0
        with self.store.read() as transaction:
            if not transaction.rows("charges_expired", self.now()):
                return 0, 0
        with self.write("recover") as transaction:
            return journal.sweep(transaction, self.now(), self.principal)

    # -- who may write, and what can be erased

    @property
    def team(self) -> Team:
        """Roles, tokens, allowances and requests of a ledger whose owner began roles."""
        return Team(self)

    def govern(self, *, why: str, signer: Signer | None = None, dry_run: bool = False) -> int:
        """Let only holders of a key write from now on; return the number of the entry that says so.

        Every later transaction is sealed, and every answer is signed. The first key is that of this user, which is in
        the file ``signing_key`` of the configuration. Every user who can read that file can write to the ledger.

        >>> import tempfile, tallystick as ts
        >>> with tempfile.TemporaryDirectory() as folder, ts.Ledger(f"{folder}/ledger.db", config=folder) as ledger:
        ...     entry = ledger.govern(why="a team uses it")
        ...     entry, ledger.keys()[0].public == ledger.signer().public
        (2, True)
        """
        return governance.govern(self, signer or self.signer(), why=why, dry_run=dry_run)

    def add_key(self, public: str, *, why: str, dry_run: bool = False) -> int:
        """Let the holder of another key write, too; return the number of the entry."""
        return governance.change_keys(self, "key_add", public, why=why, dry_run=dry_run)

    def retire_key(self, public: str, *, why: str, distrusted_from: int | None = None, dry_run: bool = False) -> int:
        """Stop accepting a key. If it was stolen, ``distrusted_from`` is the first entry that may not be its owner's.

        ``verify`` then lists the answers from that entry on that the key signed: ask those questions again.
        """
        return governance.change_keys(
            self, "key_retire", public, why=why, distrusted_from=distrusted_from, dry_run=dry_run
        )

    def keys(self) -> list[WriterKey]:
        """The keys that may or might write to this ledger; empty if it is not governed."""
        anchor = self._anchor.read()
        with self.store.read() as transaction:
            return list(self.writer.keys_now(transaction, None if anchor is None else Position(*anchor)))

    def reason_of(self, entry: int) -> str:
        """The reason of an entry: ``(erased)`` after an erasure, and empty if entries of this kind do not have one.

        >>> import tempfile, tallystick as ts
        >>> with tempfile.TemporaryDirectory() as folder, ts.Ledger(f"{folder}/ledger.db") as ledger:
        ...     ledger.reason_of(ledger.govern(why="a team uses it"))
        'a team uses it'
        """
        with self.store.read() as transaction:
            return str(journal.entry_body(transaction, entry).get("why", ""))

    def erase(self, *entries: int, why: str, answers: bool = False, dry_run: bool = False) -> Erased:
        """Remove the texts of these entries: reasons, keys and questions. ``answers`` removes answers as well.

        Amounts, losses, sources and closings stay, and the chain verifies as before. A question whose texts are erased
        costs again. ``purge`` then removes what the files still hold.

        >>> import tempfile, tallystick as ts
        >>> with tempfile.TemporaryDirectory() as folder, ts.Ledger(f"{folder}/ledger.db") as ledger:
        ...     clinic = ledger.open("clinic", budget=ts.zcdp(rho=1), unit="patient")
        ...     receipt = clinic.pay(ts.zcdp(rho=0.1), why="about Mrs Miller")
        ...     _ = ledger.erase(receipt.charge, why="she asked for it")
        ...     clinic.history()[0].why, ledger.verify().intact
        ('(erased)', True)
        """
        return erasure.erase(self, entries, answers=answers, why=why, dry_run=dry_run)

    def purge(self) -> None:
        """Rewrite the files of the ledger, so that erased texts are gone from them.

        Copies elsewhere are not reached: backups, archives of the write-ahead log, exports, cards and receipts.
        """
        self.store.purge()

    def verify(self, *, receipts: Sequence[Receipt] = (), full: bool = True) -> Report:
        """Recompute the chain, the totals and every row; see ``verify.Report``.

        ``full=False`` begins at the newest checkpoint (``make_checkpoint``), so it takes the time of what is new.
        """
        return verify(self, receipts=tuple(receipts), full=full)

    def make_checkpoint(self) -> Report:
        """Check everything, and store the state with the signature of this user: ``verify`` can begin there."""
        return make_checkpoint(self, self.signer())

    def trusted_keys(self) -> set[str]:
        """The keys whose checkpoints this user believes: those of a governed ledger, else the user's own."""
        keys = {key.public for key in self.keys() if key.retired is None}
        own = self.writer.signer
        return keys or (set() if own is None else {own.public})

    def underpriced(self) -> list[str]:
        """Charges that paid less than their plans cost by today's accountant; that is not what ``verify`` looks for."""
        from tallystick.ledger.pricing import underpriced

        return underpriced(self)

    def export(self, *, signer: Signer | None = None, level: str = ANSWERS, withheld: bool = False) -> Iterator[str]:
        """The ledger as JSON lines, ending in a signed checkpoint.

        ``level`` says how much it holds: ``chain`` (no texts and no answers), ``record`` (with texts) or ``answers``
        (everything; this one can be imported). While data are closed after a failure, only ``withheld=True`` exports:
        the entries tell which releases failed, so such an export is for the owner.
        """
        return export_lines(self, signer=signer or self.signer(), level=level, withheld=withheld)

    def signer(self) -> Signer:
        """The key of this user."""
        signer = Signer.of_user(self._config)
        self.writer.signer = self.writer.signer or signer
        return signer

    def close(self) -> None:
        """Let go of the store."""
        self._anchor.close()
        self.store.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        with self.store.read() as transaction:
            return f"<Ledger {self.id[:8]} at entry {journal.head(transaction).seq}>"

    def _repr_html_(self) -> str:
        return views.ledger_html(self)


_CHANGING: Final = AccountRow._fields.index("limit0")
"""The first column of an account that can change; those before it are fixed when it is opened."""


def _is_known(one: object, two: object) -> bool:
    """True for one object, and for two equal plain texts. Equal numbers can be written in two ways."""
    return one is two or (type(one) is type(two) is str and one == two)


def _edited_account(number: int) -> LedgerIntegrity:
    """The error for an account whose row differs from the chain."""
    altered = f"account {number} differs from the chain: the table was edited"
    return LedgerIntegrity(altered, remedies=[Remedy("verify_ledger")])


def _check_number(argument: str, number: object, of: str) -> None:
    if type(number) is not int or not 0 < number <= LARGEST:
        raise InvalidInput(argument, number, f"the number of {of}")


def _folder(config: object) -> Path | None:
    """Return the folder of this user's state that a caller named, or None for the default."""
    if config is None:
        return None
    if not isinstance(config, str | Path) or not str(config):
        raise InvalidInput("config", type(config).__name__, "a folder")
    return Path(config)


def import_ledger(
    lines: Iterable[str],
    place: Place | Path | str,
    *,
    config: Path | str | None = None,
    by: str | None = None,
    expect_head: str | None = None,
    first_use: str | None = None,
    older: str | None = None,
) -> Ledger:
    """Replay an export into a new place and open it there.

    A chain that this host has not seen needs ``expect_head`` or ``first_use`` (see ``Ledger``). Without either, the
    imported ledger can be read, and its first write is refused. So it is for a second copy in a database that holds the
    ledger already. A chain that lacks entries which this host has seen needs ``older``.
    """
    first_write.check_arguments(expect_head, first_use, older)
    store = open_store(place, create=True, probe=None)
    try:
        import_lines(lines, store, config=_folder(config), by=by, expect_head=expect_head, is_older=older is not None)
    finally:
        store.close()
    is_read = expect_head is None and first_use is None and older is None
    return Ledger(
        place,
        create=False,
        config=config,
        expect_head=expect_head,
        first_use=first_use,
        older=older,
        inspect=is_read,
    )


def place_of(given: str | None) -> Place:
    """The ledger that is meant: the one given, else ``$TALLYSTICK_LEDGER``, else ``./tallystick.db``.

    >>> place_of("team.db")
    Place('team.db')
    """
    return _checked_place(given or os.environ.get("TALLYSTICK_LEDGER") or "tallystick.db")


def opened(
    given: str | None,
    *,
    create: bool = False,
    expect_head: str | None = None,
    first_use: str | None = None,
    older: str | None = None,
    inspect: bool = False,
) -> Ledger:
    """The ledger that is meant; it must exist unless ``create``."""
    return Ledger(
        place_of(given), create=create, expect_head=expect_head, first_use=first_use, older=older, inspect=inspect
    )


def opened_if_there(given: str | None) -> Ledger | None:
    """The ledger that is meant, or ``None`` if nothing is at its place yet.

    Anything else at the place is an error: a folder, a pipe, a schema without a ledger, a place that is malformed. So
    is an empty place at which this host knows a ledger. Without the ledger no registered data could be recognised.
    """
    place = place_of(given)
    try:
        return Ledger(place, create=False)
    except InvalidInput as problem:
        if problem.code != "no_ledger":
            raise
        return None  # what needs a ledger opens it for good, and says so


def open_store(place: Place | Path | str, *, create: bool, probe: Probe | None) -> Store:
    """The store a place names: a PostgreSQL database, or else a file."""
    found = _checked_place(place)
    if found.path is None:
        from tallystick.ledger.postgres import PostgresStore

        return PostgresStore(found, create=create, probe=probe)
    from tallystick.ledger.sqlite import SqliteStore

    return SqliteStore(found.path, create=create, probe=probe)


def _checked_place(given: Place | Path | str) -> Place:
    """The place of a ledger; refused if it can hold none."""
    place = Place.of(given)
    text = str(given)
    if place.path is None:
        return place
    printable = text.encode(errors="replace").decode()
    if is_foreign_url(text) or "\0" in text or not text or printable != text:
        raise InvalidInput("ledger", shown(printable), "a file path in UTF-8 or a postgresql:// URL")
    if text == ":memory:":  # SQLite's word for a database that is gone with its process; here it would name a file
        raise InvalidInput("ledger", text, "a file path: a record that ends with its process records nothing")
    return place
