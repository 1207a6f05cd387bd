"""Export and import: the chain as JSON lines, replayed into an empty store with the same head hash.

    {"format": "tallystick/export/2", "ledger": ..., "level": ...}
    {"seq": 1, "hash": ..., "body": ...,
     "texts": {name: [salt, text]}?, "answer": [salt, answer]?, "seal": [key, signature]?}
    ...
    {"checkpoint": {"ledger": ..., "seq": n, "head": ..., "at": ...}, "by": public key, "signature": ...}

The level ``chain`` has neither texts nor answers: it is enough to check all totals, rules, seals and signatures.
``record`` adds the texts, and ``answers`` the answers, too: that one can be imported.

The last line is an Ed25519 signed checkpoint. A replayed ledger keeps its id, so its anchors keep working: on one host
only one of the two copies can be used from then on, and the one left behind is refused as old. Two hosts have two
anchors: there, stop using the first copy before you use the second.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tallystick import strict_json
from tallystick.errors import InvalidInput, LedgerIntegrity, Refused, Remedy
from tallystick.ledger import journal
from tallystick.ledger.authority import ROLE_KINDS
from tallystick.ledger.chain import GENESIS, Anchor, AnchorFile, canonical, link
from tallystick.ledger.first_write import newest_after
from tallystick.ledger.replay import Book, Broken
from tallystick.ledger.signing import Signer, verified
from tallystick.ledger.store import Store, Transaction
from tallystick.ledger.texts import Tags, is_answer
from tallystick.ledger.verify import entries, expected_tags, seal_problems, text_problems
from tallystick.printing import json_text

if TYPE_CHECKING:
    from tallystick.ledger.book import Ledger

FORMAT: Final = "tallystick/export/2"
FIRST_FORMAT: Final = "tallystick/export/1"
"""Exports of version 0.1.0: entries of format 2 and their answers."""
ALLOWED: Final = f"JSON lines of format {FORMAT}"
LONGEST_LINE: Final = 256 * 1024 * 1024
CHAIN: Final = "chain"
RECORD: Final = "record"
ANSWERS: Final = "answers"
LEVELS: Final = (CHAIN, RECORD, ANSWERS)
"""How much an export holds; each level has what the one before has."""


def export_lines(ledger: Ledger, *, signer: Signer, level: str = ANSWERS, withheld: bool = False) -> Iterator[str]:
    """The ledger as JSON lines from one consistent snapshot, ending in a signed checkpoint.

    Refused while outcomes are withheld, unless ``withheld`` says that the reader may see them: the entries tell them.
    """
    if level not in LEVELS:
        raise InvalidInput("level", level, f"one of: {', '.join(LEVELS)}")
    return _exported(ledger, signer, level, withheld)


def _exported(ledger: Ledger, signer: Signer, level: str, withheld: bool) -> Iterator[str]:
    head = journal.Position(0, GENESIS)
    with ledger.store.read() as transaction:
        if not withheld and transaction.rows("withheld"):  # in the snapshot that is exported
            raise Refused(
                "Data of this ledger are closed after a failure, and an export would tell which releases failed. The "
                "owner clears the failure first, or exports for owners only",
                code="withheld_outcomes",
                remedies=[Remedy("set_argument", argument="withheld", value=True)],
            )
        ledger.require_seen(transaction)
        yield canonical({"format": FORMAT, "ledger": ledger.id, "level": level})
        for seq, stored, body in entries(transaction):
            head = journal.Position(head.seq + 1, link(head.hash, body))
            if head != (seq, stored):
                altered = f"entry {head.seq} was altered, so no export is signed"
                raise LedgerIntegrity(altered, remedies=[Remedy("verify_ledger")])
            line: dict[str, Any] = {"seq": seq, "hash": stored, "body": body, **_beside(transaction, seq, body, level)}
            yield json_text(canonical(line))
    checkpoint = {"ledger": ledger.id, "seq": head.seq, "head": head.hash, "at": ledger.now()}
    yield canonical({"checkpoint": checkpoint, "by": signer.public, "signature": signer.sign(checkpoint)})


def _beside(transaction: Transaction, seq: int, body: str, level: str) -> dict[str, Any]:
    """Return what an export of a level holds about an entry besides the entry itself."""
    more: dict[str, Any] = {}
    seal = transaction.row("seal_at", seq)
    if seal is not None:
        more["seal"] = list(seal)
    if level == CHAIN:
        return more
    texts = {name: [salt, text] for name, salt, text in transaction.rows("texts_of", seq)}
    more |= {"texts": texts} if texts else {}
    entry = json.loads(body)
    if level == ANSWERS and entry.get("kind") == "commit":
        row = transaction.row("answer_of", entry["charge"])
        more["answer"] = None if row is None else [row[1], row[0]]
    return more


def import_lines(
    lines: Iterable[str],
    store: Store,
    *,
    config: Path | None = None,
    by: str | None = None,
    expect_head: str | None = None,
    is_older: bool = False,
) -> Anchor:
    """Replay an export into an empty store; every rule is checked again and the head hash must be the signed one.

    ``by`` is the public key the checkpoint must be signed with; without it any valid signature is accepted.
    ``expect_head`` is the hash of an entry that the export must contain. The anchor moves only if this host has seen
    the ledger before or if ``expect_head`` was found: a signature alone does not show that an export is whole.
    ``is_older`` imports an export that lacks entries which this host has seen, and leaves the anchor alone.
    """
    with store.read() as transaction:
        if journal.head(transaction).seq:
            raise Refused("the target already holds a ledger; import only into an empty one")
    reader = parsed(lines)
    opening = next(reader, {})
    ledger_id = opening.get("ledger")
    if not isinstance(ledger_id, str) or not re.fullmatch("[0-9a-f]{32}", ledger_id):
        raise InvalidInput("export", "this file", ALLOWED)
    level = level_of(opening)
    if level != ANSWERS:
        raise InvalidInput("export", f"level {level}", f"an export of level {ANSWERS}: the others hold no answers")
    anchor = AnchorFile(ledger_id, config)
    seen = None if is_older else anchor.read()
    is_known = seen is not None or expect_head is not None
    if is_known:
        anchor.require_writable()
    with store.write("import") as transaction:
        position = _replay(transaction, reader, ledger_id, by, seen)
        if expect_head is not None:
            newest_after(transaction, expect_head)
    if is_known:
        anchor.write(position)
    anchor.close()
    return position


def level_of(opening: dict[str, Any]) -> str:
    """The level that the first line of an export names."""
    if opening.get("format") == FIRST_FORMAT and len(opening) == 2:
        return ANSWERS
    level = opening.get("level")
    if opening.get("format") != FORMAT or len(opening) != 3 or level not in LEVELS:
        raise InvalidInput("export", "this file", ALLOWED)
    return str(level)


def parsed(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if len(line) > LONGEST_LINE:
            raise InvalidInput("export", f"a line of {len(line)} characters", f"lines of at most {LONGEST_LINE}")
        if line.strip():
            value = strict_json.read(line, name="export", allowed=ALLOWED, longest=LONGEST_LINE)
            if not isinstance(value, dict):
                raise InvalidInput("export", "a line that is not a JSON object", ALLOWED)
            yield value


def _replay(
    transaction: Transaction, lines: Iterator[dict[str, Any]], ledger_id: str, by: str | None, seen: Anchor | None
) -> Anchor:
    book, position, checkpoint = Book(), Anchor(0, GENESIS), None
    for line in lines:
        if checkpoint is not None:
            raise LedgerIntegrity("the export continues after its checkpoint")
        if "checkpoint" in line:
            checkpoint = line
            continue
        position = _replay_entry(transaction, book, position, line)
        if seen is not None and position.seq == seen.seq and position.head != seen.head:
            raise LedgerIntegrity(
                f"entry {seen.seq} was seen with another hash: the export was rewritten",
                code="older_ledger",
                remedies=[Remedy("import_older")],
            )
    if seen is not None and position.seq < seen.seq:
        raise LedgerIntegrity(
            f"the export ends at entry {position.seq}, and entry {seen.seq} of this ledger was seen: what was spent in "
            "between would be forgotten. Import the newest export",
            code="older_ledger",
            remedies=[Remedy("import_older")],
        )
    if checkpoint is None:
        raise LedgerIntegrity("the export ends without a checkpoint: it was cut off")
    said = checkpoint["checkpoint"]
    shaped = isinstance(said, dict) and set(said) == {"ledger", "seq", "head", "at"} and len(checkpoint) == 3
    if not shaped or type(said["seq"]) is not int or type(said["at"]) is not int:
        raise LedgerIntegrity("the checkpoint cannot be read")
    signed = verified(said, str(checkpoint.get("by")), str(checkpoint.get("signature")))
    if not signed or (by is not None and checkpoint.get("by") != by):
        raise LedgerIntegrity("the signature of the checkpoint is wrong")
    if (said.get("ledger"), said.get("seq"), said.get("head")) != (ledger_id, *position) or book.ledger != ledger_id:
        raise LedgerIntegrity("the checkpoint does not match the entries: the export was altered or cut off")
    if book.since is not None:
        _add_tags(transaction, book, book.since)
    problems = [*text_problems(transaction, book), *seal_problems(transaction, book, journal.Position(*position))]
    stored = {int(row[0]) for row in transaction.rows("answer_ids", 0)}
    problems += [
        f"the answer of ledger entry {charge} is missing from the export"
        for charge in sorted(book.answers.keys() - stored - book.erased_answers)
    ]
    problems += [
        f"the answer of ledger entry {charge} is there, although it was erased"
        for charge in sorted(stored & book.erased_answers)
    ]
    if problems:
        raise LedgerIntegrity(f"the export is incomplete or was altered: {problems[0]}")
    return position


def _add_tags(transaction: Transaction, book: Book, since: int) -> None:
    """Store tags for the charges of an imported ledger, with a new secret."""
    transaction.tags = Tags.new(since)
    transaction.run("secret_insert", *transaction.tags)
    for number, charge in book.charges.items():
        if number >= since and charge.state != "REFUNDED" and number not in book.erased:
            found = expected_tags(transaction, transaction.tags, number)
            if found is None:
                raise LedgerIntegrity(f"the texts of ledger entry {number} are missing from the export")
            transaction.run("tag_insert", number, *found)


def _replay_entry(transaction: Transaction, book: Book, last: Anchor, line: dict[str, Any]) -> Anchor:
    body, seq, answer = line.get("body"), line.get("seq"), line.get("answer")
    if type(seq) is not int:  # true and 1.0 are equal to 1, and number no entry
        raise LedgerIntegrity("an entry of the export has no number")
    if not isinstance(body, str) or seq != last.seq + 1 or link(last.head, body) != line.get("hash"):
        raise LedgerIntegrity(f"entry {last.seq + 1} of the export is missing or was altered")
    try:
        book.apply(seq, body)
    except (Broken, Refused) as error:
        raise LedgerIntegrity(f"the export breaks a rule: {error}") from None
    entry = json.loads(body)
    if canonical(entry) != body:
        raise LedgerIntegrity(f"entry {seq} of the export is not canonical JSON")
    is_read = set(line) - {"answer", "texts", "seal"} == {"seq", "hash", "body"}
    if not is_read or ("answer" in line) != (entry["kind"] == "commit"):
        raise LedgerIntegrity(f"entry {seq} of the export says something that is not read")
    transaction.run("entry_insert", seq, line["hash"], body)
    _PROJECT[entry["kind"]](transaction, book, seq, entry)
    for name, (salt, text) in texts_of(line, seq).items():
        transaction.run("text_insert", seq, name, salt, text)
    if "seal" in line:
        transaction.run("seal_insert", seq, *seal_of(line, seq))
    if entry["kind"] == "commit" and answer is not None:
        answer_salt, answer_text = answer_in(line)
        if answer_text is None or not is_answer(entry["answer_hash"], answer_text, answer_salt):
            raise LedgerIntegrity(f"the answer of ledger entry {entry['charge']} was altered in the export")
        transaction.run("answer_insert", entry["charge"], answer_text, answer_salt)
    return Anchor(seq, line["hash"])


def answer_in(line: dict[str, Any]) -> tuple[str | None, str | None]:
    """The salt and the text of an answer of an export; exports of version 0.1.0 have the text alone."""
    answer = line["answer"]
    if isinstance(answer, str):
        return None, answer
    if isinstance(answer, list) and len(answer) == 2 and isinstance(answer[1], str):
        salt, text = answer
        return (salt, text) if salt is None or isinstance(salt, str) else (None, None)
    return None, None


def texts_of(line: dict[str, Any], seq: int) -> dict[str, tuple[str, str]]:
    """The texts beside an entry of an export, by field, each with its salt."""
    texts = line.get("texts", {})
    is_shaped = isinstance(texts, dict) and all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(each, str) for each in pair)
        for pair in texts.values()
    )
    if not is_shaped:
        raise LedgerIntegrity(f"the texts of entry {seq} of the export cannot be read")
    return {name: (pair[0], pair[1]) for name, pair in texts.items()}


def seal_of(line: dict[str, Any], seq: int) -> tuple[str, str]:
    """The key and the signature of the seal of an entry of an export."""
    seal = line["seal"]
    if not (isinstance(seal, list) and len(seal) == 2 and all(isinstance(each, str) for each in seal)):
        raise LedgerIntegrity(f"the seal of entry {seq} of the export cannot be read")
    return seal[0], seal[1]


Projection = Callable[[Transaction, Book, int, dict[str, Any]], None]


def _project_nothing(transaction: Transaction, book: Book, seq: int, entry: dict[str, Any]) -> None:
    """Write no row: the entry is only in the chain."""


def _project_open(transaction: Transaction, book: Book, seq: int, entry: dict[str, Any]) -> None:
    transaction.run("account_insert", *book.accounts[seq][:12])


def _project_raise(transaction: Transaction, book: Book, seq: int, entry: dict[str, Any]) -> None:
    transaction.run("raise_limit", *entry["limit"], entry["account"], *entry["was"])


def _project_close(transaction: Transaction, book: Book, seq: int, entry: dict[str, Any]) -> None:
    transaction.run("close_account", entry["account"])


def _project_register(transaction: Transaction, book: Book, seq: int, entry: dict[str, Any]) -> None:
    transaction.run("dataset_insert", *book.datasets[-1])


def _project_clear(transaction: Transaction, book: Book, seq: int, entry: dict[str, Any]) -> None:
    for charge, population in entry["rows"]:
        transaction.run("quarantine_clear", seq, charge, population)


def _project_reserve(transaction: Transaction, book: Book, seq: int, entry: dict[str, Any]) -> None:
    for account_id, a0, a1 in entry["lines"]:
        journal.spend(transaction, journal.Line(account_id, a0, a1, journal.path_of(transaction, account_id)))
    transaction.run("charge_insert", *book.charges[seq])
    for line in entry["lines"]:
        transaction.run("line_insert", seq, *line)


def _project_lease(transaction: Transaction, book: Book, seq: int, entry: dict[str, Any]) -> None:
    charge = book.charges[entry["charge"]]
    transaction.run("charge_lease_replay", charge.fence, charge.lease_until, seq, charge.id)


def _project_move(transaction: Transaction, book: Book, seq: int, entry: dict[str, Any]) -> None:
    charge = book.charges[entry["charge"]]
    transaction.run("charge_move_replay", charge.state, seq, charge.id)
    if charge.state == "REFUNDED":
        journal.give_back(transaction, charge.id)
    for (number, population), (source, _, cause) in book.quarantines.items() if charge.state == "BURNED" else ():
        if cause == charge.id or (cause is None and number == charge.id):
            transaction.run("quarantine_insert", number, population, source, cause)


_PROJECT: Final[dict[str, Projection]] = {
    **dict.fromkeys(
        ("genesis", "first_use", "older", "upgrade", "govern", "key_add", "key_retire", "erase", "principal_add"),
        _project_nothing,
    ),
    **dict.fromkeys(("roles", *sorted(ROLE_KINDS)), _project_nothing),
    "open": _project_open,
    "raise": _project_raise,
    "close": _project_close,
    "register": _project_register,
    "clear": _project_clear,
    "reserve": _project_reserve,
    "begin": _project_reserve,
    "lease": _project_lease,
    **dict.fromkeys(("start", "commit", "burn", "refund"), _project_move),
}
