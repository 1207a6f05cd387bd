"""Minimisers of logistic objectives that are right within a stated bound for every data set.

    J(theta) = sum_i loss_i(theta) + ridge/2 |theta|^2 + tilt . theta

    Objective          log(1 + e^{-row_i . theta}), rows carry their label's sign
    SoftmaxObjective   log sum_k e^{row_i . theta_k} - row_i . theta_label

Privacy rests on the *exact* minimiser, so what is computed must be near it surely: the gradient there is at most
``tolerance``, rounding included, and J is ridge-strongly convex, so the error is at most tolerance / ridge. The number
of steps is fixed; steps beyond it are taken only while the certificate does not hold, and then it does after finitely
many, because Newton's direction with halving shrinks the gradient wherever one stands. The tolerance is computed from
public numbers alone (docs/theory/objective-perturbation.md, "The minimiser").
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from tallystick.errors import Contradiction
from tallystick.learn.records import Array

STEPS = 16
"""Newton steps that are always taken."""
MOST_STEPS = 100_000
HALVINGS = 60
"""A step shorter than 2^-60 of Newton's moves no double."""
BLOCK = 64
"""Rows that are summed by the processor's own order; blocks are then summed pairwise."""
UNIT = 2.0**-53


def rounding(
    rows: float, width: int, longest: float, ridge: float, theta: float, tilt: float, *, classes: int = 2
) -> float:
    """A bound on the error of a computed gradient at |theta|, for that many rows no longer than ``longest``.

    Per row: the sum of ``width`` products that makes a score, a quarter of which reaches the residual (half with more
    classes); the logistic function; 64 additions inside a block, at most 48 between blocks. Doubled for what is of
    second order.
    """
    margin = (width + 2.0) * longest * theta / (4.0 if classes == 2 else 2.0)
    each = margin + (BLOCK + 64.0) * (1.0 if classes == 2 else 2.0 + classes)
    return 2.0 * UNIT * (rows * longest * each + 4.0 * ridge * theta + 4.0 * tilt)


def reach(rows: float, ridge: float, tilt: float, *, classes: int = 2) -> float:
    """No minimiser is longer: J(theta) <= J(0) = rows log classes, and J >= ridge/2 |theta|^2 - tilt |theta|."""
    return 2.0 * tilt / ridge + math.sqrt(2.0 * rows * math.log(classes) / ridge)


@dataclass(frozen=True, slots=True, eq=False)
class Minimised(ABC):
    """What both share: Newton's steps and the certificate. Rows are padded with zeros to whole blocks."""

    rows: Array
    longest: float
    ridge: float
    tilt: Array

    @property
    @abstractmethod
    def classes(self) -> int:
        """How many classes the loss tells apart."""

    @abstractmethod
    def gradient(self, theta: Array) -> tuple[Array, Any]:
        """The gradient, and what the curvature needs."""

    @abstractmethod
    def curvature(self, shares: Any) -> Array:
        """The Hessian without the ridge."""

    def error(self, theta: Array, gradient: Array) -> float:
        """A bound on the true gradient's length."""
        sizes = float(np.linalg.norm(theta)), float(np.linalg.norm(self.tilt))
        computed = float(np.linalg.norm(gradient)) * (1.0 + 1e-12)
        count, width = self.rows.shape
        return computed + rounding(count, width, self.longest, self.ridge, *sizes, classes=self.classes)

    def minimum(self, tolerance: float) -> Array:
        """A point where the true gradient is no longer than ``tolerance``."""
        theta = np.zeros(len(self.tilt))
        gradient, shares = self.gradient(theta)
        for step in range(MOST_STEPS):
            reached = self.error(theta, gradient) <= tolerance
            if reached and step >= STEPS:
                return theta
            curvature = self.curvature(shares)
            curvature[np.diag_indices_from(curvature)] += self.ridge
            direction = np.asarray(np.linalg.solve(curvature, gradient), dtype=np.float64)
            # Once there, a step is tried as long as any other, so that time does not tell how soon that was.
            tries = 1 if reached else HALVINGS
            theta, gradient, shares = self._moved(theta, gradient, shares, direction, tries)
        raise Contradiction("the minimiser did not reach the bound that its theorem promises")

    def _moved(
        self, theta: Array, gradient: Array, shares: Any, direction: Array, tries: int
    ) -> tuple[Array, Array, Any]:
        """The first of theta - direction/2^k whose gradient is shorter by what a step of that size promises."""
        size, share = float(np.linalg.norm(gradient)), 1.0
        for _ in range(tries):
            there = theta - share * direction
            found, other = self.gradient(there)
            if float(np.linalg.norm(found)) <= (1.0 - 0.25 * share) * size:
                return there, found, other
            share /= 2.0
        return theta, gradient, shares  # as exact as doubles are


def padded(rows: Array) -> Array:
    """Rows with zeros up to whole blocks: they move J by a constant."""
    return np.concatenate([rows, np.zeros((-len(rows) % BLOCK, rows.shape[1]))])


def summed(blocks: Array) -> Array:
    """The sum over the first axis, pairwise, which numpy does along the last one."""
    return np.asarray(np.ascontiguousarray(np.moveaxis(blocks, 0, -1)).sum(axis=-1))


@dataclass(frozen=True, slots=True, eq=False)
class Objective(Minimised):
    """Two classes; the rows carry the sign of their label."""

    @staticmethod
    def of(rows: Array, longest: float, ridge: float, tilt: Array) -> Objective:
        """Signed rows, padded."""
        return Objective(padded(rows), longest, ridge, tilt)

    @property
    def classes(self) -> int:
        return 2

    def gradient(self, theta: Array) -> tuple[Array, Array]:
        pull = expit(-(self.rows @ theta))
        return self.pulled(theta, pull), pull

    def pulled(self, theta: Array, pull: Array) -> Array:
        """The gradient of rows that pull so much each."""
        width = self.rows.shape[1]
        blocks = (pull.reshape(-1, 1, BLOCK) @ self.rows.reshape(-1, BLOCK, width))[:, 0, :]
        return self.ridge * theta + self.tilt - summed(blocks)

    def curvature(self, shares: Array) -> Array:
        return np.asarray((self.rows.T * (shares * (1.0 - shares))) @ self.rows)


@dataclass(frozen=True, slots=True, eq=False)
class SoftmaxObjective(Minimised):
    """Any number of classes; theta holds one vector per class, one after the other."""

    labels: Array

    @staticmethod
    def of(
        rows: Array, places: np.ndarray[Any, Any], classes: int, longest: float, ridge: float, tilt: Array
    ) -> SoftmaxObjective:
        """Rows and the places of their labels, padded."""
        return SoftmaxObjective(padded(rows), longest, ridge, tilt, padded(np.eye(classes)[places]))

    @property
    def classes(self) -> int:
        return int(self.labels.shape[1])

    def gradient(self, theta: Array) -> tuple[Array, Array]:
        width = self.rows.shape[1]
        shares = softmax(self.rows @ theta.reshape(-1, width).T, axis=1)
        residuals = (shares - self.labels).reshape(-1, BLOCK, self.classes).swapaxes(1, 2)
        blocks = residuals @ self.rows.reshape(-1, BLOCK, width)
        return self.ridge * theta + self.tilt + summed(blocks).ravel(), shares

    def curvature(self, shares: Array) -> Array:
        width, found = self.rows.shape[1], np.zeros((len(self.tilt), len(self.tilt)))
        for k in range(self.classes):
            for other in range(k + 1):
                weights = shares[:, k] * ((k == other) - shares[:, other])
                part = (self.rows.T * weights) @ self.rows
                here, there = slice(k * width, (k + 1) * width), slice(other * width, (other + 1) * width)
                found[here, there], found[there, here] = part, part.T
        return found
