"""Private linear regression from noisy sums of products: ``ts.learn.LinearRegression``.

    adassp    X'X and X'y with Gaussian noise                      (epsilon, delta)
    gram      the same and y'y, for intervals                      (epsilon, delta)
    laplace   X'X and X'y with Laplace noise (section 3.8)         pure epsilon

What one row moves, in units of the bounds: its longest row, the constant column included, is 1 and so is its target.

    stacked                  ADD_REMOVE              REPLACE
    X'X, X'y       L2        sqrt 2                  sqrt 4.5
    X'X, X'y, y'y  L2        sqrt 3                  sqrt 5.5
    X'X, X'y       L1        (d + 3)/2               twice that

(d columns; for Laplace noise a target counts 1/sqrt d, which gives the notes' sums their own counts, errata 35 and 58.)

Rows are rounded towards zero to 2^-20 of their bounds one by one, so that every sum is an exact integer, and all noise
is drawn on a lattice: docs/theory/linear-regression.md has the proofs. AdaSSP (Wang 2018) buys the least eigenvalue
too; here it is read from the noisy matrix, which is free and needs no eigenvalue of exact data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tallystick.accounting import check, losses
from tallystick.accounting.adjacency import Adjacency
from tallystick.accounting.calibrate import calibrate
from tallystick.errors import InvalidInput, NoCovariance, Refused
from tallystick.inference.regression import Statistics, said_of_intervals, symmetric
from tallystick.learn.estimator import Answer, Estimator, NoisePart
from tallystick.learn.records import WITHIN, Array, Given, along, numbers
from tallystick.learn.scikit import RegressorMixin, check_is_fitted
from tallystick.learn.scoring import PaidGoodness
from tallystick.mechanisms.exact.lattice import lower_and_upper
from tallystick.mechanisms.exact.randomness import Source
from tallystick.mechanisms.noise import add_gaussian, add_laplace
from tallystick.mechanisms.noise.law import normal_deviations

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.mechanisms.noise.additive import AdditiveNoise

BITS = 20
"""Entries are whole multiples of 2^-20 of their bounds."""
BLOCK = 1 << 12
"""So many rows of products of 2 * 20 bits add up below 2^53, where doubles are exact in any order."""
UP = 1.0 + 2.0**-50
DOWN = 1.0 - 2.0**-50
METHODS = ("adassp", "gram", "laplace")


@dataclass(frozen=True, slots=True)
class Scale:
    """The bounds in which rows and targets are measured, for ``width`` columns, the constant one included."""

    width: int
    constant: float
    longest: float
    centre: float
    reach: float


@dataclass(frozen=True, slots=True)
class Sums:
    """How sums of products are released: public numbers only. ``budget`` is a row's mu, or epsilon for Laplace."""

    method: str
    row_norm: float
    intercept: bool
    low: float
    high: float
    budget: float
    adjacency: str

    @property
    def privacy(self) -> PrivacyLoss:
        """What one fit loses to one row."""
        about: Any = {"adjacency": Adjacency(self.adjacency)}
        if self.method == "laplace":
            return losses.pure_dp(epsilon=self.budget, **about)
        return losses.gaussian(sigma=DOWN / self.budget, **about)

    def scale(self, features: int) -> Scale:
        """The constant column is as long as a feature may be on average, so that they weigh alike, and counts in the
        longest row. With it the targets are taken from the middle of their bounds, which halves what one moves.
        """
        constant = self.row_norm / math.sqrt(features) if self.intercept else 0.0
        centre = self.low / 2.0 + self.high / 2.0 if self.intercept else 0.0
        width = features + self.intercept
        reach = max(abs(self.low - centre), abs(self.high - centre)) * UP
        if self.method == "laplace":
            reach *= math.sqrt(width) * UP
        return Scale(width, constant, math.hypot(self.row_norm, constant) * UP, centre, reach)

    def noise(self, width: int) -> AdditiveNoise:
        """The noise on the sums of that many columns, the constant one included."""
        places = width * (width + 1) // 2 + width + (self.method == "gram")
        about: Any = {"dimension": places, "adjacency": Adjacency(self.adjacency)}
        moved = sensitivity(self.method, width, Adjacency(self.adjacency))
        if self.method == "laplace":
            return add_laplace(epsilon=self.budget, sensitivity=moved, **about)
        return add_gaussian(mu=self.budget, sensitivity=moved, **about)

    def noise_parts(self, columns: int) -> tuple[NoisePart, ...]:
        """What a card says of the noise."""
        noise = self.noise(columns + self.intercept)
        sums = NoisePart(
            f"{noise.dimension} sums of products",
            f"discrete {noise.law.name.capitalize()}",
            noise.law.scale * noise.granularity,
            f"L{noise.law.order}",
            noise.move.norm,
            noise.granularity,
        )
        return (sums,)

    def train(self, data: Given, source: Source) -> Answer:
        assert data.targets is not None
        noise = self.noise(data.width + self.intercept)
        value = self.exact(data.rows, numbers(data.targets, self.low, self.high))
        return {"sums": np.asarray(noise.draw(noise.prepare(value, strict=False), source))}

    def exact(self, rows: Array, targets: Array) -> list[Fraction]:
        """The sums, in units of the bounds, without any rounding beyond that of each row."""
        known = ~np.isnan(targets)
        stacked = self.steps(rows[known], targets[known])
        width = stacked.shape[1] - 1
        pairs = np.triu_indices(width)
        total: Any = np.zeros(len(pairs[0]) + width + 1, dtype=object)
        for start in range(0, len(stacked), BLOCK):
            part = stacked[start : start + BLOCK]
            gram = part.T @ part  # whole numbers below 2^53: exact
            total += np.concatenate([gram[pairs], gram[:, -1]]).astype(np.int64).astype(object)
        kept = total if self.method == "gram" else total[:-1]
        return [Fraction(int(entry), 1 << 2 * BITS) for entry in kept]

    def steps(self, rows: Array, targets: Array) -> Array:
        """Rows and targets as whole steps, no longer than 2^20. A long row counts less, target and constant too."""
        scale = self.scale(rows.shape[1])
        with np.errstate(all="ignore"):  # tiny numbers may vanish
            largest = np.maximum(np.abs(rows).max(axis=1, initial=0.0), 1e-300)
            shape = rows / largest[:, None]
            squares = np.zeros(len(rows))
            for column in shape.T:  # column by column: how one row rounds must not depend on the others
                squares += column * column
            room = self.row_norm * WITHIN / np.sqrt(np.maximum(squares, 1.0))
            long = largest > room
            weight = np.where(long, room / largest, 1.0)
            columns = [np.where(long[:, None], shape * np.minimum(room, largest)[:, None], rows) / scale.longest]
            if self.intercept:
                columns.append((scale.constant / scale.longest * weight)[:, None])
            columns.append(((targets - scale.centre) / scale.reach * weight)[:, None])
            return np.asarray(np.trunc(np.ldexp(np.concatenate(columns, axis=1), BITS)))

    def statistics(self, sums: Array, features: int) -> Statistics:
        """Released sums as matrices, still in units of the bounds."""
        scale = self.scale(features)
        width = scale.width
        places = width * (width + 1) // 2
        variance = self.noise(width).variance
        xx = symmetric(sums[:places], width)
        full = self.method == "gram"
        share = (scale.constant / scale.longest) ** 2
        return Statistics(
            xx=xx, xy=sums[places : places + width], yy=float(sums[-1]) if full else None,
            xx_variance=np.full((width, width), variance), xy_variance=np.full(width, variance),
            yy_variance=variance if full else 0.0, rows=float(xx[-1, -1] / share) if share else None,
        )  # fmt: skip


def sensitivity(method: str, width: int, adjacency: Adjacency) -> float:
    """How far one row moves the sums, in units of the bounds; L1 for Laplace noise and L2 for Gaussian.

    >>> round(4 * sensitivity("laplace", 4, Adjacency.ADD_REMOVE), 6)  # 3 features in [0, 1] and a constant: 14 sums
    14.0
    """
    replace = adjacency is Adjacency.REPLACE
    if method == "laplace":
        return (width + 3) / 2.0 * (2.0 if replace else 1.0) * UP
    squared = {("adassp", False): 2.0, ("gram", False): 3.0, ("adassp", True): 4.5, ("gram", True): 5.5}
    return math.sqrt(squared[method, replace]) * UP


@lru_cache(maxsize=64)
def gaussian_mu(epsilon: float, delta: float, adjacency: str) -> float:
    """The mu of the one Gaussian release that meets (epsilon, delta)."""
    goal = losses.approx_dp(epsilon=epsilon, delta=delta, adjacency=adjacency)
    return float(DOWN / calibrate(lambda s: losses.gaussian(sigma=s, adjacency=adjacency), goal))


class LinearRegression(PaidGoodness, RegressorMixin, Estimator):  # type: ignore[misc]  # scikit-learn has no types
    """Least squares whose coefficients are (epsilon, delta)-private for every person in the data.

    ``row_norm`` bounds the Euclidean norm of a row's features (a longer row counts less) and ``target_bounds=(low,
    high)``, or ``target_bound=b`` for (-b, b), the targets, which are clamped. Both are declared, never read from data.
    ``method`` is "adassp" (default), "gram" (buys intervals) or "laplace" (pure, without delta); ``ridge`` is added to
    the diagonal of X'X, by default as much as the noise needs and nothing where it needs none. A unit may have
    ``rows_per_unit`` rows; epsilon and delta are about the whole unit.

    >>> import numpy as np
    >>> model = LinearRegression(epsilon=1, delta=1e-6, row_norm=1, target_bound=2)
    >>> model.privacy.epsilon(delta=1e-6) <= 1
    True
    >>> X = np.linspace(-1, 1, 100_000)[:, None]
    >>> model.fit(X, 1.5 * X[:, 0] + 0.25).predict([[0.5]]).round(1).tolist()
    [1.0]
    """

    def __init__(
        self,
        epsilon: float,
        *,
        delta: float | None = None,
        row_norm: float,
        target_bounds: tuple[float, float] | None = None,
        target_bound: float | None = None,
        method: str | None = None,
        ridge: float | None = None,
        fit_intercept: bool = True,
        rows_per_unit: int = 1,
        adjacency: str = "add_remove",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.row_norm = row_norm
        self.target_bounds = target_bounds
        self.target_bound = target_bound
        self.method = method
        self.ridge = ridge
        self.fit_intercept = fit_intercept
        self.rows_per_unit = rows_per_unit
        self.adjacency = adjacency

    def _recipe(self) -> Sums:
        epsilon, delta = (
            check.between("epsilon", self.epsilon, 1e-6, 100.0),
            check.probability("delta", self.delta or 0),
        )
        method = self._method(delta)
        norm, (low, high) = check.between("row_norm", self.row_norm, 1e-9, 1e9), self._targets()
        adjacency = check.adjacency(self.adjacency).value
        rows = check.count("rows_per_unit", self.rows_per_unit, least=1, most=1000)
        if self.ridge is not None:
            check.nonnegative("ridge", self.ridge)
        whole = epsilon if method == "laplace" else gaussian_mu(epsilon, delta, adjacency)
        return Sums(method, norm, bool(self.fit_intercept), low, high, whole / rows * DOWN, adjacency)

    def _method(self, delta: float) -> str:
        if delta >= 1.0:
            raise InvalidInput("delta", self.delta, "a number below 1, or None for pure privacy")
        method = self.method or ("adassp" if delta else "laplace")
        if method not in METHODS or (method == "laplace") != (delta == 0.0):
            allowed = '"adassp" or "gram" (they need a delta above 0), "laplace" (no delta)'
            raise InvalidInput("method", self.method, allowed)
        return method

    def _targets(self) -> tuple[float, float]:
        if (self.target_bounds is None) == (self.target_bound is None):
            raise InvalidInput("target_bounds", self.target_bounds, "(low, high), or target_bound=b for (-b, b)")
        if self.target_bounds is not None:
            low, high = lower_and_upper("target_bounds", self.target_bounds)
        else:
            high = check.positive("target_bound", self.target_bound)
            low = -high
        if not 1e-9 <= high - low <= 2e9 or max(abs(low), abs(high)) > 1e9:
            raise InvalidInput("target_bounds", (low, high), "bounds from -1e9 to 1e9, at least 1e-9 apart")
        return low, high

    def _check(self, data: Given) -> None:
        super()._check(data)
        self._recipe().noise(data.width + bool(self.fit_intercept))  # so wide a matrix can be released
        assert data.targets is not None
        if data.targets.dtype.kind not in "buifO":  # an object array may hold missing numbers, which is data
            raise InvalidInput("y", f"dtype {data.targets.dtype}", "numbers")

    def _keep(self, answer: Mapping[str, Any]) -> None:
        recipe = self._recipe()
        sums = np.asarray(answer["sums"], dtype=np.float64)
        self.statistics_ = recipe.statistics(sums, self.n_features_in_)
        self._read(recipe, self.ridge)

    def refit(self, *, ridge: float | None) -> Self:
        """Read the same released sums with another ridge (None: the default rule): free, because nothing is released.

        >>> free = LinearRegression(epsilon=1, delta=1e-6, row_norm=1, target_bound=1).fit([[0.5]] * 9, [1.0] * 9)
        >>> bool(free.refit(ridge=1e6).coef_[0] ** 2 < 1e-3)
        True
        """
        check_is_fitted(self, "statistics_")
        self._read(self._recipe(), None if ridge is None else check.nonnegative("ridge", ridge))
        return self

    def _read(self, recipe: Sums, ridge: float | None) -> None:
        sums, scale = self.statistics_, recipe.scale(self.n_features_in_)
        square = scale.longest**2
        used = sums.least_ridge() if ridge is None else sums.stable_ridge(float(ridge) / square)
        theta = sums.solve(used)
        units = np.full(sums.width, scale.reach / scale.longest)
        if recipe.intercept:
            units[-1] *= scale.constant
        found = theta * units
        self._theta, self._used, self._units = theta, used, units
        self.coef_ = found[: self.n_features_in_]
        self.intercept_ = scale.centre + (float(found[-1]) if recipe.intercept else 0.0)
        self.ridge_ = used * square
        self.noise_covariance_ = sums.noise_covariance(theta, used) * np.outer(units, units)

    @property
    def covariance_(self) -> Array:
        """Covariance of coefficients and intercept (last) over sampling and noise; see ``intervals``."""
        check_is_fitted(self, "statistics_")
        try:
            found = self.statistics_.covariance(self._theta, self._used, rows_per_unit=self.rows_per_unit)
        except Refused as problem:
            raise NoCovariance(str(problem)) from None
        return found * np.outer(self._units, self._units)

    @property
    def intervals_about(self) -> str:
        """The meaning of ``intervals``, in words."""
        return said_of_intervals("targets", *self._targets(), self.rows_per_unit)

    def intervals(self, *, confidence: float = 0.95) -> Array:
        """Asymptotic confidence intervals of coefficients and intercept (last row) over sampling and noise.

        They are about the line of **clamped** targets (and rows that count less where they are longer than the norm):
        where targets lie beyond the bounds that is another line than that of the targets. Units are sampled, so with
        ``rows_per_unit`` above 1 they hold however alike a unit's rows are, and are up to its root wider than needed.
        Refused ("no interval") where the noise or a ridge decides, and where y'y was not bought.
        """
        level = check.inside("confidence", confidence)
        half = normal_deviations(level) * np.sqrt(np.diag(self.covariance_))
        centre = self.coef_ if not self.fit_intercept else np.append(self.coef_, self.intercept_)
        return np.column_stack([centre - half, centre + half])

    def predict(self, X: Any) -> Array:
        """The line at each row; free."""
        rows = self._like_fitted(X)
        if not np.isfinite(rows).all():
            raise InvalidInput("X", "an array with NaN or infinity", "finite numbers")
        return along(rows, self.coef_) + self.intercept_
