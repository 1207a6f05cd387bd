"""Full-batch noisy gradient descent for logistic losses: a fixed number of steps, each one Gaussian release.

What a row adds to a step is cut to a length, rounded to a lattice and summed in integers, so one row moves the sum by
exactly what is priced. It is computed by operations that see one row at a time, column by column: a matrix product may
round a row differently when another one is gone.

One more release comes first: the number of rows, their sum and their squared lengths, all noisy. The number sets the
step size, as it is private. With an intercept, rows are centred at the noisy mean and cut to a length around what is
then usual: what all rows have in common is the intercept's business, and noise is proportional to the longest row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, expm1

from tallystick.accounting import check, losses
from tallystick.accounting.calibrate import calibrate
from tallystick.errors import InvalidInput
from tallystick.learn.estimator import Answer, NoisePart
from tallystick.learn.records import WITHIN, Array, Given, scaled
from tallystick.mechanisms.exact.randomness import Source
from tallystick.mechanisms.noise.gaussian import SMOOTHING, DiscreteGaussian

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.learn.logistic import Rows

FIRST_SHARE = 0.1
"""The first release's share of the squared mu."""
WEIGHTS = (math.sqrt(0.1), math.sqrt(0.8), math.sqrt(0.1))
"""Of number, sum and squares in the first release, so that a row's part of it is no longer than 1."""
CONSTANT = 0.5
"""The constant column of centred rows, which are cut to their root mean square, in units of that."""
BITS = 30
"""The lattice is this much finer than the longest row's part of a sum."""
SWING = 10.0
"""Steps are so short that noise alone moves no row's score by more than this, on average."""
MOST_STEPS = 100_000


@dataclass(frozen=True, slots=True)
class NoisyDescent:
    """``sigma``: the noise of a step in units of the longest gradient that counts, which is that of the first step."""

    rows: Rows
    sigma: float
    steps: int
    softmax: bool
    ridge: float
    adjacency: str

    @property
    def outputs(self) -> int:
        """Columns of theta."""
        return len(self.rows.classes) if self.softmax else self.rows.problems

    @property
    def pull(self) -> float:
        """The length of the residuals at theta = 0: there every row counts fully, and it never counts for more."""
        classes = len(self.rows.classes)
        return math.sqrt(1.0 - 1.0 / classes) if self.softmax else math.sqrt(self.outputs) / 2.0

    @property
    def privacy(self) -> PrivacyLoss:
        return _loss(self.sigma, self.steps, self.adjacency)

    def ready(self, width: int) -> None:
        """Nothing public can go wrong."""

    def noise_part(self, columns: int) -> NoisePart:
        """What a card says of the noise."""
        return NoisePart(f"each of {self.steps} gradients", "Gaussian", self.sigma)

    def train(self, data: Given, source: Source) -> Answer:
        rows, places = self.rows.read(data)
        count, mean, usual = self.first(rows, source)
        longest, constant = self.rows.longest, self.rows.constant
        if self.rows.intercept:
            constant, longest = CONSTANT * usual, usual * math.hypot(1.0, CONSTANT)
            centred = scaled(rows[:, :-1] - mean[:-1], usual)
            rows = np.column_stack([centred, np.full(len(rows), constant)])
        theta = self.descended(np.ascontiguousarray(rows.T), places, longest, count, source)
        if self.rows.intercept:  # back to rows that are not centred, and to the constant they are released with
            theta[:, -1] = (theta[:, -1] * constant - theta[:, :-1] @ mean[:-1]) / self.rows.constant
        return {"theta": theta}

    def first(self, rows: Array, source: Source) -> tuple[float, Array, float]:
        """Noisy: how many rows, their mean, and their root mean square around it, each within what is possible."""
        norm, wide = self.rows.norm, self.sigma / math.sqrt(self.steps * FIRST_SHARE)
        features = [column / norm for column in rows.T[: len(rows.T) - self.rows.intercept]]
        squares = sum((column * column for column in features), np.zeros(len(rows)))
        parts = [np.full(len(rows), WEIGHTS[0]), *(WEIGHTS[1] * column for column in features), WEIGHTS[2] * squares]
        number, *sums, square = self.noisy_sums(parts, 1.0, wide, source)
        count = max(number / WEIGHTS[0], wide, 1.0)
        mean = np.array(sums) / (WEIGHTS[1] * count)
        mean /= max(1.0, float(np.linalg.norm(mean)))
        usual = math.sqrt(min(1.0, max(square / (WEIGHTS[2] * count) - float(mean @ mean), 0.01)))
        return count, np.append(mean, 0.0) * norm, usual * norm

    def descended(
        self, columns: Array, places: np.ndarray[Any, Any], longest: float, count: float, source: Source
    ) -> Array:
        """Where the steps lead."""
        lengths = np.sqrt(sum((column * column for column in columns), np.zeros(columns.shape[1])))
        theta = np.zeros((self.outputs, len(columns)))
        steepest = 1.0 / ((0.5 if self.softmax else 0.25) * longest**2 * count + self.ridge)
        # After all steps noise alone has moved theta, and with it a score, by about this much per unit of the rate.
        noise = self.sigma * self.pull * longest**2 * math.sqrt(self.steps * len(columns))
        rate = min(steepest, SWING / noise)
        for _ in range(self.steps):
            gradient = self.noisy_gradient(columns, lengths, places, theta, longest, source)
            theta -= rate * (gradient + self.ridge * theta)
        return theta

    def noisy_gradient(
        self,
        columns: Array,
        lengths: Array,
        places: np.ndarray[Any, Any],
        theta: Array,
        longest: float,
        source: Source,
    ) -> Array:
        """The sum of cut gradients with its noise."""
        most = self.pull * longest
        residuals = self.residuals(columns, places, theta)
        sizes = np.sqrt(sum((residual * residual for residual in residuals), np.zeros(len(lengths)))) * lengths
        cut = np.where(sizes > most * WITHIN, most * WITHIN / np.maximum(sizes, most * WITHIN), 1.0)
        parts = (residual * cut * column for residual in residuals for column in columns)
        return self.noisy_sums(parts, most, self.sigma, source).reshape(theta.shape)

    @staticmethod
    def noisy_sums(parts: Iterable[Array], longest: float, sigma: float, source: Source) -> Array:
        """Sums over rows whose parts are together no longer than ``longest``: exact on a lattice, then noise."""
        step = 2.0 ** (math.floor(math.log2(longest)) - BITS)
        points = [int(np.floor(part / step + 0.5).astype(np.int64).sum()) for part in parts]
        # One row: its part in lattice units, and what rounding adds to it.
        apart = math.ceil(longest / step + math.sqrt(len(points)) / 2.0) + 1
        noise = _integer_law(sigma, apart).draw(len(points), source)
        return np.array([float(point + int(extra)) for point, extra in zip(points, noise, strict=True)]) * step

    def residuals(self, columns: Array, places: np.ndarray[Any, Any], theta: Array) -> list[Array]:
        """Derivatives of each row's loss by its scores, one array per score."""
        none = np.zeros(columns.shape[1])
        scores = [sum((w * column for w, column in zip(weights, columns, strict=True)), none) for weights in theta]
        if not self.softmax:
            positive = [1] if self.outputs == 1 else range(self.outputs)
            return [expit(score) - (places == place) for score, place in zip(scores, positive, strict=True)]
        top = np.max(scores, axis=0)
        each = [expm1(score - top) + 1.0 for score in scores]
        total = sum(each, none)
        return [share / total - (places == place) for place, share in enumerate(each)]


def _integer_law(sigma: float, longest: int) -> DiscreteGaussian:
    """Integer noise that costs at most gaussian(sigma) for vectors that move by ``longest`` (laws.smooth_privacy)."""
    return DiscreteGaussian(math.sqrt((sigma * longest) ** 2 + float(SMOOTHING)) * (1.0 + 1e-12))


@lru_cache(maxsize=256)
def _loss(sigma: float, steps: int, adjacency: str) -> PrivacyLoss:
    loss = steps * losses.gaussian(sigma=sigma) + losses.gaussian(sigma=sigma / math.sqrt(steps * FIRST_SHARE))
    return loss if adjacency == "add_remove" else loss.as_replace()


@lru_cache(maxsize=64)
def _sigma(epsilon: float, delta: float, steps: int, units: int, adjacency: str) -> float:
    goal = losses.approx_dp(epsilon=epsilon, delta=delta, adjacency=adjacency)

    def loss(sigma: float) -> PrivacyLoss:
        found = _loss(sigma, steps, adjacency)
        return found if units == 1 else found.for_groups(units)

    return float(calibrate(loss, goal, relative=1e-6))


def plan(
    rows: Rows, epsilon: float, delta: float, *, softmax: bool, steps: Any, ridge: float, units: int, adjacency: str
) -> NoisyDescent:
    """The recipe whose loss for a unit of that many rows meets (epsilon, delta)."""
    number = check.count("steps", steps, least=1, most=MOST_STEPS)
    if delta <= 0.0:
        raise InvalidInput("delta", delta, 'a number above 0 for solver="noisy_gd"')
    return NoisyDescent(rows, _sigma(epsilon, delta, number, units, adjacency), number, softmax, ridge, adjacency)
