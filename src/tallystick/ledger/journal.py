"""Every change to the ledger, written once for all stores: what it checks, what it writes, what it appends.

    reserve                 start(fence)             commit(answer)
    ------> RESERVED ------------------> EXECUTING ------------------> COMMITTED
               | refund / lease expiry        | crash, error, timeout
               v                              v
            REFUNDED (given back)          BURNED (never given back)

Each function runs inside one write transaction and appends exactly one entry, or raises and changes nothing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tallystick.errors import BelowLeastPrice, IdempotencyConflict, LedgerIntegrity, Quarantined, Refused, Remedy
from tallystick.ledger.authority import EFFECTS, STOPPED
from tallystick.ledger.chain import GENESIS, PLAN_LENGTH, SourceId, canonical, checked, digest, fields_of, link
from tallystick.ledger.denial import denied
from tallystick.ledger.filters import LARGEST, UNITS_0, Amount, Filter
from tallystick.ledger.retirement import require_not_retired
from tallystick.ledger.store import Row, Transaction
from tallystick.ledger.texts import (
    ALTERED,
    AUTO,
    ERASED,
    NAMED,
    SALT_BYTES,
    TEXT_FIELDS,
    Tags,
    Text,
    committed,
    opens,
    with_commitments,
)

if TYPE_CHECKING:
    from tallystick.ledger.account import Account
    from tallystick.ledger.acting import Judge
    from tallystick.ledger.authority import Act
    from tallystick.ledger.registry import DatasetRow
    from tallystick.ledger.replay import Book
    from tallystick.ledger.signing import Signer


WITHHELD: Final = "CLOSED"
"""The state that is shown of a charge whose outcome is withheld. No row and no entry has it."""


class AccountRow(NamedTuple):
    """A row of the account table. Numbers end in 0 or 1 as the parts of an ``Amount`` do."""

    id: int
    name: str
    parent_id: int | None  # of the account above, where this is a block
    partition_name: str | None  # which of the parent's partitions the block belongs to; None: its charges add up
    kind: str  # population or block
    filter: str  # the name of its currency
    unit: str  # whom it protects
    adjacency: str
    milestones: str  # as JSON
    owner: str | None  # room for the service
    limit0: int
    limit1: int
    own0: int  # charged to this account itself
    own1: int
    used0: int  # with its blocks
    used1: int
    raises: int  # how often the limit was raised
    state: str  # open or closed


class ChargeRow(NamedTuple):
    """A row of the charge table."""

    id: int
    principal: str  # whose keys are kept apart from everybody else's
    key: str  # its commitment, if the text was erased
    request: str  # the commitment to what was asked under the key; a digest in format 2
    state: str  # see the picture above
    fence: int  # grows with every holder: one with a lower number has lost the charge
    lease_until: int
    last_seq: int  # the newest entry about it


class Position(NamedTuple):
    """Position of an entry in the chain."""

    seq: int
    hash: str


class Line(NamedTuple):
    """Part of a charge that one account pays, and the accounts above it."""

    account_id: int
    a0: int
    a1: int
    path: tuple[tuple[int, int | None, str | None], ...]  # (id, parent, partition), from the account up to its root

    @property
    def population(self) -> int:
        """The root account: the population."""
        return self.path[-1][0]


class Request(NamedTuple):
    """Request of a caller for a charge; nothing in it comes from data."""

    principal: str
    key: str
    space: str  # auto for a key that the program computed, named for the others
    why: str
    plan: str
    plan_hash: str
    lines: tuple[Line, ...]  # in the order of account ids
    lease_until: int
    about: About
    source: str | None = None  # the digest of where the data are; None: the caller holds the value
    named: bool = True  # False: the key was made up just now, so no caller can have used it
    beside: tuple[str, ...] = ()  # digests of the other sources that are read, of a join
    item: tuple[int, int] | None = None  # the stream that paid for this, and the number of the item
    software: Mapping[str, str] = MappingProxyType({})  # versions of the programs that read the data


@dataclass(frozen=True, slots=True)
class About:
    """Subject of a charge: who pays how much for which plan, the public text of the request, and which data are opened.

    ``older`` is the text of the same request by an earlier rule. An answer that was stored under it is found again.
    ``source`` is None if no data are opened, or if an answer is looked up before it is known which.
    """

    lines: tuple[tuple[int, int, int], ...]
    plan: str
    request: str
    older: str = ""
    source: str | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of the request, the newest rule first."""
        return (self.request, self.older) if self.older else (self.request,)


class Terms(NamedTuple):
    """Subject of a charge: who pays how much for which plan, and what tells it from other requests."""

    lines: tuple[tuple[Account, int, int], ...]
    asked: tuple[Line, ...]
    plan: str
    plan_hash: str
    about: About
    source: str | None

    @classmethod
    def of(
        cls,
        lines: tuple[tuple[Account, int, int], ...],
        plan: str,
        request: str = "",
        source: str = "",
        older_request: str = "",
    ) -> Terms:
        """The terms of exact amounts."""
        checked("plan", plan, PLAN_LENGTH, empty=True)
        by_id = sorted(lines, key=lambda line: line[0].id)
        asked = tuple(Line(account.id, a0, a1, account.path) for account, a0, a1 in by_id)
        payers = tuple(sorted((account.shared_id, a0, a1) for account, a0, a1 in by_id))
        source_id = SourceId.of(source) if source else None
        about = About(payers, plan, request, older_request, source_id)
        return cls(lines, asked, plan, digest(plan), about, source_id)


def request_digest(lines: Sequence[Sequence[int]], plan: str, request: str) -> str:
    """Digest of a request of format 2: who pays how much for which plan, and the public text."""
    return digest(canonical({"lines": lines, "plan": plan, "request": request}))


class Claim(NamedTuple):
    """The charge found or made for a key: ``fresh`` says that the caller holds it with this fence."""

    charge: ChargeRow
    fresh: bool


def head(transaction: Transaction) -> Position:
    """The newest entry's place, or the genesis position of an empty ledger."""
    row = transaction.latest or transaction.row("head")
    return Position(int(row[0]), str(row[1])) if row else Position(0, GENESIS)


class Proposed(NamedTuple):
    """An entry that a request may ask for, its texts, and the state on which it depended when it was made."""

    entry: dict[str, Any]
    texts: dict[str, Text]
    was: tuple[int, ...] | None


class Written(NamedTuple):
    """An entry that this turn made, and the one that it follows."""

    before: Position
    position: Position
    body: str
    entry: dict[str, Any]

    @property
    def row(self) -> tuple[int, str, str]:
        """The row that the store must have."""
        return self.position.seq, self.position.hash, self.body

    @property
    def plain(self) -> dict[str, Any]:
        """The fields as plain data. Lists and objects of other kinds belong to a caller, who may change them."""
        return self.entry if self.entry["kind"] in CHARGE_KINDS else fields_of(self.position.seq, self.body)


CHARGE_KINDS: Final = frozenset(("reserve", "begin", "lease", "start", "commit", "burn", "refund"))
"""Kinds of entries that are made on this page, of plain data that no caller has."""


@dataclass(slots=True)
class Turn:
    """Notes of a writer at the start of its turn: the newest entry, its time, and the newest entry about keys."""

    first: Position
    newest_at: int = 0
    ledger: str = ""
    governed: int | None = None
    signer: Signer | None = None
    upgrade: Callable[[Transaction], None] | None = None
    """Called before the first entry of a turn in a ledger of format 2. A turn that only reads changes nothing."""
    introduce: Callable[[Transaction, Turn], None] | None = None
    """Called before the first entry of a turn: it sets ``act``, and names a principal that is new to the ledger."""
    act: Act | None = None
    """Who acts in this turn."""
    judge: Judge | None = None
    """Raises if the principal may not write an entry; None in a ledger without roles."""
    capture: list[Proposed] | None = None
    """Takes the entries of a turn that is undone: what a request asks for."""
    seen: Callable[[Mapping[str, Any]], tuple[int, ...]] | None = None
    """The state that an effect depends on, before a turn that is undone."""
    items: Collection[tuple[int, int]] = ()
    """Items of streams that were used, in a ledger with roles: each principal has own keys, and items are for all."""
    started: list[int] = field(default_factory=list)
    """Charges that began or started in this turn."""
    beside: set[str] = field(default_factory=set)
    """Digests of the other sources that these charges read."""
    sealed: Position | None = None
    """The entry whose seal was checked, if other blocks of the same transaction wrote after it (combiner.py)."""
    written: list[Written] = field(default_factory=list)
    """The entries of this turn."""
    book: Book | None = None
    """The state before this turn that the chain of a governed ledger gives."""

    def beginning(self, transaction: Transaction, charge: ChargeRow) -> Mapping[str, Any]:
        """Fields of the entry that began a charge, for a signature: as they were replayed, or made in this turn."""
        made = next((each.entry for each in self.written if each.position.seq == charge.id), None)
        if made is not None:
            return made
        if self.book is None or charge.id not in self.book.begun:
            raise lost(charge)  # by the chain it does not run, whatever its row says
        row = transaction.row("entry_at", charge.id)
        if row is None or digest(str(row[2])) != self.book.digests.get(charge.id):
            raise LedgerIntegrity(f"entry {charge.id} was altered", remedies=[Remedy("verify_ledger")])
        return self.book.begun[charge.id]

    @classmethod
    def note_start(cls, transaction: Transaction, charge_id: int, beside: Sequence[str] = ()) -> None:
        """Note that a charge starts. At the end of the turn its data are compared with those that are retired."""
        turn = transaction.turn
        if isinstance(turn, cls):
            turn.started.append(charge_id)
            turn.beside.update(beside)


def append(transaction: Transaction, kind: str, at: int, **fields: Any) -> Position:
    """Add one entry to the chain. A ``Text`` is stored beside it, and the entry holds its commitment.

    ``under`` among the fields is the request that the entry carries out. It becomes a part of ``act``.
    """
    under = fields.pop("under", None)
    turn = transaction.turn
    if isinstance(turn, Turn):
        begin_entries(transaction, turn)
        at = max(at, turn.newest_at)  # times do not run backwards
        turn.newest_at = at
        fields |= {"governed": turn.governed} if turn.governed is not None else {}
        fields |= {"act": [*turn.act[:2], under]} if turn.act is not None else {}
    last = head(transaction)
    found = {name: value for name, value in fields.items() if isinstance(value, Text)}
    entry = {"kind": kind, "at": at, **with_commitments(fields)}
    if isinstance(turn, Turn) and turn.judge is not None:
        turn.judge(last.seq + 1, entry)
    if isinstance(turn, Turn) and turn.capture is not None:
        _require_effect(kind)
        turn.capture.append(Proposed(entry, found, None if turn.seen is None else turn.seen(entry)))
    body = canonical(entry)
    position = Position(last.seq + 1, link(last.hash, body))
    transaction.run("entry_insert", position.seq, position.hash, body)
    texts = [(position.seq, name, text.salt, text.body) for name, text in found.items()]
    if len(texts) == 3:
        transaction.run("text_insert_3", *texts[0], *texts[1], *texts[2])
    else:
        for text in texts:
            transaction.run("text_insert", *text)
    transaction.latest = position
    if isinstance(turn, Turn):
        turn.written.append(Written(last, position, body, entry))
    return position


def _require_effect(kind: str) -> None:
    """Refuse what no request may ask for, before it begins: a charge that is undone would be a free release."""
    if kind not in EFFECTS:
        raise Refused(f"no request can ask for an entry of the kind {kind!r}. Nothing was charged", code="bad_request")


def begin_entries(transaction: Transaction, turn: Turn) -> None:
    """Do what comes before the first entry of a turn: the upgrade of a ledger, and the principal who acts."""
    upgrade, introduce = turn.upgrade, turn.introduce
    turn.upgrade = turn.introduce = None  # they append entries themselves
    if upgrade is not None:
        upgrade(transaction)
    if introduce is not None:
        introduce(transaction, turn)


def time_of(transaction: Transaction, at: int) -> int:
    """The time of the newest entry of this transaction. It is later than ``at`` if the clock is behind."""
    turn = transaction.turn
    return turn.newest_at if isinstance(turn, Turn) else at


def is_new_format(transaction: Transaction, seq: int) -> bool:
    """True if an entry is of format 3, where texts are commitments."""
    return transaction.tags is not None and seq >= transaction.tags.since


def stored_entry(transaction: Transaction, seq: int) -> dict[str, Any]:
    """The fields of an entry as they are in the chain."""
    row = transaction.row("entry_at", seq)
    if row is None:
        raise LedgerIntegrity(f"entry {seq} is missing", remedies=[Remedy("verify_ledger")])
    return fields_of(seq, str(row[2]))


def linked_entry(transaction: Transaction, position: Position) -> dict[str, Any]:
    """The fields of an entry; raise ``LedgerIntegrity`` unless it has this hash, by the hash of the entry before."""
    row = transaction.row("entry_at", position.seq)
    before = transaction.row("entry_at", position.seq - 1) if position.seq > 1 else (0, GENESIS)
    if row is None or before is None or link(str(before[1]), str(row[2])) != position.hash:
        raise LedgerIntegrity(f"entry {position.seq} was altered", remedies=[Remedy("verify_ledger")])
    return fields_of(position.seq, str(row[2]))


def text_shown(transaction: Transaction, seq: int, name: str) -> str:
    """A text beside the chain, as people may read it: one that was edited in the store is not shown."""
    row = transaction.row("text_at", seq, name)
    if row is None:
        return ERASED
    salt, body = map(str, row)
    return body if opens(str(stored_entry(transaction, seq).get(name)), salt, body) else ALTERED


def entry_body(transaction: Transaction, seq: int) -> dict[str, Any]:
    """The fields of an entry, with the texts that are beside the chain. ``request`` stays a commitment."""
    body = stored_entry(transaction, seq)
    if is_new_format(transaction, seq):
        texts = {field: text for field, _, text in transaction.rows("texts_of", seq)}
        for field in TEXT_FIELDS.get(body["kind"], ()):
            if field != "request":
                body[field] = texts.get(field, ERASED)
    return body


SHARED: Final = "local"
"""The principal whose keys are those of everybody: automatic keys, and all keys in a ledger without roles."""


def owner_of(principal: str, space: str) -> str:
    """The principal under whom a key is found. A question has one automatic key for all principals."""
    return SHARED if space == AUTO else principal


def charge_under(
    transaction: Transaction, principal: str, space: str, key: str, *, has_roles: bool = False
) -> ChargeRow | None:
    """Return the charge that has this key, or None.

    A key that a person gives also finds the charge of an automatic key, so that its answer can be asked for by key. An
    automatic key never finds the charge of a person's key. In a ledger with roles, a key also finds a charge from
    before roles began, when all people had one space of keys.
    """
    tags = transaction.tags
    row = None
    if tags is not None and space == NAMED:
        own, computed = tags.of_key(principal, NAMED, key), tags.of_key(SHARED, AUTO, key)
        row = transaction.row("charge_by_tags", own, computed, computed)  # a person's own key first
    elif tags is not None:
        row = transaction.row("charge_by_tag", tags.of_key(owner_of(principal, space), space, key))
    if row is not None:
        _require_key(transaction, int(row[0]), principal, space, key)
    elif _has_format_2(transaction):
        row = transaction.row("charge_by_key", principal, key, _end_of_format_2(transaction))
        if row is not None:
            _require_old_key(transaction, int(row[0]), principal, key)
    if row is None and has_roles and space == NAMED:
        return charge_under(transaction, SHARED, NAMED, key)
    return None if row is None else ChargeRow(*row)


def _require_old_key(transaction: Transaction, charge_id: int, principal: str, key: str) -> None:
    """Raise ``LedgerIntegrity`` unless the entry of a charge of format 2 has this key. The row alone proves nothing."""
    if not _has_old_key(stored_entry(transaction, charge_id), principal, key):
        raise LedgerIntegrity(
            f"the row of this key leads to ledger entry {charge_id}, which has another key",
            remedies=[Remedy("verify_ledger")],
        )


def _has_old_key(entry: Mapping[str, Any], principal: str, key: str) -> bool:
    return "space" not in entry and (entry.get("principal"), entry.get("key")) == (principal, key)


def _require_key(transaction: Transaction, charge_id: int, principal: str, space: str, key: str) -> None:
    """Raise ``LedgerIntegrity`` unless the entry of a charge has this key. A tag alone proves nothing."""
    entry = stored_entry(transaction, charge_id)
    if not _has_key(entry, transaction.row("text_at", charge_id, "key"), principal, space, key):
        raise LedgerIntegrity(
            f"the tag of this key leads to ledger entry {charge_id}, which has another key",
            remedies=[Remedy("verify_ledger")],
        )


def _has_key(entry: Mapping[str, Any], text: Row | None, principal: str, space: str, key: str) -> bool:
    spaces = (NAMED, AUTO) if space == NAMED else (space,)
    is_its = entry.get("space") in spaces and (entry.get("space") == AUTO or entry.get("principal") == principal)
    return is_its and text is not None and text[1] == key and opens(str(entry.get("key")), *text)


class Asked(NamedTuple):
    """A key and a question, under which an answer is asked for."""

    principal: str
    space: str
    key: str
    about: About
    has_roles: bool = False
    """True if keys from before roles began count, too."""


def require_asked(
    transaction: Transaction, charge_id: int, entry: Mapping[str, Any], asked: Asked, sources: Collection[str | None]
) -> None:
    """Raise ``LedgerIntegrity`` unless the first entry of a charge has this key and question.

    The charge was found earlier, when the entry may have been edited. ``sources`` are the same data as that of the
    question.
    """
    if "space" not in entry:
        is_its = _has_old_key(entry, asked.principal, asked.key)
    else:
        text = transaction.row("text_at", charge_id, "key")
        owners = (asked.principal, SHARED) if asked.has_roles else (asked.principal,)
        is_its = any(_has_key(entry, text, owner, asked.space, asked.key) for owner in owners)
    if not is_its or not _is_about(transaction, charge_id, entry, asked.about, sources):
        raise LedgerIntegrity(
            f"ledger entry {charge_id} was found for another key or question than it has now",
            remedies=[Remedy("verify_ledger")],
        )


def keys_below(transaction: Transaction, principal: str, stem: str) -> list[str]:
    """The keys that people gave, and that begin with ``stem`` and a slash."""
    prefix = f"{stem}/"
    rows = transaction.rows("charge_keys", principal, len(prefix), prefix, _end_of_format_2(transaction))
    if transaction.tags is not None:
        rows += transaction.rows("charge_keys_tagged", transaction.tags.of_stem(principal, NAMED, prefix))
    return [str(row[0]) for row in rows]


def charge_like(transaction: Transaction, principal: str, about: About, request: str) -> ChargeRow | None:
    """Return the first charge for the same request, under any key, whose answer may be returned; None without one."""
    rows = []
    if transaction.tags is not None:
        tags = transaction.tags
        owners = dict.fromkeys((SHARED, principal))
        found = [tags.of_request(owner, about.lines, about.plan, request) for owner in owners]
        rows = [row for tag in found for row in transaction.rows("charge_alike_tagged", tag)]
    if _has_format_2(transaction):
        digest_2 = request_digest(about.lines, about.plan, request)
        rows += transaction.rows("charge_alike", principal, digest_2, _end_of_format_2(transaction))
    charges = sorted(ChargeRow(*row) for row in rows)
    told = told_states(transaction, charges)
    return next((charge for charge, state in zip(charges, told, strict=True) if state == "COMMITTED"), None)


def _has_format_2(transaction: Transaction) -> bool:
    """False if the ledger is of format 3 since its first entry."""
    return transaction.tags is None or transaction.tags.since > 1


def _end_of_format_2(transaction: Transaction) -> int:
    """The first entry of format 3: later keys and requests are commitments, and are found by tags."""
    return LARGEST if transaction.tags is None else transaction.tags.since


def is_same(transaction: Transaction, charge: ChargeRow, about: About) -> bool:
    """True if a charge is about this request. The entry of the charge decides, not the tag that led to it."""
    entry = stored_entry(transaction, charge.id)
    own = entry.get("source")
    sources = [own] if about.source is not None and _are_same_data(transaction, own, about.source) else []
    return _is_about(transaction, charge.id, entry, about, sources)


def _is_about(
    transaction: Transaction, charge_id: int, entry: Mapping[str, Any], about: About, sources: Collection[str | None]
) -> bool:
    """True if the first entry of a charge is about this request, on one of these sources if it names one."""
    if "space" not in entry:  # of format 2
        return entry.get("request") in [request_digest(about.lines, about.plan, text) for text in about.texts]
    if entry.get("plan") != about.plan or shared_lines(transaction, lines_of(entry)) != about.lines:
        return False
    if about.source is not None and entry.get("source") not in sources:
        return False
    text = transaction.row("text_at", charge_id, "request")
    return text is not None and text[1] in about.texts and opens(str(entry.get("request")), *text)


def _are_same_data(transaction: Transaction, one: str | None, two: str) -> bool:
    """True if two sources are the same, or places of one registered dataset, whose files may be moved."""
    return one == two or (one is not None and transaction.row("sources_of_one_dataset", one, two) is not None)


def sources_alike(datasets: Iterable[DatasetRow], source: str | None) -> set[str | None]:
    """A source, and the other places of each dataset that has it."""
    rows = list(datasets)
    names = {row.name for row in rows if row.source == source}
    return {source, *(row.source for row in rows if row.name in names and row.source is not None)}


def lines_of(entry: Mapping[str, Any]) -> list[tuple[int, int, int]]:
    """The account and the amounts of each line in the first entry of a charge. Raise ``LedgerIntegrity`` without them.

    >>> lines_of({"lines": [[2, 10, 0]]})
    [(2, 10, 0)]
    """
    lines: list[tuple[Any, Any, Any]] | None = None
    with contextlib.suppress(KeyError, TypeError, ValueError):
        lines = [(account, a0, a1) for account, a0, a1 in entry["lines"]]
    if lines is None or not all(type(number) is int for line in lines for number in line):
        raise LedgerIntegrity("the first entry of a charge was altered", remedies=[Remedy("verify_ledger")])
    return lines


def shared_lines(transaction: Transaction, lines: Sequence[Sequence[int]]) -> tuple[tuple[int, int, int], ...]:
    """The lines of a charge with the account above in place of an allowance.

    Two analysts who ask the same question pay from two allowances. The question is the same one.
    """
    found = []
    for account_id, a0, a1 in lines:
        row = transaction.row("account_by_id", account_id)
        account = None if row is None else AccountRow(*row)
        is_allowance = account is not None and account.kind == ALLOWANCE
        above = account.parent_id if account is not None and is_allowance else None
        found.append((account_id if above is None else above, a0, a1))
    return tuple(sorted(found))


ALLOWANCE: Final = "analyst"
"""The kind of an account from which one principal pays; what it pays is paid by the account above, too."""


def account_row(transaction: Transaction, account_id: int) -> AccountRow:
    """The account with that number, as it is now."""
    row = transaction.row("account_by_id", account_id)
    if row is None:
        raise LedgerIntegrity(f"account {account_id} is missing", remedies=[Remedy("verify_ledger")])
    return AccountRow(*row)


def reserve(transaction: Transaction, request: Request, at: int, *, started: bool) -> Claim:
    """Charge every account of the request or none; with ``started`` the charge is EXECUTING at once.

    A live charge of the same key is returned as it is; an expired reservation of the same key is taken over with a
    higher fence, so that its first holder can no longer start it, or given back if another principal made it; an
    expired execution is burned.
    """
    turn = transaction.turn
    has_roles = isinstance(turn, Turn) and turn.judge is not None
    known = None
    if request.named:
        known = charge_under(transaction, request.principal, request.space, request.key, has_roles=has_roles)
    if known is not None and not _is_left(known, request, at):
        return _meet(transaction, known, request, at, started=started)
    if known is not None:
        require_same(transaction, known, request.about)
        refund(transaction, known, at, why="lease expired", principal=request.principal)
    if isinstance(turn, Turn) and request.item in turn.items:
        raise IdempotencyConflict(f"key {request.key!r} is that of an item which another principal took")
    if request.source is not None:
        admit(transaction, request.source, request.lines)
        require_not_retired(transaction, request.beside)
    for line in request.lines:
        spend(transaction, line)
    state = "EXECUTING" if started else "RESERVED"
    key, about, why = committed(request.key), committed(request.about.request), committed(request.why)
    position = append(
        transaction,
        "begin" if started else "reserve",
        at,
        principal=str(request.principal),
        space=request.space,
        key=key,
        request=about,
        why=why,
        software=dict(request.software),
        plan=str(request.plan),
        plan_hash=request.plan_hash,
        source=None if request.source is None else str(request.source),
        lines=[[line.account_id, line.a0, line.a1] for line in request.lines],
        lease_until=request.lease_until,
        **({} if request.item is None else {"item": list(request.item)}),
    )
    Turn.note_start(transaction, position.seq, request.beside)
    charge = ChargeRow(
        position.seq, request.principal, key.commitment, about.commitment, state, 1, request.lease_until, position.seq
    )
    transaction.run("charge_insert", *charge)
    for line in request.lines:
        transaction.run("line_insert", charge.id, line.account_id, line.a0, line.a1)
    insert_tags(transaction, charge.id, request.principal, request.space, request.key, request.about)
    return Claim(charge._replace(key=request.key), True)


def insert_tags(transaction: Transaction, charge_id: int, principal: str, space: str, key: str, about: About) -> None:
    """Store the tags by which the charge of a key or of a question is found."""
    tags = transaction.tags
    if tags is None:
        raise LedgerIntegrity("the ledger has no secret for its tags", remedies=[Remedy("verify_ledger")])
    transaction.run("tag_insert", charge_id, *tags_of(tags, principal, space, key, about))


def tags_of(tags: Tags, principal: str, space: str, key: str, about: About) -> tuple[str, str, str]:
    """The tags of a charge: of its key, of the stream that its key belongs to, and of its request."""
    owner = owner_of(principal, space)
    request = tags.of_request(owner, about.lines, about.plan, about.request)
    return tags.of_key(owner, space, key), tags.of_stem(owner, space, key), request


def require_same(transaction: Transaction, charge: ChargeRow, about: About) -> None:
    """Refuse a key that was used for another request."""
    if not is_same(transaction, charge, about):
        raise IdempotencyConflict(
            f"key {charge.key!r} was used for another request (ledger entry {charge.id}). One key names one request of "
            "the whole ledger, whichever account pays; use a new key"
        )


def _is_left(known: ChargeRow, request: Request, at: int) -> bool:
    """True for an expired reservation of another principal: it is paid from what belongs to that one."""
    return known.state == "RESERVED" and known.lease_until <= at and known.principal != request.principal


def _meet(transaction: Transaction, charge: ChargeRow, request: Request, at: int, *, started: bool) -> Claim:
    require_same(transaction, charge, request.about)
    if charge.lease_until > at or charge.state in ("COMMITTED", "BURNED"):
        return Claim(charge, False)
    if charge.state == "EXECUTING":
        burn(transaction, charge, at, why="lease expired", principal=request.principal)
        return Claim(charge._replace(state="BURNED"), False)
    taken = lease(transaction, charge, at, request.lease_until, take=True)
    if started:
        start(transaction, taken, at)
        taken = taken._replace(state="EXECUTING")
    return Claim(taken, True)


def spend(transaction: Transaction, line: Line) -> None:
    """Grow one account and the accounts above it, or raise the denial."""
    own0, own1, more0, more1 = line.a0, line.a1, line.a0, line.a1
    for account_id, parent_id, partition in line.path:
        before = transaction.row("used", account_id) if partition is not None else None
        if transaction.run("spend", own0, own1, more0, more1, account_id, more0, more1) != 1:
            raise denied(account_row(transaction, account_id), more0, more1)
        if before is not None:
            more0, more1 = _rise(transaction, account_id, parent_id, partition, before, (more0, more1))
        own0 = own1 = 0


def would_spend(transaction: Transaction, line: Line) -> None:
    """Raise the denial that ``spend`` would, of this account or of one above it; nothing is written."""
    more = line.a0, line.a1
    for account_id, parent_id, partition in line.path:
        row = account_row(transaction, account_id)
        if row.state != "open" or row.used0 + more[0] > row.limit0 or row.used1 + more[1] > row.limit1:
            raise denied(row, *more)
        if partition is not None:
            more = _rise(transaction, account_id, parent_id, partition, (row.used0, row.used1), more)


def short_accounts(transaction: Transaction, line: Line) -> list[tuple[AccountRow, int, int]]:
    """Return the accounts that a charge would exceed, from its own upward, each with what it would have to pay."""
    more = line.a0, line.a1
    short = []
    for account_id, parent_id, partition in line.path:
        row = account_row(transaction, account_id)
        if row.used0 + more[0] > row.limit0 or row.used1 + more[1] > row.limit1:
            short.append((row, *more))
        if partition is not None:
            more = _rise(transaction, account_id, parent_id, partition, (row.used0, row.used1), more)
    return short


def _rise(
    transaction: Transaction,
    account_id: int,
    parent_id: int | None,
    partition: str | None,
    before: Sequence[int],
    more: tuple[int, int],
) -> tuple[int, int]:
    """Growth of the maximum over the blocks of a partition when one block goes from ``before`` up by ``more``."""
    others = transaction.row("largest_sibling", parent_id, partition, account_id) or (0, 0)
    first, second = (max(before[i] + more[i], int(others[i])) - max(before[i], int(others[i])) for i in (0, 1))
    return first, second


def _give_back(transaction: Transaction, line: Line) -> None:
    own0, own1, less0, less1 = line.a0, line.a1, line.a0, line.a1
    for account_id, parent_id, partition in line.path:
        transaction.run("refund", own0, own1, less0, less1, account_id)
        if partition is not None:
            after = transaction.row("used", account_id) or (0, 0)
            less0, less1 = _rise(transaction, account_id, parent_id, partition, after, (less0, less1))
        own0 = own1 = 0


def path_of(transaction: Transaction, account_id: int) -> tuple[tuple[int, int | None, str | None], ...]:
    """An account and the accounts above it, up to its population."""
    path: list[tuple[int, int | None, str | None]] = []
    current: int | None = account_id
    while current is not None:
        account = account_row(transaction, current)
        path.append((account.id, account.parent_id, account.partition_name))
        current = account.parent_id
    return tuple(path)


def lease(transaction: Transaction, charge: ChargeRow, at: int, until: int, *, take: bool) -> ChargeRow:
    """Extend a lease; with ``take`` also raise the fence, which shuts out the former holder."""
    fence = charge.fence + 1 if take else charge.fence
    position = append(transaction, "lease", at, charge=charge.id, fence=fence, lease_until=until)
    if transaction.run("charge_lease", fence, until, position.seq, charge.id, charge.fence) != 1:
        raise lost(charge)
    return charge._replace(fence=fence, lease_until=until, last_seq=position.seq)


def start(transaction: Transaction, charge: ChargeRow, at: int) -> Position:
    """RESERVED -> EXECUTING. Only after this is durable may data be opened."""
    position = _move(transaction, charge, "RESERVED", "EXECUTING", "start", at)
    Turn.note_start(transaction, charge.id)
    source, populations = _sources(transaction, charge)
    if source is not None:
        require_open(transaction, source, populations)
    return position


class Stored(NamedTuple):
    """Place of a stored answer: its entry, the time in it, and the commitment to the answer."""

    position: Position
    at: int
    answer_hash: str


def commit(transaction: Transaction, charge: ChargeRow, answer: str, at: int) -> Stored:
    """EXECUTING -> COMMITTED, with the answer in the same transaction; only then may it be returned."""
    text = committed(answer)
    fields = {"answer_hash": text.commitment, **_signed(transaction, charge, text.commitment)}
    position = _move(transaction, charge, "EXECUTING", "COMMITTED", "commit", at, **fields)
    transaction.run("answer_insert", charge.id, answer, text.salt)
    return Stored(position, time_of(transaction, at), text.commitment)


def _signed(transaction: Transaction, charge: ChargeRow, answer_hash: str) -> dict[str, str]:
    """The signature of an answer and its key, as fields of its entry; nothing in a ledger that is not governed."""
    turn = transaction.turn
    if not isinstance(turn, Turn) or turn.signer is None:
        return {}
    begun = turn.beginning(transaction, charge)
    terms = answer_terms(turn.ledger, charge.id, charge.fence, begun, answer_hash)
    return {"release_key": turn.signer.public, "signature": turn.signer.sign(terms)}


def answer_terms(ledger: str, charge: int, fence: int, begun: Mapping[str, Any], answer_hash: str) -> dict[str, object]:
    """Terms that the signature of an answer covers. ``begun`` is the entry that began its charge."""
    return {
        "ledger": ledger,
        "charge": charge,
        "fence": fence,
        "principal": begun.get("principal"),
        "space": begun.get("space"),
        "key": begun.get("key"),
        "request": begun.get("request"),
        "plan_hash": begun.get("plan_hash"),
        "lines": begun.get("lines"),
        "source": begun.get("source"),
        "answer_hash": answer_hash,
    }


def burn(transaction: Transaction, charge: ChargeRow, at: int, *, why: str, principal: str) -> Position:
    """EXECUTING -> BURNED: failed after data could have been read, so it stays paid and its source is closed.

    A planned stop does not depend on the data, so it closes none. Only an operator may write that reason.
    The nonce keeps a reader of hashes from guessing the entry, and so the failure.
    """
    nonce = os.urandom(SALT_BYTES).hex()
    position = _move(transaction, charge, "EXECUTING", "BURNED", "burn", at, why=why, principal=principal, nonce=nonce)
    if why != STOPPED:
        _close(transaction, charge)
    return position


def _close(transaction: Transaction, failed: ChargeRow) -> None:
    """Close the data of a failed charge, and those of all charges that run together with it.

    A charge that fails later then closes nothing new, so its failure is not reported.
    """
    source, populations = _sources(transaction, failed)
    if source is None or transaction.row("quarantine_row", failed.id) is not None:
        return  # not about a source, or closed while it ran
    running = {failed.id: (source, populations)}
    for (number,) in transaction.rows("charges_running"):
        about, payers = _sources_of(transaction, int(number))
        if about is not None:
            running[int(number)] = (about, payers)
    for number in together(failed.id, running):
        about, payers = running[number]
        for population in payers:
            transaction.run("quarantine_insert", number, population, about, failed.id)


def together(first: int, running: Mapping[int, tuple[str, Sequence[int]]]) -> list[int]:
    """Return the charges that share a source or a population with the first one, directly or through others.

    >>> together(1, {1: ("visits", [7]), 2: ("billing", [7, 8]), 3: ("trips", [8]), 4: ("other", [9])})
    [1, 2, 3]
    """
    found, sources, populations = {first}, {running[first][0]}, set(running[first][1])
    is_growing = True
    while is_growing:
        more = {
            number
            for number, (source, payers) in running.items()
            if number not in found and (source in sources or not populations.isdisjoint(payers))
        }
        found |= more
        sources |= {running[number][0] for number in more}
        populations |= {population for number in more for population in running[number][1]}
        is_growing = bool(more)
    return sorted(found)


def _sources(transaction: Transaction, charge: ChargeRow) -> tuple[str | None, list[int]]:
    """The source a charge is about and the populations that pay for it."""
    return _sources_of(transaction, charge.id)


def _sources_of(transaction: Transaction, charge_id: int) -> tuple[str | None, list[int]]:
    """The source that the charge with this number is about, and the populations that pay for it."""
    body = stored_entry(transaction, charge_id)
    if body["source"] is None:
        return None, []
    paths = [path_of(transaction, account_id) for account_id, _, _ in body["lines"]]
    return body["source"], sorted({path[-1][0] for path in paths})


def told_state(transaction: Transaction, charge: ChargeRow) -> str:
    """Return the state of a charge, or CLOSED while its outcome is withheld.

    Success or failure after the start is a bit about the data. The first failure closes the data and so tells one bit.
    The outcomes of charges that were running then, and that of the failed charge, are withheld until the owner clears
    the failure. So many charges that run at the same time tell no more than one.
    """
    return told_states(transaction, [charge])[0]


def told_states(transaction: Transaction, charges: Sequence[ChargeRow]) -> list[str]:
    """Return the states of several charges as ``told_state`` does."""
    withheld = {int(row[0]) for row in transaction.rows("withheld")}
    return [WITHHELD if charge.id in withheld else charge.state for charge in charges]


def refund(transaction: Transaction, charge: ChargeRow, at: int, *, why: str, principal: str) -> Position:
    """RESERVED -> REFUNDED: data was never opened, so the amount is given back."""
    position = _move(transaction, charge, "RESERVED", "REFUNDED", "refund", at, why=why, principal=principal)
    transaction.run("tag_delete", charge.id)
    give_back(transaction, charge.id)
    return position


def give_back(transaction: Transaction, charge_id: int) -> None:
    """Shrink the accounts by every line of a charge."""
    for account_id, a0, a1 in transaction.rows("lines_of", charge_id):
        _give_back(transaction, Line(account_id, a0, a1, path_of(transaction, account_id)))


def _move(
    transaction: Transaction, charge: ChargeRow, old: str, new: str, kind: str, at: int, **fields: Any
) -> Position:
    position = append(transaction, kind, at, charge=charge.id, fence=charge.fence, **fields)
    if transaction.run("charge_move", new, position.seq, charge.id, old, charge.fence) != 1:
        raise lost(charge)  # the entry is rolled back with the rest
    return position


def lost(charge: ChargeRow) -> Refused:
    """The error for a holder whose fence is no longer good."""
    return Refused(
        f"ledger entry {charge.id} is no longer held with fence {charge.fence}: its lease ran out and it was taken "
        "over, refunded or burned; nothing was delivered"
    )


def sweep(transaction: Transaction, at: int, principal: str) -> tuple[int, int]:
    """Refund expired reservations and burn expired executions; returns how many of each.

    A burned charge whose outcome is withheld is not counted.
    """
    refunded = burned = 0
    for row in transaction.rows("charges_expired", at):
        charge = ChargeRow(*row)
        is_told = told_state(transaction, charge) != WITHHELD
        if charge.state == "RESERVED":
            refund(transaction, charge, at, why="lease expired", principal=principal)
            refunded += 1
        else:
            burn(transaction, charge, at, why="lease expired", principal=principal)
            burned += is_told
    return refunded, burned


# May a plan on this source be charged? The source is open, belongs to who pays, and the plan costs enough.
#
# A failure after the start is an un-noised bit about the data, so it closes the source and its population: the burn and
# the closing are one transaction, and no further plan is admitted until the owner has cleared it with a reason. The
# first failure among N plans still tells log2(N + 1) bits; the least price bounds N (docs/decisions/0012).

LEAST_RHO: Final = UNITS_0 // 10_000  # rho 0.0001
LEAST_EPSILON: Final = UNITS_0 // 100  # epsilon 0.01


def default_least(currency: Filter) -> int:
    """The least cost of a plan on registered data whose owner does not name one, in units of the account's currency.

    Rho 0.0001 and what one Gaussian release of that rho costs in the other currencies; epsilon 0.01 where epsilon adds.

    >>> default_least(Filter("zcdp")), default_least(Filter("gdp")), default_least(Filter("approx"))
    (100000000, 200000000, 10000000000)
    """
    if currency.kind == "approx":
        return LEAST_EPSILON
    return int(LEAST_RHO * {"zcdp": 1, "gdp": 2}.get(currency.kind, currency.order or 1))


def admit(transaction: Transaction, source: str, lines: Sequence[Line]) -> None:
    """Raise, before anything is taken, when a plan on ``source`` may not be charged to these accounts."""
    populations = sorted({line.population for line in lines})
    require_open(transaction, source, populations)
    owner = transaction.row("source_owner", source)
    if owner is not None and owner[0] not in populations:
        name = account_row(transaction, owner[0]).name
        raise Refused(
            f"this source belongs to population {name!r}, which must pay for plans on it; nothing was charged"
        )
    for line in lines:
        row = transaction.row("least_of_source", source) if owner else None
        least = (row or transaction.row("least_of_population", line.population) or (0,))[0]
        if line.a0 < least and (owner is None or owner[0] == line.population):
            currency = Filter.named(account_row(transaction, line.account_id).filter)
            raise BelowLeastPrice(Amount(currency, line.a0), Amount(currency, least))


def require_open(transaction: Transaction, source: str, populations: Sequence[int]) -> None:
    """Raise if the source is retired, or a failure on it or on a source of these populations is not cleared."""
    require_not_retired(transaction, [source])
    for population in populations:
        row = transaction.row("quarantine_of", source, population)
        if row is not None:
            raise Quarantined(
                f"closed: ledger entry {row[0]} failed after it had started, and further plans could tell why; nothing "
                "was charged. The owner of the data opens it again, after a look at the operator's log",
                remedies=[Remedy("clear_failure", charge=row[0])],
            )


def fixed_for(transaction: Transaction, source: str) -> dict[str, str | None] | None:
    """Whom a registered source protects (its unit and neighbours), or None when it is not registered."""
    row = transaction.row("source_entry", source)
    fixed: dict[str, str | None] | None = None if row is None else stored_entry(transaction, row[0])["fixed"]
    return fixed
