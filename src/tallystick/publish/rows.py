"""Models of a registered table's rows, which are read after the charge through the engine of the source.

    fit = RowsWork.of(logistic_regression(table, ...), dataset, account, request)     with its cost; opens nothing
    model = fit.fit()                                                                 charged, read, fitted, recorded

Sums of a table are computed where it is; a fit that looks at rows again and again needs the rows. They are those that
count (filters, block, unit), features clamped to their bounds and mapped to [-1, 1], and the first rows of each unit in
an order that depends on the rows of that unit alone.
"""

from __future__ import annotations

import functools
import json
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tallystick.cards.linear import scaled_columns
from tallystick.errors import BudgetExceeded, IdempotencyConflict, InvalidInput, Refused
from tallystick.learn.records import Given
from tallystick.ledger.chain import SourceId, digest
from tallystick.ledger.denial import with_epsilon
from tallystick.ledger.pay import Paid, check_key, find_answer, paid_before, pay, rehearse, stored_answer
from tallystick.mechanisms.exact.randomness import SYSTEM, Source
from tallystick.publish.models import bounded
from tallystick.publish.outcome import Answer
from tallystick.publish.work import Work, default_key
from tallystick.tables import run
from tallystick.tables.expressions import Expression, col, when
from tallystick.tables.measures import sum as total
from tallystick.tables.progress import Progress, reported
from tallystick.tables.sources import request
from tallystick.tables.steps import EachRow

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.cards import Card
    from tallystick.learn.estimator import Recipe
    from tallystick.ledger.account import Account
    from tallystick.ledger.filters import Amount
    from tallystick.ledger.pay import Receipt
    from tallystick.publish.datasets import Dataset
    from tallystick.publish.request import Request
    from tallystick.tables.plan import Plan
    from tallystick.tables.reader import Reader
    from tallystick.tables.table import Table

FORMAT = "tallystick/logistic-model/1"
SLOTS = 2**27
"""Solvers that minimise certify up to this many rows, and how many there are is private: see ``thinned``."""
MOST_CLASSES = 32


@dataclass(frozen=True, slots=True)
class Classification:
    """Which columns, which labels, and the model that will be fitted to them. Public."""

    table: Table
    target: str
    features: tuple[str, ...]
    bounds: tuple[tuple[float, float], ...]
    labels: tuple[Any, ...]
    epsilon: float
    delta: float | None
    solver: str | None

    def model(self) -> Any:
        """The estimator, not fitted: every number of it is public, and it knows its cost."""
        from tallystick.learn import LogisticRegression

        return LogisticRegression(
            row_norm=math.sqrt(len(self.features)), classes=list(range(len(self.labels))), most_rows=SLOTS,
            rows_per_unit=self._rows_per_unit, adjacency=self.table.adjacency.value,
            epsilon=self.epsilon, delta=self.delta, solver=self._solver,
        )  # fmt: skip

    @property
    def _solver(self) -> str | None:
        """The solver: with a delta noise on gradients, which needs no bound on the number of rows."""
        return self.solver or ("noisy_gd" if self.delta else None)

    @property
    def _rows_per_unit(self) -> int:
        if isinstance(self.table.unit, EachRow):
            return 1
        rows = self.table.rows_in_a_group
        if rows is None:
            raise InvalidInput("max_rows_per_group", None, "how many rows of one unit count: per_unit(...)")
        return rows

    def read(self, fitted: Any) -> dict[str, Any]:
        """In the units of the data. One row of coefficients for two labels (positive: the second), else one each."""
        lows, highs = np.array(self.bounds).T
        slopes = fitted.coef_ * (2.0 / (highs - lows))
        intercepts = fitted.intercept_ - slopes @ lows - fitted.coef_.sum(axis=1)
        return {
            "format": FORMAT,
            "target": self.target,
            "labels": list(self.labels),
            "features": list(self.features),
            "bounds": {name: list(pair) for name, pair in zip(self.features, self.bounds, strict=True)},
            "coefficients": slopes.tolist(),
            "intercepts": intercepts.tolist(),
        }

    def plan(self) -> Plan:
        """A plan whose rows are the ones to read: filters and block are applied, nothing of its sums is computed."""
        names = (*self.features, self.target)
        table = self.table.filter(functools.reduce(operator.and_, (~col(name).is_missing() for name in names)))
        columns = scaled_columns(self.features, self.bounds[: len(self.features)])
        columns["fit_label"] = _code(self.target, self.labels)
        table = table.derive(**columns)
        sums = {f"s{i}": total(name, -1, MOST_CLASSES) for i, name in enumerate(columns)}
        return table.agg(**sums).plan(epsilon=1.0, caps_share=0)


def _code(target: str, labels: Sequence[Any]) -> Expression:
    """The place of a label among the declared ones, -1 for any other."""
    code: Any = -1
    for index, label in reversed(list(enumerate(labels))):
        code = when(col(target) == label, index, code)
    made: Expression = code
    return made


def logistic_regression(
    table: Table,
    *,
    target: str,
    features: Sequence[str],
    labels: Sequence[Any],
    epsilon: float,
    delta: float | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    solver: str | None = None,
) -> Classification:
    """Logistic regression of a column on others of a private table; other labels are left out.

    >>> import pyarrow, tallystick as ts
    >>> visits = ts.Private(pyarrow.table({"who": [1], "age": [40.0], "ill": ["no"]})).table(unit="who")
    >>> visits = visits.per_unit(max_rows_per_group=1).bounds(age=(0, 110))
    >>> asked = logistic_regression(visits, target="ill", features=["age"], labels=["no", "yes"], epsilon=1)
    >>> asked.model().privacy.epsilon(delta=0) <= 1
    True
    """
    pairs = bounded(table, features, bounds)
    kind = table.schema.type_of(target)
    typed: dict[str, type] = {"text": str, "integer": int, "boolean": bool}
    if kind not in typed or target in features:
        raise InvalidInput("target", target, f"a column of labels, text or whole numbers ({target} is {kind})")
    listed = tuple(labels)
    is_typed = all(type(label) is typed[kind] for label in listed)
    if not is_typed or not 2 <= len(set(listed)) == len(listed) <= MOST_CLASSES:
        raise InvalidInput("labels", list(listed), f"2 to {MOST_CLASSES} different labels of type {kind}")
    classification = Classification(table, target, tuple(features), pairs, listed, epsilon, delta, solver)
    classification.model()._recipe().ready(len(features) + 1)  # what public numbers cannot do is refused now
    return classification


class RowModel(Protocol):
    """A query of rows: a new kind of model is a class like ``Classification``."""

    @property
    def table(self) -> Table: ...

    @property
    def delta(self) -> float | None: ...

    def model(self) -> Any:
        """The estimator, not fitted."""

    def plan(self) -> Plan:
        """A plan whose rows are the ones to read, the target's column last."""

    def read(self, fitted: Any) -> dict[str, Any]:
        """The fitted estimator in the units of the data, as plain JSON data."""


@dataclass(frozen=True, slots=True, eq=False)
class RowsWork(Work):
    """A fit with its cost; ``plan`` says which rows are read, and ``opened`` makes it payable."""

    asked: RowModel
    recipe: Recipe
    loss: PrivacyLoss
    pure: bool
    """True if the caller said that an epsilon without a delta is meant as pure epsilon."""

    def noise(self) -> str:
        """Return nothing: a model has no groups."""
        return ""

    @classmethod
    def of(cls, asked: RowModel, dataset: Dataset, account: Account, request: Request) -> RowsWork:
        """Return the fit that a request asks for. Without a key, the fit and its data are the key."""
        model, plan = asked.model(), asked.plan().with_account(account)
        recipe = model._recipe()
        key = request.key_or(default_key("fit", fit_hash(plan, recipe), dataset))
        loss = model._loss(recipe)
        return cls(account, dataset, request.why or "", key, plan, asked, recipe, loss, request.cost.pure)

    @property
    def privacy(self) -> PrivacyLoss:
        """The loss of the fit."""
        return self.loss

    @property
    def delta(self) -> float | None:
        """The delta that the fit may spend."""
        return self.asked.delta

    @property
    def hash(self) -> str:
        """The digest of recipe and rows; the place of the data is not in it."""
        return fit_hash(self.plan, self.recipe)

    @property
    def request(self) -> str:
        """The recipe, the rows and the data they come from."""
        return request(self.hash, self.asked.table.name, f"dataset {self.dataset.name}")

    @contextmanager
    def opened(self, *, rows: bool = True) -> Iterator[OpenedFit]:
        """Open the data once and recognise them, before anything is charged."""
        with run.Asked.of(self.plan, self.account, self.dataset.name).opened(rows=rows) as (reader, (source, *_)):
            yield OpenedFit(self, reader, source)

    def denial(self, problem: BudgetExceeded) -> BudgetExceeded:
        """Return a denial with an epsilon that fits."""
        model = self.asked.model()

        def price(epsilon: float) -> Amount:
            return self.account.price(model.set_params(epsilon=epsilon).privacy, delta=self.charged_delta)

        return with_epsilon(problem, self.account, model.epsilon, price)

    def refusal(self, problem: Refused) -> Refused:
        """Return the refusal as it is: its rows have no separate cost."""
        return problem

    def facts(self, sizes: Sequence[int]) -> dict[str, Any]:
        """Return the charge that has the answer, if there is one."""
        earlier = self._earlier()
        if earlier is not None:
            return {"hash": self.hash, "again": earlier.charge}
        self._require_stated()
        before = paid_before(self, self.account, delta=self.charged_delta)
        return {"hash": self.hash, "paid_before": None if before is None else before.to_data()}

    def _earlier(self) -> Receipt | None:
        try:
            paid = find_answer(self, self.account, key=self.key, delta=self.charged_delta)
        except IdempotencyConflict:  # the offer says it
            return None
        return None if paid is None else paid.receipt

    def check_key(self) -> None:
        """Raise if the key cannot be used for this fit."""
        check_key(self, self.account, key=self.key, delta=self.charged_delta)

    def _require_stated(self) -> None:
        """Refuse a new fit at an epsilon without a delta, unless the caller said that pure epsilon is meant."""
        asked: Any = self.asked

        def privacy_at(delta: float) -> PrivacyLoss:
            other: Any = replace(asked, delta=delta).model()
            return other.privacy  # type: ignore[no-any-return]

        asked.model().require_stated(self.account, privacy_at, pure=self.pure)

    def _stored(self) -> Paid | None:
        """Return the stored answer of the key; without one, the fit is new and says which epsilon it means."""
        paid = stored_answer(self, self.account, why=self.why, key=self.key, delta=self.charged_delta)
        if paid is None:
            self._require_stated()
        return paid

    def rehearse(self) -> Receipt | None:
        """Return the receipt if the key has its answer; else raise what paying would raise before it reads a row."""
        with self.asking():
            paid = self._stored()
            if paid is not None:
                return paid.receipt
            with self.opened(rows=False) as opened:
                return rehearse(opened, self.account, why=self.why, key=self.key, delta=self.charged_delta)

    def fit(self, progress: Progress = None) -> FittedModel:
        """Pay, read, fit, store; the same key gives the same model and charges nothing."""
        with reported(progress) as tell, self.asking():
            if tell is not None:
                tell("rows")
            paid = self._stored()
            if paid is None:
                with self.opened() as opened:
                    paid = pay(opened, self.account, why=self.why, key=self.key, delta=self.charged_delta)
        model = self.asked.model()
        model.n_features_in_ = len(self.plan.query.measures) - 1  # the last is the target
        model._keep(paid.answer)
        return FittedModel(self, model, paid)

    def answer(self, progress: Progress) -> Answer:
        """Return the fitted model."""
        made = self.fit(progress)
        outcome = self.outcome(made.paid.receipt, fresh=made.paid.fresh, model=made.to_data())
        return Answer(outcome, made, made.card)


def fit_hash(plan: Plan, recipe: Recipe) -> str:
    """Return the digest of a fit's rows and recipe."""
    return digest(f"{plan.hash} {recipe!r}")


@dataclass(frozen=True, slots=True, eq=False)
class OpenedFit:
    """One fit as the ledger's payer sees it (``ledger.pay.Payable``)."""

    fit: RowsWork
    reader: Reader
    source: SourceId

    @property
    def privacy(self) -> PrivacyLoss:
        """Privacy loss of the fit."""
        return self.fit.privacy

    @property
    def request(self) -> str:
        """The recipe, the rows and the data they come from."""
        return self.fit.request

    def preflight(self) -> None:
        """The source is there, and its rows could be read: none is looked at."""
        run.preflight(self.fit.plan, self.reader)
        run.rows(self.fit.plan, self.reader.engine, empty=True)

    def draw(self) -> dict[str, Any]:
        """The model."""
        asked, recipe = self.fit.asked, self.fit.recipe
        usable = self.data().usable(asked.model().rows_per_unit)
        return recipe.train(thinned(usable, SYSTEM) if hasattr(recipe, "most_rows") else usable, SYSTEM)

    def data(self) -> Given:
        """The rows; the order of one person's rows does not depend on who else is there."""
        units, columns = run.rows(self.fit.plan, self.reader.engine)
        self.reader.check_unchanged()
        numbers = np.array(columns, dtype=np.float64).reshape(len(columns), -1)
        order = np.lexsort(numbers[::-1])
        rows, targets = 2.0 * numbers[:-1, order].T - 1.0, numbers[-1, order]
        return Given(rows, targets, None if units is None else [units[i] for i in order])


def thinned(data: Given, source: Source, slots: int = SLOTS) -> Given:
    """Return at most ``slots`` rows of any number: every row draws a slot, and one that two rows drew keeps neither.

    So no fit fails, or reads on, because there are too many rows. It is free: given all draws, which look at no data, a
    row more fills its slot or empties it. So what is kept differs by one row, too. A mixture of pairs over one law of
    draws is at most as easy to tell apart as the worst pair. (Keeping the first row of a slot, or the first ``slots``
    rows, would let another row in when one goes: two rows.) A million rows lose 7 of 1,000, at random.
    """
    drawn = source.words(len(data.rows)) % np.uint64(slots)
    _, place, count = np.unique(drawn, return_inverse=True, return_counts=True)
    alone = count[place] == 1
    assert data.targets is not None
    return Given(data.rows[alone], data.targets[alone], None)


@dataclass(frozen=True, slots=True)
class FittedModel:
    """A fitted estimator and its receipt."""

    work: RowsWork
    fitted: Any
    paid: Paid

    def to_data(self) -> dict[str, Any]:
        """Return the model as JSON data."""
        return {**self.work.asked.read(self.fitted), "receipt": json.loads(self.paid.receipt.to_json())}

    def card(self) -> Card:
        """Return the privacy card."""
        from tallystick.cards.card import paid_fit_card
        from tallystick.cards.fits import FitPlan

        dataset = self.work.dataset
        plan = FitPlan.of(self.fitted, plan=self.work.plan, dataset=dataset.name)
        return paid_fit_card(plan, self.paid.receipt, self.work.account, dataset=dataset.name, about=dataset.about)
