"""A fit of a registered table, as far as every kind of model has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.errors import InvalidInput, Remedy
from tallystick.publish.datasets import check_column, find
from tallystick.publish.kinds import Kind
from tallystick.tables.expressions import from_data

if TYPE_CHECKING:
    from tallystick.ledger.account import Account
    from tallystick.ledger.book import Ledger
    from tallystick.publish.datasets import Dataset
    from tallystick.publish.request import Cost
    from tallystick.tables.table import Table


EXAMPLES = {"rho": 0.01, "epsilon": 0.5}


@dataclass(frozen=True, slots=True)
class Fit(Kind):
    """A target, its features, public bounds that the registration lacks, and conditions on rows as plain data."""

    dataset: str
    target: str
    features: tuple[str, ...]
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    where: tuple[Any, ...] = ()

    def registered(self, book: Ledger) -> tuple[Dataset, Account, Table]:
        """Return the data set, its population, and its table with the conditions."""
        dataset = find(self.dataset, book)
        account = book.open(dataset.population)
        table = dataset.opened(account)
        for condition in self.where:
            table = table.filter(from_data(condition))
        check_column("target", self.target, table)
        for name in self.features:
            check_column("features", name, table)
        return dataset, account, table


def check_cost(cost: Cost, *allowed: str) -> None:
    """Refuse a cost in words that a model does not take, or without a price."""
    remedies = [Remedy("set_argument", argument=word, value=EXAMPLES[word]) for word in allowed]
    for word, value in cost.words.items():
        if word not in (*allowed, "delta", "pure"):
            raise InvalidInput(word, value, "a price in other words", remedies=remedies)
    if not any(word in cost.words for word in allowed):
        raise InvalidInput(allowed[0], None, "a price", remedies=remedies)
