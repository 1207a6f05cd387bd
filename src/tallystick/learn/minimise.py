"""A minimiser of the logistic objective that is right within a stated bound for every data set.

    J(theta) = sum_i log(1 + e^{-row_i . theta}) + ridge/2 |theta|^2 + tilt . theta        rows carry their label's sign

Privacy rests on the *exact* minimiser, so what is computed must be near it surely: the gradient there is at most
``tolerance``, rounding included, and J is ridge-strongly convex, so the error is at most tolerance / ridge. The number
of steps is fixed; steps beyond it are taken only while the certificate does not hold, and then it does after finitely
many, because Newton's direction with halving shrinks the gradient wherever one stands. The tolerance is computed from
public numbers alone (docs/theory/objective-perturbation.md, "The minimiser").
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from tallystick.errors import Contradiction
from tallystick.learn.records import Array

STEPS = 16
"""Newton steps that are always taken."""
MOST_STEPS = 100_000
BLOCK = 64
"""Rows that are summed by the processor's own order; blocks are then summed pairwise."""
UNIT = 2.0**-53


def rounding(rows: float, width: int, longest: float, ridge: float, theta: float, tilt: float) -> float:
    """A bound on the error of a computed gradient at |theta|, for that many rows no longer than ``longest``.

    Per row: the sum of ``width`` products that makes a margin, a quarter of which reaches the residual; the logistic
    function; 64 additions inside a block, at most 48 between blocks. Doubled for what is of second order.
    """
    margin = (width + 2.0) * longest * theta / 4.0
    return 2.0 * UNIT * (rows * longest * (margin + BLOCK + 64.0) + 4.0 * ridge * theta + 4.0 * tilt)


def reach(rows: float, ridge: float, tilt: float) -> float:
    """No minimiser is longer: J(theta) <= J(0) = rows log 2, and J >= ridge/2 |theta|^2 - tilt |theta|."""
    return 2.0 * tilt / ridge + math.sqrt(2.0 * rows * math.log(2.0) / ridge)


@dataclass(frozen=True, slots=True, eq=False)
class Objective:
    """The objective; ``rows`` are padded with zeros to whole blocks, which moves J by a constant."""

    rows: Array
    longest: float
    ridge: float
    tilt: Array

    @staticmethod
    def of(rows: Array, longest: float, ridge: float, tilt: Array) -> Objective:
        """Signed rows, padded."""
        missing = -len(rows) % BLOCK
        return Objective(np.concatenate([rows, np.zeros((missing, rows.shape[1]))]), longest, ridge, tilt)

    def gradient(self, theta: Array) -> tuple[Array, Array]:
        """The gradient, and how much each row still pulls."""
        pull = expit(-(self.rows @ theta))
        width = self.rows.shape[1]
        blocks = (pull.reshape(-1, 1, BLOCK) @ self.rows.reshape(-1, BLOCK, width))[:, 0, :]
        return self.ridge * theta + self.tilt - np.ascontiguousarray(blocks.T).sum(axis=1), pull

    def error(self, theta: Array, gradient: Array) -> float:
        """A bound on the true gradient's length."""
        sizes = float(np.linalg.norm(theta)), float(np.linalg.norm(self.tilt))
        width = self.rows.shape[1]
        return float(np.linalg.norm(gradient)) * (1.0 + 1e-12) + rounding(
            len(self.rows), width, self.longest, self.ridge, *sizes
        )

    def minimum(self, tolerance: float) -> Array:
        """A point where the true gradient is no longer than ``tolerance``."""
        theta = np.zeros(self.rows.shape[1])
        gradient, pull = self.gradient(theta)
        for step in range(MOST_STEPS):
            if step >= STEPS and self.error(theta, gradient) <= tolerance:
                return theta
            weights = pull * (1.0 - pull)
            curvature = (self.rows.T * weights) @ self.rows
            curvature[np.diag_indices_from(curvature)] += self.ridge
            theta, gradient, pull = self._moved(
                theta, gradient, pull, np.asarray(np.linalg.solve(curvature, gradient), dtype=np.float64)
            )
        raise Contradiction("the minimiser did not reach the bound that its theorem promises")

    def _moved(self, theta: Array, gradient: Array, pull: Array, direction: Array) -> tuple[Array, Array, Array]:
        """The first of theta - direction/2^k whose gradient is shorter by what a step of that size promises."""
        size, share = float(np.linalg.norm(gradient)), 1.0
        for _ in range(60):
            there = theta - share * direction
            found, pulls = self.gradient(there)
            if float(np.linalg.norm(found)) <= (1.0 - 0.25 * share) * size:
                return there, found, pulls
            share /= 2.0
        return theta, gradient, pull  # as exact as doubles are
