"""Linear regression of a table: sums of products as one plan, capped per person, computed by the engine of the source.

    regression = linear_regression(table, target="cost", features=["age", "days"])
    plan = regression.plan(rho=0.1)          cost and error; no data opened
    model = plan.release(why="forecast")     charged, computed, noised, recorded

Features and target are clamped to their bounds and mapped to [0, 1]; rows where one is missing are left out. The sums
are n, u_j, u_j u_k, v, u_j v and v^2 (docs/theory/linear-regression.md), and the model is read from them for free.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallystick.cards.linear import LinearForm
from tallystick.digits import typed
from tallystick.errors import BudgetExceeded, InvalidInput, Refused, Remedy
from tallystick.inference.regression import Line, Statistics, said_of_intervals
from tallystick.printing import json_text
from tallystick.tables.denial import for_model
from tallystick.tables.fixed_point import bounds as checked_bounds

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.ledger.account import Account
    from tallystick.tables.plan import Plan
    from tallystick.tables.release import Release
    from tallystick.tables.table import Query, Table

FORMAT = "tallystick/linear-model/1"
MOST_FEATURES = 11
"""A plan has at most 100 measures, and p features need (p + 2)(p + 3)/2 sums."""

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Regression:
    """Target and features of a regression; every column has public bounds, the target's last."""

    table: Table
    target: str
    features: tuple[str, ...]
    bounds: tuple[tuple[float, float], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Features, then the target."""
        return (*self.features, self.target)

    def query(self) -> Query:
        """The sums, checked; nothing is opened."""
        return self.form.query(self.table)

    @property
    def form(self) -> LinearForm:
        """The question without its table."""
        return LinearForm(self.target, self.features, self.bounds)

    def plan(self, **budget: Any) -> LinearPlan:
        """Return the plan; the words name the total cost of all sums.

        They are ``rho=``, ``epsilon=`` and ``delta=``, or ``epsilon=`` with ``pure=True``.
        """
        return LinearPlan(self, self.query().plan(caps_share=0, **budget))


def linear_regression(
    table: Table, *, target: str, features: Sequence[str], bounds: Mapping[str, tuple[float, float]] | None = None
) -> Regression:
    """Least squares of a column on others of a private table, with its cost known before anything is opened.

    ``bounds`` adds to those the table declares, which always apply: every column needs a public range to which its
    values are clamped.

    >>> import pyarrow, tallystick as ts
    >>> visits = ts.Private(pyarrow.table({"who": [1], "age": [40.0], "cost": [90.0]})).table(unit="who")
    >>> visits = visits.per_unit(max_rows_per_group=1).bounds(age=(0, 110), cost=(0, 500))
    >>> plan = ts.linear_regression(visits, target="cost", features=["age"]).plan(epsilon=1)
    >>> plan.privacy.epsilon(delta=0)
    1.0
    """
    if target in features:
        raise InvalidInput("target", target, "a column that is not among the features")
    pairs = bounded(table, features, bounds)
    return Regression(table, target, tuple(features), (*pairs, *bounded(table, [target], bounds)))


def bounded(
    table: Table, columns: Sequence[str], bounds: Mapping[str, tuple[float, float]] | None
) -> tuple[tuple[float, float], ...]:
    """The public bounds of some numeric columns: those given here, or those the table declares."""
    allowed = f"a list of 1 to {MOST_FEATURES} different column names"
    if isinstance(columns, str) or not all(isinstance(name, str) for name in columns):
        raise InvalidInput("features", columns, allowed)
    if not 1 <= len(set(columns)) == len(columns) <= MOST_FEATURES:
        raise InvalidInput("features", list(columns), allowed)
    declared = {name: (low, high) for name, low, high in table.declared}
    known = dict(bounds or {}) | declared
    for name in (*columns, *(bounds or ())):
        table.schema.numeric(name, "fit", is_bounded=name in (bounds or ()))
        if name in declared and bounds is not None and name in bounds and _bounds(name, bounds[name]) != declared[name]:
            low, high = declared[name]
            raise InvalidInput(
                "bounds", name, f"none: {name} is declared within [{typed(low)}, {typed(high)}], and that applies"
            )
        if name not in known:
            remedies = [Remedy("declare_bounds", column=name, lower=0, upper=100)]
            problem = f"{name} has no public bounds"
            raise InvalidInput("bounds", name, "", code="no_bounds", remedies=remedies, problem=problem)
    return tuple(_bounds(name, known[name]) for name in columns)


def _bounds(name: str, given: Any) -> tuple[float, float]:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise InvalidInput(f"bounds of {name}", given, "a pair (lower, upper)")
    return checked_bounds(*given)


@dataclass(frozen=True, slots=True)
class LinearPlan:
    """A regression with its cost; ``plan`` is the plan of its sums."""

    regression: Regression
    plan: Plan

    @property
    def privacy(self) -> PrivacyLoss:
        """Privacy loss of one unit."""
        return self.plan.privacy

    def with_account(self, account: Account) -> LinearPlan:
        """Return the plan, paid by this account."""
        return LinearPlan(self.regression, self.plan.with_account(account))

    def release(self, *, why: str, key: str | None = None, **options: Any) -> LinearModel:
        """Pay for the sums, compute them, and read the model; the same key gives the same model."""
        try:
            return LinearModel(self.regression, self.plan.release(why=why, key=key, **options))
        except BudgetExceeded as problem:
            raise for_model(problem) from None


@dataclass(frozen=True)
class LinearModel:
    """A line read from released sums: everything here is free, ``release`` is what was paid for."""

    regression: Regression
    release: Release
    ridge: float | None = None

    @cached_property
    def line(self) -> Line:
        """The line as the card shows it."""
        return self.regression.form.line(self.release, ridge=self.ridge)

    @property
    def statistics(self) -> Statistics:
        """The released sums, features and target in units of their bounds."""
        return self.line.statistics

    @property
    def coefficients(self) -> dict[str, float]:
        """Slope of each feature, in the units of the data."""
        return dict(zip(self.regression.features, self.line.values[:-1].tolist(), strict=True))

    @property
    def intercept(self) -> float:
        """The line where all features are 0."""
        return float(self.line.values[-1])

    def intervals(self, *, confidence: float = 0.95) -> dict[str, tuple[float, float]]:
        """Approximate intervals over sampling and noise, however alike the rows of one unit are, of the line of the
        **clamped** columns (``intervals_about``); refused where intervals are not known.
        """
        ends = self.line.intervals(confidence=confidence)
        return dict(zip((*self.regression.features, "intercept"), ends, strict=True))

    @property
    def intervals_about(self) -> str:
        """Words for what ``intervals`` are about."""
        return said_of_intervals(self.regression.target, *self.regression.bounds[-1], self.line.rows_per_unit)

    def predict(self, rows: Any) -> Array:
        """The line at rows of features, in their order."""
        given = np.asarray(rows, dtype=np.float64)
        if given.ndim != 2 or given.shape[1] != len(self.regression.features):
            raise InvalidInput("rows", f"shape {given.shape}", f"rows of {len(self.regression.features)} numbers")
        return np.asarray(given @ self.line.values[:-1] + self.line.values[-1])

    def to_data(self) -> dict[str, Any]:
        """As plain JSON data: the line, its intervals or why they are missing, and what it was read from."""
        try:
            intervals, reason = {name: list(ends) for name, ends in self.intervals().items()}, None
        except Refused as problem:
            intervals, reason = None, str(problem)
        regression = self.regression
        receipt = self.release.receipt
        return {
            "format": FORMAT,
            "target": regression.target,
            "features": list(regression.features),
            "bounds": {name: list(pair) for name, pair in zip(regression.columns, regression.bounds, strict=True)},
            "coefficients": self.coefficients,
            "intercept": self.intercept,
            "ridge": self.line.solved[1],
            "confidence": 0.95,
            "intervals": intervals,
            "intervals_about": self.intervals_about,
            "no_intervals": reason,
            "statistics": self.statistics.to_data(),
            "plan": self.release.plan.hash,
            "receipt": None if receipt is None else json.loads(receipt.to_json()),
        }

    def to_json(self) -> str:
        """The model as JSON text."""
        return json_text(json.dumps(self.to_data(), indent=1, sort_keys=True))

    def card(self, *, dataset: str | None = None, about: Mapping[str, str] | None = None) -> Any:
        """The privacy card of the model."""
        from tallystick.cards import card

        return card(self.release, dataset=dataset, about=about)
