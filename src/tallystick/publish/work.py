"""A request at work: registered data, the account that pays, and a key. The payer of the ledger does the paying."""

from __future__ import annotations

import datetime
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.accounting.adjacency import Protects
from tallystick.cards import card
from tallystick.errors import BudgetExceeded, NotComputable, Refused
from tallystick.ledger.chain import digest
from tallystick.ledger.pay import charged_delta
from tallystick.printing import given, up
from tallystick.publish.datasets import told_of_moves
from tallystick.publish.outcome import Answer, Offer, Outcome, Payment, Released
from tallystick.rounding import as_written
from tallystick.tables import run
from tallystick.tables.denial import with_plans
from tallystick.tables.epsilon_alone import require_stated
from tallystick.tables.plan import GROUP_SIZES, error_words
from tallystick.tables.sources import NO_NAMES, Names, identity

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.ledger.account import Account
    from tallystick.ledger.filters import Amount
    from tallystick.ledger.pay import Receipt
    from tallystick.publish.datasets import Dataset
    from tallystick.tables.plan import Plan
    from tallystick.tables.release import Release
    from tallystick.tables.sql.answer import Answered
    from tallystick.tables.table import Table

Progress = Callable[[str], None] | None
USUAL_SIZE = 1_000
"""Rows in a group for which an error is shown if no size is named."""


@dataclass(frozen=True, slots=True)
class Work(ABC):
    """One request, ready to be priced, rehearsed and paid."""

    account: Account
    dataset: Dataset
    why: str
    key: str | None
    """None: the ledger makes a key, so that it is a release of its own."""

    @property
    @abstractmethod
    def privacy(self) -> PrivacyLoss:
        """The loss of the release."""

    @property
    @abstractmethod
    def delta(self) -> float | None:
        """The delta that the release may spend."""

    @property
    @abstractmethod
    def table(self) -> Table:
        """The registered table that is read."""

    @abstractmethod
    def facts(self, sizes: Sequence[int]) -> dict[str, Any]:
        """Return what an offer says besides its price; raise if the request does not say which epsilon it means."""

    @abstractmethod
    def denial(self, problem: BudgetExceeded) -> BudgetExceeded:
        """Return a denial with offers of this kind."""

    @abstractmethod
    def rehearse(self) -> Receipt | None:
        """Return the receipt if the key has its answer; else raise what ``answer`` would before it charges."""

    @abstractmethod
    def answer(self, progress: Progress) -> Answer:
        """Pay, compute, record; the same key again gives the same answer and charges nothing."""

    @property
    def price(self) -> Amount:
        """The amount that the account would pay."""
        return self.account.price(self.privacy, delta=charged_delta(self.account, self.delta))

    def offer(self, sizes: Sequence[int] = ()) -> Offer:
        """Return price, error and whether it fits."""
        facts = self.facts(sizes)
        price, left = self.price, self.account.remaining
        return Offer(
            population=self.account.name,
            price=str(price),
            price_amount=price.to_dict(),
            price_epsilon=self._alone(price),
            left=left.text(upward=False),
            left_amount=left.to_dict(),
            fits=price.fits(left),
            would_fit=self._would_fit(price),
            refused=self._refusal(price),
            **facts,
        )

    def _alone(self, price: Amount) -> str:
        return epsilon_alone(self.privacy, price, self.account.quoted_delta(float(price.delta)))

    def _would_fit(self, price: Amount) -> str | None:
        try:
            self.account.rehearse(price)
        except BudgetExceeded as problem:
            return ", or ".join(self.denial(problem).fits)
        except Refused as problem:
            return str(problem)
        return None

    def _refusal(self, price: Amount) -> str | None:
        try:
            self.account.admit(price, source=identity(self.table.source, self.table.name))
        except Refused as problem:
            return str(problem)
        return None

    def payment(self, receipt: Receipt, *, fresh: bool) -> Payment:
        """Return what was paid and what is left now."""
        price = self.account.paid(receipt)
        left = self.account.remaining.text(upward=False)
        return Payment(receipt.charge, not fresh, str(price), self._alone(price), left, self.account.name, receipt.head)

    def outcome(self, receipt: Receipt, *, fresh: bool, **found: Any) -> Outcome:
        """Return the outcome with its payment, receipt and key."""
        key = self.key or self.account.ledger.charge_row(receipt.charge)[0].key
        paid = self.payment(receipt, fresh=fresh)
        return Outcome(key, paid, receipt=json.loads(receipt.to_json()), **found)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Word a denial, and a file that has moved, as this request needs it."""
        try:
            with told_of_moves(self.account.ledger):
                yield
        except BudgetExceeded as problem:
            raise self.denial(problem) from None


@dataclass(frozen=True, slots=True)
class PlanWork(Work):
    """A plan of a registered table."""

    plan: Plan
    names: Names = field(default=NO_NAMES, kw_only=True)

    @property
    def privacy(self) -> PrivacyLoss:
        """The loss of the plan."""
        return self.plan.privacy

    @property
    def delta(self) -> float | None:
        """The delta that the plan may spend."""
        return self.plan.delta

    @property
    def table(self) -> Table:
        """The table of the plan."""
        return self.plan.query.table

    def denial(self, problem: BudgetExceeded) -> BudgetExceeded:
        """Return a denial with smaller plans that fit."""
        return with_plans(self.plan, problem)

    def facts(self, sizes: Sequence[int]) -> dict[str, Any]:
        """Return hash, errors, groups and warnings of the plan, and the charge that has its answer."""
        plan, size = self.plan, sizes[0] if sizes else USUAL_SIZE
        earlier = self._earlier()
        if earlier is None:
            require_stated(plan, self.account)
        by_size = plan.error_by_size(sizes or GROUP_SIZES)
        shown = next(iter(by_size.values()), ())
        return {
            "again": None if earlier is None else earlier.charge,
            "hash": plan.hash,
            "error": plan.error(group_size=size),
            "group_size": size,
            "error_by_size": by_size,
            "error_words": error_words(plan, shown),
            "groups": plan.facts()["keys"],
            "warnings": tuple(plan.facts()["warnings"]),
            "explained": plan.explain(),
        }

    def _earlier(self) -> Receipt | None:
        if self.key is None:
            return None
        return run.answered_before(self.plan, self.account, key=self.key, dataset=self.dataset.name, names=self.names)

    def rehearse(self) -> Receipt | None:
        """Check everything up to the charge; no row is read."""
        with self.asking():
            return run.rehearsed(
                self.plan, self.account, why=self.why, key=self.key, dataset=self.dataset.name, names=self.names
            )

    def release(self, progress: Progress) -> Release:
        """Pay for the plan and compute it."""
        with self.asking():
            return run.release(
                self.plan, self.account, why=self.why, key=self.key, progress=progress, dataset=self.dataset.name
            )

    def answer(self, progress: Progress) -> Answer:
        """Return the released table."""
        made = self.release(progress)
        return Answer(self.tabled(made), made, lambda: self.card(made))

    def tabled(self, made: Release, **found: Any) -> Outcome:
        """Return a released table as an outcome."""
        facts = {
            "plan_hash": self.plan.hash,
            "holds": made.holds,
            "left_out": made.left_out,
            "wide": made.wide,
            "widths": made.widths(),
            "removed": [each.to_data() for each in made.removed()],
        }
        notes = tuple(filter(None, (made.holds, made.left_out, made.wide)))
        assert made.receipt is not None
        return self.outcome(
            made.receipt, fresh=made.fresh, table=released_table(made), facts=facts, notes=notes, **found
        )

    def card(self, made: Release) -> Any:
        """Return the privacy card of a release."""
        return card(made, dataset=self.dataset.name, about=self.dataset.about)


def plan_key(plan: Plan, dataset: Dataset) -> str:
    """Return the key of a plan and its data, so that running a plan twice by mistake charges once."""
    return f"plan-{digest(f'{plan.hash} {dataset.name}')[:24]}"


def released_table(made: Release | Answered) -> Released:
    """Return a released table as plain data."""
    document = made.to_data()
    rows = tuple(tuple(row.values()) for row in document["rows"])
    dates = [name for name, column in made.data.items() if any(isinstance(v, datetime.date) for v in column)]
    return Released(
        columns=made.columns,
        groups=made.groups,
        counts=made.counts,
        dates=tuple(dates),
        rows=rows,
        about=made.about_csv(),
        document={**document, "rows": []},
    )


def epsilon_alone(loss: PrivacyLoss, price: Amount, delta: float) -> str:
    """Return a release by itself as epsilon; empty if the price is an epsilon.

    The release's own loss may promise more than the price it is charged at. ``delta`` is that at which the account's
    epsilon is shown.

    >>> from tallystick.accounting.losses import pure_dp, zcdp
    >>> from tallystick.ledger import Amount, Filter
    >>> epsilon_alone(pure_dp(epsilon=0.1), Amount(Filter("zcdp"), 5_000_000_000), 1e-6)
    'epsilon 0.1'
    >>> epsilon_alone(zcdp(rho=0.005), Amount(Filter("zcdp"), 5_000_000_000), 1e-6)
    'epsilon 0.43 at delta 1e-06'
    """
    if price.filter.kind == "approx" or price.a0 <= 0:
        return ""
    charged = price.filter.guarantee(price.a0, price.a1, Protects()).epsilon(delta=delta)
    try:
        pure, own = loss.epsilon(delta=0.0), loss.epsilon(delta=delta)
    except NotComputable:
        pure, own = math.inf, charged
    if pure < math.inf:
        return f"epsilon {up(as_written('epsilon', pure), 3)}"
    return f"epsilon {up(min(own, charged), 3)} at delta {given(delta)}"
