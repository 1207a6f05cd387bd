"""Full-batch noisy gradient descent for logistic losses: a fixed number of steps, each one Gaussian release.

What a row adds to a step is cut to a length, rounded to a lattice and summed in integers, so one row moves the sum by
exactly what is priced. It is computed by operations that see one row at a time, column by column: a matrix product may
round a row differently when another one is gone. One noisy count sets the step size, as the number of rows is private.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, expm1

from tallystick.accounting import check, losses
from tallystick.accounting.calibrate import calibrate
from tallystick.errors import InvalidInput
from tallystick.learn.records import WITHIN, Array, Given
from tallystick.mechanisms.exact.randomness import Source
from tallystick.mechanisms.noise.laws import SMOOTHING, DiscreteGaussian

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.learn.estimator import Answer
    from tallystick.learn.logistic import Rows

COUNT_SHARE = 0.01
"""The count's share of the squared mu."""
BITS = 30
"""The lattice is this much finer than the longest gradient that counts."""
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
    def clip(self) -> float:
        """The length of a gradient at theta = 0 of the longest row: all count fully at first, and never more."""
        classes = len(self.rows.classes)
        return self.rows.longest * (math.sqrt(1.0 - 1.0 / classes) if self.softmax else math.sqrt(self.outputs) / 2.0)

    @property
    def privacy(self) -> PrivacyLoss:
        return _loss(self.sigma, self.steps, self.adjacency)

    def train(self, data: Given, source: Source) -> Answer:
        rows, places = self.rows.read(data)
        columns = np.ascontiguousarray(rows.T)
        lengths = np.sqrt(sum((column * column for column in columns), np.zeros(len(rows))))
        theta = np.zeros((self.outputs, len(columns)))
        smoothness = (0.5 if self.softmax else 0.25) * self.rows.longest**2
        rate = 1.0 / (smoothness * self.counted(len(rows), source) + self.ridge)
        for _ in range(self.steps):
            gradient = self.noisy_gradient(columns, lengths, places, theta, source)
            theta -= rate * (gradient + self.ridge * theta)
        return {"theta": theta}

    def counted(self, count: int, source: Source) -> float:
        """A noisy number of rows, at least as large as its noise."""
        wide = self.sigma / math.sqrt(self.steps * COUNT_SHARE)
        law = _integer_law(wide, 2**BITS)
        noisy = count * 2**BITS + law.one(source)
        return float(max(noisy / 2**BITS, wide, 1.0))

    def noisy_gradient(
        self, columns: Array, lengths: Array, places: np.ndarray[Any, Any], theta: Array, source: Source
    ) -> Array:
        """The sum of cut gradients, exactly on the lattice, with its noise."""
        step = 2.0 ** (math.floor(math.log2(self.clip)) - BITS)
        residuals = self.residuals(columns, places, theta)
        sizes = np.sqrt(sum((residual * residual for residual in residuals), np.zeros(len(lengths)))) * lengths
        cut = np.where(sizes > self.clip * WITHIN, self.clip * WITHIN / np.maximum(sizes, self.clip * WITHIN), 1.0)
        points = [
            int(np.floor(residual * cut * column / step + 0.5).astype(np.int64).sum())
            for residual in residuals
            for column in columns
        ]
        # One row: its cut gradient in lattice units, and what rounding adds to it.
        longest = math.ceil(self.clip / step + math.sqrt(len(points)) / 2.0) + 1
        noise = _integer_law(self.sigma, longest).draw(len(points), source)
        return (np.array(points, dtype=np.float64) + noise).reshape(theta.shape) * step

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
    loss = steps * losses.gaussian(sigma=sigma) + losses.gaussian(sigma=sigma / math.sqrt(steps * COUNT_SHARE))
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
