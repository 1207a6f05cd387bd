"""Private quantile regression: the pinball loss, smoothed, with Gaussian noise in the objective.

    theta = argmin  sum of rho(y - row.theta) + ridge/2 |theta|^2 + noise.theta

rho is the pinball loss of one quantile, smoothed over residuals within +- width: its slope stays within [-tau, 1 - tau]
and its curvature below 1/(2 width), so the bound for any generalised linear model applies. The sign of a record's
slope is not known beforehand, which costs a factor two that logistic regression does not pay.
docs/theory/quantile-regression.md
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr

from tallystick.accounting import check, losses
from tallystick.accounting.calibrate import calibrate
from tallystick.errors import InvalidInput
from tallystick.learn.estimator import MINIMISER, OBJECTIVE, Answer, Estimator, NoisePart
from tallystick.learn.records import Array, Given, along, numbers, scaled
from tallystick.learn.scoring import PaidGoodness
from tallystick.mechanisms.exact.randomness import Source
from tallystick.mechanisms.noise import add_gaussian
from tallystick.mechanisms.noise.knorm import NORMAL_ERROR, near_normals

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

SHARE = 0.02
"""The noise that hides the minimiser's last digits: its mu as a share of the objective's."""
CURVATURE = 0.25
"""By default the ridge is such that curvature costs this share of epsilon."""
FAR = 40.0
"""Noise is longer than sqrt(d) + FAR deviations with a probability below 1e-340."""
MOST_ROWS = 10**7
NEWTON = 24
"""Newton's steps that are always taken."""
HALVINGS = 12
UNIT = 2.0**-53
BOUNDS = {
    "row_norm": "rows with a longer Euclidean norm are scaled down to it",
    "target_bound": "targets outside -target_bound to target_bound count as the nearer end",
}
"""Effect of each bound. Both are declared, because a default would change other data without a message."""


def glm_delta(epsilon: float, *, mu: float, curvature: float) -> float:
    """delta of Gaussian objective perturbation for any convex generalised linear model (see Redberg et al. 2023).

    mu = gradient bound / noise, curvature = log(1 + curvature bound / ridge); adding and removing a record alike.

    >>> round(glm_delta(1.0, mu=0.2, curvature=0.1), 6) < glm_delta(0.5, mu=0.2, curvature=0.1)
    True
    """
    left = epsilon - curvature
    if left < 0.5 * mu * mu:
        return min(1.0, 1.0 - 2.0 * math.exp(left) * float(ndtr(-mu)) * (1.0 - 1e-12))
    upper, lower = float(ndtr(0.5 * mu - left / mu)), float(ndtr(-0.5 * mu - left / mu))
    return min(1.0, 2.0 * (max(0.0, upper - math.exp(left) * lower) + 1e-12 * upper))


@lru_cache(maxsize=256)
def glm_loss(mu: float, curvature: float) -> PrivacyLoss:
    """The profile at knots, for both directions: chords between them are bounds."""
    top = curvature + 14.0 * mu + 0.5 * mu * mu
    knots = np.unique(np.concatenate([[0.0, curvature], top * np.linspace(0.0, 1.0, 400)]))
    values = np.minimum.accumulate([glm_delta(float(e), mu=mu, curvature=curvature) for e in knots])
    return losses.from_profile(list(zip(knots.tolist(), values.tolist(), strict=True)))


@lru_cache(maxsize=64)
def noise_for(epsilon: float, delta: float, curvature: float, rows: int = 1) -> float:
    """Least noise, in units of the gradient bound, with which a person of that many rows has (epsilon, delta).

    A person with several rows is a group of rows, so the price is that of the group.
    """
    goal = losses.approx_dp(epsilon=epsilon, delta=delta)
    plain = rows * float(calibrate(lambda s: losses.gaussian(sigma=s), goal))

    def price(sigma: float) -> PrivacyLoss:
        one = glm_price(sigma, curvature)
        return one if rows == 1 else one.for_groups(rows)

    return float(calibrate(price, goal, low=plain, high=100.0 * plain, relative=2e-3))


def glm_price(sigma: float, curvature: float) -> PrivacyLoss:
    """The objective's noise and the noise on the minimiser."""
    return glm_loss(1.0 / sigma, curvature) + losses.gdp(mu=SHARE / sigma)


@dataclass(frozen=True, slots=True, eq=False)
class SmoothedPinball:
    """The objective on data."""

    rows: Array
    targets: Array
    quantile: float
    width: float
    ridge: float
    tilt: Array

    def gradient(self, theta: Array) -> tuple[Array, Array]:
        """The gradient, and each row's curvature."""
        below = 0.5 - (self.targets - self.rows @ theta) / (2.0 * self.width)
        slope = np.clip(below, 0.0, 1.0) - self.quantile
        pulls = np.ascontiguousarray((self.rows * slope[:, None]).T)  # summed pairwise along rows
        bend = np.where((below > 0.0) & (below < 1.0), 0.5 / self.width, 0.0)
        return pulls.sum(axis=1) + self.ridge * theta + self.tilt, bend

    def minimum(self, tolerance: float, longest: float) -> Array:
        """A point whose gradient is no longer than ``tolerance``, for every data set.

        Newton's steps with halving find the piece in a few rounds, mostly; all are taken, so that time does not tell
        how soon. Where they do not, accelerated gradient steps follow, which converge surely because the objective is
        strongly convex and smooth.
        """
        theta, found = np.zeros(self.rows.shape[1]), None
        slope, bend = self.gradient(theta)
        for _ in range(NEWTON):
            size = float(np.linalg.norm(slope))
            if found is None and size <= tolerance:
                found = theta
            curvature = (self.rows.T * bend) @ self.rows + self.ridge * np.eye(len(theta))
            direction = np.linalg.solve(curvature, slope)
            for halving in range(1 if found is not None else HALVINGS):
                there = theta - direction / 2.0**halving
                slope, bend = self.gradient(there)
                if float(np.linalg.norm(slope)) <= (1.0 - 0.1 / 2.0**halving) * size:
                    break
            theta = there
        return self.accelerated(theta, tolerance, longest) if found is None else found

    def accelerated(self, theta: Array, tolerance: float, longest: float) -> Array:
        """Nesterov's steps from ``theta`` until the certificate holds."""
        smooth = self.ridge + len(self.rows) * longest**2 / (2.0 * self.width)
        root = math.sqrt(self.ridge / smooth)
        ahead = theta
        while True:
            slope, _ = self.gradient(ahead)
            if float(np.linalg.norm(slope)) <= tolerance:
                return ahead
            there = ahead - slope / smooth
            theta, ahead = there, there + (1.0 - root) / (1.0 + root) * (there - theta)


@dataclass(frozen=True, slots=True)
class QuantileRecipe:
    """Public numbers of one fit; ``sigma`` is the noise in units of the longest gradient."""

    quantile: float
    row_norm: float
    target_bound: float
    width: float
    ridge: float
    sigma: float
    intercept: bool

    @property
    def longest(self) -> float:
        """Norm of the longest row, the constant column included."""
        return self.row_norm * (math.sqrt(2.0) if self.intercept else 1.0) * (1.0 + 2.0**-50)

    @property
    def pull(self) -> float:
        """The longest gradient of a record."""
        return max(self.quantile, 1.0 - self.quantile) * self.longest

    @property
    def curvature(self) -> float:
        """log(1 + curvature of a record / ridge)."""
        return math.log1p(self.longest**2 / (2.0 * self.width) / self.ridge) * (1.0 + 1e-15)

    @property
    def privacy(self) -> PrivacyLoss:
        """Upper bound for one row."""
        return glm_price(self.sigma, self.curvature)

    def extended(self, rows: Array) -> Array:
        """Rows no longer than declared, with the constant column."""
        short = scaled(rows, self.row_norm)
        return np.column_stack([short, np.full(len(short), self.row_norm)]) if self.intercept else short

    def tolerance(self, width: int) -> float:
        """What the minimiser surely reaches: four times the rounding of the longest gradient, from public numbers."""
        tilt = self.sigma * self.pull * (math.sqrt(width) + FAR)
        most = MOST_ROWS * (self.target_bound + self.width)
        reach = 2.0 * tilt / self.ridge + math.sqrt(2.0 * most / self.ridge)
        each = (width + 4.0) * (self.longest * reach + self.target_bound) / (2.0 * self.width) + 256.0
        return 8.0 * UNIT * (MOST_ROWS * self.longest * each + 4.0 * self.ridge * reach + 4.0 * tilt)

    def apart(self, width: int) -> float:
        """How far errors of the computation can move the minimiser, at most."""
        noise = self.sigma * self.pull * math.sqrt(width) * NORMAL_ERROR
        return 2.0 * (self.tolerance(width) * 1.25 + noise) / self.ridge

    def hiding(self, width: int) -> Any:
        """Noise that hides how far the minimiser was missed."""
        return add_gaussian(mu=SHARE / self.sigma, sensitivity=self.apart(width), dimension=width)

    def noise_parts(self, columns: int) -> tuple[NoisePart, ...]:
        """What a card says of the noise."""
        apart, share = self.apart(columns + self.intercept), SHARE**2 / (1.0 + SHARE**2)
        return (
            NoisePart(OBJECTIVE, "Gaussian", self.sigma, share=1.0 - share),
            NoisePart(MINIMISER, "discrete Gaussian", apart * self.sigma / SHARE, sensitivity=apart, share=share),
        )

    def train(self, data: Given, source: Source) -> Answer:
        """The noisy minimiser."""
        assert data.targets is not None
        targets = numbers(data.targets, -self.target_bound, self.target_bound)
        kept = ~np.isnan(targets)
        rows = self.extended(data.rows[kept])
        width = rows.shape[1]
        tilt = self.sigma * self.pull * near_normals(width, source)
        objective = SmoothedPinball(rows, targets[kept], self.quantile, self.width, self.ridge, tilt)
        found = objective.minimum(self.tolerance(width), self.longest)
        hiding = self.hiding(width)
        return {"theta": np.asarray(hiding.draw(hiding.prepare(found, strict=False), source))}


class QuantileRegression(PaidGoodness, Estimator):
    """The ``quantile`` of y given a row, linear in the row, (epsilon, delta)-private.

    Rows are scaled down to ``row_norm`` and targets are clamped to ``target_bound``. You declare both from public
    knowledge. ``smoothing`` is the half-width over which the pinball loss is rounded (default: a tenth of the target
    bound). ``epsilon`` and ``delta`` protect a whole person, who may have ``rows_per_unit`` rows. For one number
    without features use ``ts.select.quantile``, which is exact and pure.

    >>> model = QuantileRegression(quantile=0.9, epsilon=1.0, delta=1e-6, row_norm=1, target_bound=1)
    >>> 0.9 < model.privacy.epsilon(delta=1e-6) <= 1.0
    True
    """

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        quantile: float = 0.5,
        row_norm: float | None = None,
        target_bound: float | None = None,
        smoothing: float | None = None,
        regularization: float = 0.0,
        fit_intercept: bool = True,
        rows_per_unit: int = 1,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.quantile = quantile
        self.row_norm = row_norm
        self.target_bound = target_bound
        self.smoothing = smoothing
        self.regularization = regularization
        self.fit_intercept = fit_intercept
        self.rows_per_unit = rows_per_unit

    def _recipe(self) -> QuantileRecipe:
        epsilon = check.between("epsilon", self.epsilon, 1e-3, 1e2)
        delta = check.between("delta", self.delta, 1e-15, 0.5)
        rows = check.count("rows_per_unit", self.rows_per_unit, least=1, most=1000)
        bound = self._declared("target_bound")
        width = bound / 10.0 if self.smoothing is None else check.positive("smoothing", self.smoothing)
        if not 1e-4 * bound <= width <= 10.0 * bound:
            raise InvalidInput("smoothing", self.smoothing, "between 1/10000 and 10 times the target bound")
        norm = self._declared("row_norm")
        if not isinstance(self.fit_intercept, (bool, np.bool_)):
            raise InvalidInput("fit_intercept", self.fit_intercept, "True or False")
        plain = QuantileRecipe(
            check.between("quantile", self.quantile, 0.001, 0.999),
            norm,
            bound,
            width,
            1.0,
            1.0,
            bool(self.fit_intercept),
        )
        needed = plain.longest**2 / (2.0 * width) / math.expm1(CURVATURE * epsilon / rows)
        ridge = max(needed, check.nonnegative("regularization", self.regularization))
        recipe = QuantileRecipe(plain.quantile, norm, bound, width, ridge, 1.0, plain.intercept)
        sigma = noise_for(epsilon, delta, recipe.curvature, rows)
        return QuantileRecipe(plain.quantile, norm, bound, width, ridge, sigma, plain.intercept)

    def _declared(self, name: str) -> float:
        value = getattr(self, name)
        if value is None:
            raise InvalidInput(name, None, f"a number from public knowledge: {BOUNDS[name]}")
        return check.between(name, value, 1e-6, 1e6)

    def _check(self, data: Given) -> None:
        super()._check(data)
        if len(data.rows) > MOST_ROWS:
            raise InvalidInput("X", f"{len(data.rows)} rows", f"at most {MOST_ROWS} rows")
        recipe = self._recipe()
        recipe.hiding(data.width + recipe.intercept)

    def _keep(self, answer: Mapping[str, Any]) -> None:
        theta = np.asarray(answer["theta"], dtype=np.float64)
        self.coef_ = theta[: self.n_features_in_]
        self.intercept_ = float(theta[-1] * self._declared("row_norm")) if self.fit_intercept else 0.0

    def _targets(self) -> tuple[float, float]:
        bound = self._declared("target_bound")
        return -bound, bound

    def predict(self, X: Any) -> Array:
        """The estimated quantile for rows, scaled down as in ``fit``."""
        rows = self._like_fitted(X)
        return along(scaled(rows, self._declared("row_norm")), self.coef_) + self.intercept_
