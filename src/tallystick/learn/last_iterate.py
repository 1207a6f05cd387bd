"""Full-batch noisy gradient descent that releases its last iterate only, priced by what later noise forgets.

    theta <- clamp(theta - rate * gradient + noise), rate = 1/smoothness of ``most_rows`` rows

With a ridge every step contracts, and then early steps are forgotten (``ts.last_iterate``). That needs a step size that
contracts for every data set, so it comes from declared numbers, and nothing about the data is asked before. Of two
classes a row counts for no more than the longest one does at theta = 0: its slope is still monotone in its score, so
steps still contract. Softmax gradients are not cut. docs/theory/objective-perturbation.md has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit

from tallystick.accounting import losses
from tallystick.accounting.calibrate import calibrate
from tallystick.accounting.iteration import gradient_step_lipschitz
from tallystick.errors import InvalidInput
from tallystick.learn.asymptotics import descent_covariance
from tallystick.learn.descent import integer_law
from tallystick.learn.estimator import Answer, NoisePart
from tallystick.learn.minimise import UNIT, Minimised, Objective, SoftmaxObjective, padded, reach, rounding
from tallystick.learn.records import Array, Given
from tallystick.mechanisms.exact.randomness import Source
from tallystick.mechanisms.noise.gaussian import DiscreteGaussian

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.learn.logistic import Rows

FORGOTTEN = 4.0
"""It is used where steps * rate * ridge is at least this: half of mu^2 is saved, and e^-4 of the start is left."""
BITS = 18
"""Iterates are on a lattice this much finer than what one row moves a step by."""
MOST_SLACK = 1e-2
"""Rounding may lengthen that move by this share; where it could do more, the fit is refused before the charge."""


@dataclass(frozen=True, slots=True, eq=False)
class CutObjective(Objective):
    """Two classes; no row pulls by more than half of what the longest one can."""

    def gradient(self, theta: Array) -> tuple[Array, Array]:
        squares = sum((column * column for column in self.rows.T), np.zeros(len(self.rows)))
        most = 0.5 * self.longest / np.maximum(np.sqrt(squares), 0.5 * self.longest)
        pull = np.minimum(expit(-(self.rows @ theta)), most)
        return self.pulled(theta, pull), pull


@dataclass(frozen=True, slots=True)
class LastIterate:
    """``sigma``: the noise of a step in units of what one row moves it by."""

    rows: Rows
    sigma: float
    steps: int
    softmax: bool
    ridge: float
    most_rows: int
    adjacency: str

    @property
    def classes(self) -> int:
        """That one objective tells apart."""
        return len(self.rows.classes) if self.softmax else 2

    @property
    def smoothness(self) -> float:
        """No curvature of ``most_rows`` losses and the ridge is larger."""
        return ((0.5 if self.softmax else 0.25) * self.rows.longest**2 * self.most_rows + self.ridge) * (1.0 + 1e-15)

    @property
    def rate(self) -> float:
        """The step size, public."""
        return 1.0 / self.smoothness

    @property
    def contraction(self) -> float:
        """The Lipschitz constant of a step, rounded up."""
        return gradient_step_lipschitz(
            step_size=self.rate, smoothness=self.smoothness, strong_convexity=self.ridge * (1.0 - 1e-15)
        )

    @property
    def privacy(self) -> PrivacyLoss:
        return _loss(self.steps, self.contraction, self.sigma, self.adjacency)

    @property
    def move(self) -> float:
        """How far one row moves a step: the rate times the longest gradient there is."""
        gradient = math.sqrt(2.0 if self.softmax else 0.25 * self.rows.problems)
        return self.rate * self.rows.longest * gradient * (1.0 + 1e-12)

    @property
    def lattice(self) -> float:
        """The step of the lattice on which iterates live."""
        return 2.0 ** (math.floor(math.log2(self.move)) - BITS)

    @property
    def entry(self) -> float:
        """Iterates are clamped to this: twice the farthest minimiser and 60 deviations of what noise does to them."""
        far = reach(self.most_rows, self.ridge, 0.0, classes=self.classes)
        return 2.0 * far + 60.0 * 2.0 * self.sigma * self.move / math.sqrt(self.rate * self.ridge)

    def slack(self, width: int) -> float:
        """What rounding adds to ``move``: twice the error of a computed step, and two lattice steps per entry."""
        size, longest, classes = width * self.rows.problems, self.rows.longest, self.classes
        theta = self.entry * math.sqrt(size)
        parts = math.sqrt(1.0 if self.softmax else self.rows.problems)
        steep = self.most_rows * longest * 2.0 * parts + self.ridge * theta
        error = parts * rounding(self.most_rows + 64, width, longest, self.ridge, theta, 0.0, classes=classes)
        return 2.0 * (self.rate * error + 4.0 * UNIT * (theta + self.rate * steep)) + 2.0 * self.lattice * math.sqrt(
            size
        )

    def law(self, width: int) -> DiscreteGaussian:
        """The noise of a step, in lattice units."""
        return integer_law(self.sigma, math.ceil((self.move + self.slack(width)) / self.lattice) + 1)

    def noise_parts(self, columns: int) -> tuple[NoisePart, ...]:
        """What a card says of the noise."""
        what = f"each of {self.steps} steps, of which only the last is released"
        return (NoisePart(what, "discrete Gaussian", self.sigma),)

    def ready(self, width: int) -> None:
        """Refuse what public numbers cannot do, before anything is charged."""
        if self.slack(width) > MOST_SLACK * self.move or self.entry / self.lattice > 2.0**50:
            allowed = "fewer, so that rounding stays below what one row does"
            raise InvalidInput("most_rows", self.most_rows, allowed)

    def train(self, data: Given, source: Source) -> Answer:
        rows, places = self.rows.read(data)
        width = rows.shape[1]
        objectives = self.objectives(rows, places)
        size, step = width * self.rows.problems, self.lattice
        law, most = self.law(width), math.floor(self.entry / step)
        theta = np.zeros(size, dtype=np.int64)
        for _ in range(self.steps):
            theta = np.clip(self.stepped(objectives, theta) + law.draw(size, source), -most, most)
        return {"theta": (theta * step).reshape(self.rows.problems, width)}

    def noise_covariance(self, curvature: Array, answer: Mapping[str, Any]) -> Array:
        """Of the iterate's columns, to first order, where their curvature is this."""
        width = len(curvature)
        variance = self.law(width).variance * self.lattice**2
        found = descent_covariance(curvature, ridge=self.ridge, variance=variance, rate=self.rate, steps=self.steps)
        return np.asarray(found)

    def objectives(self, rows: Array, places: np.ndarray[Any, Any]) -> list[Minimised]:
        """One for all classes, or one per two-class problem."""
        longest, ridge, none = self.rows.longest, self.ridge, np.zeros(rows.shape[1])
        if self.softmax:
            return [SoftmaxObjective.of(rows, places, self.classes, longest, ridge, np.tile(none, self.classes))]
        signed = (self.rows.signed(rows, places, k) for k in range(self.rows.problems))
        return [CutObjective(padded(part), longest, ridge, none) for part in signed]

    def stepped(self, objectives: list[Minimised], theta: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """One gradient step from a lattice point to the nearest lattice point."""
        parts = np.split(theta * self.lattice, len(objectives))
        moved = [
            here - self.rate * objective.gradient(here)[0] for objective, here in zip(objectives, parts, strict=True)
        ]
        return np.rint(np.concatenate(moved) / self.lattice).astype(np.int64)


@lru_cache(maxsize=256)
def _loss(steps: int, contraction: float, sigma: float, adjacency: str) -> PrivacyLoss:
    loss = losses.last_iterate(steps=steps, contraction=contraction, sigma=sigma)
    return loss if adjacency == "add_remove" else loss.as_replace()


@lru_cache(maxsize=64)
def _sigma(epsilon: float, delta: float, steps: int, contraction: float, units: int, adjacency: str) -> float:
    goal = losses.approx_dp(epsilon=epsilon, delta=delta, adjacency=adjacency)

    def loss(sigma: float) -> PrivacyLoss:
        found = _loss(steps, contraction, sigma, adjacency)
        return found if units == 1 else found.for_groups(units)

    return float(calibrate(loss, goal, relative=1e-6))


def plan(
    rows: Rows, epsilon: float, delta: float, *, softmax: bool, steps: int, ridge: float, units: int, adjacency: str,
    most_rows: int,
) -> LastIterate | None:  # fmt: skip
    """The recipe that meets (epsilon, delta), or None where last-iterate accounting would not pay."""
    made = LastIterate(rows, 1.0, steps, softmax, ridge, most_rows, adjacency)
    uncut = 2.0 / (1.0 - 1.0 / len(rows.classes)) if softmax else 1.0  # longer gradients than composition's, squared
    if steps * made.rate * ridge < FORGOTTEN * uncut:
        return None
    sigma = _sigma(epsilon, delta, steps, made.contraction, units, adjacency)
    return LastIterate(rows, sigma, steps, softmax, ridge, most_rows, adjacency)
