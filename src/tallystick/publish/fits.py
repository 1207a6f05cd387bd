"""A fit of a registered table, as far as every kind of model has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.errors import InvalidInput
from tallystick.publish.datasets import check_column, find, payer
from tallystick.publish.kinds import Kind
from tallystick.tables.denial import payable_examples
from tallystick.tables.expressions import from_data

if TYPE_CHECKING:
    from tallystick.ledger.account import Account
    from tallystick.ledger.book import Ledger
    from tallystick.ledger.filters import Amount
    from tallystick.publish.datasets import Dataset
    from tallystick.publish.request import Cost
    from tallystick.tables.table import Table


@dataclass(frozen=True, slots=True)
class Fit(Kind):
    """A target, its features, public bounds that the registration lacks, and conditions on rows as plain data."""

    dataset: str
    target: str
    features: tuple[str, ...]
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    where: tuple[Any, ...] = ()
    account: str | None = field(default=None, kw_only=True)
    """The account to be charged: the population of the dataset, an allowance or a block of it."""

    def registered(self, book: Ledger) -> tuple[Dataset, Account, Table]:
        """Return the dataset, the account to be charged, and the table with the conditions."""
        dataset = find(self.dataset, book)
        account = payer(dataset, book, self.account)
        table = dataset.opened(account)
        for condition in self.where:
            table = table.filter(from_data(condition))
        check_column("target", self.target, table)
        for name in self.features:
            check_column("features", name, table)
        return dataset, account, table


def check_cost(cost: Cost, account: Account, price: Callable[[Mapping[str, Any]], Amount], *allowed: str) -> None:
    """Refuse a cost in words that a model does not take, or without a cost; ``price`` computes the cost of words."""
    named = [word for word in allowed if word in cost.words]
    other = [word for word in cost.words if word not in (*allowed, "delta", "pure")]
    if len(named) == 1 and not other:
        return
    if len(named) > 1:
        raise InvalidInput("price", named, "one of them", problem=f"{' and '.join(named)} are two costs")
    problem = f"the cost of a fit cannot be given as {other[0]}" if other else "no cost is named"
    remedies = payable_examples(account, price, allowed)
    raise InvalidInput("price", None, "", code="no_price", remedies=remedies, problem=problem)
