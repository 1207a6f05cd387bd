"""Full-batch noisy gradient descent for logistic losses: a fixed number of steps, each one Gaussian release.

What a row adds to a step is cut to a length, rounded to a lattice and summed in integers, so one row moves the sum by
exactly what is priced. It is computed by operations that see one row at a time, column by column: a matrix product may
round a row differently when another one is gone.

One more release comes first: the number of rows, their sum and their squared lengths, all noisy. They set the step
size and what a row may count for, as n is private. With an intercept, rows are centred at the noisy mean: what all rows
have in common is the intercept's business, and noise is proportional to what a row may count for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, expm1

from tallystick.accounting import losses
from tallystick.accounting.calibrate import calibrate
from tallystick.learn.asymptotics import descent_covariance
from tallystick.learn.estimator import Answer, NoisePart
from tallystick.learn.records import WITHIN, Array, Given
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
"""The constant column of centred rows, in units of their root mean square."""
NOISY_SCORE = 0.25
"""Cuts are widened until a usual row's score has this much noise: in log odds, a loss of less than 1/100 nat."""
BITS = 30
"""The lattice is this much finer than the longest row's part of a sum."""
SWING = 10.0
"""Steps are so short that noise alone moves no row's score by more than this, on average."""
MOST_STEPS = 100_000
NOISE = "discrete Gaussian"
"""What the noise is called on a card (``integer_law``)."""


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What the first release told: noisy numbers, on which all that follows may depend."""

    count: float
    mean: Array
    constant: float
    usual: float
    """Root mean square of the rows as they will be used, the constant column included."""
    longest: float
    """The same, with room for its noise."""
    farthest: float
    """No row can be longer."""


@dataclass(frozen=True, slots=True)
class NoisyDescent:
    """``sigma``: the noise of a step in units of what one row may count for in it (``cut``)."""

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

    def noise_parts(self, columns: int) -> tuple[NoisePart, ...]:
        """What a card says of the noise."""
        first, all_steps = FIRST_SHARE / (1.0 + FIRST_SHARE), 1.0 / (1.0 + FIRST_SHARE)
        wide = self.sigma / math.sqrt(self.steps * FIRST_SHARE)
        return (
            NoisePart("number of rows, their sum and their squared lengths", NOISE, wide, share=first),
            NoisePart(f"each of {self.steps} gradients", NOISE, self.sigma, share=all_steps),
        )

    def train(self, data: Given, source: Source) -> Answer:
        rows, places = self.rows.read(data)
        seen = self.first(rows, source)
        if self.rows.intercept:
            centred = rows[:, :-1] - seen.mean
            rows = np.column_stack([centred, np.full(len(rows), seen.constant)])
        rate, most = self.pace(seen, rows.shape[1])
        theta = self.descended(np.ascontiguousarray(rows.T), places, rate, most, source)
        back = np.eye(rows.shape[1])
        if self.rows.intercept:  # to rows that are not centred, and to the constant they are released with
            back[-1] = np.append(-seen.mean, seen.constant) / self.rows.constant
        return {"theta": theta @ back.T, "rate": rate, "cut": most, "back": back}

    def noise_covariance(self, curvature: Array, answer: Mapping[str, Any]) -> Array:
        """Of the released columns, to first order, where their curvature is this: the centred ones' and back."""
        back, rate = np.asarray(answer["back"]), float(answer["rate"])
        variance = (rate * self.sigma * float(answer["cut"])) ** 2
        ahead = descent_covariance(
            back.T @ curvature @ back, ridge=self.ridge, variance=variance, rate=rate, steps=self.steps
        )
        return np.asarray(back @ ahead @ back.T)

    def first(self, rows: Array, source: Source) -> Seen:
        """Noisy: how many rows, their mean and how long they are around it, each within what is possible."""
        norm, wide = self.rows.norm, self.sigma / math.sqrt(self.steps * FIRST_SHARE)
        features = [column / norm for column in rows.T[: len(rows.T) - self.rows.intercept]]
        squares = sum((column * column for column in features), np.zeros(len(rows)))
        parts = [np.full(len(rows), WEIGHTS[0]), *(WEIGHTS[1] * column for column in features), WEIGHTS[2] * squares]
        number, *sums, square = self.noisy_sums(parts, 1.0, wide, source)
        count = max(number / WEIGHTS[0], wide, 1.0)
        if not self.rows.intercept:
            return Seen(count, np.zeros(len(sums)), 0.0, *_lengths(square / WEIGHTS[2], count, wide, norm), norm)
        mean = np.array(sums) / (WEIGHTS[1] * count)
        mean /= max(1.0, float(np.linalg.norm(mean)))
        # Around the noisy mean rows are longer than |mean|^2 tells, by twice its error.
        off = 2.0 * len(sums) * (wide / (WEIGHTS[1] * count)) ** 2
        around = square / WEIGHTS[2] - count * min(max(float(mean @ mean) - off, 0.0), 1.0)
        usual, longest = _lengths(around, count, wide, norm)
        constant, far = CONSTANT * usual, norm * (1.0 + float(np.linalg.norm(mean)))
        across = math.hypot(1.0, CONSTANT)
        return Seen(count, mean * norm, constant, usual * across, longest * across, math.hypot(far, constant))

    def cut(self, seen: Seen, width: int) -> float:
        """How much one row may count for in a step: as much as keeps the noise of a usual score at NOISY_SCORE.

        At least the usual row's gradient of the first step, and no more than the longest that there can be, where
        nothing is cut. Steps of 1/(n l^2/4), rows of usual length l and curvature near n l^2/(5 d) leave noise of
        deviation sigma C sqrt(10 d)/(n l) in a score (docs/theory/objective-perturbation.md).
        """
        quiet = NOISY_SCORE * seen.count * seen.usual / (self.sigma * math.sqrt(10.0 * width))
        most = (math.sqrt(2.0) if self.softmax else math.sqrt(self.outputs)) * seen.farthest * (1.0 + 2.0**-40)
        return min(max(quiet, self.pull * seen.usual), most)

    def pace(self, seen: Seen, width: int) -> tuple[float, float]:
        """The step size, and how much one row may count for in a step."""
        most = self.cut(seen, width)
        # The curvature of a sum is no more than that of its squared lengths, whose noise is counted too.
        steepest = 1.0 / ((0.5 if self.softmax else 0.25) * seen.longest**2 * seen.count + self.ridge)
        # After all steps noise alone has moved theta, and with it a score, by about this much per unit of the rate.
        noise = self.sigma * most * seen.usual * math.sqrt(self.steps * width)
        return min(steepest, SWING / noise), most

    def descended(
        self, columns: Array, places: np.ndarray[Any, Any], rate: float, most: float, source: Source
    ) -> Array:
        """Where the steps lead."""
        lengths = np.sqrt(sum((column * column for column in columns), np.zeros(columns.shape[1])))
        theta = np.zeros((self.outputs, len(columns)))
        for _ in range(self.steps):
            gradient = self.noisy_gradient(columns, lengths, places, theta, most, source)
            theta -= rate * (gradient + self.ridge * theta)
        return theta

    def noisy_gradient(
        self,
        columns: Array,
        lengths: Array,
        places: np.ndarray[Any, Any],
        theta: Array,
        most: float,
        source: Source,
    ) -> Array:
        """The sum of gradients, each cut to ``most``, with its noise."""
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
        noise = integer_law(sigma, apart).draw(len(points), source)
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


def _lengths(squares: float, count: float, wide: float, norm: float) -> tuple[float, float]:
    """Root mean square of rows, and the same two deviations of noise up; squares in units of the norm's."""
    room = 2.0 * wide / WEIGHTS[2]
    return tuple(norm * math.sqrt(min(1.0, max(found / count, 0.01))) for found in (squares, squares + room))  # type: ignore[return-value]


def integer_law(sigma: float, longest: int) -> DiscreteGaussian:
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
    rows: Rows, epsilon: float, delta: float, *, softmax: bool, steps: int, ridge: float, units: int, adjacency: str
) -> NoisyDescent:
    """The recipe whose loss for a unit of that many rows meets (epsilon, delta)."""
    return NoisyDescent(rows, _sigma(epsilon, delta, steps, units, adjacency), steps, softmax, ridge, adjacency)
