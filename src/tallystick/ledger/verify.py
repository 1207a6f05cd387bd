"""``verify``: recompute the chain, replay it, and compare every row of every table with what it must be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tallystick.errors import LedgerIntegrity, Refused, Remedy, TallystickError, Unavailable
from tallystick.ledger import checkpoints
from tallystick.ledger.chain import GENESIS, canonical, fields_of, link
from tallystick.ledger.governance import require_chain, seal_terms
from tallystick.ledger.journal import About, ChargeRow, Position, shared_lines, stored_entry, tags_of
from tallystick.ledger.replay import ENDED, Book, Broken
from tallystick.ledger.signing import Signer, verified
from tallystick.ledger.store import NotChecked, Row, Transaction
from tallystick.ledger.texts import TEXT_FIELDS, Tags, is_answer, opens

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
    distrusted: tuple[int, ...] = ()
    """Charges whose answers a stolen key signed: their questions must be asked again."""
    sealed: bool = False
    """True if every entry since governance began is covered by a seal."""
    checkpoint: int = 0
    """The entry of the signed checkpoint from which the record was checked; 0 if it was checked from its beginning."""

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


def verify(ledger: Ledger, *, receipts: tuple[Receipt, ...] = (), full: bool = True) -> Report:
    """Check the ledger, its anchor, and any receipts, in one consistent snapshot.

    ``full=False`` begins at the newest checkpoint that a trusted key signed. Rows, texts and answers from before it
    are not compared again. A ledger that cannot be reached raises ``Unavailable``: that is not a problem of the record.
    """
    problems: list[str] = []
    not_checked: list[str] = []
    remedies: tuple[Remedy, ...] = ()
    distrusted: tuple[int, ...] = ()
    book, head = Book(), Position(0, GENESIS)
    try:
        problems += _layout_problems(ledger, not_checked)
        problems += ledger.store.damage() if full else ()
        trusted = set() if full else ledger.trusted_keys()
        with ledger.store.read() as transaction:
            start = checkpoints.newest(transaction, ledger.id, trusted) if trusted else None
            problems += ledger.store.damage() if start is None and not full else ()
            book, head = start or (book, head)
            book, head = _replayed(transaction, book, head, problems)
            strayed = [] if problems else list(_seen_problems(transaction, ledger, head))
            problems += _differences(transaction, book)
            problems += text_problems(transaction, book)
            problems += _tag_problems(transaction, book)
            problems += seal_problems(transaction, book, head)
            problems += checkpoints.problems(transaction, book)
            distrusted = _distrusted(transaction, book)
            withheld = {int(row[0]) for row in transaction.rows("withheld")}
            distrusted = tuple(charge for charge in distrusted if charge not in withheld)
            for receipt in receipts:
                problems += _receipt_problems(transaction, ledger.id, receipt)
        if book.ledger and book.ledger != ledger.id:
            problems.append("the first entry names another ledger")
        ledger.check_anchor()
        ledger.check_place()
        problems += strayed  # only if the store gives another answer now
    except Unavailable:
        raise
    except TallystickError as error:
        problems.append(error.message)
        remedies = error.remedies
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        problems.append(f"the record cannot be read ({type(error).__name__})")
    if book.start:
        not_checked.append(f"charges, texts and answers up to entry {book.start}, which a signed checkpoint covers")
        not_checked.append("damage to the parts of the store that this check did not read")
    return Report(
        ledger=ledger.id,
        entries=head.seq,
        head=head.hash,
        accounts=len(book.accounts),
        charges=book.ended + len(book.charges),
        problems=tuple(problems),
        not_checked=tuple(not_checked),
        remedies=remedies,
        losses=tuple(book.losses),
        free=book.free,
        distrusted=distrusted,
        sealed=book.governed is not None and not problems,
        checkpoint=book.start,
    )


def _seen_problems(transaction: Transaction, ledger: Ledger, head: Position) -> Iterator[str]:
    """Say if the newest entry of this snapshot does not continue the entry that this host or process has seen."""
    seen = transaction.seen or ledger.writer.sealed
    if seen is None:
        return
    try:
        require_chain(transaction, Position(*seen), head)
    except LedgerIntegrity as problem:
        yield problem.message


def _distrusted(transaction: Transaction, book: Book) -> tuple[int, ...]:
    """The charges whose answers a stolen key signed. A checkpoint does not list answers, so its entries are read."""
    found = set(book.distrusted())
    starts = {key.public: key.distrusted_from for key in book.keys_of_writers if key.distrusted_from is not None}
    early = min(starts.values(), default=book.start + 1)
    for seq, _, body in entries(transaction, early - 1) if early <= book.start else ():
        if seq > book.start:
            break
        entry = json.loads(body)
        first = starts.get(entry.get("release_key"))
        if first is not None and seq >= first:
            found.add(entry["charge"])
    return tuple(sorted(found))


def make_checkpoint(ledger: Ledger, signer: Signer) -> Report:
    """Check the whole ledger, then store its state, signed: a later check can begin there."""
    report = verify(ledger).require()
    with ledger.write("checkpoint") as transaction:
        book, head = _replayed(transaction, Book(), Position(0, GENESIS), [])
        if (head.seq, head.hash) == (report.entries, report.head):
            checkpoints.store(transaction, _counted(book), head, signer)
    return report


def _counted(book: Book) -> Book:
    """The book with the number of charges that ended: a checkpoint does not list them."""
    book.ended += sum(row.state in ENDED for row in book.charges.values())
    return book


def _layout_problems(ledger: Ledger, not_checked: list[str]) -> list[str]:
    """Differences between the objects of the store and those of the format."""
    try:
        return ledger.store.layout_problems()
    except NotChecked as part:
        not_checked.append(str(part))
        return []


def entries(transaction: Transaction, after: int = 0) -> Iterator[Row]:
    """The entries after a number in order, in pages."""
    last = after
    while page := transaction.rows("entries_after", last, PAGE):
        yield from page
        last = page[-1][0]


def _replayed(transaction: Transaction, book: Book, start: Position, problems: list[str]) -> tuple[Book, Position]:
    """Replay the entries after ``start``; stop at the first that is wrong."""
    seq, previous = start
    for position, found_hash, body in entries(transaction, seq):
        seq += 1
        if position != seq:
            problems.append(f"entry {seq} is missing")
            return book, Position(seq - 1, previous)
        try:
            if link(previous, body) != found_hash:
                raise Broken(f"entry {seq} does not have its hash: it or an earlier entry was altered")
            if canonical(fields_of(seq, body)) != body:
                raise Broken(f"entry {seq} is not canonical JSON")
            book.apply(seq, body)
        except (Broken, Refused, LedgerIntegrity, ValueError) as error:
            problems.append(str(error))
            return book, Position(seq, previous)  # what follows a broken entry proves nothing
        previous = found_hash
    if seq == 0:
        problems.append("there is no first entry")
    return book, Position(seq, previous)


def _differences(transaction: Transaction, book: Book) -> Iterator[str]:
    gone = book.erased_answers
    tables: list[tuple[str, list[Row], list[Any]]] = [
        ("account", transaction.rows("accounts"), list(book.accounts.values())),
        ("charge", _charges(transaction, book), list(book.charges.values())),
        ("line", _lines(transaction, book), [(c, *line) for c, lines in book.lines.items() for line in lines]),
        ("dataset", transaction.rows("datasets_stored"), book.datasets),
        ("quarantine", transaction.rows("quarantines"), [(*k, *v) for k, v in sorted(book.quarantines.items())]),
        (
            "answer",
            _answer_ids(transaction, book),
            [(charge,) for charge in sorted(book.answers) if charge not in gone],
        ),
    ]
    for name, stored, expected in tables:
        yield from _compared(name, [tuple(row) for row in stored], [tuple(row) for row in expected])
    for charge_id, expected_hash in book.answers.items():
        row = transaction.row("answer_of", charge_id)
        if row is not None and not is_answer(expected_hash, row[0], row[1]):
            yield f"the answer of ledger entry {charge_id} was altered"


def _charges(transaction: Transaction, book: Book) -> list[Row]:
    """The stored rows of the charges that the book has, and of all later ones."""
    running = [number for number in book.charges if number <= book.start]
    earlier = [row for number in running for row in transaction.rows("charge_stored", number)]
    return [*earlier, *transaction.rows("charges", book.start)]


def _lines(transaction: Transaction, book: Book) -> list[Row]:
    """The stored lines of the charges that the book has."""
    running = [number for number in sorted(book.lines) if number <= book.start]
    earlier = [(number, *line) for number in running for line in transaction.rows("lines_of", number)]
    return [*earlier, *transaction.rows("lines", book.start)]


def _answer_ids(transaction: Transaction, book: Book) -> list[Row]:
    """The charges with a stored answer, of those that the book has."""
    running = [(number,) for number in sorted(book.answers) if number <= book.start]
    earlier = [row for row in running if transaction.row("answer_of", row[0])]
    return [*earlier, *transaction.rows("answer_ids", book.start)]


def text_problems(transaction: Transaction, book: Book) -> Iterator[str]:
    """Texts beside the chain that do not open their commitments, that are missing, or that should be erased."""
    wanted = {(seq, name) for seq, kind in book.kinds.items() if seq not in book.erased for name in TEXT_FIELDS[kind]}
    entry: dict[str, Any] = {}
    number = 0
    for seq, name, salt, body in transaction.rows("texts", book.start):
        if (seq, name) not in wanted:
            yield f"entry {seq} has a text {name} that it must not have"
            continue
        wanted.remove((seq, name))
        if seq != number:
            row = transaction.row("entry_at", seq)
            number, entry = seq, json.loads(row[2]) if row else {}
        if not opens(str(entry.get(name)), salt, body):
            yield f"the text {name} of entry {seq} was altered"
    for seq, name in sorted(wanted)[:5]:
        yield f"the text {name} of entry {seq} is missing, and no entry says that it was erased"


def _tag_problems(transaction: Transaction, book: Book) -> Iterator[str]:
    """Tags that lead to another charge than that of their key or question."""
    tags = transaction.tags
    secrets = [Tags(*row) for row in transaction.rows("secret")]  # the store remembers the one it has read
    if secrets != ([] if tags is None else [tags]):
        yield "the secret of the tags was altered, or is not the only one"
    if tags is None or tags.since != book.since:
        if book.since is not None:
            yield "the secret of the tags is missing, or it names another entry than the one that began format 3"
        return
    first = max(tags.since, book.start + 1)
    has_tags = {number for number, row in book.charges.items() if number >= first and row.state != "REFUNDED"}
    expected = has_tags - book.erased
    stored = {int(row[0]): tuple(row[1:]) for row in transaction.rows("tags", book.start)}
    for number in sorted(expected ^ stored.keys())[:5]:
        yield f"the tags of ledger entry {number} are missing, or should be erased"
    for number in sorted(expected & stored.keys()):
        if stored[number] != expected_tags(transaction, tags, number):
            yield f"the tags of ledger entry {number} were altered"


def expected_tags(transaction: Transaction, tags: Tags, charge: int) -> tuple[str, ...] | None:
    """The tags that the texts of a charge give."""
    entry = stored_entry(transaction, charge)
    texts = {name: body for name, _, body in transaction.rows("texts_of", charge)}
    if not {"key", "request"} <= texts.keys():
        return None
    about = About(shared_lines(transaction, entry["lines"]), entry["plan"], texts["request"])
    return tags_of(tags, entry["principal"], entry["space"], texts["key"], about)


def seal_problems(transaction: Transaction, book: Book, head: Position) -> Iterator[str]:
    """Seals that are wrong, and entries of a governed ledger that no seal covers."""
    seals = transaction.rows("seals", max(0, book.start - 1))
    if book.governed is None:
        if seals:
            yield "the ledger has seals, and no entry begins its governance"
        return
    for seq, public, signature in seals:
        row = transaction.row("entry_at", seq)
        terms = seal_terms(book.ledger, Position(int(seq), str(row[1]) if row else ""))
        if not book.is_writer(public, seq) or not verified(terms, public, signature):
            yield f"the seal of entry {seq} is wrong: it was made without a key of this ledger"
    sealed = {int(row[0]) for row in seals}
    changes = {number for key in book.keys_of_writers for number in (key.added, key.retired) if number is not None}
    for seq in sorted(number for number in changes - sealed if number > book.start):
        yield f"entry {seq} changes the keys of this ledger, and has no seal"
    if not seals or seals[-1][0] != head.seq:
        last = seals[-1][0] if seals else 0
        yield f"entries after {last} have no seal: they were written without a key of this ledger"


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
