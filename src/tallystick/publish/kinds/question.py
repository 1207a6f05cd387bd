"""A question: a saved plan of a registered dataset, with its own cost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick.errors import InvalidInput, Refused
from tallystick.place import is_foreign_url, names_server
from tallystick.publish.datasets import find, payer
from tallystick.publish.kinds import Kind
from tallystick.publish.work import Work, plan_key
from tallystick.tables.plan import Plan
from tallystick.tables.release import require_all_groups

if TYPE_CHECKING:
    from tallystick.ledger.account import Account
    from tallystick.ledger.book import Ledger
    from tallystick.publish.datasets import Dataset
    from tallystick.publish.request import Request
    from tallystick.tables.table import Table


@dataclass(frozen=True, slots=True)
class Question(Kind):
    """A plan as ``Plan.to_json`` writes it, and the dataset that it is about."""

    dataset: str
    plan: Mapping[str, Any]
    account: str | None = None
    """The account to be charged: the population of the dataset, or a block of it."""
    source: str | None = field(default=None, repr=False)
    """The place of the data, if they moved. It is opened with the rights of the process, so a service must refuse it
    from its clients."""
    is_new: bool = False
    """True if it is a new release under a new key; else the plan and its data are the key."""
    all_groups: bool = False
    """True if the intervals of each column are to hold for all groups together."""

    @classmethod
    def of(cls, dataset: str, plan: Plan, **options: Any) -> Question:
        """Return the question of a plan."""
        return cls(dataset, json.loads(plan.to_json()), **options)

    def work(self, request: Request, book: Ledger) -> Work:
        """Return the plan for the dataset and the units that it was made for, with its cost computed again."""
        if request.cost.words:
            raise InvalidInput("cost", request.cost.words, "no cost: a plan has its own")
        dataset = find(self.dataset, book)
        account = payer(dataset, book, self.account)
        plan = self._plan(dataset, account)
        key = None if self.is_new else plan_key(plan, dataset)
        if self.all_groups:
            require_all_groups(plan)
        return Work(account, dataset, request.why or "", request.key_or(key), plan, all_groups=self.all_groups)

    def _plan(self, dataset: Dataset, account: Account) -> Plan:
        plan = Plan.from_json(json.dumps(self.plan), account=account)
        if _protected(dataset.opened()) != _protected(plan.query.table):
            raise Refused(
                f"this plan is about another table or unit than dataset {dataset.name!r} as it is registered; "
                "make the plan again"
            )
        return plan if self.source is None else plan.on(_absolute(self.source))


def _protected(table: Table) -> tuple[Any, ...]:
    """Return what a plan and a registration have in common."""
    return (table.unit, table.adjacency, table.name, table.base, table.source)


def _absolute(source: str) -> str:
    """Return a URL as it is, and a file by its absolute path."""
    return source if names_server(source) or is_foreign_url(source) else str(Path(source).absolute())


KIND = Question
