"""Opening, raising and closing accounts: what is checked before an account exists or changes."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from tallystick.errors import InvalidInput, LargeDelta, LedgerIntegrity, Refused, Remedy
from tallystick.ledger import journal
from tallystick.ledger.acting import Proposed
from tallystick.ledger.budget import Budget
from tallystick.ledger.chain import GENESIS, canonical, check_reason, checked, link
from tallystick.ledger.denial import higher_limit, written
from tallystick.ledger.filters import MOST_DELTA, Amount, Filter
from tallystick.ledger.journal import AccountRow
from tallystick.ledger.milestones import checked_milestones
from tallystick.ledger.partition import Blocks, Partition
from tallystick.ledger.signing import Signer
from tallystick.ledger.store import Transaction
from tallystick.ledger.texts import committed
from tallystick.printing import one_of

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.ledger.account import Account
    from tallystick.ledger.book import Ledger


def open_account(
    ledger: Ledger,
    name: str,
    *,
    budget: PrivacyLoss | Budget,
    unit: str | None,
    parent: Account | None,
    partition: Partition | None,
    milestones: Sequence[float],
) -> AccountRow:
    """Find an account of this budget, or create it; a different budget, filter or unit is refused.

    The budget of an account that exists is its first limit or its limit now, so a script still works after a raise.
    """
    checked("name", name)
    limit = budget if isinstance(budget, Budget) else Budget.of(budget)
    wanted = _wanted(name, limit, unit, parent, partition, milestones)
    with ledger.store.read() as transaction:
        row = transaction.row("account_named", name)
    if row is None:
        require_small_delta(limit)
        warn_of_delta(limit, stacklevel=4)
        with ledger.write("open") as transaction:
            row = transaction.row("account_named", name) or _insert(ledger, transaction, wanted, partition)
        if ledger.captured:
            raise Proposed
    account = AccountRow(*row)
    _same(account, wanted, named_unit(limit, unit), _first_limit(ledger, account))
    if partition is not None and ledger.partition_of(account.id) != partition:
        raise Refused(f"block {name!r} exists and is cut along other rows; what a block is never changes")
    return account


_ENTRIES_AT_ONCE: Final = 1000
"""Entries of a ledger that are read at once."""
USUAL_MOST_DELTA: Final = Fraction(1, 10_000)
"""Delta of a new limit above which a warning says what it allows."""


def require_small_delta(budget: Budget) -> None:
    """Refuse a limit whose delta is too large. Accounts that have such a limit stay as they are.

    >>> require_small_delta(Budget.zcdp(0.5, 0.01))
    """
    delta = budget.delta
    if delta > MOST_DELTA:
        allowed = f"at most {float(MOST_DELTA)}: {_delta_in_words(delta)}"
        raise InvalidInput("delta of the limit", float(delta), allowed, code="large_delta")


def warn_of_delta(budget: Budget, *, stacklevel: int) -> None:
    """Warn if the delta of a new limit is large."""
    delta = budget.delta
    if delta > USUAL_MOST_DELTA:
        text = f"delta {float(delta):g} of the limit is large: {_delta_in_words(delta)}"
        warnings.warn(LargeDelta(text), stacklevel=stacklevel)


def _delta_in_words(delta: Fraction) -> str:
    """Return in words what a delta allows."""
    people = math.floor(1 / delta)
    return f"one person in {people:,} may be published as is. Use a delta far below 1 / number of people, such as 1e-6"


def named_unit(budget: Budget, unit: str | None) -> str | None:
    """The unit that is named by ``unit=`` or by the budget, None where neither does; two different ones are refused."""
    named = budget.protects.unit
    if unit and named and unit != named:
        raise Refused(
            f"this budget protects one {named!r}, and the account is to protect one {unit!r}. A loss for one unit says "
            "nothing about another"
        )
    return unit or named


def _wanted(
    name: str,
    budget: Budget,
    unit: str | None,
    parent: Account | None,
    partition: Partition | None,
    milestones: Sequence[float],
) -> AccountRow:
    unit = checked("unit", named_unit(budget, unit) or (parent.unit if parent else "person"))
    if partition is not None:
        if parent is None:
            raise InvalidInput("partition", partition.name, "parent= as well: a partition splits a population")
        partition.require(budget.protects.adjacency)
        checked("partition", partition.name)
    if parent is not None:
        if parent.filter != budget.filter.name:
            raise Refused(f"a block has its parent's filter, {parent.currency.title}; the currency never changes")
        if (parent.unit, parent.adjacency) != (unit, budget.protects.adjacency):
            raise Refused(f"a block protects its parent's unit: {parent.unit!r} under {parent.adjacency}")
    return AccountRow(
        id=0,
        name=name,
        parent_id=parent.id if parent else None,
        partition_name=partition.name if partition else None,
        kind="block" if parent else "population",
        filter=budget.filter.name,
        unit=unit,
        adjacency=budget.protects.adjacency.value,
        milestones=canonical(checked_milestones(milestones, budget.limit0)),
        owner=None,
        limit0=budget.limit0,
        limit1=budget.limit1,
        own0=0,
        own1=0,
        used0=0,
        used1=0,
        raises=0,
        state="open",
    )


def _insert(ledger: Ledger, transaction: Transaction, wanted: AccountRow, partition: Partition | None) -> AccountRow:
    """Append a new account to the chain."""
    if partition is not None and wanted.parent_id is not None:
        _blocks_of(ledger, transaction, wanted.parent_id, partition.name).require_apart(partition)
    return insert_account(ledger, transaction, wanted, partition)


def check_requested(ledger: Ledger, transaction: Transaction, effect: Mapping[str, Any]) -> None:
    """Refuse a block that was requested, if it shares rows with a block that was opened since."""
    if effect["partition"]:
        partition = Partition(*effect["partition"])
        _blocks_of(ledger, transaction, effect["parent"], partition.name).require_apart(partition)


def insert_account(
    ledger: Ledger, transaction: Transaction, wanted: AccountRow, partition: Partition | None = None
) -> AccountRow:
    """Append the entry that opens an account, and add its row."""
    position = journal.append(
        transaction,
        "open",
        ledger.now(),
        name=wanted.name,
        parent=wanted.parent_id,
        partition=partition.to_data() if partition else None,
        account_kind=wanted.kind,
        filter=wanted.filter,
        unit=wanted.unit,
        adjacency=wanted.adjacency,
        milestones=wanted.milestones,
        limit=[wanted.limit0, wanted.limit1],
        **({} if wanted.owner is None else {"owner": wanted.owner}),
    )
    row = wanted._replace(id=position.seq)
    transaction.run("account_insert", *row[:12])
    return row


def _blocks_of(ledger: Ledger, transaction: Transaction, parent: int, name: str) -> Blocks:
    """Return the blocks of a partition. A ledger that is open remembers those that it read before."""
    newest, blocks = ledger.known_blocks.get((parent, name), (0, Blocks()))
    for account_id, body in transaction.rows("blocks_after", parent, name, newest):
        blocks.add(Partition(*json.loads(body)["partition"]))
        newest = int(account_id)
    ledger.known_blocks[parent, name] = newest, blocks
    return blocks


def partition_of(transaction: Transaction, account_id: int) -> Partition:
    """Return how a block was cut from its parent: the entry that opened it says so."""
    return Partition(*journal.entry_body(transaction, account_id)["partition"])


def _first_limit(ledger: Ledger, account: AccountRow) -> tuple[int, int]:
    """The limit with which an account was opened."""
    if not account.raises:
        return account.limit0, account.limit1
    with ledger.store.read() as transaction:
        first, second = journal.entry_body(transaction, account.id)["limit"]
    return first, second


def _same(stored: AccountRow, wanted: AccountRow, unit: str | None, first: tuple[int, int]) -> None:
    fields = ["parent_id", "partition_name", "filter", "adjacency", "milestones"] + (["unit"] if unit else [])
    fields += [] if (wanted.limit0, wanted.limit1) == first else ["limit0", "limit1"]
    for field in fields:
        if getattr(stored, field) != getattr(wanted, field):
            there, here = (_in_words(row, field) for row in (stored, wanted))
            if field in ("limit0", "limit1") and stored.raises:
                there = f"{there} (raised from {written(Filter.named(stored.filter), *first)})"
            raise Refused(
                f"account {stored.name!r} exists with another {_WORDS.get(field, field)}: {there}, not {here}",
                code="account_exists",
                remedies=[Remedy("reopen_account", account=stored.name), *_raise_to(stored, wanted, field)],
            )


def _raise_to(stored: AccountRow, wanted: AccountRow, field: str) -> tuple[Remedy, ...]:
    """The limit that was wanted, if it is above that of the account."""
    is_above = wanted.limit0 >= stored.limit0 and wanted.limit1 >= stored.limit1
    if field not in ("limit0", "limit1") or not is_above:
        return ()
    limits = higher_limit(stored, wanted.limit0 - stored.used0, wanted.limit1 - stored.used1)
    return tuple(Remedy(each.kind, **each.facts, has_ledger=True) for each in limits)


_WORDS = {"parent_id": "parent", "partition_name": "partition", "limit0": "limit", "limit1": "limit"}


def _in_words(row: AccountRow, field: str) -> str:
    currency = Filter.named(row.filter)
    if field in ("limit0", "limit1"):
        return written(currency, row.limit0, row.limit1)
    if field == "parent_id":
        return "none" if row.parent_id is None else f"account {row.parent_id}"
    return currency.title if field == "filter" else repr(getattr(row, field))


def unknown_account(name: str, known: Sequence[str]) -> InvalidInput:
    """The error for an account that the ledger does not have; the first one may be opened, others are misspelt."""
    problem = f"there is no account {name}"
    if not known:
        remedies = [Remedy("open_account", account=name, budget="zcdp(rho=0.5)")]
        return InvalidInput("account", name, "", code="unknown_account", remedies=remedies, problem=problem)
    near = get_close_matches(name.casefold(), [each.casefold() for each in known], n=1)
    meant = [each for each in known if each.casefold() in near]
    if meant:
        problem = f"{problem}. Did you mean {meant[0]}?"
        return InvalidInput("account", name, "", code="unknown_account", problem=problem)
    listed = f"one of: {one_of(name, known)}"
    return InvalidInput("account", name, listed, code="unknown_account", problem=problem)


def check_raise(row: AccountRow, account: Account, budget: PrivacyLoss | Budget) -> Budget:
    """The new limit of an account; refused where it is another currency, unit or neighbours, or not above the old."""
    limit = budget if isinstance(budget, Budget) else Budget.of(budget)
    if limit.filter.name != account.filter:
        raise Refused(f"account {account.name!r} has a {account.currency.title}; the currency never changes")
    if limit.protects.adjacency != account.adjacency:
        raise Refused(
            f"account {account.name!r} compares datasets by {account.adjacency}, and this budget by "
            f"{limit.protects.adjacency}; that never changes",
            remedies=_same_limit(limit, row),
        )
    if limit.protects.unit not in (None, account.unit):
        raise Refused(
            f"account {account.name!r} protects one {account.unit!r}, and this budget one {limit.protects.unit!r}; "
            "that never changes",
            remedies=_same_limit(limit, row),
        )
    if row.state != "open":
        raise Refused(f"account {account.name!r} is closed")
    if limit.limit0 < row.limit0 or limit.limit1 < row.limit1:
        present = written(account.currency, row.limit0, row.limit1)
        raise Refused(f"a limit cannot be lowered (it is {present}). Part of it may already be spent")
    if limit.limit1 > row.limit1:
        require_small_delta(limit)
    if (limit.limit0, limit.limit1) == (row.limit0, row.limit1):
        raise InvalidInput("budget", str(Amount(account.currency, *limit[1:3])), "a limit above the present one")
    return limit


def _same_limit(limit: Budget, row: AccountRow) -> tuple[Remedy, ...]:
    """Return the limit with the neighbours and the unit of the account, if it is above the present one."""
    if limit.limit0 < row.limit0 or limit.limit1 < row.limit1 or limit[1:3] == (row.limit0, row.limit1):
        return ()
    return higher_limit(row, limit.limit0 - row.used0, limit.limit1 - row.used1)


def raise_limit(ledger: Ledger, account: Account, budget: PrivacyLoss | Budget, *, why: str, signer: Signer) -> Amount:
    """Append a signed raise; a limit never falls and the filter never changes."""
    check_reason(why)
    row = ledger.account_row(account.name)
    limit = check_raise(row, account, budget)
    if limit.limit1 > row.limit1:
        warn_of_delta(limit, stacklevel=4)
    with ledger.write("raise") as transaction:
        row = journal.account_row(transaction, account.id)
        check_raise(row, account, limit)
        reason = committed(why)
        terms = raise_terms(ledger.id, row, limit.limit0, limit.limit1, reason.commitment)
        changed = transaction.run("raise_limit", limit.limit0, limit.limit1, row.id, row.limit0, row.limit1)
        if changed != 1:
            raise Refused(f"account {account.name!r} is closed")
        journal.append(
            transaction,
            "raise",
            ledger.now(),
            account=row.id,
            limit=[limit.limit0, limit.limit1],
            was=[row.limit0, row.limit1],
            why=reason,
            by=signer.public,
            signature=signer.sign(terms),
        )
    return Amount(account.currency, limit.limit0, limit.limit1)


def limits_of(transaction: Transaction, account_id: int) -> list[tuple[int, tuple[int, int]]]:
    """The limits of an account with the entries that set them: the opening, which has its number, and each raise.

    Each entry must have its hash by the one before. So an entry that was edited is noticed, up to the newest one.
    """
    limits = []
    last, before = account_id - 1, transaction.row("entry_at", account_id - 1)
    previous = GENESIS if before is None else str(before[1])
    while rows := transaction.rows("entries_after", last, _ENTRIES_AT_ONCE):
        for seq, stored, text in rows:
            previous = link(previous, text)
            if (seq, stored) != (last + 1, previous):
                raise LedgerIntegrity(f"entry {seq} was altered", remedies=[Remedy("verify_ledger")])
            body = json.loads(text)
            is_raise = body["kind"] == "raise" and body["account"] == account_id
            if seq == account_id or is_raise:
                first, second = body["limit"]
                limits.append((seq, (first, second)))
            last = seq
    if (last, previous) != journal.head(transaction):
        raise LedgerIntegrity(f"entries after {last} are missing", remedies=[Remedy("verify_ledger")])
    return limits


def raise_terms(ledger_id: str, row: AccountRow, limit0: int, limit1: int, why: str) -> dict[str, object]:
    """Content that the signature of a raise covers: ledger, account, the limit before and after, and why.

    ``why`` is the commitment to the reason; the reason itself in format 2.
    """
    return {
        "ledger": ledger_id,
        "account": row.id,
        "was": [row.limit0, row.limit1],
        "limit": [limit0, limit1],
        "raises": row.raises,
        "why": why,
    }


def close_account(ledger: Ledger, account: Account, *, why: str) -> None:
    """Append the end of an account."""
    check_reason(why)
    with ledger.write("close") as transaction:
        if transaction.run("close_account", account.id) != 1:
            raise Refused(f"account {account.name!r} is already closed")
        journal.append(transaction, "close", ledger.now(), account=account.id, why=committed(why))
