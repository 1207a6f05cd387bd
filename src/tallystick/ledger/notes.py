"""Public notes in the record: what must be known wherever the ledger is, such as a dataset's schema and caps.

A note is a charge of nothing whose answer is the note, so it is chained, exported and verified like every other entry
and needs no table of its own. Notes of one name are numbered; the newest counts. Open the ledger with
``principal=notes.PRINCIPAL``: notes then have keys of their own that no user's key can meet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tallystick.errors import AlreadyCommitted, IdempotencyConflict
from tallystick.ledger import answers

if TYPE_CHECKING:
    from tallystick.ledger.account import Account
    from tallystick.ledger.book import Ledger

PRINCIPAL: Final = "tallystick notes"


def write(account: Account, name: str, note: Any, *, why: str) -> None:
    """Append a note under a name; it replaces the one before and costs nothing."""
    from tallystick.accounting.losses import no_loss

    number = len(_charges(account.ledger, name)) + 1
    while True:
        charge = account.charge(
            no_loss(adjacency=account.adjacency, unit=account.unit), why=why, key=_key(name, number), request="note"
        )
        try:
            with charge:
                charge.answer = note
        except (AlreadyCommitted, IdempotencyConflict):  # somebody else wrote this number in between
            number += 1
            continue
        return


def newest(ledger: Ledger, name: str) -> Any:
    """The newest note of a name, or ``None``."""
    charges = _charges(ledger, name)
    with ledger.store.read() as transaction:
        for charge in reversed(charges):
            row = transaction.row("answer_of", charge)
            if row is not None:  # one whose writer died has none
                return answers.decode(row[0])
    return None


def _charges(ledger: Ledger, name: str) -> list[int]:
    """The charges of a name's notes, oldest first; numbers have no gaps."""
    found: list[int] = []
    with ledger.store.read() as transaction:
        while row := transaction.row("charge_by_key", PRINCIPAL, _key(name, len(found) + 1)):
            found.append(int(row[0]))
    return found


def _key(name: str, number: int) -> str:
    return f"{name} {number}"
