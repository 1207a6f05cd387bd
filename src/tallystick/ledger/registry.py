"""Registered datasets: which account pays for a source, what is public about it, and opening it after a failure.

Everything a card's promise rests on is in the chain: the unit, the adjacency, the caps and the least cost of a plan.
A registration may be updated; whom it protects may not change, and a source belongs to one population for good.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tallystick.errors import InvalidInput, Refused, Remedy, Retired, Unavailable
from tallystick.ledger import journal, retirement
from tallystick.ledger.budget import Budget
from tallystick.ledger.chain import PLAN_LENGTH, check_reason, check_text, checked, digest
from tallystick.ledger.filters import Amount
from tallystick.ledger.journal import ChargeRow, default_least
from tallystick.ledger.texts import committed

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
    retired: str | None = None  # the reason, if its owner closed it for new queries

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
        found = map(noted_table, self.notes)
        return [each for each in found if each is not None]


def noted_table(note: str) -> tuple[str, str, str] | None:
    """Kind, place and table of a note about a table; None for a note in the words of a program.

    >>> noted_table("the table of visits")
    """
    try:
        table = json.loads(note)["table"]
        source = table["source"]
        return str(source["kind"]), str(source["place"]), str(table["name"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


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
    if retirement.ends(note):
        raise InvalidInput("note", note, "a note about the data; retire() and remove() write the notes that end it")
    if source is not None:
        check_text("source", source)
    source_digest = None if source is None else digest(source)
    listed = checked_marks(marks)
    least = _least(account, least_price)
    with ledger.write("register") as transaction:
        _check_retired(transaction, name, source_digest, listed)
        row = transaction.row("dataset_named", name)
        if row is not None:
            known = DatasetRow(*row)
            was_removed = retirement.is_removed(known.note)
            least = known.least0 if least_price is None and not was_removed else least
            before = _entry_to_update(transaction, account, known, fixed)
            same = (known.source, known.least0, known.note) == (source_digest, least, note)
            if same and before.get("marks", []) == listed:
                return
            if not (update or same or was_removed):
                raise InvalidInput("dataset", name, "a new name, or an update of limits, bounds, least cost or place")
        _check_apart(transaction, source_digest, listed, population, fixed)
        noted = committed(note)
        position = journal.append(
            transaction, "register", ledger.now(),
            dataset=name, account=account.id, source=source_digest, least=least, note=noted, fixed=dict(fixed),
            **({"marks": listed} if listed else {}),
        )  # fmt: skip
        row = DatasetRow(name, position.seq, account.id, population, source_digest, least, noted.commitment)
        transaction.run("dataset_insert", *row)


def checked_marks(marks: Iterable[str]) -> list[str]:
    """Return marks as an entry has them. Names of files may hold any character: they are stored as JSON.

    >>> checked_marks({"inode 66:12", "file /data/visits.csv"})
    ['file /data/visits.csv', 'inode 66:12']
    """
    found = None if isinstance(marks, str) or not isinstance(marks, Iterable) else list(marks)
    if found is None or not all(isinstance(mark, str) for mark in found):
        raise InvalidInput("marks", type(marks).__name__, "a list of texts")
    return sorted(set(found))


def check_requested(transaction: Transaction, effect: Mapping[str, Any], population: int) -> None:
    """Refuse a registration that was requested, if other data or populations got in its way since."""
    if retirement.ends(effect["note"].body):
        return  # it retires or removes the newest registration of the name, which has not changed
    source, marks = effect["source"], effect.get("marks", [])
    _check_retired(transaction, effect["dataset"], source, marks)
    _check_apart(transaction, source, marks, population, effect["fixed"])


def _check_retired(transaction: Transaction, name: str, source: str | None, marks: list[str]) -> None:
    """Refuse a name or data that are retired."""
    places = [] if source is None else [source]
    was_retired = retirement.retired_name(transaction, [*places, *filter(retirement.identifies, marks)])
    if was_retired is not None or _is_retired(transaction, name):
        raise retired_again(was_retired or name)


def _check_apart(
    transaction: Transaction, source: str | None, marks: list[str], population: int, fixed: Mapping[str, str | None]
) -> None:
    """Refuse data that belong to another population, or that are registered about another unit."""
    if source is not None:
        _check_source(transaction, source, population, fixed)
    _check_marks(transaction, marks, population, fixed)


def _entry_to_update(
    transaction: Transaction, account: Account, known: DatasetRow, fixed: Mapping[str, str | None]
) -> dict[str, Any]:
    """Return the newest entry of a dataset; refused if an update would change whom it protects."""
    before = journal.stored_entry(transaction, known.seq)
    if known.account_id != account.id or before["fixed"] != dict(fixed):
        raise Refused(
            f"dataset {known.name!r} is registered for another population or unit; whom it protects does not change. "
            "Try: another name"
        )
    return before


def _check_source(transaction: Transaction, source: str, population: int, fixed: Mapping[str, str | None]) -> None:
    """Refuse a source that belongs to another population, or that is registered about another unit."""
    owner = transaction.row("source_owner", source)
    if owner is not None and owner[0] != population:
        raise Refused("this source belongs to another population; whom it is about does not depend on who asks")
    protected = journal.fixed_for(transaction, source)
    if protected not in (None, dict(fixed)):
        raise Refused(
            f"this source is registered already, about unit {protected.get('unit') or 'each row'!r}; whom it protects "
            "does not depend on the name it is asked under"
        )


def _is_retired(transaction: Transaction, name: str) -> bool:
    start = retirement.RETIRED_START
    return (name,) in [tuple(row) for row in transaction.rows("datasets_noted", len(start), start)]


def retired_again(name: str) -> Retired:
    """The refusal to register retired data again, under their name or another one."""
    return Retired(f"these data are retired as dataset {name!r}, for good. Nothing was changed")


def retire(account: Account, name: str, *, why: str, dry_run: bool) -> None:
    """Append the entry that closes a dataset for new queries, for good; a dry run raises the same refusals."""
    ledger = account.ledger
    check_reason(why)
    with ledger.store.read() if dry_run else ledger.write("retire") as transaction:
        newest = _registration(transaction, account, name)
        if not dry_run:
            _append_end(transaction, newest, ledger.now(), retirement.retired_note(why), newest.least0)


def remove(account: Account, name: str, *, dry_run: bool) -> None:
    """Append the entry that undoes a registration; a dry run raises the same refusals.

    The record does not say which other tables a join reads. So a charge that the population has paid since the
    registration counts as a use.
    """
    ledger = account.ledger
    with ledger.store.read() if dry_run else ledger.write("remove") as transaction:
        newest = _registration(transaction, account, name)
        used = _first_use(transaction, name, newest.population_id)
        if used is not None:
            raise Refused(
                f"ledger entry {used} may have used dataset {name!r}, so its registration stays. Nothing was changed",
                remedies=[Remedy("retire_dataset", dataset=name)],
            )
        if not dry_run:
            _append_end(transaction, newest, ledger.now(), retirement.removed_note(), LEAST_OF_REMOVED)


LEAST_OF_REMOVED: Final = 1
"""Least cost in a removal, in units of the currency: the smallest that an entry may have, so it refuses no plan."""


def _registration(transaction: Transaction, account: Account, name: str) -> DatasetRow:
    """The newest registration of a name for an account; refused if it has ended."""
    check_text("dataset", name)
    row = transaction.row("dataset_named", name)
    if row is None or retirement.is_removed(DatasetRow(*row).note):
        raise InvalidInput("dataset", name, "the name of a registered dataset")
    newest = DatasetRow(*row)
    if newest.account_id != account.id:
        owner = journal.account_row(transaction, newest.account_id).name
        raise Refused(f"dataset {name!r} belongs to {owner!r}, not to {account.name!r}. Nothing was changed")
    if _is_retired(transaction, name):
        raise Retired(f"dataset {name!r} is retired, for good. Nothing was changed")
    return newest


def _first_use(transaction: Transaction, name: str, population: int) -> int | None:
    """The first charge on a source of a dataset, or of its population since it was registered.

    Charges count in every state: running, committed, refunded and burned.
    """
    rows = [DatasetRow(*each) for each in transaction.rows("datasets")]
    mine = [row for row in rows if row.name == name]
    sources = {row.source for row in mine} - {None}
    first = mine[0].seq
    for charge, text in transaction.rows("charge_entries"):
        body = json.loads(text)
        if body["source"] in sources:
            return int(charge)
        if charge > first and population in _populations(transaction, body["lines"]):
            return int(charge)
    return None


def _populations(transaction: Transaction, lines: Iterable[tuple[int, int, int]]) -> set[int]:
    return {journal.path_of(transaction, account)[-1][0] for account, _, _ in lines}


def _append_end(transaction: Transaction, row: DatasetRow, at: int, note: str, least: int) -> None:
    """Append a registration that differs from the newest in its note, which ends it."""
    body = journal.stored_entry(transaction, row.seq)
    marks = {"marks": body["marks"]} if "marks" in body else {}
    noted = committed(note)
    position = journal.append(
        transaction, "register", at,
        dataset=row.name, account=row.account_id, source=row.source, least=least, note=noted, fixed=body["fixed"],
        **marks,
    )  # fmt: skip
    ended = row._replace(seq=position.seq, least0=least, note=noted.commitment)
    transaction.run("dataset_insert", *ended)


def lasts(mark: str) -> bool:
    """False for the inode of a file: it changes when the owner replaces the file, and another file may get it."""
    return not mark.startswith("inode ")


def _check_marks(transaction: Transaction, marks: list[str], population: int, fixed: Mapping[str, str | None]) -> None:
    """Refuse data that are registered under another name for another population or unit."""
    for row in (DatasetRow(*each) for each in transaction.rows("datasets")):
        body = journal.stored_entry(transaction, row.seq)
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


def registered(ledger: Ledger, *, removed: bool = False) -> dict[str, Registered]:
    """The newest registration of every name; with ``removed`` those that were removed, instead of the others."""
    accounts = {account.id: account for account in ledger.accounts()}
    with ledger.store.read() as transaction:
        rows = [DatasetRow(*row) for row in transaction.rows("datasets")]  # in the order of their entries
        bodies = {row.seq: journal.stored_entry(transaction, row.seq) for row in rows}
        _require_believed(transaction, ledger, rows, bodies)
    by_name: dict[str, list[DatasetRow]] = {}
    for row in rows:
        by_name.setdefault(row.name, []).append(row)
    datasets = {}
    for name, every in sorted(by_name.items()):
        if retirement.is_removed(every[-1].note) is not removed:
            continue
        mine = [row for row in every if not retirement.ends(row.note)]
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
            retired=retirement.reason(row.note for row in every),
        )
    return datasets


def _require_believed(
    transaction: Transaction, ledger: Ledger, rows: list[DatasetRow], bodies: Mapping[int, Any]
) -> None:
    """Raise ``LedgerIntegrity`` if a registration of a governed ledger differs from its hashed chain."""
    if ledger.believed(transaction) is not None:
        ledger.writer.watch.require_registrations(transaction)
        ledger.writer.watch.require_entries(transaction)
        ledger.writer.watch.require_read(rows, bodies)


def failures(account: Account) -> list[int]:
    """The charge whose failure closed an account's population, or nothing.

    Later failures are withheld: one closing tells one failure. ``clear`` returns all of them to the owner.
    """
    with account.ledger.store.read() as transaction:
        return sorted({row.cause for row in _closed(transaction, account)})[:1]


class _Closed(NamedTuple):
    """A charge that closes a population: it failed, or it ran when another one failed."""

    charge: int
    population: int
    cause: int
    state: str


def _closed(transaction: Transaction, account: Account) -> list[_Closed]:
    """The charges that close a population, by number."""
    population = account.path[-1][0]
    return [_Closed(*row) for row in transaction.rows("quarantines_of", population, population)]


def clear(account: Account, *, why: str, end_running: bool = False) -> list[int]:
    """Open the sources of an account's population again; returns the failed charges that had closed them."""
    ledger = account.ledger
    check_reason(why)
    if end_running and ledger.captured is not None:
        raise InvalidInput("end_running", True, "account.end_running() before it: a request is for one change")
    ledger.recover()
    with ledger.write("clear") as transaction:
        closed = _to_clear(transaction, account)
        running = _running(closed)
        if running and not end_running:
            raise Unavailable(
                f"{len(running)} of the releases that ran when the data were closed have not ended. Clear the failure "
                "when they have. To end them now, paid and without an answer, say so",
                remedies=[Remedy("set_argument", argument="end_running", value=True)],
            )
        _burn(transaction, account, running)
        rows = [[row.charge, row.population] for row in closed]
        position = journal.append(
            transaction, "clear", ledger.now(), principal=ledger.principal, account=account.id, rows=rows,
            why=committed(why),
        )  # fmt: skip
        for charge, each in rows:
            transaction.run("quarantine_clear", position.seq, charge, each)
    return sorted({row.charge for row in closed if row.state == "BURNED"})


def end_running(account: Account, *, dry_run: bool = False) -> list[int]:
    """End the charges that run on the closed data of an account's population; return their numbers."""
    ledger = account.ledger
    ledger.recover()
    with ledger.write("end running", dry_run=dry_run) as transaction:
        running = _running(_to_clear(transaction, account))
        _burn(transaction, account, running)
    return running


def _to_clear(transaction: Transaction, account: Account) -> list[_Closed]:
    """The rows that a clear of this population names. With roles, each population is cleared by its own people."""
    closed = _closed(transaction, account)
    if not closed:
        raise Refused(f"nothing about population {account.name!r} is closed")
    if not account.ledger.has_roles:
        return closed
    own = [row for row in closed if row.population == account.path[-1][0]]
    if not own:
        others = sorted({journal.account_row(transaction, row.population).name for row in closed})
        raise Refused(
            f"the owners of {', '.join(others)} clear what still closes data of {account.name!r}. Nothing was changed"
        )
    return own


def _running(closed: Iterable[_Closed]) -> list[int]:
    return sorted({row.charge for row in closed if row.state == "EXECUTING"})


def _burn(transaction: Transaction, account: Account, charges: Iterable[int]) -> None:
    """End charges that run: they stay paid, without an answer."""
    ledger = account.ledger
    for number in charges:
        row = ChargeRow(*(transaction.row("charge_by_id", number) or ()))
        journal.burn(transaction, row, ledger.now(), why="ended by the owner", principal=ledger.principal)
