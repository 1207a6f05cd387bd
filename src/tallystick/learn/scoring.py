"""Scores of fitted models: free on public data, a paid release of noisy sums on private data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency
from tallystick.errors import InvalidInput, Refused
from tallystick.learn.records import Array, Given, given, labelled, numbers
from tallystick.ledger.account import check_account
from tallystick.ledger.denial import offering_epsilon
from tallystick.ledger.epsilon_alone import counts_epsilon, two_costs
from tallystick.ledger.pay import LEASE, pay, stored_answer
from tallystick.mechanisms.noise import add_discrete_laplace, add_gaussian, add_laplace

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.ledger.account import Account
    from tallystick.ledger.filters import Amount
    from tallystick.ledger.pay import Payable
    from tallystick.mechanisms.noise.additive import AdditiveNoise

PRIVATE = (
    "a score of private data is a release, and no account pays for it. Try: model.score(X, y, account=..., "
    "why=..., epsilon=...), which answers from noisy sums; or model.score(X, y, public=True) if the rows are public. "
    "A pipeline does not pass these arguments on: pipe[-1].score(pipe[:-1].transform(X), y, account=..., why=..., "
    "epsilon=...)"
)
BITS = 20
"""A row's part of a sum is a whole multiple of 2^-20."""
OPTIONS = ("account", "why", "key", "epsilon", "delta", "pure", "units")
Release = Callable[[Given, float, float | None], "Payable"]
"""A score of rows, at an epsilon and a delta; without a delta it is pure."""


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """How many rows are classified rightly and how many wrongly: a histogram with Laplace or Gaussian noise."""

    model: Any
    data: Given
    noise: AdditiveNoise
    rows_per_unit: int
    source: str = ""

    @property
    def privacy(self) -> PrivacyLoss:
        """A unit's rows fall into the two cells, so they move the histogram by their number."""
        return self.noise.privacy

    @property
    def request(self) -> str:
        """The model as it was released, and the noise."""
        theta = [self.model.coef_.tolist(), self.model.intercept_.tolist()]
        return f"accuracy of {theta} with {self.noise!r}, {self.rows_per_unit} rows per unit"

    def preflight(self) -> None:
        """What is public was checked when the data were given."""

    def draw(self) -> float:
        """The noisy share of right answers, between 0 and 1."""
        usable = self.data.usable(self.rows_per_unit)
        assert usable.targets is not None
        places = labelled(usable.targets, self.model.classes_.tolist())
        known = places >= 0
        right = int(np.count_nonzero(_predicted(self.model, usable.rows[known]) == places[known]))
        counts = np.array([right, int(known.sum()) - right])
        noisy = np.maximum(np.asarray(self.noise.release(counts), dtype=np.float64), 0.0)
        return float(noisy[0] / max(1.0, noisy.sum()))


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """How well a line fits: number, sum and sum of squares of the targets, and squared residuals, with noise.

    Targets are clamped and measured from the middle of their bounds, in units that make them at most 1; a residual is
    clamped to 1, half the width of the bounds. So a row moves each of the four sums by at most 1, and every row is
    rounded to a lattice by itself. That is 4 in the L1 norm and 2 in the L2 norm. A replaced row moves the number by
    0, the sum by at most 2 and the others by at most 1: 4 and sqrt(6).
    """

    model: Any
    data: Given
    noise: AdditiveNoise
    rows_per_unit: int
    bounds: tuple[float, float]
    source: str = ""

    @property
    def privacy(self) -> PrivacyLoss:
        """Of the four sums."""
        return self.noise.privacy

    @property
    def request(self) -> str:
        """The model as it was released, the bounds and the noise."""
        line = [self.model.coef_.tolist(), getattr(self.model, "intercept_", 0.0)]
        return f"fit of {line} to targets in {self.bounds} with {self.noise!r}, {self.rows_per_unit} rows per unit"

    def preflight(self) -> None:
        """What is public was checked when the data were given."""

    def draw(self) -> float:
        """R^2 as the noisy sums tell it: at most 1, and finite."""
        sums = np.asarray(self.noise.release(self.exact()), dtype=np.float64)
        count, total, squares, residuals = sums[0], sums[1], sums[2], max(sums[3], 0.0)
        spread = squares - total * total / max(count, 1.0)
        return float(1.0 - residuals / max(spread, math.sqrt(self.noise.variance)))

    def exact(self) -> list[Fraction]:
        """The four sums, without any rounding but that of each row."""
        usable, (low, high) = self.data.usable(self.rows_per_unit), self.bounds
        assert usable.targets is not None
        targets = numbers(usable.targets, low, high)
        known = ~np.isnan(targets)
        middle, reach = low / 2.0 + high / 2.0, (high - low) / 2.0 * (1.0 + 2.0**-40)
        there = (targets[known] - middle) / reach
        with np.errstate(all="ignore"):  # a row may be as long as doubles are; NaN is as wrong as can be
            off = there - (self.model.predict(usable.rows[known]) - middle) / reach
        off = np.where(np.isnan(off), 1.0, np.clip(off, -1.0, 1.0))
        columns = (np.ones(len(there)), there, there * there, off * off)
        return [Fraction(int(np.trunc(column * 2.0**BITS).astype(np.int64).sum()), 1 << BITS) for column in columns]


def accuracy(model: Any, X: Any, y: Any, *, public: bool, options: dict[str, Any]) -> float:
    """The share of right answers of a classifier, free or paid."""
    if public:
        data = _public(model, X, y, options)
        return float(np.mean(np.asarray(model.predict(data.rows)) == data.targets))
    rows = check.count("rows_per_unit", model.rows_per_unit, least=1)
    adjacency = _adjacency(model)
    is_replaced = adjacency is Adjacency.REPLACE
    about: Any = {"dimension": 2, "changed": 2, "adjacency": adjacency}

    def release(data: Given, epsilon: float, delta: float | None) -> Scored:
        """A unit's rows are added to the two cells; replaced, they also leave them."""
        if delta is None:
            noise = add_discrete_laplace(epsilon=epsilon, sensitivity=2 * rows if is_replaced else rows, **about)
        else:
            most = _root_above(2) * rows if is_replaced else rows
            noise = add_gaussian(epsilon=epsilon, delta=delta, sensitivity=most, **about)
        return Scored(model, data, noise, rows)

    return _paid(model, release, X, y, options)


def _adjacency(model: Any) -> Adjacency:
    """Neighbouring relation of a model."""
    return check.adjacency(getattr(model, "adjacency", "add_remove"))


def _root_above(square: int) -> float:
    """Square root, rounded up by far more than a product with a number of rows rounds."""
    return math.sqrt(square) * (1.0 + 2.0**-40)


class PaidGoodness:
    """The score of a regressor, for the estimators whose targets have declared bounds (``_targets``)."""

    def score(self: Any, X: Any, y: Any, *, public: bool = False, **options: Any) -> float:
        """R^2: plain on public data (``public=True``), else a release that is paid for.

        ``score(X, y, account=..., why=..., epsilon=...)`` charges ``epsilon`` and answers from noisy sums, of targets
        clamped to the declared bounds and residuals clamped to half their width. With ``delta=`` the noise is
        Gaussian. An account in rho or mu needs ``delta=`` or ``pure=True``.
        """
        self._like_fitted(X)
        if public:
            from sklearn.metrics import r2_score

            data = _public(self, X, y, options)
            return float(r2_score(data.targets, self.predict(data.rows)))
        rows = check.count("rows_per_unit", self.rows_per_unit, least=1)
        adjacency = _adjacency(self)
        about: Any = {"dimension": 4, "adjacency": adjacency}

        def release(given_rows: Given, epsilon: float, delta: float | None) -> Fitted:
            if delta is None:
                noise = add_laplace(epsilon=epsilon, sensitivity=4 * rows, **about)
            else:
                most = _root_above(6 if adjacency is Adjacency.REPLACE else 4) * rows
                noise = add_gaussian(epsilon=epsilon, delta=delta, sensitivity=most, **about)
            return Fitted(self, given_rows, noise, rows, self._targets())

        return _paid(self, release, X, y, options)


def _public(model: Any, X: Any, y: Any, options: dict[str, Any]) -> Given:
    if options:
        raise InvalidInput("score", sorted(options)[0], "nothing beside public=True: a score of public rows is free")
    return _labelled(model, X, y, options)


def _labelled(model: Any, X: Any, y: Any, options: dict[str, Any]) -> Given:
    if unknown := sorted(set(options) - set(OPTIONS)):
        allowed = "public=True, or account=, why=, epsilon=, delta=, pure=, key= and units="
        raise InvalidInput("score", unknown[0], allowed)
    data = given(X, y, options.get("units"))
    if data.targets is None:
        raise InvalidInput("y", None, "one target per row")
    model._check_kind(data)
    return data


def _paid(model: Any, release: Release, X: Any, y: Any, options: dict[str, Any]) -> float:
    data = _labelled(model, X, y, options)
    account, why, epsilon = (options.get(name) for name in ("account", "why", "epsilon"))
    if account is None:
        raise Refused(PRIVATE)
    check_account(account)
    if why is None or epsilon is None:
        raise InvalidInput("why" if why is None else "epsilon", None, "a reason and the cost of the score")
    delta, pure = options.get("delta"), bool(options.get("pure", False))
    if pure and delta:
        raise InvalidInput("pure", True, "a score without a delta: pure=True says that the delta is 0")
    asked = release(data, epsilon, delta or None)
    about: Any = {"why": why, "key": options.get("key"), "delta": delta if account.filter == "approx" else None}
    paid = stored_answer(asked, account, **about)
    if paid is None:
        if not pure and not delta:
            _require_stated(account, float(epsilon), lambda other, at: release(data, other, at))

        def price(other: float) -> Amount:
            cost: Amount = account.price(release(data, other, delta or None).privacy, delta=about["delta"])
            return cost

        with offering_epsilon(account, float(epsilon), price):
            paid = pay(asked, account, lease=LEASE, **about)
    return float(paid.answer)


def _require_stated(account: Account, epsilon: float, release: Callable[[float, float | None], Payable]) -> None:
    """Raise ``EpsilonWithoutDelta`` for a new score at an epsilon alone, if the account counts rho or mu."""
    if counts_epsilon(account):
        return

    def price_at(other: float, delta: float | None) -> Amount:
        return account.price(release(other, delta).privacy)

    raise two_costs(account, epsilon, account.quoted_delta(), price_at(epsilon, None), price_at)


def _predicted(model: Any, rows: Array) -> np.ndarray[Any, Any]:
    """The place of the likeliest class."""
    scores = model.decision_function(rows)
    return np.asarray(scores > 0.0, dtype=int) if scores.ndim == 1 else np.asarray(scores.argmax(axis=1))
