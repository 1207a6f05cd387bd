"""Least squares by the exponential mechanism: a coefficient vector with density exp(-rate * sum of squared residuals).

Rows are brought into the unit box and rounded to a fixed lattice one by one, and summed as integers, so that the score
that is drawn from is exactly the one whose sensitivity is stated. Sampled exactly in one to three dimensions
(``learn/cells.py``); beyond that only Markov chains are known, whose law is not certified, so it is refused.

The noise falls like 1/sqrt(n), as slowly as the sampling error (Theorem 7.10): ``KNormGradient`` is the better choice.
docs/theory/exponential-erm.md
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting import check, losses
from tallystick.accounting.adjacency import Adjacency, Protects
from tallystick.errors import InvalidInput
from tallystick.learn import cells
from tallystick.learn.estimator import Answer, Estimator, NoisePart
from tallystick.learn.records import Array, Given, along, numbers
from tallystick.learn.scoring import PaidGoodness
from tallystick.mechanisms.exact.randomness import Source
from tallystick.mechanisms.inputs import budget

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

ROW_BITS = 20
"""Entries of rows are rounded to multiples of 2^-20 of their bound."""

LATTICE_BITS = 30
"""Coefficients are released on a lattice of about 2^30 points per unit of their bound."""

BOUNDS = {
    "feature_bound": "entries of X outside -feature_bound to feature_bound count as the nearer end",
    "target_bound": "targets outside -target_bound to target_bound count as the nearer end",
    "coefficient_bound": "the largest sum of the coefficients' absolute values",
}
"""Effect of each bound. All of them are declared, because a default would clamp other data without a message."""

_CHUNK = 1 << 20  # products of two rounded entries are below 2^40, and this many of them fit into 63 bits


def of_one_row(epsilon: float, rows: int) -> float:
    """Epsilon of one row, rounded down, such that ``rows`` rows of one person lose at most ``epsilon`` together.

    >>> of_one_row(1.0, 1), 10 * of_one_row(1.0, 10) <= 1.0
    (1.0, True)
    """
    return epsilon if rows == 1 else epsilon / rows * (1.0 - 2.0**-50)


class SlowNoise(UserWarning):
    """The noise of this estimator falls no faster than the sampling error."""


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Sums of products of the rounded rows, as whole numbers in units of 2^-40: exact, so one row moves them exactly.

    >>> Moments.of(np.array([[0.5]]), np.array([1.0])).cross[0] == 1 << 39
    True
    """

    gram: tuple[tuple[int, ...], ...]
    cross: tuple[int, ...]
    square: int
    rows: int

    @staticmethod
    def of(rows: Array, targets: Array) -> Moments:
        """Of rows and targets within [-1, 1]."""
        width = rows.shape[1]
        total = np.zeros((width + 1, width + 1), dtype=object)
        for start in range(0, len(rows), _CHUNK):
            part = np.column_stack([rows[start : start + _CHUNK], targets[start : start + _CHUNK]])
            whole = np.rint(np.clip(part, -1.0, 1.0) * 2.0**ROW_BITS).astype(np.int64)
            total = total + (whole.T @ whole).astype(object)
        table = [[int(entry) for entry in line] for line in total]
        return Moments(
            tuple(tuple(line[:-1]) for line in table[:-1]), tuple(line[-1] for line in table[:-1]), table[-1][-1],
            len(rows),
        )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class SquaredResiduals:
    """rate * sum of (target - row.theta)^2 at theta = point * 2^-shift, as ``cells.Score``."""

    moments: Moments
    rate: Fraction
    shift: int
    bound: float

    def below(self, middle: Array, half: Array) -> tuple[Array, Array]:
        """Convex: nowhere in a box below the tangent plane in its middle."""
        theta, reach = np.ldexp(middle, -self.shift), np.ldexp(half, -self.shift)
        gram, cross = doubles(self.moments)
        pull = theta @ gram - cross
        value = np.sum(theta * (pull - cross), axis=1) + float(self.moments.square) * 2.0**-40
        rate = float(self.rate)
        slack = rounding(self.moments, rate, self.bound, len(cross))
        tilt = 2.0 * rate * np.abs(pull).sum(axis=1) * reach
        return rate * value - tilt - slack, 2.0 * tilt + rate * np.abs(gram).sum() * reach**2

    def exact(self, point: tuple[int, ...]) -> Fraction:
        """In whole numbers over 2^(40 + 2 shift)."""
        moments, unit = self.moments, 1 << self.shift
        pairs = sum(a * b * moments.gram[j][k] for j, a in enumerate(point) for k, b in enumerate(point))
        line = sum(a * c for a, c in zip(point, moments.cross, strict=True))
        return self.rate * Fraction(moments.square * unit * unit - 2 * unit * line + pairs, unit * unit << 40)


def doubles(moments: Moments) -> tuple[Array, Array]:
    gram = np.array([[float(entry) for entry in line] for line in moments.gram]) * 2.0**-40
    return gram, np.array([float(entry) for entry in moments.cross]) * 2.0**-40


def rounding(moments: Moments, rate: float, bound: float, width: int) -> float:
    """More than what a score in doubles can be off by: every term is at most rows (1 + bound)^2."""
    return 2.0**-46 * (1.0 + rate * moments.rows * (1.0 + bound) ** 2 * (1 + width) ** 2)


@dataclass(frozen=True, slots=True)
class SquaredLossRecipe:
    """Bounds and budget of a linear model drawn by its squared residuals."""

    epsilon: float
    feature_bound: float
    target_bound: float
    coefficient_bound: float
    protects: Protects
    bits: int = LATTICE_BITS

    @property
    def privacy(self) -> PrivacyLoss:
        """Bounded range epsilon, as for every exponential mechanism."""
        return losses.exponential(epsilon=self.epsilon, **self.protects.about)

    @property
    def shift(self) -> int:
        """The lattice has steps of 2^-shift, for coefficients in units of target bound per feature bound."""
        return self.bits - math.frexp(self.bound)[1]

    @property
    def bound(self) -> float:
        """The bound on the coefficients' absolute sum in those units, rounded down."""
        exact = Fraction(self.coefficient_bound) * Fraction(self.feature_bound) / Fraction(self.target_bound)
        return math.nextafter(float(exact), 0.0)

    @property
    def radius(self) -> int:
        """The bound on the coefficients in lattice steps."""
        return math.floor(Fraction(self.bound) * Fraction(2) ** self.shift)

    @property
    def largest_residual(self) -> Fraction:
        """|target - row.theta| in units of the target bound."""
        return 1 + Fraction(self.bound)

    @property
    def rate(self) -> Fraction:
        """Exponent per unit of squared residual.

        Under ADD_REMOVE a record adds between 0 and Delta = (1 + bound)^2 to every score, so the scores' differences
        move by Delta and epsilon/Delta is enough; under REPLACE they move by 2 Delta.
        """
        moves = 1 if self.protects.adjacency is Adjacency.ADD_REMOVE else 2
        return Fraction(self.epsilon) / (moves * self.largest_residual**2)

    def score(self, moments: Moments) -> cells.Score:
        """What the density is made of."""
        return SquaredResiduals(moments, self.rate, self.shift, self.bound)

    def moments(self, data: Given) -> Moments:
        """Rows by the public rule: clamped to their bounds; rows without a target left out."""
        assert data.targets is not None
        targets = numbers(data.targets, -self.target_bound, self.target_bound)
        kept = ~np.isnan(targets)
        rows = np.clip(data.rows[kept], -self.feature_bound, self.feature_bound)
        return Moments.of(rows / self.feature_bound, targets[kept] / self.target_bound)

    def noise_parts(self, columns: int) -> tuple[NoisePart, ...]:
        """What a card says of the noise: the coefficients themselves are drawn."""
        kind = "the density itself, sampled exactly"
        return (NoisePart("coefficients drawn from a density", kind, 1.0 / self.epsilon, norm="score"),)

    def train(self, data: Given, source: Source) -> Answer:
        """The drawn coefficients."""
        score = self.score(self.moments(data))
        point = cells.draw(score, radius=self.radius, dimensions=data.width, source=source)
        unit = math.ldexp(self.target_bound / self.feature_bound, -self.shift)
        return {"coefficients": [step * unit for step in point]}


class ExponentialERM(PaidGoodness, Estimator):
    """Linear regression without intercept by the exponential mechanism (Example 7.6): exact, but with slow noise.

    Entries of X are clamped to ``feature_bound`` and targets to ``target_bound``. The released coefficients have an
    absolute sum of at most ``coefficient_bound``. You declare all three bounds from public knowledge. ``epsilon`` is
    pure and protects a whole person, who may have ``rows_per_unit`` rows. A column of ones is an intercept. X has one
    to three columns.

    >>> import numpy as np, warnings
    >>> model = ExponentialERM(epsilon=1.0, feature_bound=1, target_bound=1, coefficient_bound=1)
    >>> model.privacy.epsilon(delta=0)
    1.0
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     _ = model.fit(np.ones((1000, 1)), np.full(1000, 0.5))
    >>> bool(abs(model.coef_[0] - 0.5) < 0.5)
    True
    """

    _slow = True

    def __init__(
        self,
        *,
        epsilon: float,
        feature_bound: float | None = None,
        target_bound: float | None = None,
        coefficient_bound: float | None = None,
        rows_per_unit: int = 1,
        adjacency: Any = "add_remove",
        unit: str | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.feature_bound = feature_bound
        self.target_bound = target_bound
        self.coefficient_bound = coefficient_bound
        self.rows_per_unit = rows_per_unit
        self.adjacency = adjacency
        self.unit = unit

    def _recipe(self) -> SquaredLossRecipe:
        return SquaredLossRecipe(**self._checked())

    def _checked(self) -> dict[str, Any]:
        bounds = {name: self._bound(name) for name in BOUNDS}
        ratio = bounds["coefficient_bound"] * bounds["feature_bound"] / bounds["target_bound"]
        if not 2.0**-20 <= ratio <= 2.0**20:
            raise InvalidInput("coefficient_bound", self.coefficient_bound, "of the size of target over feature bound")
        rows = check.count("rows_per_unit", self.rows_per_unit, least=1, most=1000)
        epsilon = of_one_row(budget(self.epsilon, 1.0)[0], rows)
        return {"epsilon": epsilon, "protects": Protects(self.adjacency, self.unit), **bounds}

    def _bound(self, name: str) -> float:
        value = getattr(self, name)
        if value is None:
            raise InvalidInput(name, None, f"a number from public knowledge: {BOUNDS[name]}")
        allowed = "a number between 1e-100 and 1e100"
        if not 1e-100 < check.positive(name, value, allowed) < 1e100:
            raise InvalidInput(name, value, allowed)
        return float(value)

    def _check(self, data: Given) -> None:
        super()._check(data)
        if data.width > cells.MOST_DIMENSIONS:
            allowed = (
                f"at most {cells.MOST_DIMENSIONS} columns: beyond, only Markov chains are known, whose distribution "
                "is not certified; LinearRegression and LogisticRegression have no such limit"
            )
            raise InvalidInput("X", f"{data.width} columns", allowed)
        if self._slow:
            warnings.warn(
                "the exponential mechanism's noise falls like 1/sqrt(n), as slowly as the sampling error; "
                "KNormGradient(...) takes the same bounds and its noise falls like 1/n",
                SlowNoise,
                stacklevel=3,
            )

    def _keep(self, answer: Mapping[str, Any]) -> None:
        self.coef_: NDArray[np.float64] = np.array(answer["coefficients"], dtype=np.float64)

    def _targets(self) -> tuple[float, float]:
        bound = self._bound("target_bound")
        return -bound, bound

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predictions for rows, which are not clamped."""
        rows = self._like_fitted(X)
        return along(rows, self.coef_)
