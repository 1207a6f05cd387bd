"""``verify``: recompute the chain, replay it, and compare every row of every table with what it must be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tallystick.errors import LedgerIntegrity, Refused, Remedy, TallystickError, Unavailable
from tallystick.ledger.chain import GENESIS, canonical, digest, link
from tallystick.ledger.journal import ChargeRow
from tallystick.ledger.replay import Book, Broken
from tallystick.ledger.store import NotChecked, Row, Transaction

if TYPE_CHECKING:
    from tallystick.ledger.book import Ledger
    from tallystick.ledger.pay import Receipt

PAGE = 1000


@dataclass(frozen=True, slots=True)
class Report:
    """Result of ``verify``; an empty list of problems means that the record is whole."""

    ledger: str
    entries: int
    head: str
    accounts: int
    charges: int
    """Charges, with those that cost nothing because a training run is paid as a whole."""
    problems: tuple[str, ...]
    not_checked: tuple[str, ...] = ()
    """Parts that this user may not check, with the reason."""
    remedies: tuple[Remedy, ...] = ()
    """Ways out of the problems that have one."""
    losses: tuple[str, ...] = ()
    """Sentences about entries that are lost, because the owner continues with an older copy."""
    free: int = 0
    """Charges that cost nothing."""

    @property
    def intact(self) -> bool:
        """True if nothing was found."""
        return not self.problems

    def require(self) -> Report:
        """Raise ``LedgerIntegrity`` naming the first problems, or return the report."""
        if self.problems:
            more = f" (and {len(self.problems) - 3} more)" if len(self.problems) > 3 else ""
            text = "the ledger was altered or is damaged:\n" + "\n".join(self.problems[:3]) + more
            raise LedgerIntegrity(text, remedies=self.remedies)
        return self


def verify(ledger: Ledger, *, receipts: tuple[Receipt, ...] = ()) -> Report:
    """Check the whole ledger, its anchor, and any receipts, in one consistent snapshot.

    A ledger that cannot be reached raises ``Unavailable``: that is not a problem of the record.
    """
    problems: list[str] = []
    not_checked: list[str] = []
    remedies: tuple[Remedy, ...] = ()
    book, head = Book(), (0, GENESIS)
    try:
        problems += _layout_problems(ledger, not_checked)
        with ledger.store.read() as transaction:
            book, head = _replayed(transaction, problems)
            problems += _differences(transaction, book)
            for receipt in receipts:
                problems += _receipt_problems(transaction, ledger.id, receipt)
        if book.ledger and book.ledger != ledger.id:
            problems.append("the first entry names another ledger")
        ledger.check_anchor()
        ledger.check_place()
    except Unavailable:
        raise
    except TallystickError as error:
        problems.append(error.message)
        remedies = error.remedies
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        problems.append(f"the record cannot be read ({type(error).__name__})")
    counts = len(book.accounts), len(book.charges)
    free = sum(all(a0 == a1 == 0 for _, a0, a1 in lines) for lines in book.lines.values())
    lost = tuple(book.losses)
    return Report(
        ledger.id, *head, *counts, tuple(problems), tuple(not_checked), remedies=remedies, losses=lost, free=free
    )


def _layout_problems(ledger: Ledger, not_checked: list[str]) -> list[str]:
    """Differences between the objects of the store and those of the format."""
    try:
        return ledger.store.layout_problems()
    except NotChecked as part:
        not_checked.append(str(part))
        return []


def entries(transaction: Transaction) -> Iterator[Row]:
    """All entries in order, in pages."""
    last = 0
    while page := transaction.rows("entries_after", last, PAGE):
        yield from page
        last = page[-1][0]


def _replayed(transaction: Transaction, problems: list[str]) -> tuple[Book, tuple[int, str]]:
    book, seq, previous = Book(), 0, GENESIS
    for position, found_hash, body in entries(transaction):
        seq += 1
        if position != seq:
            problems.append(f"entry {seq} is missing")
            return book, (seq - 1, previous)
        try:
            if link(previous, body) != found_hash:
                raise Broken(f"entry {seq} does not have its hash: it or an earlier entry was altered")
            if canonical(json.loads(body)) != body:
                raise Broken(f"entry {seq} is not canonical JSON")
            book.apply(seq, body)
        except (Broken, Refused) as error:
            problems.append(str(error))
            return book, (seq, previous)  # what follows a broken entry proves nothing
        previous = found_hash
    if seq == 0:
        problems.append("there is no first entry")
    return book, (seq, previous)


def _differences(transaction: Transaction, book: Book) -> Iterator[str]:
    tables: list[tuple[str, list[Row], list[Any]]] = [
        ("account", transaction.rows("accounts"), list(book.accounts.values())),
        ("charge", transaction.rows("charges"), list(book.charges.values())),
        ("line", transaction.rows("lines"), [(c, *line) for c, lines in book.lines.items() for line in lines]),
        ("dataset", transaction.rows("datasets"), book.datasets),
        ("quarantine", transaction.rows("quarantines"), [(*k, *v) for k, v in sorted(book.quarantines.items())]),
        ("answer", transaction.rows("answer_ids"), [(charge_id,) for charge_id in sorted(book.answers)]),
    ]
    for name, stored, expected in tables:
        yield from _compared(name, [tuple(row) for row in stored], [tuple(row) for row in expected])
    for charge_id, expected_hash in book.answers.items():
        row = transaction.row("answer_of", charge_id)
        if row is not None and digest(row[0]) != expected_hash:
            yield f"the answer of ledger entry {charge_id} was altered"


def _compared(name: str, stored: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]) -> Iterator[str]:
    if stored == expected:
        return
    surplus, missing = set(stored) - set(expected), set(expected) - set(stored)
    for row in sorted(surplus, key=repr)[:5]:
        yield f"{name} {row[0]}: the table differs from the chain"
    for row in sorted(missing, key=repr)[:5]:
        if not any(row[0] == other[0] for other in surplus):
            yield f"{name} {row[0]}: missing from the table"
    if not surplus and not missing:
        yield f"{name}: rows are duplicated or out of order"


def _receipt_problems(transaction: Transaction, ledger_id: str, receipt: Receipt) -> Iterator[str]:
    where = f"receipt of ledger entry {receipt.charge}"
    if receipt.ledger != ledger_id:
        yield f"{where}: it is of another ledger"
        return
    row, reserved = transaction.row("entry_at", receipt.seq), transaction.row("entry_at", receipt.charge)
    if row is None or reserved is None:
        yield f"{where}: the ledger has no entry {receipt.seq}; it is an older copy"
        return
    if row[1] != receipt.head:
        yield f"{where}: entry {receipt.seq} has another hash; the ledger was rewritten"
        return
    committed, reservation = json.loads(row[2]), json.loads(reserved[2])
    charge = transaction.row("charge_by_id", receipt.charge)
    names = {account_id: transaction.row("account_by_id", account_id) for account_id, *_ in receipt.lines}
    same = (
        committed.get("kind") == "commit"
        and committed.get("charge") == receipt.charge
        and committed.get("answer_hash") == receipt.answer_hash
        and committed.get("at") == receipt.at
        and reservation.get("plan_hash") == receipt.plan_hash
        and reservation.get("request") == receipt.request
        and reservation.get("lines") == sorted([i, a0, a1] for i, _, _, a0, a1 in receipt.lines)
        and all(found is not None and (found[1], found[5]) == (name, currency)
                for i, name, currency, _, _ in receipt.lines for found in [names[i]])
        and charge is not None
        and ChargeRow(*charge).state == "COMMITTED"
    )  # fmt: skip
    if not same:
        yield f"{where}: it does not say what the ledger says"
