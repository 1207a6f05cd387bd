"""A suggestion of caps and bounds for a registered table, from private quantiles."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.publish.catalogue import lists_of
from tallystick.publish.datasets import check_column, find, payer
from tallystick.publish.kinds import Kind
from tallystick.publish.outcome import Answer
from tallystick.publish.suggest import BEYOND, details, lines, suggest_caps
from tallystick.publish.work import Work, plan_key
from tallystick.tables.denial import for_suggestion
from tallystick.tables.implied import values_of
from tallystick.tables.progress import Progress

if TYPE_CHECKING:
    from tallystick.errors import BudgetExceeded
    from tallystick.ledger.book import Ledger
    from tallystick.publish.datasets import Dataset
    from tallystick.publish.request import Request
    from tallystick.publish.suggest import Asked
    from tallystick.tables.table import Table


@dataclass(frozen=True, slots=True)
class Caps(Kind):
    """Columns that tables will be grouped by, and ranges in which bounds are chosen; see ``suggest_caps``."""

    dataset: str
    by: tuple[str, ...] = ()
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    within: float | None = None
    beyond: float = BEYOND
    groups: int | None = None
    """The number of groups that tables will have; None: that of the registered lists of values."""
    per_query: Mapping[str, float] = field(default_factory=dict)
    """The cost of a table; empty: the registered one of a statement, else that of the suggestion."""
    account: str | None = field(default=None, kw_only=True)
    """The account to be charged: the population of the dataset, an allowance or a block of it."""

    def work(self, request: Request, book: Ledger) -> CapsWork:
        """Return the quantiles with their cost."""
        dataset = find(self.dataset, book)
        account = payer(dataset, book, self.account)
        table = dataset.opened(account)
        self._check_columns(table)
        options: dict[str, Any] = {
            "within": self.within,
            "beyond": self.beyond,
            "groups": self._groups(dataset, table),
            "per_query": self.per_query or dataset.asking.get("per_query"),
        }
        asked = suggest_caps(table, by=self.by, ranges=self.ranges, **options, **request.cost.words)
        key = request.key_or(plan_key(asked.plan, dataset))
        return CapsWork(account, dataset, request.why or "", key, asked.plan, asked)

    def _groups(self, dataset: Dataset, table: Table) -> int | None:
        """Return the number of groups that is public: the named one, or that of all combinations of public values."""
        if self.groups is not None or not self.by:
            return self.groups
        lists = lists_of(dataset, table)
        values = [lists.get(column) or values_of(table, column) for column in self.by]
        known = [len(each) for each in values if each]
        return math.prod(known) if len(known) == len(values) else None

    def _check_columns(self, table: Table) -> None:
        for column in self.by:
            check_column("by", column, table)
        for column in self.ranges:
            check_column("ranges", column, table, is_number=True)


@dataclass(frozen=True, slots=True, eq=False)
class CapsWork(Work):
    """The plan of the quantiles, from which caps and bounds are read."""

    asked: Asked

    def noise(self) -> str:
        """Return nothing: a suggestion says itself how certain it is."""
        return ""

    def denial(self, problem: BudgetExceeded) -> BudgetExceeded:
        """Return a denial with costs that fit; no measure of a suggestion can be left out."""
        return for_suggestion(Work.denial(self, problem))

    def answer(self, progress: Progress) -> Answer:
        """Return caps and bounds."""
        release = self.release(progress)
        made = self.asked.read(release)
        shown = {"notes": tuple(lines(made)), "details": tuple(details(made))}
        outcome = self.outcome(release.receipt, fresh=release.fresh, facts=made.to_data(), **shown)
        return Answer(outcome, made, lambda: self.card(release))


KIND = Caps
