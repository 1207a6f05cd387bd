"""Who may write: keys, seals, and a writer that replays the chain itself.

A ledger is governed from the entry ``govern`` on. Then every transaction ends with a seal, an Ed25519 signature over
the ledger, the newest entry and its hash. Every answer is signed as well. A writer stops if the newest entry has no
valid seal, or if a total differs from what the chain gives: then the store was changed without the key.

Every later entry names the newest entry about keys in its field ``governed``, and that entry names the one before. So
the keys are found from the newest entry alone, without a table that could be edited.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from tallystick.errors import InvalidInput, LedgerIntegrity, Refused, Remedy
from tallystick.ledger import checkpoints, journal
from tallystick.ledger.chain import GENESIS, canonical, check_reason, digest, fields_of, link
from tallystick.ledger.filters import LARGEST
from tallystick.ledger.journal import ChargeRow, Position
from tallystick.ledger.replay import GOVERNED, Book, Broken, WriterKey, may_sign
from tallystick.ledger.retirement import RETIRED_START, facts_by_name, name_among
from tallystick.ledger.retirement import retired as refusal_of_retired
from tallystick.ledger.signing import Signer, verified
from tallystick.ledger.texts import committed, opens

if TYPE_CHECKING:
    from tallystick.ledger.book import Ledger
    from tallystick.ledger.registry import DatasetRow
    from tallystick.ledger.store import Row, Transaction


def seal_terms(ledger: str, position: Position) -> dict[str, object]:
    """Terms that a seal signs: the ledger, the number of its newest entry and the hash."""
    return {"ledger": ledger, "seq": position.seq, "hash": position.hash}


def keys_of(transaction: Transaction, ledger: str, newest: int | None, last: Position) -> list[WriterKey]:
    """The keys of a governed ledger, found from the newest entry about keys back to the first.

    Each of these entries has the hash that its seal signs, and the seal is by a key that was valid before it. That is
    not enough: the first key seals its own entry, and a key that was retired has sealed earlier ones. So the last entry
    of the chain must continue all of them.
    """
    changes = []
    while newest is not None:
        entry = journal.stored_entry(transaction, newest)
        if entry.get("kind") not in ("govern", "key_add", "key_retire"):
            raise _altered(f"entry {newest} is not about keys")
        changes.append((newest, entry, _position(transaction, newest)))
        before = entry.get(GOVERNED)
        if before is not None and before >= newest:
            raise _altered(f"entry {newest} names a later entry about keys")
        newest = before
    keys: list[WriterKey] = []
    for seq, entry, position in reversed(changes):
        before = keys
        if (entry["kind"] == "govern") != (not keys):
            raise _altered(f"entry {seq} begins governance twice, or too late")
        if entry["kind"] == "key_retire":
            retired = {"retired": seq, "distrusted_from": entry["distrusted_from"]}
            keys = [key._replace(**retired) if key.public == entry["public"] else key for key in keys]
        else:
            keys = [*keys, WriterKey(entry["public"], seq)]
        if journal.linked_entry(transaction, position) != entry:
            raise _altered(f"entry {seq} about keys is answered in two ways")
        require_seal(transaction, ledger, position, before or keys)
    positions = [position for _, _, position in reversed(changes)]
    for before_it, position in pairwise([*positions, last]):
        require_chain(transaction, before_it, position)
    return keys


def _position(transaction: Transaction, seq: int) -> Position:
    """The position of an entry with the hash that is stored for it."""
    row = transaction.row("entry_at", seq)
    if row is None:
        raise _altered(f"entry {seq} is missing")
    return Position(int(row[0]), str(row[1]))


def require_chain(transaction: Transaction, first: Position, last: Position) -> None:
    """Raise ``LedgerIntegrity`` unless the entries after the first one lead to the last one, by their hashes.

    Hashes are computed from the bodies alone, and numbers are counted. So the first entry is an ancestor of the last
    one, and has its number.
    """
    found = first
    while found.seq < last.seq:
        rows = transaction.rows("entries_after", found.seq, min(BATCH, last.seq - found.seq))
        for seq, _, body in rows:
            if seq != found.seq + 1:
                raise _altered(f"entry {found.seq + 1} is missing")
            found = Position(found.seq + 1, link(found.hash, str(body)))
        if not rows:
            break
    if found != last:
        raise _altered(f"entry {last.seq} does not continue the chain of entry {first.seq}: an entry was exchanged")


def require_known(keys: Sequence[WriterKey], known: int | None) -> None:
    """Raise ``LedgerIntegrity`` unless these keys go on from an entry about keys that this host has seen."""
    changes = {number for key in keys for number in (key.added, key.retired)}
    if known is not None and known not in changes:
        raise _altered(f"the newest entry does not follow entry {known}, which said who may write. No seal covers it")


def govern(ledger: Ledger, signer: Signer, *, why: str, dry_run: bool = False) -> int:
    """Begin governance with this key; return the number of the entry. It vouches for every answer stored so far.

    The answers are unsigned, because no key was there. So their hashes are compared with the chain first.
    """
    check_reason(why)
    ledger.verify().require()
    with ledger.write("govern", dry_run=dry_run) as transaction:
        if ledger.writer.newest[2] is not None:
            raise Refused("this ledger is governed already. Nothing was changed")
        vouched = [_answer_hash(transaction, int(number)) for (number,) in transaction.rows("answer_ids", 0)]
        position = journal.append(
            transaction, "govern", ledger.now(),
            principal=ledger.principal, why=committed(why), public=signer.public, vouched=vouched,
        )  # fmt: skip
        _seal_as(transaction, position, signer)
    if not dry_run:
        ledger.writer.signer = signer
    return position.seq


def _answer_hash(transaction: Transaction, charge: int) -> list[Any]:
    """A charge, the SHA-256 of its first entry, and the hash of its answer in the chain."""
    row = ChargeRow(*(transaction.row("charge_by_id", charge) or ()))
    answer_hash = journal.stored_entry(transaction, row.last_seq)["answer_hash"]
    return [charge, _body_digest(transaction, charge), answer_hash]


def _body_digest(transaction: Transaction, seq: int) -> str:
    """SHA-256 of the body of an entry as it is stored."""
    row = transaction.row("entry_at", seq)
    return digest(str(row[2])) if row is not None else ""


def change_keys(
    ledger: Ledger, kind: str, public: str, *, why: str, distrusted_from: int | None = None, dry_run: bool = False
) -> int:
    """Append ``key_add`` or ``key_retire``; return the number of the entry."""
    check_reason(why)
    if not isinstance(public, str) or not _PUBLIC.fullmatch(public):
        raise InvalidInput("public", public, "a public key: 64 digits of 0-9 and a-f")
    more = {} if kind == "key_add" else {"distrusted_from": distrusted_from}
    with ledger.write(kind, dry_run=dry_run) as transaction:
        turn = transaction.turn
        if turn.governed is None:
            raise Refused("this ledger is not governed, so it has no keys. Govern it first")
        keys = ledger.writer.keys_at(transaction, turn.governed, turn.first)
        _check_change(keys, kind, public, turn.first.seq + 1, distrusted_from)
        position = journal.append(
            transaction, kind, ledger.now(), principal=ledger.principal, why=committed(why), public=public, **more
        )
        turn.governed = position.seq
    return position.seq


def _check_change(keys: list[WriterKey], kind: str, public: str, seq: int, distrusted_from: int | None) -> None:
    """Refuse a key that is added or retired twice, and the retirement of the last one."""
    known = [key for key in keys if key.public == public]
    if kind == "key_add":
        if known:
            raise InvalidInput("public", public, "a key that this ledger never had: make a new one")
        return
    if not known or known[0].retired is not None:
        raise InvalidInput("public", public, "a key of this ledger that is not retired")
    if len([key for key in keys if key.retired is None]) < 2:
        raise Refused("this is the last key of the ledger. Add another one first")
    if distrusted_from is not None and not known[0].added <= distrusted_from <= seq:
        raise InvalidInput("distrusted_from", distrusted_from, f"an entry from {known[0].added} to {seq}")


START: Final = Position(0, GENESIS)
"""The position before the first entry."""
BATCH: Final = 1000
"""Entries that are read at once."""
_PUBLIC: Final = re.compile("[0-9a-f]{64}")


def _seal_as(transaction: Transaction, position: Position, signer: Signer) -> None:
    """Let the turn that begins governance end with a seal."""
    turn = transaction.turn
    turn.governed, turn.signer = position.seq, signer


def require_seal(
    transaction: Transaction,
    ledger: str,
    position: Position,
    keys: Sequence[WriterKey],
    check: Callable[[object, str, str], bool] = verified,
) -> None:
    """Raise ``LedgerIntegrity`` unless the entry has a seal by a key that may write there."""
    row = transaction.row("seal_at", position.seq)
    terms = seal_terms(ledger, position)
    if row is None or not may_sign(keys, row[0], position.seq) or not check(terms, row[0], row[1]):
        raise LedgerIntegrity(
            f"entry {position.seq} has no valid seal: it was written without a key of this ledger. Nothing is written "
            "until its owner has found out who wrote it",
            code="no_seal",
            remedies=[Remedy("verify_ledger")],
        )


def require_vouched(
    transaction: Transaction, ledger: str, keys: list[WriterKey], charge: int, begun: dict[str, Any], answer_hash: str
) -> None:
    """Raise ``LedgerIntegrity`` unless the owner vouched for an answer from before governance, and its first entry."""
    position = _position(transaction, keys[0].added)
    vouched = journal.linked_entry(transaction, position).get("vouched", ())
    require_seal(transaction, ledger, position, keys)
    if [charge, digest(canonical(begun)), answer_hash] not in vouched:
        raise _altered(
            f"the answer of ledger entry {charge} is from before governance, and its owner does not vouch for it"
        )


def require_signed(
    ledger: str, keys: Sequence[WriterKey], charge: ChargeRow, begun: dict[str, Any], done: dict[str, Any]
) -> None:
    """Raise ``LedgerIntegrity`` unless the last entry of a charge signs its answer. ``begun`` is its first entry."""
    terms = journal.answer_terms(ledger, charge.id, charge.fence, begun, str(done.get("answer_hash")))
    public, signature = str(done.get("release_key")), str(done.get("signature"))
    at = max(charge.id, charge.last_seq)  # the number of the charge is signed, and the other one is not
    is_signed = may_sign(keys, public, at) and verified(terms, public, signature)
    stolen = [key.distrusted_from for key in keys if key.public == public and key.distrusted_from is not None]
    if stolen and charge.last_seq >= stolen[0]:
        raise signed_by_thief(charge.id)
    if not is_signed or digest(begun["plan"]) != begun["plan_hash"]:
        raise _altered(f"the stored answer of ledger entry {charge.id} has no valid signature")


def signed_by_thief(charge: int) -> Refused:
    """The refusal of an answer that a stolen key signed."""
    return Refused(
        f"the answer of ledger entry {charge} was signed by a key that was stolen. Ask again under a new key",
        remedies=[Remedy("set_argument", argument="key", value="NEW")],
    )


def read_only() -> Refused:
    """The refusal of a writer that has no key of a governed ledger."""
    return Refused(
        "This ledger is governed: only a holder of one of its keys can write to it. You can read it, verify it and "
        "export it. Nothing was charged",
        code="governed_ledger",
    )


def _altered(problem: str) -> LedgerIntegrity:
    return LedgerIntegrity(problem, remedies=[Remedy("verify_ledger")])


@dataclass(slots=True)
class Watch:
    """The state that the chain gives, replayed by the writer of a governed ledger.

    The tables are faster to read, but every user of the store who may write can edit them. So before a transaction is
    sealed, the accounts that it touched are compared with this state.
    """

    book: Book = field(default_factory=Book)
    position: Position = START
    notes: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Salts and texts that were found to open a commitment."""
    ancestors: set[Position] = field(default_factory=set)
    """Earlier positions that were found to lead to this one."""

    def follow(self, transaction: Transaction, ledger: str, trusted: set[str], sealed: int) -> None:
        """Replay the entries that are new since the last call.

        Up to the entry ``sealed`` a seal was checked, which covers all entries before it. Signatures after it are
        checked here: those of the writer itself, who must not sign what an edited entry says.
        """
        rows = self._new_entries(transaction)
        if rows is None:
            self.forget()  # a transaction of ours was not committed
        if not self.position.seq:
            self.book, self.position = checkpoints.newest(transaction, ledger, trusted) or (Book(), START)
            rows = self._new_entries(transaction)
        self.book.signed_from = sealed + 1
        self._replay(transaction, rows)

    def read_ahead(self, transaction: Transaction) -> None:
        """Replay what others wrote, before a turn: the turn is shorter then.

        No seal was checked. The turn checks that of the newest entry, and ``follow`` that this position is still in
        the chain. So that seal covers what was replayed here.
        """
        if self.position != START:
            self.book.signed_from = LARGEST
            self._replay(transaction, self._new_entries(transaction))

    def follow_own(self, transaction: Transaction, turn: journal.Turn) -> bool:
        """Apply the entries of a turn as they were made. False if they cannot be: then ``follow`` reads them.

        The chain up to the turn was replayed, and its newest entry was sealed or its seal was checked. No other
        writer has a turn meanwhile. The rows must be those that were made, so their hashes and their form are known.
        What their signatures cover came from this state, or from the turn itself.
        """
        is_replayed = bool(self.position.seq) and self.position == turn.first
        if not is_replayed:
            return False
        rows = transaction.rows("entries_after", turn.first.seq - 1, BATCH)
        is_there = bool(rows) and rows[0][:2] == turn.first
        if not is_there or rows[1:] != [each.row for each in turn.written]:
            return False
        self.book.signed_from = LARGEST
        for each in turn.written:
            if each.before != self.position:
                self.forget()
                raise _altered(f"entry {each.position.seq} does not follow the newest entry")
            self._apply(*each.row, each.plain)
        return True

    def _replay(self, transaction: Transaction, rows: list[Row] | None) -> None:
        """Apply these entries and all after them."""
        while rows:
            for seq, stored, body in rows:
                self._apply(int(seq), str(stored), str(body))
            rows = self._new_entries(transaction) if len(rows) > 1 else None

    def _new_entries(self, transaction: Transaction) -> list[Row] | None:
        """The next entries after the position. None if the chain does not have the position, so it is not ours."""
        first = max(self.position.seq, 1)
        rows = transaction.rows("entries_after", first - 1, BATCH)
        if self.position == START:
            return rows
        is_there = bool(rows) and (rows[0][0], rows[0][1]) == self.position
        return rows[1:] if is_there else None

    def require_end(self, newest: Position) -> None:
        """Raise ``LedgerIntegrity`` unless the replay ended at the entry whose seal was checked or is made."""
        if self.position != newest:
            self.forget()
            raise _altered(f"the entries do not end at entry {newest.seq}: the store answers in two ways")

    def forget(self) -> None:
        """Begin again with the next turn."""
        self.book, self.position = Book(), START
        self.ancestors.clear()

    def _apply(self, seq: int, stored: str, body: str, made: dict[str, Any] | None = None) -> None:
        """Apply one entry. ``made`` are its fields if this turn made it."""
        try:
            entry = self._read(seq, stored, body) if made is None else made
            self.book.apply(seq, body, entry)
            self.position = Position(seq, stored)
        except (Broken, Refused, ValueError, RecursionError) as problem:
            self.forget()
            raise _altered(str(problem)) from None
        except BaseException:
            self.forget()  # interrupted: half of the entry may be in the book
            raise

    def _read(self, seq: int, stored: str, body: str) -> dict[str, Any]:
        """The fields of the next entry."""
        if seq != self.position.seq + 1 or link(self.position.hash, body) != stored:
            raise Broken(f"entry {seq} does not have its hash: it or an earlier entry was altered")
        entry = fields_of(seq, body)
        if seq >= self.book.signed_from and canonical(entry) != body:
            raise Broken(f"entry {seq} is not canonical JSON")
        return entry

    def require_entries(self, transaction: Transaction) -> None:
        """Raise ``LedgerIntegrity`` if the entry of a registration was altered. Marks of data are in entries alone."""
        self._entries(transaction)

    def _entries(self, transaction: Transaction) -> list[tuple[str, str | None, str]]:
        """The name, the source and the entry of each registration, as they are in the chain."""
        found = []
        for row in self.book.datasets:
            _, _, body = transaction.row("entry_at", row.seq) or (0, "", "")
            if digest(str(body)) != self.book.digests.get(row.seq):
                self.forget()
                raise _altered(f"the registration of {row.name!r} was altered in entry {row.seq}")
            found.append((row.name, row.source, str(body)))
        return found

    def require_tables(self, transaction: Transaction) -> None:
        """Raise ``LedgerIntegrity`` if a registration, or an account that moved since the last call, differs from the
        chain. The first call compares every account.
        """
        changed = self.book.accounts.changed
        for number in sorted(changed):
            row = transaction.row("account_by_id", number)
            if row is None or tuple(row) != tuple(self.book.accounts[number]):
                self.forget()
                raise _altered(f"the totals of account {number} differ from the chain: the table was edited")
        changed.clear()
        self.require_registrations(transaction)

    def require_open(self, transaction: Transaction, charges: Sequence[int], beside: set[str]) -> None:
        """Raise if a charge that begins or starts in this turn is about data that are retired.

        Notes and marks say so, which are not in the state. So only texts that were compared with the chain count.
        ``beside`` are the other sources that the charges read.
        """
        retired = {row.name for row in self.book.datasets if self._note(row).startswith(RETIRED_START)}
        own = [self.book.sources.get(number) for number in charges]
        sources = beside.union(source for source in own if source is not None)
        if retired and sources:
            known = facts_by_name(self._entries(transaction))
            for source in sorted(sources):
                name = name_among(retired, known, [source])
                if name is not None:
                    raise refusal_of_retired(name)

    def require_position(self, transaction: Transaction, row: Row | None, entry: dict[str, Any]) -> None:
        """Raise ``LedgerIntegrity`` unless an entry leads to the replayed end, with the number and hash of its row.

        A receipt names both, and the time in the entry. A host that opens the ledger for the first time believes the
        hash.
        """
        if row is None:
            raise _altered("an entry is missing")
        found = Position(int(row[0]), str(row[1]))
        if found not in self.ancestors:
            require_chain(transaction, found, self.position)
            self.ancestors.add(found)
        if journal.linked_entry(transaction, found) != entry:
            raise _altered(f"entry {found.seq} is answered in two ways")

    def require_read(self, rows: Sequence[DatasetRow], bodies: Mapping[int, Any]) -> None:
        """Raise ``LedgerIntegrity`` unless these registrations, with notes and entries, are those of the chain."""
        known = [row._replace(note=self._note(row)) for row in self.book.datasets]
        are_true = all(digest(canonical(bodies.get(row.seq))) == self.book.digests.get(row.seq) for row in known)
        if list(rows) != known or not are_true:
            raise _altered("the registrations that were read differ from the chain: the table was edited")

    def _note(self, row: DatasetRow) -> str:
        """The note of a registration that was compared with the chain."""
        is_committed = self.book.since is not None and row.seq >= self.book.since
        return self.notes[row.note][1] if is_committed else row.note

    def require_registrations(self, transaction: Transaction) -> None:
        """Raise ``LedgerIntegrity`` if a registration or its note differs from the chain."""
        problem = self._edited_registration(transaction)
        if problem is not None:
            self.forget()
            raise _altered(f"the registration of {problem!r} differs from the chain: the table was edited")

    def _edited_registration(self, transaction: Transaction) -> str | None:
        """The name of a dataset whose row or note differs from the chain. Units, bounds and ends are in notes."""
        known = self.book.datasets
        stored = transaction.rows("registrations")
        rows = [tuple(row[:-2]) for row in stored]
        if rows != known:  # a row of the book is a tuple of the same columns
            return next((row.name for row in known if tuple(row) not in rows), "a dataset")
        first = self.book.since or LARGEST
        for row, (*_, salt, body) in zip(known, stored, strict=True):
            if row.seq >= first and not self._is_note(row.note, salt, body):
                return row.name
        return None

    def _is_note(self, commitment: str, salt: str | None, body: str | None) -> bool:
        """True if this is the note of the commitment. One that was found to be so is compared as a text."""
        if salt is None or body is None:
            return False
        if self.notes.get(commitment) != (salt, body):
            if not opens(commitment, salt, body):
                return False
            self.notes[commitment] = salt, body
        return True


@dataclass(slots=True)
class Writer:
    """The writer of one open ledger: it notes its turn, and seals what was written."""

    ledger: str
    signer: Signer | None = None
    watch: Watch = field(default_factory=Watch)
    sealed: Position | None = None
    """The newest entry that this writer sealed or checked."""
    keys: tuple[int | None, list[WriterKey]] = (None, [])
    """The newest entry about keys, and the keys up to it."""
    actors: dict[str, str] = field(default_factory=dict)
    """Ids of the users who acted in this process, by their names."""
    newest: tuple[str, int, int | None] = ("", 0, None)
    """Hash, time and governing entry of the newest entry that was looked at."""
    has_roles: bool = False
    """True once a turn has begun after an entry that began roles. It stays true while the chain is replayed again."""

    def read_ahead(self, transaction: Transaction) -> None:
        """Replay what others wrote, while one of them has its turn. What is wrong with it is said in our turn."""
        if self.signer is not None and self.newest[2] is not None:
            with contextlib.suppress(LedgerIntegrity):
                self.watch.read_ahead(transaction)

    def begin(self, transaction: Transaction, newest: Position, anchor: Position | None) -> journal.Turn:
        """Note the start of a turn; refuse a governed ledger whose newest entry is not sealed."""
        _, at, governed = self._looked_at(transaction, newest)
        if self.watch.position == newest and self.watch.book.authority.since is not None:
            self.has_roles = True
        turn = journal.Turn(newest, at, self.ledger, governed)
        if anchor is not None and anchor != newest:
            self.require_known(transaction, newest, governed, anchor)
        if governed is not None:
            keys = self.keys_at(transaction, governed, newest)
            if self.signer is None or not may_sign(keys, self.signer.public, newest.seq + 1):
                raise read_only()
            if self.sealed != newest:
                require_seal(transaction, self.ledger, newest, keys, self.signer.made)
                self.sealed = newest
            turn.signer = self.signer
        return turn

    def _looked_at(self, transaction: Transaction, newest: Position) -> tuple[str, int, int | None]:
        """Hash, time and governing entry of the newest entry, remembered until there is a newer one."""
        if self.newest[0] != newest.hash:
            body = journal.linked_entry(transaction, newest)
            self.newest = newest.hash, int(body["at"]), pointer_of(newest.seq, body)
        return self.newest

    def require_known(self, transaction: Transaction, newest: Position, governed: int | None, anchor: Position) -> None:
        """Raise ``LedgerIntegrity`` unless the newest entry continues the entry that this host has seen.

        Its hash is not enough. The holder of a key that was retired since can make an earlier entry go on elsewhere.
        """
        known = pointer_of(anchor.seq, journal.linked_entry(transaction, anchor))
        require_known(self.keys_at(transaction, governed, newest), known)
        if governed is not None:
            require_chain(transaction, anchor, newest)

    def keys_at(self, transaction: Transaction, governed: int | None, newest: Position) -> list[WriterKey]:
        """The keys of the ledger, remembered until they change."""
        if self.keys[0] != governed:
            self.keys = governed, keys_of(transaction, self.ledger, governed, newest)
        return self.keys[1]

    def require_keys(self, keys: list[WriterKey]) -> None:
        """Raise ``LedgerIntegrity`` unless the replayed chain has these keys. They are remembered by a number alone."""
        if keys != self.watch.book.keys_of_writers:
            self.keys = None, []
            self.watch.forget()
            raise _altered("the keys that were read differ from the chain: an entry about keys was exchanged")

    def keys_now(
        self, transaction: Transaction, anchor: Position | None, newest: Position | None = None
    ) -> list[WriterKey]:
        """The keys of the ledger by its newest entry, which must go on from the one that this host has seen.

        A host without an anchor has seen what this process has read.
        """
        newest, anchor = newest or journal.head(transaction), anchor or self.sealed
        _, _, governed = self._looked_at(transaction, newest)
        if anchor is not None and anchor != newest:
            self.require_known(transaction, newest, governed, anchor)
        return self.keys_at(transaction, governed, newest)

    def book_now(
        self, transaction: Transaction, anchor: Position | None, newest: Position, *, whole: bool = False
    ) -> Book | None:
        """The state that the hashed chain gives, if the ledger is governed: what a reader may believe.

        With ``whole`` it is replayed from the first entry, also if a checkpoint is there.
        """
        if self.sealed == self.watch.position == newest == anchor and (not whole or not self.watch.book.start):
            return self.watch.book  # nothing is new
        keys = self.keys_now(transaction, anchor, newest)
        if not keys:
            return None
        if self.sealed != newest:
            require_seal(transaction, self.ledger, newest, keys)
            self.sealed = newest
        if whole:
            self.watch = Watch()
        trusted = {key.public for key in keys if key.retired is None and not whole}
        self.watch.follow(transaction, self.ledger, trusted, newest.seq)
        self.watch.require_end(newest)
        self.require_keys(keys)
        return self.watch.book

    def book_to_write(self, transaction: Transaction) -> Book | None:
        """The state before the first entry of a turn, whose seal ``begin`` checked. None in an ungoverned ledger."""
        turn = transaction.turn
        if turn.governed is None:
            return None
        keys = self.keys_at(transaction, turn.governed, turn.first)
        if self.watch.position != turn.first:  # else all up to the newest entry of this transaction was replayed
            trusted = {key.public for key in keys if key.retired is None}
            self.watch.follow(transaction, self.ledger, trusted, (turn.sealed or turn.first).seq)
        self.watch.require_end(turn.first)
        self.require_keys(keys)
        return self.watch.book

    def end_block(self, transaction: Transaction) -> None:
        """Replay what a block of a combined transaction wrote. What breaks a rule then undoes this block alone."""
        turn, latest = transaction.turn, Position(*(transaction.latest or START))
        if turn.governed is None or latest == turn.first:
            return
        if not self.watch.follow_own(transaction, turn):
            trusted = {key.public for key in self.keys[1] if key.retired is None}
            self.watch.follow(transaction, self.ledger, trusted, (turn.sealed or turn.first).seq)
        self.watch.require_end(latest)

    def end(self, transaction: Transaction) -> None:
        """Seal what was written in a turn, once the tables agree with the chain."""
        turn, latest = transaction.turn, transaction.latest
        if not isinstance(turn, journal.Turn) or latest is None or Position(*latest) == turn.first:
            return
        newest = Position(*latest)
        self.newest = newest.hash, turn.newest_at, turn.governed
        if turn.signer is None:
            return
        signature = turn.signer.sign(seal_terms(self.ledger, newest))
        transaction.run("seal_insert", newest.seq, turn.signer.public, signature)
        is_changed = turn.governed is not None and turn.governed > turn.first.seq
        keys = keys_of(transaction, self.ledger, turn.governed, newest) if is_changed else self.keys[1]
        if not self.watch.follow_own(transaction, turn):
            is_first = keys[0].added > turn.first.seq  # what the owner vouches for is compared with the whole chain
            trusted = {key.public for key in keys if key.retired is None and not is_first}
            self.watch.follow(transaction, self.ledger, trusted, turn.first.seq)
        self.watch.require_end(newest)
        self.require_keys(keys)
        self.watch.require_tables(transaction)
        self.watch.require_open(transaction, turn.started, turn.beside)
        self.sealed = newest


def pointer_of(seq: int, body: dict[str, Any]) -> int | None:
    """The newest entry about keys as of an entry: the entry itself, if it is about keys."""
    if body["kind"] in ("govern", "key_add", "key_retire"):
        return seq
    pointer: int | None = body.get(GOVERNED)
    return pointer
