"""A request at work: registered data, the account to be charged, and a key. The payer of the ledger does the paying."""

from __future__ import annotations

import datetime
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick.cards import card
from tallystick.errors import (
    BudgetExceeded,
    DataChanged,
    IdempotencyConflict,
    MostlyNoise,
    Refused,
    Remedy,
    Unavailable,
)
from tallystick.ledger.chain import check_reason, digest
from tallystick.ledger.pay import charged_delta
from tallystick.ledger.texts import AutoKey
from tallystick.publish.datasets import told_of_moves
from tallystick.publish.group_size import usual_size
from tallystick.publish.outcome import Answer, Offer, Outcome, Payment, Released
from tallystick.tables import run
from tallystick.tables.denial import with_plans, with_prices
from tallystick.tables.epsilon_alone import require_stated
from tallystick.tables.progress import Progress
from tallystick.tables.reporting.columns import person
from tallystick.tables.reporting.line import data_of
from tallystick.tables.reporting.noise import noisy_measures, warned
from tallystick.tables.reporting.plan import GROUP_SIZES, USUAL_SIZE, details, error_words, summary, title
from tallystick.tables.reporting.registered import large_delta, other_people
from tallystick.tables.reporting.words import capital
from tallystick.tables.sources import NO_NAMES, Names, identity

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.cards import Card
    from tallystick.ledger.account import Account
    from tallystick.ledger.filters import Amount
    from tallystick.ledger.pay import Receipt
    from tallystick.publish.datasets import Dataset
    from tallystick.tables.output import Columns
    from tallystick.tables.plan import Plan
    from tallystick.tables.release import Release
    from tallystick.tables.sql.answer import Answered


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """A plan of a registered table and the account to be charged, ready to be offered, rehearsed and paid.

    A kind of request whose answer is not the table of the plan is a class below this one.
    """

    account: Account
    dataset: Dataset
    why: str
    key: str | None
    """None: the ledger makes a key, so that it is a new release."""
    plan: Plan
    names: Names = field(default=NO_NAMES, kw_only=True)
    """Names that a statement gives to columns of the plan."""
    all_groups: bool = field(default=False, kw_only=True)
    """True if the intervals of each column are to hold for all groups together."""

    @property
    def privacy(self) -> PrivacyLoss:
        """The loss of the release."""
        return self.plan.privacy

    @property
    def delta(self) -> float | None:
        """The delta that the release may spend."""
        return self.plan.delta

    @property
    def charged_delta(self) -> float | None:
        """The delta at which the account charges the release."""
        return charged_delta(self.account, self.delta)

    # The price.

    def price(self) -> Amount:
        """Return what the account would be charged."""
        try:
            return self.account.price(self.privacy, delta=self.charged_delta)
        except Refused as problem:
            raise self.refusal(problem) from None

    def offer(self, sizes: Sequence[int] = ()) -> Offer:
        """Return cost, error and whether it fits; ``sizes`` are rows in a group, for errors that depend on it."""
        facts = self.facts(sizes)
        price, left = self.price(), self.account.remaining
        return Offer(
            population=self.account.name,
            price=str(price),
            price_amount=price.to_dict(),
            price_epsilon=self._alone(price),
            cost=self._cost(price),
            left=left.text(upward=False),
            left_amount=left.to_dict(),
            left_of_limit=left.of_limit(self.account.limit),
            fits=price.fits(left),
            would_fit=self._problem(lambda: self.account.rehearse(price)),
            refused=self._problem(lambda: self._check_run(price)),
            **facts,
        )

    def _check_run(self, price: Amount) -> None:
        """Raise what ``run`` would raise about the key, the reason and the data, before it opens them."""
        if self.why:  # a price may be asked before there is a reason
            check_reason(self.why)
        self.check_key()
        self.account.admit(price, source=self._source)

    def check_key(self) -> None:
        """Raise if the key cannot be used for this request."""
        run.check_key(self.plan, self.account, key=self.key, dataset=self.dataset.name, names=self.names)

    def facts(self, sizes: Sequence[int]) -> dict[str, Any]:
        """Return what the offer says besides; raise if a new plan does not say which epsilon it means."""
        plan, size, facts = self.plan, sizes[0] if sizes else USUAL_SIZE, self.plan.facts()
        earlier = self._earlier()
        before = None
        if earlier is None:
            require_stated(plan, self.account)
            before = run.asked_before(
                plan, self.account, dataset=self.dataset.name, names=self.names, forms=self.forms()
            )
        by_size = plan.error_by_size(sizes or GROUP_SIZES)
        usual = usual_size(plan, self.dataset, self.account)
        noisy = noisy_measures(plan, sizes, usual)
        notes = self._read_before()
        return {
            "again": None if earlier is None else earlier.charge,
            "paid_before": None if before is None else before.to_data(),
            "hash": plan.hash,
            "error": plan.error(group_size=size),
            "group_size": size,
            "error_by_size": {name: _texts(errors) for name, errors in by_size.items()},
            "error_words": error_words(plan, next(iter(by_size.values()), ())),
            "groups": facts["keys"],
            "warnings": (*facts["warnings"], *notes, *(f"{name}: {text}" for name, text in noisy.items())),
            "explained": plan.explain(),
            "title": title(plan.query, self.dataset.name),
            "summary": tuple(summary(plan, sizes, usual, notes)),
            "details": tuple(details(plan)),
        }

    @property
    def others(self) -> list[str]:
        """Return who is identified by the groups and not protected, in sentences."""
        return other_people(self.plan.query, self.dataset.about, person(self.plan))

    def _read_before(self) -> list[str]:
        """Return what a person should know before paying, by what the owner registered, in sentences."""
        delta = self.account.quoted_delta(float(self.plan.delta or 0.0))
        return [*self.others, *large_delta(delta or 0.0, self.dataset.people)]

    def warn_of_noise(self) -> None:
        """Warn, before a charge, if the answer will be mostly noise: by the plan and a public size alone."""
        text = self.noise()
        if text and self._earlier() is None:
            warnings.warn(MostlyNoise(text), stacklevel=4)

    def noise(self) -> str:
        """Return which measures will be mostly noise, in a sentence; empty without one."""
        return warned(self.plan, usual_size(self.plan, self.dataset, self.account))

    def forms(self) -> run.Forms:
        """Return the question as a statement in SQL would ask it, whose answer may be in the record."""
        from tallystick.tables.sql.one_form import one_form  # sqlglot loads slowly

        return ((one_form(self.plan, self.plan.query).plan, NO_NAMES),)

    def _earlier(self) -> Receipt | None:
        if self.key is None:
            return None
        return run.answered_before(self.plan, self.account, key=self.key, dataset=self.dataset.name, names=self.names)

    @property
    def _source(self) -> str:
        table = self.plan.query.table
        return identity(table.source, table.name)

    def _alone(self, price: Amount) -> str:
        return self.account.release_epsilon(price, self.privacy)

    def _cost(self, price: Amount) -> str:
        """Return the cost beside what is left, and as epsilon."""
        epsilon = self._alone(price)
        return price.of_left(self.account.remaining) + (f" ({epsilon})" if epsilon else "")

    def _problem(self, check: Callable[[], None]) -> dict[str, Any] | None:
        """Return the denial or refusal that a check raises, as data."""
        try:
            check()
        except BudgetExceeded as problem:
            return self.denial(problem).to_data()
        except Refused as problem:
            return self.refusal(problem).to_data()
        except (IdempotencyConflict, Unavailable) as problem:
            return problem.to_data()
        return None

    def denial(self, problem: BudgetExceeded) -> BudgetExceeded:
        """Return a denial with smaller requests that fit."""
        return with_plans(self.plan, problem, self.account, self.dataset.name)

    def refusal(self, problem: Refused) -> Refused:
        """Return a refusal with costs that fit."""
        return with_prices(self.plan, problem, self.account)

    # The release.

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Add remedies to a denial, and to the error of a file that has moved."""
        try:
            with told_of_moves(self.account.ledger):
                yield
        except BudgetExceeded as problem:
            raise self.denial(problem) from None

    def rehearse(self) -> Receipt | None:
        """Return the receipt if the key has its answer; else raise what ``answer`` would before it charges."""
        with self.asking():
            return run.rehearsed(
                self.plan, self.account, why=self.why, key=self.key, dataset=self.dataset.name, names=self.names,
                forms=self.forms(),
            )  # fmt: skip

    def release(self, progress: Progress) -> Release:
        """Pay for the plan, compute it and record it; the same key again charges nothing."""
        with self.asking():
            made = run.release(
                self.plan, self.account, why=self.why, key=self.key, progress=progress, dataset=self.dataset.name,
                forms=self.forms(),
            )  # fmt: skip
        return self.read(made)

    def read(self, made: Release) -> Release:
        """Return a release as it is to be read: with what the owner registered, and the intervals that are asked."""
        return replace(made, most_rows=self.dataset.most_rows, is_joint=self.all_groups)

    def answer(self, progress: Progress) -> Answer:
        """Return the released table."""
        made = self.release(progress)
        return Answer(self.tabled(made), made, lambda: self.card(made))

    def tabled(self, made: Release, **found: Any) -> Outcome:
        """Return a released table as an outcome."""
        said = {"holds": made.holds, "left_out": made.left_out, "noisy": made.noisy, "wide": made.wide}
        removed = [each.to_data() for each in made.removed()]
        facts: dict[str, Any] = {
            "plan_hash": self.plan.hash,
            **said,
            "widths": _headed(made, made.widths()),
            "removed": removed,
        }
        facts |= {"effect": made.effect, "standard_errors": made.standard_errors_shown()}
        facts |= {"all_groups": self.all_groups, "all_rows": data_of(made.all_rows())}
        notes = (*made.notes, *(f"{capital(said)}." for said in self.others))
        shown = {"table": released_table(made), "notes": notes, "details": tuple(made.details())}
        return self.outcome(made.receipt, fresh=made.fresh, facts=facts, **shown, **found)

    def card(self, made: Release) -> Card:
        """Return the privacy card of a release."""
        return card(made, dataset=self.dataset.name, about=self.dataset.about)

    def payment(self, receipt: Receipt, *, fresh: bool) -> Payment:
        """Return what was paid and what is left now."""
        price, left = self.account.paid(receipt), self.account.remaining
        return Payment(
            charge=receipt.charge,
            again=not fresh,
            price=str(price),
            price_epsilon=self._alone(price),
            left=left.text(upward=False),
            left_of_limit=left.of_limit(self.account.limit),
            population=self.account.name,
            head=receipt.head,
        )

    def say_changed(self, payment: Payment) -> None:
        """Warn if a stored answer is older than the registration or the file of its data."""
        row = self.account.ledger.charge_row(payment.charge)[1]
        changed = self._changed(payment.charge, row["at"])
        if changed is None:
            return
        day = datetime.datetime.fromtimestamp(row["at"] / 1000, datetime.UTC).date()
        text = f"this is the answer of ledger entry {payment.charge} from {day}; {changed} since"
        remedies = [Remedy("set_argument", argument="key", value="NEW")]
        warnings.warn(DataChanged(text, remedies=remedies), stacklevel=4)

    def _changed(self, charge: int, at: int) -> str | None:
        """Return what changed after a charge, in words; None if nothing is known to have changed."""
        registered = self.account.ledger.datasets()[self.dataset.name]
        if registered.seq > charge:
            return f"the registration of {self.dataset.name} was updated"
        for path in self.plan.query.table.source.paths:
            with suppress(OSError):
                if Path(path).stat().st_mtime_ns > at * 1_000_000:
                    return f"the file of {self.dataset.name} was written"
        return None

    def outcome(self, receipt: Receipt | None, *, fresh: bool, **found: Any) -> Outcome:
        """Return the outcome with its payment, receipt and key."""
        assert receipt is not None  # an account has paid
        key = self.account.ledger.charge_row(receipt.charge)[0].key if self.key is None else self.key
        return Outcome(key, self.payment(receipt, fresh=fresh), receipt=json.loads(receipt.to_json()), **found)


def _texts(errors: Mapping[Any, float]) -> dict[str, float]:
    """Return errors by the size of a group as JSON has them."""
    return {str(size): error for size, error in errors.items()}


def plan_key(plan: Plan, dataset: Dataset) -> AutoKey:
    """Return the key of a plan and its data, so that running a plan twice by mistake charges once."""
    return default_key("plan", plan.hash, dataset)


def default_key(kind: str, asked: str, dataset: Dataset) -> AutoKey:
    """Return the key of a request that names none: what is asked, of which data, and of which version of them.

    The first version of the data is not named: keys in a ledger from before versions counted here stay the same.
    """
    version = dataset.later_version
    data = dataset.name if version is None else repr((dataset.name, version))
    return AutoKey(f"{kind}-{digest(f'{asked} {data}')[:24]}")


def _headed(made: Columns, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts about columns by the names that these have in outputs."""
    return {made.headers[name]: fact for name, fact in found.items()}


def released_table(made: Release | Answered) -> Released:
    """Return a released table as plain data."""
    document = made.to_data()
    rows = tuple(tuple(row.values()) for row in document["rows"])
    dates = [name for name, column in made.data.items() if any(isinstance(v, datetime.date) for v in column)]
    return Released(
        columns=tuple(made.headers.values()),
        groups=made.groups,
        counts=tuple(made.headers[name] for name in made.counts),
        dates=tuple(dates),
        rows=rows,
        about=made.about_csv(),
        document={**document, "rows": []},
    )
