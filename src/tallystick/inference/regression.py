"""Noisy sums of products, and the linear regression read from them: everything here is post-processing and free.

Rows u (the constant column included) and targets v are in units of their bounds. With noise deviations V on the upper
triangle of X'X and on X'y the delta method gives (docs/theory/linear-regression.md)

    theta = M^-1 X'y, M = X'X + ridge I         d theta = M^-1 (d X'y - d X'X theta)
    Cov[d X'X theta]_ii = sum_j V_ij theta_j^2, and V_ij theta_i theta_j off the diagonal
    sampling: M^-1 X'X M^-1 m RSS / (n - d), RSS = y'y - 2 theta'X'y + theta'X'X theta, m rows of one unit at most
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting import check
from tallystick.errors import InvalidInput, Refused
from tallystick.inference.interval import ASYMPTOTIC, Interval, Kind
from tallystick.inference.released import Released
from tallystick.mechanisms.noise.law import normal_deviations

Array = NDArray[np.float64]

MISS = 0.05
"""AdaSSP's rho: the noise matrix is longer than ``tall`` with about this probability."""


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """Released sums in units of the bounds; ``yy`` and ``rows`` are None where they were not bought.

    >>> one = np.array([[4.0]])
    >>> Statistics(one, np.array([2.0]), None, 0.0 * one, np.zeros(1), 0.0, None).solve(0.0).tolist()
    [0.5]
    """

    xx: Array
    xy: Array
    yy: float | None
    xx_variance: Array
    xy_variance: Array
    yy_variance: float
    rows: float | None

    @property
    def width(self) -> int:
        """Number of columns, the constant one included."""
        return len(self.xy)

    @property
    def least_eigenvalue(self) -> float:
        """Least eigenvalue of the noisy X'X, which may be negative."""
        return float(np.linalg.eigvalsh(self.xx)[0])

    @property
    def tall(self) -> float:
        """Bound on the effect of the noise on an eigenvalue: s sqrt(d log(2 d^2 / rho)) (Wang 2018, AdaSSP)."""
        deviation = math.sqrt(float(self.xx_variance.max(initial=0.0)))
        return deviation * math.sqrt(self.width * math.log(2.0 * self.width**2 / MISS))

    def least_ridge(self) -> float:
        """AdaSSP's ridge: as much as lifts the least eigenvalue above the noise, and nothing where it is above."""
        return max(0.0, self.tall - self.least_eigenvalue)

    def stable_ridge(self, asked: float) -> float:
        """``asked``, or what makes X'X positive by one deviation of its noise where that is more."""
        deviation = math.sqrt(float(self.xx_variance.max(initial=0.0)))
        floor = max(deviation, 1e-9 * float(np.abs(self.xx).max(initial=0.0)), 1e-300)
        return max(asked, floor - self.least_eigenvalue)

    def solve(self, ridge: float) -> Array:
        """The coefficients of the columns."""
        return np.asarray(np.linalg.solve(self.matrix(ridge), self.xy), dtype=np.float64)

    def matrix(self, ridge: float) -> Array:
        """X'X with the ridge."""
        return self.xx + ridge * np.eye(self.width)

    def noise_covariance(self, theta: Array, ridge: float) -> Array:
        """Covariance of the coefficients, over the privacy noise alone, to first order."""
        moved = self.xx_variance * np.outer(theta, theta)
        np.fill_diagonal(moved, self.xx_variance @ theta**2)
        inverse = np.linalg.inv(self.matrix(ridge))
        return np.asarray(inverse @ (moved + np.diag(self.xy_variance)) @ inverse.T)

    def covariance(self, theta: Array, ridge: float, *, rows_per_unit: int) -> Array:
        """Covariance of the coefficients, over sampling and noise; refused where the delta method says nothing.

        Units are sampled, not rows, and rows of one unit may be alike. The coefficients move by M^-1 times the sum of
        x e (e a residual), independent between units. For m rows of one unit and any direction c Cauchy-Schwarz gives
        (sum of c'x e)^2 <= m sum of (c'x e)^2, also where rows count less than 1: so the variance is at most m times
        that of independent rows, and that is reached when they are equal.
        """
        if self.yy is None or self.rows is None:
            raise Refused(
                "no interval: the spread of the targets around the line was not released. Try: method='gram' with "
                "fit_intercept=True, which buys y'y and the number of rows"
            )
        if ridge > 0.0 or self.least_eigenvalue <= self.tall or self.rows <= 2 * self.width * rows_per_unit:
            raise Refused(
                "no interval: the noise, or a ridge, decides some direction of the features, where an interval would "
                "say nothing about the data. Try: a larger epsilon, more rows, or fewer features"
            )
        return self.total_covariance(theta, self.rows, rows_per_unit)

    def total_covariance(self, theta: Array, rows: float, rows_per_unit: int) -> Array:
        """Sampling and noise, where the noise decides nothing."""
        spread = rows_per_unit * self.residual_squares(theta) / (rows - self.width)
        return np.asarray(spread * np.linalg.inv(self.xx) + self.noise_covariance(theta, 0.0))

    def residual_squares(self, theta: Array) -> float:
        """Sum of squares around the line; at least one deviation of the noise in it."""
        assert self.yy is not None
        found = self.yy - 2.0 * theta @ self.xy + theta @ self.xx @ theta
        weights = np.outer(theta**2, theta**2) * self.xx_variance
        in_xx = 2.0 * float(weights.sum()) - float(np.trace(weights))  # each pair counts twice in the sum
        noise = self.yy_variance + 4.0 * float(self.xy_variance @ theta**2) + in_xx
        return max(float(found), math.sqrt(noise))

    def coefficient(self, place: int, *, rows_per_unit: int, about: str = "this coefficient") -> Coefficient:
        """One coefficient with its intervals; refused where ``covariance`` is."""
        self.covariance(self.solve(0.0), 0.0, rows_per_unit=check.count("rows_per_unit", rows_per_unit, least=1))
        return Coefficient(self, check.count("place", place, most=self.width - 1), about, rows_per_unit)

    def to_data(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {
            "xx": self.xx.tolist(), "xy": self.xy.tolist(), "yy": self.yy, "rows": self.rows,
            "xx_variance": self.xx_variance.tolist(), "xy_variance": self.xy_variance.tolist(),
            "yy_variance": self.yy_variance,
        }  # fmt: skip


def sum_name(i: int | None, j: int | None) -> str:
    """Return the name of the sum of the product of two columns, by their places; None is the constant column.

    >>> sum_name(None, None), sum_name(0, None), sum_name(2, 0)
    ('n', 's0', 's0_2')
    """
    places = sorted(column for column in (i, j) if column is not None)
    return "s" + "_".join(map(str, places)) if places else "n"


def named_statistics(values: Mapping[str, float], variances: Mapping[str, float], *, features: int) -> Statistics:
    """Return sums by their names (``sum_name``) as matrices; the constant column is last among the features."""
    order = [*range(features), None, features]  # features, constant, target
    names = np.array([[sum_name(i, j) for j in order] for i in order], dtype=object)
    sums: Array = np.vectorize(values.__getitem__, otypes=[float])(names)
    noise: Array = np.vectorize(variances.__getitem__, otypes=[float])(names)
    return Statistics(
        xx=sums[:-1, :-1], xy=sums[:-1, -1], yy=float(sums[-1, -1]), rows=values["n"],
        xx_variance=noise[:-1, :-1], xy_variance=noise[:-1, -1], yy_variance=float(noise[-1, -1]),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Line:
    """A line in the units of the data, read from sums in units of the bounds.

    ``bounds`` are those of the features and, last, of the target. ``ridge`` is AdaSSP's if it is None.
    """

    statistics: Statistics
    bounds: tuple[tuple[float, float], ...]
    rows_per_unit: int = 1
    ridge: float | None = None

    @cached_property
    def solved(self) -> tuple[Array, float]:
        """Coefficients in units of the bounds, and the ridge that was used."""
        sums = self.statistics
        used = sums.least_ridge() if self.ridge is None else sums.stable_ridge(check.nonnegative("ridge", self.ridge))
        return sums.solve(used), used

    @cached_property
    def _map(self) -> tuple[Array, Array]:
        """Matrix and offset that turn unit coefficients into coefficients and intercept (last)."""
        lows, highs = np.array(self.bounds).T
        width, reach = highs - lows, highs[-1] - lows[-1]
        matrix = np.diag(reach / np.append(width[:-1], 1.0))
        matrix[-1, :-1] = -reach * lows[:-1] / width[:-1]
        return matrix, np.append(np.zeros(len(width) - 1), lows[-1])

    @property
    def values(self) -> Array:
        """Slope of each feature, then the intercept."""
        matrix, offset = self._map
        return np.asarray(matrix @ self.solved[0] + offset)

    def intervals(self, *, confidence: float = 0.95) -> list[tuple[float, float]]:
        """Intervals of the values over sampling and noise; refused where ``Statistics.covariance`` is."""
        theta, used = self.solved
        matrix, _ = self._map
        covariance = matrix @ self.statistics.covariance(theta, used, rows_per_unit=self.rows_per_unit) @ matrix.T
        half = normal_deviations(check.inside("confidence", confidence)) * np.sqrt(np.diag(covariance))
        return list(zip((self.values - half).tolist(), (self.values + half).tolist(), strict=True))


APPROXIMATE: Final = (
    "Intervals include privacy noise and sampling. They are approximate and assume an even spread around the line."
)
"""What people read under the intervals of a linear model."""

EVEN = "if the spread around the line is the same everywhere: the sums cannot tell, and no number of rows mends it"


def said_of_intervals(target: str, low: float, high: float, rows_per_unit: int) -> str:
    """Return in one line what intervals are about.

    >>> said_of_intervals("targets", -5, 5, 1).split("; ")[1]
    'over noise and sampling of people with one row each, whose spread around the line is even'
    """
    rows = "one row each" if rows_per_unit == 1 else f"up to {rows_per_unit} rows each, however alike"
    people = f"people with {rows}, whose spread around the line is even"
    return f"about {target} clamped to [{low:g}, {high:g}]; over noise and sampling of {people}; approximate"


def symmetric(triangle: Array, width: int) -> Array:
    """The symmetric matrix of an upper triangle written row by row.

    >>> symmetric(np.array([1.0, 2.0, 3.0]), 2).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    matrix = np.zeros((width, width))
    matrix[np.triu_indices(width)] = triangle
    return np.asarray(matrix + np.triu(matrix, 1).T)


@dataclass(frozen=True, slots=True)
class Coefficient:
    """One coefficient of a regression from noisy sums; made by :func:`line`."""

    statistics: Statistics
    place: int
    about: str
    rows_per_unit: int = 1

    @property
    def value(self) -> float:
        """The least-squares coefficient of the noisy sums."""
        return float(self.statistics.solve(0.0)[self.place])

    @property
    def population_value(self) -> float:
        """The value, which also estimates the population."""
        return self.value

    def noise_interval(self, *, confidence: float = 0.95) -> Interval:
        """The coefficient that the sums would give without noise."""
        return self._interval(self.statistics.noise_covariance(self.statistics.solve(0.0), 0.0), confidence, "noise")

    def population_interval(self, *, confidence: float = 0.95) -> Interval:
        """The coefficient of the best line in the population; spread around the line is taken as even."""
        assert self.statistics.rows is not None
        theta, rows = self.statistics.solve(0.0), self.statistics.rows
        covariance = self.statistics.total_covariance(theta, rows, self.rows_per_unit)
        return self._interval(covariance, confidence, "population")

    def _interval(self, covariance: Array, confidence: float, kind: Kind) -> Interval:
        notes: tuple[str, ...] = ()
        z = normal_deviations(check.inside("confidence", confidence))
        if kind == "population":
            from scipy.special import stdtrit

            rows, notes = self.statistics.rows, (EVEN,)
            assert rows is not None
            # The spread around the line is itself estimated from so few rows: Student's quantile.
            z = max(z, float(stdtrit(max(1.0, rows - self.statistics.width), (1.0 + confidence) / 2.0)))
        half = z * math.sqrt(float(covariance[self.place, self.place]))
        return Interval(self.value - half, self.value + half, confidence, self.about, kind, ASYMPTOTIC, notes)


def line(
    *,
    n: Released | int,
    x: Released,
    xx: Released,
    y: Released,
    xy: Released,
    yy: Released,
    rows_per_unit: int = 1,
    about: str = "y on x",
) -> tuple[Coefficient, Coefficient]:
    """Slope and intercept of y on x from noisy sums of x, x^2, y, xy and y^2 and a count that is noisy or public.

    Population intervals hold if the spread of y around the line is the same for all x; where it is not (a bit that is
    likelier for some x) they may be far too short, which the sums cannot show.
    Values were clamped before they were added up, and the line is that of the clamped values; ``rows_per_unit`` is how
    many rows one unit may have. Refused where the noise
    of the count or of n Var(x) reaches zero within three deviations.

    >>> from tallystick.inference.noise import Noise
    >>> sums = {"x": 0, "xx": 500, "y": 0, "xy": 250, "yy": 140}
    >>> slope, _ = line(n=1000, **{name: Released(value, Noise.gaussian(sigma=5)) for name, value in sums.items()})
    >>> round(slope.value, 3), round(slope.population_interval().width / slope.noise_interval().width, 2)
    (0.5, 1.12)
    """
    sums, cap = (n, x, xx, y, xy, yy), check.count("rows_per_unit", rows_per_unit, least=1)
    if not all(isinstance(one, Released) for one in sums[1:]):
        raise InvalidInput("x", "a plain number", "Released sums of x, x^2, y, xy and y^2")
    rows = float(n.value) if isinstance(n, Released) else float(check.count("n", n, least=3))
    spread = [one.noise.deviation if isinstance(one, Released) else 0.0 for one in sums]
    if rows - 3.0 * spread[0] <= 4.0 * cap:
        raise Refused("no interval: the noisy count is within three deviations of zero. Try: a public count")
    mean = x.value / rows
    around = xx.value - x.value * mean
    # d(Sxx - Sx^2/n) = dSxx - 2 (Sx/n) dSx + (Sx/n)^2 dn
    if around <= 3.0 * math.hypot(spread[2], 2.0 * mean * spread[1], mean**2 * spread[0]):
        raise Refused(
            "no interval: the noise decides how much x varies, so it would decide the slope. Try: a larger epsilon, "
            "more rows, or x less its middle"
        )
    variances = [one**2 for one in spread]
    statistics = Statistics(
        np.array([[xx.value, x.value], [x.value, rows]]),
        np.array([xy.value, y.value]),
        yy.value,
        np.array([[variances[2], variances[1]], [variances[1], variances[0]]]),
        np.array([variances[4], variances[3]]),
        variances[5],
        rows,
    )
    return (
        Coefficient(statistics, 0, f"slope of {about}", cap),
        Coefficient(statistics, 1, f"intercept of {about}", cap),
    )
