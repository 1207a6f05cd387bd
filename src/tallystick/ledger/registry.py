"""Registered datasets: which account pays for a source, what is public about it, and opening it after a failure.

Everything a card's promise rests on is in the chain: the unit, the adjacency, the caps and the least cost of a plan.
A registration may be updated; whom it protects may not change, and a source belongs to one population for good.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from tallystick.errors import InvalidInput, Refused
from tallystick.ledger import journal
from tallystick.ledger.budget import Budget
from tallystick.ledger.chain import PLAN_LENGTH, check_reason, checked, digest
from tallystick.ledger.filters import Amount
from tallystick.ledger.journal import default_least

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.ledger.account import Account
    from tallystick.ledger.book import Ledger
    from tallystick.ledger.store import Transaction


NOTE_FORMAT: Final = "tallystick/dataset/1"
"""What ``publish.datasets`` writes as a note."""


class DatasetRow(NamedTuple):
    """A row of the table ``dataset``: one registration; the newest of a name counts."""

    name: str
    seq: int
    account_id: int
    population_id: int
    source: str | None
    least0: int
    note: str


@dataclass(frozen=True, slots=True)
class Registered:
    """A registered dataset: the account to be charged, the least a plan costs, and a public note about it."""

    name: str
    account: str
    sources: frozenset[str]  # the digests of every place it has had
    least_price: Amount
    notes: tuple[str, ...]  # every one it has had, the newest last
    fixed: Mapping[str, str | None]  # whom it protects
    source: str = ""  # the digest of its newest place
    marks: frozenset[str] = frozenset()  # facts that every name of the same data shares, of every place it has had
    newest_marks: frozenset[str] = frozenset()  # those of its newest place
    seq: int = 0  # the entry of its newest registration
    history: tuple[tuple[int, frozenset[str]], ...] = ()  # the entry and the marks of every registration, oldest first

    @property
    def note(self) -> str:
        """The note that counts."""
        return self.notes[-1]

    def described(self) -> list[tuple[dict[str, str], dict[str, str] | None]]:
        """Return column types and decisions of the owner from every note about a table, the newest last.

        A program may register data with a note in its own words; that one describes nothing.
        """
        found = []
        for note in self.notes:
            try:
                data = json.loads(note)
                found.append((dict(data["table"]["columns"]), data.get("about")))
            except (ValueError, LookupError, TypeError, RecursionError):
                continue
        return found

    def tables(self) -> list[tuple[str, str, str]]:
        """Kind, place and table of every note about a table, the newest last."""
        found = []
        for note in self.notes:
            try:
                table = json.loads(note)["table"]
                source = table["source"]
                found.append((str(source["kind"]), str(source["place"]), str(table["name"])))
            except (ValueError, LookupError, TypeError, RecursionError):
                continue
        return found


def register(
    account: Account,
    name: str,
    *,
    source: str | None,
    note: str,
    fixed: Mapping[str, str | None],
    least_price: PrivacyLoss | None,
    update: bool,
    marks: Iterable[str] = (),
) -> None:
    """Append a registration; registering the same twice changes nothing."""
    ledger, population = account.ledger, account.path[-1][0]
    checked("dataset", name)
    checked("note", note, PLAN_LENGTH, empty=True)
    if source is not None and source.encode(errors="replace").decode() != source:  # no error may quote the text
        raise InvalidInput("source", "a text that is not UTF-8", "a text of Unicode characters")
    source_digest = None if source is None else digest(source)
    listed = sorted(set(marks))  # names of files may hold any character; they are stored as JSON
    least = _least(account, least_price)
    with ledger.store.write("register") as transaction:
        row = transaction.row("dataset_named", name)
        if row is not None:
            known = DatasetRow(*row)
            least = known.least0 if least_price is None else least
            before = journal.entry_body(transaction, known.seq)
            if known.account_id != account.id or before["fixed"] != dict(fixed):
                raise Refused(
                    f"dataset {name!r} is registered for another population or unit; whom it protects does not change. "
                    "Try: another name"
                )
            same = (known.source, known.least0, known.note) == (source_digest, least, note)
            if same and before.get("marks", []) == listed:
                return
            if not update and not same:
                raise InvalidInput("dataset", name, "a new name, or an update of caps, bounds, least cost or place")
        owner = None if source_digest is None else transaction.row("source_owner", source_digest)
        if owner is not None and owner[0] != population:
            raise Refused("this source belongs to another population; whom it is about does not depend on who asks")
        protected = None if source_digest is None else journal.fixed_for(transaction, source_digest)
        if protected not in (None, dict(fixed)):
            raise Refused(
                f"this source is registered already, about unit {protected['unit'] or 'each row'!r}; whom it protects "
                "does not depend on the name it is asked under"
            )
        _check_marks(transaction, listed, population, fixed)
        position = journal.append(
            transaction, "register", ledger.now(),
            dataset=name, account=account.id, source=source_digest, least=least, note=note, fixed=dict(fixed),
            **({"marks": listed} if listed else {}),
        )  # fmt: skip
        transaction.run("dataset_insert", name, position.seq, account.id, population, source_digest, least, note)


def lasts(mark: str) -> bool:
    """False for the inode of a file: it changes when the owner replaces the file, and another file may get it."""
    return not mark.startswith("inode ")


def _check_marks(transaction: Transaction, marks: list[str], population: int, fixed: Mapping[str, str | None]) -> None:
    """Refuse data that are registered under another name for another population or unit."""
    for row in (DatasetRow(*each) for each in transaction.rows("datasets")):
        body = journal.entry_body(transaction, row.seq)
        shared = set(body.get("marks", [])) & set(marks)
        if not any(map(lasts, shared)):
            continue
        if row.population_id != population:
            raise Refused(f"these data are registered as {row.name!r} for another population; a source belongs to one")
        if body["fixed"] != dict(fixed):
            raise Refused(
                f"these data are registered as {row.name!r}, about unit {body['fixed'].get('unit') or 'each row'!r}; "
                "whom they protect does not depend on the name"
            )


def _least(account: Account, least: PrivacyLoss | None) -> int:
    limit = account.limit
    if least is None:
        return min(default_least(account.currency), limit.a0)
    budget = Budget.of(least)
    if budget.filter != account.currency or budget.limit0 > limit.a0:
        raise InvalidInput("least_price", str(least), f"a cost in the account's currency, at most {limit}")
    return budget.limit0


def registered(ledger: Ledger) -> dict[str, Registered]:
    """The newest registration of every name."""
    accounts = {account.id: account for account in ledger.accounts()}
    with ledger.store.read() as transaction:
        rows = [DatasetRow(*row) for row in transaction.rows("datasets")]  # in the order of their entries
        bodies = {row.seq: journal.entry_body(transaction, row.seq) for row in rows}
    by_name: dict[str, list[DatasetRow]] = {}
    for row in rows:
        by_name.setdefault(row.name, []).append(row)
    datasets = {}
    for name, mine in sorted(by_name.items()):
        newest = mine[-1]
        payer = accounts[newest.account_id]
        places = [row.source for row in mine if row.source is not None]
        datasets[name] = Registered(
            name=name,
            account=payer.name,
            sources=frozenset(places),
            least_price=Amount(payer.currency, newest.least0),
            notes=tuple(row.note for row in mine),
            fixed=bodies[newest.seq]["fixed"],
            source=places[-1] if places else "",
            marks=frozenset(mark for row in mine for mark in bodies[row.seq].get("marks", [])),
            newest_marks=frozenset(bodies[newest.seq].get("marks", [])),
            seq=newest.seq,
            history=tuple((row.seq, frozenset(bodies[row.seq].get("marks", []))) for row in mine),
        )
    return datasets


def failures(account: Account) -> list[int]:
    """The charges whose failure closes an account's population, oldest first."""
    with account.ledger.store.read() as transaction:
        return sorted({int(charge) for charge, _ in _closed(transaction, account)})


def _closed(transaction: Transaction, account: Account) -> list[list[int]]:
    population = account.path[-1][0]
    return [[int(charge), int(each)] for charge, each in transaction.rows("quarantines_of", population, population)]


def clear(account: Account, *, why: str) -> list[int]:
    """Open the sources of an account's population again; returns the failed charges that had closed them."""
    ledger = account.ledger
    check_reason(why)
    ledger.recover()
    with ledger.store.write("clear") as transaction:
        rows = _closed(transaction, account)
        if not rows:
            raise Refused(f"nothing about population {account.name!r} is closed")
        position = journal.append(
            transaction, "clear", ledger.now(), principal=ledger.principal, account=account.id, rows=rows, why=why
        )
        for charge, each in rows:
            transaction.run("quarantine_clear", position.seq, charge, each)
    return sorted({charge for charge, _ in rows})
