"""Erasing texts and answers: the chain stays whole, and the same question costs again.

Erased are reasons, keys and questions of charges, reasons of other entries, and answers if that is asked for. Amounts,
privacy losses, sources, closings and what is registered about data are never erased: totals and rules rest on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tallystick.digits import ledger_entries
from tallystick.errors import InvalidInput, Refused, Unavailable
from tallystick.ledger import journal
from tallystick.ledger.chain import check_reason
from tallystick.ledger.filters import LARGEST
from tallystick.ledger.journal import ChargeRow
from tallystick.ledger.replay import ENDED
from tallystick.ledger.texts import ERASABLE, committed

if TYPE_CHECKING:
    from tallystick.ledger.book import Ledger
    from tallystick.ledger.store import Transaction


@dataclass(frozen=True, slots=True)
class Erased:
    """Result of an erasure: the entries that lost their texts, and the charges that lost their answers."""

    seq: int
    entries: tuple[int, ...]
    answers: tuple[int, ...]


def erase(ledger: Ledger, numbers: Iterable[int], *, answers: bool, why: str, dry_run: bool = False) -> Erased:
    """Remove the texts of these entries, and with ``answers`` the answers of those that are charges."""
    check_reason(why)
    wanted = sorted({_checked(number) for number in numbers})
    if not wanted:
        raise InvalidInput("entries", [], "the number of at least one ledger entry")
    with ledger.write("erase", dry_run=dry_run) as transaction:
        ledger.believed(transaction, whole=True)  # a checkpoint does not say which charges cost nothing
        for number in wanted:
            _require_erasable(transaction, number)
        texts = [number for number in wanted if transaction.rows("texts_of", number)]
        stored = [number for number in wanted if answers and transaction.row("answer_of", number)]
        if not texts and not stored:
            raise Refused(f"nothing is left to erase of {ledger_entries(wanted)}")
        position = journal.append(
            transaction, "erase", ledger.now(),
            principal=ledger.principal, why=committed(why), entries=texts, answers_of=stored,
        )  # fmt: skip
        for number in texts:
            remove_texts(transaction, number)
        for number in stored:
            transaction.run("answer_delete", number)
    return Erased(position.seq, tuple(texts), tuple(stored))


def check_requested(transaction: Transaction, effect: Mapping[str, Any]) -> None:
    """Refuse an erasure that was requested, if a part of it was erased since, or must not be erased now."""
    for number in sorted({*effect["entries"], *effect["answers_of"]}):
        _require_erasable(transaction, number)
    texts = [number for number in effect["entries"] if not transaction.rows("texts_of", number)]
    answers = [number for number in effect["answers_of"] if not transaction.row("answer_of", number)]
    if gone := sorted({*texts, *answers}):
        listed = ", ".join(map(str, gone))
        raise Refused(f"ledger entries {listed} were erased since this was requested. Make another request")


def remove_texts(transaction: Transaction, number: int) -> None:
    """Delete the texts and the tags of an entry."""
    for name, _, _ in transaction.rows("texts_of", number):
        transaction.run("text_delete", number, name)
    transaction.run("tag_delete", number)


def _checked(number: Any) -> int:
    if type(number) is not int or not 0 < number <= LARGEST:
        raise InvalidInput("entries", number, "numbers of ledger entries")
    return number


def _require_erasable(transaction: Transaction, number: int) -> None:
    """Refuse an entry that is not there, that has no text to erase, or that is a running charge."""
    row = transaction.row("entry_at", number)
    if row is None:
        raise InvalidInput("entries", number, "the number of an existing ledger entry")
    if not journal.is_new_format(transaction, number):
        raise Refused(
            f"ledger entry {number} is of format 2: its texts are in the chain itself, and cannot be erased. "
            "Nothing was changed"
        )
    entry = journal.stored_entry(transaction, number)
    kind = entry["kind"]
    if kind not in ERASABLE:
        raise Refused(f"ledger entry {number} has no text that can be erased")  # its kind could be a withheld outcome
    if "lines" in entry and not any(a0 or a1 for _, a0, a1 in entry["lines"]):
        raise Refused(
            f"ledger entry {number} is part of a run that was paid as a whole. Without its key the ledger would "
            "release it again, and charge nothing. Nothing was changed"
        )
    charge = transaction.row("charge_by_id", number)
    if charge is not None and journal.told_state(transaction, ChargeRow(*charge)) == journal.WITHHELD:
        raise Unavailable(
            f"the outcome of ledger entry {number} is withheld. Erase its texts when the data are open again"
        )
    if charge is not None and ChargeRow(*charge).state not in ENDED:
        raise Refused(f"ledger entry {number} is a charge that runs. Erase its texts when it has ended")
