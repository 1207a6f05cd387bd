"""Signed checkpoints: the state after an entry, so that a later check needs to read only what is new.

A checkpoint holds totals, limits, registrations, closings, keys, erasures and the charges that were running. Of charges
that had ended it has the numbers, by the populations that paid: the rules about erasures read them. Their rows, texts
and answers are compared with the chain by a full verification alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from tallystick.ledger import authority
from tallystick.ledger.chain import canonical
from tallystick.ledger.filters import LARGEST
from tallystick.ledger.journal import AccountRow, ChargeRow, Position
from tallystick.ledger.partition import Blocks, Partition
from tallystick.ledger.registry import DatasetRow, lasts
from tallystick.ledger.replay import ENDED, Book, WriterKey
from tallystick.ledger.signing import Signer, verified

if TYPE_CHECKING:
    from tallystick.ledger.store import Transaction

FORMAT: Final = "tallystick/checkpoint/1"


def state_of(book: Book, head: Position) -> dict[str, Any]:
    """The state of a book as plain data."""
    running = {number: row for number, row in book.charges.items() if row.state not in ENDED}
    kept = {*running, *(row.seq for row in book.datasets)}
    return {
        "format": FORMAT,
        "ledger": book.ledger,
        "seq": head.seq,
        "hash": head.hash,
        "since": book.since,
        "newest_at": book.newest_at,
        "governed": book.governed,
        "keys": [list(key) for key in book.keys_of_writers],
        "accounts": [list(row) for row in book.accounts.values()],
        "partitions": [[number, data] for number, data in book.partitions.items()],
        "datasets": [list(row) for row in book.datasets],
        "fixed": book.fixed,
        "marks": book.marks,
        "charges": [list(row) for row in running.values()],
        "lines": [[number, book.lines[number]] for number in running],
        "sources": [[number, book.sources[number]] for number in running],
        "payers": _by_payers(book),
        "begun": [[number, book.begun[number]] for number in running],
        "quarantines": [[*key, *value] for key, value in sorted(book.quarantines.items())],
        "losses": book.losses,
        "erased": sorted(book.erased),
        "erased_answers": sorted(book.erased_answers),
        "items": [list(item) for item in sorted(book.items)],
        "digests": [[seq, found] for seq, found in sorted(book.digests.items()) if seq in kept],
        "ended": book.ended,
        "free": book.free,
        "authority": authority.to_data(book.authority),
    }


def _by_payers(book: Book) -> list[list[list[int]]]:
    """The charges of each set of populations."""
    found: dict[tuple[int, ...], list[int]] = {}
    for number, populations in book.payers.items():
        found.setdefault(populations, []).append(number)
    return [[list(populations), numbers] for populations, numbers in sorted(found.items())]


def book_of(state: dict[str, Any]) -> tuple[Book, Position]:
    """The book that a state describes, and the entry after which it holds."""
    book = Book(ledger=state["ledger"], since=state["since"], newest_at=state["newest_at"], governed=state["governed"])
    book.keys_of_writers = [WriterKey(*key) for key in state["keys"]]
    for row in state["accounts"]:
        book.accounts[row[0]] = AccountRow(*row)
    book.names = {row.name: row.id for row in book.accounts.values()}
    for row in book.accounts.values():
        if row.parent_id is not None:
            book.children.setdefault(row.parent_id, []).append(row.id)
            book.carry(row, 0, 0)
    for number, data in state["partitions"]:
        partition, parent = Partition(*data), book.accounts[number].parent_id
        if parent is None:
            raise ValueError
        book.partitions[number] = data
        book.blocks.setdefault((parent, partition.name), Blocks()).add(partition)
    book.datasets = [DatasetRow(*row) for row in state["datasets"]]
    book.fixed, book.marks = state["fixed"], state["marks"]
    for dataset in book.datasets:
        for mark in filter(lasts, book.marks[dataset.name]):
            book.marked[mark] = (dataset.population_id, book.fixed[dataset.name])
    book.charges = {row[0]: ChargeRow(*row) for row in state["charges"]}
    book.keys = {(row.principal, row.key): row.id for row in book.charges.values()}
    book.lines = {number: [(i, a0, a1) for i, a0, a1 in lines] for number, lines in state["lines"]}
    book.sources = dict(state["sources"])
    book.begun = dict(state["begun"])
    book.payers = {number: tuple(populations) for populations, numbers in state["payers"] for number in numbers}
    rows = state["quarantines"]
    book.quarantines = {(charge, each): (source, cleared, cause) for charge, each, source, cleared, cause in rows}
    book.losses = list(state["losses"])
    book.erased, book.erased_answers = set(state["erased"]), set(state["erased_answers"])
    book.items = {(stream, number) for stream, number in state["items"]}
    book.digests = dict(state["digests"])
    book.ended, book.free = state["ended"], state["free"]
    book.authority = authority.of_data(state["authority"]) if "authority" in state else authority.Authority()
    book.start = state["seq"]
    return book, Position(state["seq"], state["hash"])


def store(transaction: Transaction, book: Book, head: Position, signer: Signer) -> None:
    """Write the signed state after the newest entry, unless the store has it."""
    newest = transaction.row("checkpoint_newest")
    if newest is not None and newest[0] >= head.seq:
        return
    state = state_of(book, head)
    transaction.run("checkpoint_insert", head.seq, canonical(state), signer.public, signer.sign(state))


def problems(transaction: Transaction, book: Book) -> Iterator[str]:
    """Checkpoints that were altered, or that no key of a governed ledger signed."""
    known = {key.public for key in book.keys_of_writers}
    first = book.keys_of_writers[0].added if book.keys_of_writers else LARGEST
    for seq, body, public, signature in transaction.rows("checkpoints"):
        entry = transaction.row("entry_at", seq)
        try:
            state = json.loads(body)
            said = (state["format"], state["ledger"], state["seq"], state["hash"])
            is_true = canonical(state) == body and verified(state, public, signature)
        except (ValueError, TypeError, LookupError, RecursionError):
            said, is_true = ("", "", 0, ""), False
        is_here = entry is not None and said == (FORMAT, book.ledger, seq, entry[1])
        if not is_true or not is_here or (seq >= first and public not in known):
            yield f"the checkpoint of entry {seq} was altered, or was made without a key of this ledger"


def newest(transaction: Transaction, ledger: str, trusted: set[str]) -> tuple[Book, Position] | None:
    """The newest checkpoint, if a trusted key signed it and the chain has its entry; None otherwise."""
    row = transaction.row("checkpoint_newest")
    if row is None or row[2] not in trusted:
        return None
    try:
        state = json.loads(row[1])
        is_ours = canonical(state) == row[1] and (state["format"], state["ledger"]) == (FORMAT, ledger)
        if not is_ours or not verified(state, row[2], row[3]):
            return None
        book, position = book_of(state)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None
    entry = transaction.row("entry_at", position.seq)
    return (book, position) if entry is not None and entry[1] == position.hash else None
