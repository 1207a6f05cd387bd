"""The usual number of rows in a group of a plan, from what is public or was paid for. Nothing here reads data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from tallystick.errors import TallystickError
from tallystick.publish.datasets import BOUGHT
from tallystick.tables.reporting.sizes import Size, Usual, groups_digest, size_in

if TYPE_CHECKING:
    from tallystick.ledger.account import Account
    from tallystick.publish.datasets import Dataset
    from tallystick.tables.plan import Plan
    from tallystick.tables.table import Table

MOST_ACCOUNTS: Final = 50
"""Accounts of a population among whose answers a size is looked for."""


def usual_size(plan: Plan, dataset: Dataset, account: Account) -> Usual | None:
    """Return the size of a middle group: registered, of a stored answer, or of a suggestion.

    Stored answers count that are about the groups of the plan, and that the caller may see. None if there is no such
    number. It depends on the plan and the ledger alone.
    """
    if dataset.group_size is not None:
        return Usual(dataset.group_size, dataset.group_size, "the registered usual size", is_registered=True)
    groups = groups_digest(plan.query.table, plan.query.columns)
    return _of_answers(groups, dataset, account) or _of_suggestion(groups, dataset)


def _of_answers(groups: str, dataset: Dataset, account: Account) -> Usual | None:
    """Return the middle group of the most exact stored answer about these groups; of equal ones the newest."""
    registered = account.ledger.datasets().get(dataset.name)
    if registered is None:
        return None
    known: list[tuple[float, int, Size]] = []
    # a reader who cannot read answers, or an altered answer: a price is shown all the same
    with suppress(TallystickError):
        for payer in _payers(dataset, account):
            for charge, answer in payer.newest_answers(registered.sources):
                size = size_in(answer, groups)
                if size is not None:
                    known.append((size.noise, -charge, size))
    if not known:
        return None
    _, charge, size = min(known)
    return Usual(size.rows, size.people, f"the middle group of ledger entry {-charge}")


def _payers(dataset: Dataset, account: Account) -> Iterator[Account]:
    """Yield the accounts of a population, itself first."""
    below = [account.ledger.open(dataset.population)]
    for _ in range(MOST_ACCOUNTS):
        if not below:
            return
        payer = below.pop(0)
        yield payer
        below += payer.children


def bought(table: Table, by: Sequence[str], rows: int, charge: int) -> dict[str, Any]:
    """Return the entry of a registration about a size that a suggestion paid for."""
    return {"groups": groups_digest(table, by), "rows": rows, "charge": charge}


def _of_suggestion(groups: str, dataset: Dataset) -> Usual | None:
    """Return the size that a suggestion paid for, if it is about these groups."""
    known = dataset.asking.get(BOUGHT)
    if known is None or known["groups"] != groups:
        return None
    return Usual(int(known["rows"]), None, f"a middle group by the suggestion of ledger entry {known['charge']}")
