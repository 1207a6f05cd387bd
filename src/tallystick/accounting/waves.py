"""The distribution function of a long sum by its characteristic function.

On a grid whose step is wider than the losses of one release, each release is put at the next points, and what that
moves its mean and variance by is added as often as there are releases. Here they are exact: with psi the
characteristic function of the sum less its mean and points at odd multiples of pi/P,

    P(L <= m + y) = 1/2 - sum over k of Im(psi(t_k) e^{-i t_k y}) / (pi (k + 1/2)),   t_k = (2 k + 1) pi / P,

up to the chance of being more than P away from y (Davies, Biometrika 60, 1973). An estimate, on either side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tallystick.numerics.law import Array

PERIOD = 40.0
"""Standard deviations between a place and what is taken for it."""
MOST_WAVES, DIES_BELOW = 4096, 1e-10
HEAVY = 0.5
"""Kurtosis of the sum, above that of a normal one, up to which nothing is far out."""
BIAS = 1e-5
"""Standard deviations by which a grid may move a sum, and twice the share by which it may widen it."""


@dataclass(frozen=True, slots=True, eq=False)
class Waves:
    """A sum with this mean and deviation; ``finite`` is its mass that is not at infinity."""

    mean: float
    deviation: float
    finite: float
    waves: npt.NDArray[np.complex128]

    @staticmethod
    def of(terms: Sequence[tuple[Array, Array, int]], mu: float) -> Waves | None:
        """Values, masses and counts of all terms, and a Gaussian; None where the transform does not die away."""
        mean, variance, fourth, log_finite = 0.5 * mu * mu, mu * mu, 0.0, 0.0
        centred = []
        for values, masses, count in terms:
            mass = float(np.sum(masses))
            middle = float(np.dot(masses, values)) / mass
            centred.append((values - middle, masses / mass, count))
            mean += count * middle
            spread = float(np.dot(masses, (values - middle) ** 2)) / mass
            variance += count * spread
            fourth += count * (float(np.dot(masses, (values - middle) ** 4)) / mass - 3.0 * spread**2)
            log_finite += count * math.log(min(mass, 1.0))
        deviation = math.sqrt(variance)
        # Rare large losses lie beyond any number of deviations, and would come back from the other side.
        if not deviation > 0.0 or abs(fourth) > HEAVY * variance**2:
            return None
        size = 64
        while size <= MOST_WAVES:
            t = (2.0 * np.arange(size) + 1.0) * math.pi / (PERIOD * deviation)
            logs: npt.NDArray[np.complex128] = (-0.5 * (mu * t) ** 2).astype(np.complex128)
            for values, masses, count in centred:
                one = np.array([np.dot(masses, np.exp(1j * x * values)) for x in t])
                logs = logs + count * np.log(np.where(one == 0.0, 1e-300, one))
            psi = np.exp(logs)
            if float(np.max(np.abs(psi[-8:]))) < DIES_BELOW:
                return Waves(mean, deviation, math.exp(log_finite), psi / (math.pi * (np.arange(size) + 0.5)))
            size *= 4
        return None

    def below(self, x: float) -> float:
        """P(L <= x)."""
        y = (x - self.mean) / self.deviation
        if abs(y) > 0.5 * PERIOD:
            return 0.0 if y < 0.0 else self.finite
        turns = np.exp(-1j * (2.0 * np.arange(self.waves.size) + 1.0) * (math.pi / PERIOD) * y)
        share = 0.5 - float(np.sum((self.waves * turns).imag))
        return self.finite * min(1.0, max(0.0, share))


def moved(laws: Sequence[tuple[Array, Array, int]], terms: Sequence[tuple[Array, Array, int]]) -> tuple[float, float]:
    """By how much a grid moves the mean and the variance of a sum: of what it made of the terms, and of these."""
    found = []
    for parts in (laws, terms):
        mean = variance = 0.0
        for values, masses, count in parts:
            mass = float(np.sum(masses))
            middle = float(np.dot(masses, values)) / mass
            mean += count * middle
            variance += count * float(np.dot(masses, (values - middle) ** 2)) / mass
        found.append((mean, variance))
    return found[0][0] - found[1][0], found[0][1] - found[1][1]
