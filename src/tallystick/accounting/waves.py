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
MOST_WAVES, MOST_WORK, DIES_BELOW = 4096, 10**7, 1e-10
"""Waves, and waves times nodes, at most; and where the transform has died away."""
HEAVY = 0.5
"""Kurtosis of the sum, above that of a normal one, up to which nothing is far out."""
BIAS = 1e-5
"""Standard deviations by which a grid may move a sum, and twice the share by which it may widen it."""


Term = tuple[Array, Array, float]
"""Values, their masses, and how many; counts need not be whole where rare losses were taken out."""


@dataclass(frozen=True, slots=True)
class Cumulants:
    """Of a sum whose masses are made to sum to one."""

    mean: float
    variance: float
    fourth: float

    @staticmethod
    def of(terms: Sequence[Term], mu: float = 0.0) -> Cumulants:
        """Of these terms and a Gaussian."""
        mean, variance, fourth = 0.5 * mu * mu, mu * mu, 0.0
        for values, masses, count in _normalised(terms):
            middle = float(np.dot(masses, values))
            spread = float(np.dot(masses, (values - middle) ** 2))
            mean, variance = mean + count * middle, variance + count * spread
            fourth += count * (float(np.dot(masses, (values - middle) ** 4)) - 3.0 * spread**2)
        return Cumulants(mean, variance, fourth)

    @property
    def heavy(self) -> float:
        """Kurtosis above that of a normal law, or below."""
        return abs(self.fourth) / self.variance**2 if self.variance > 1e-150 else 0.0


def _normalised(terms: Sequence[Term]) -> list[Term]:
    return [(values, masses / float(np.sum(masses)), count) for values, masses, count in terms]


@dataclass(frozen=True, slots=True, eq=False)
class Waves:
    """A sum with this mean and deviation, of what is finite."""

    mean: float
    deviation: float
    waves: npt.NDArray[np.complex128]

    @staticmethod
    def of(terms: Sequence[Term], mu: float, *, heavy: float = HEAVY, most: int = MOST_WAVES) -> Waves | None:
        """Of these terms and a Gaussian; None where the transform does not die away within so many waves."""
        whole = Cumulants.of(terms, mu)
        deviation = math.sqrt(whole.variance)
        # Rare large losses lie beyond any number of deviations, and would come back from the other side.
        if not deviation > 0.0 or whole.heavy > heavy:
            return None
        centred = [(values - float(np.dot(w, values)), w, n) for values, w, n in _normalised(terms)]
        most = min(most, max(64, MOST_WORK // sum(values.size for values, _, _ in centred)))
        psi = np.zeros(0, dtype=np.complex128)
        while psi.size < most:
            numbers = np.arange(psi.size, min(most, max(64, 4 * psi.size)))
            t: Array = (2.0 * numbers.astype(np.float64) + 1.0) * (math.pi / (PERIOD * deviation))
            logs: npt.NDArray[np.complex128] = (-0.5 * (mu * t) ** 2).astype(np.complex128)
            for values, masses, count in centred:
                logs = logs + count * _log_transform(values, masses, t)
            psi = np.concatenate((psi, np.exp(logs)))
            if float(np.max(np.abs(psi[-8:]))) < DIES_BELOW:
                return Waves(whole.mean, deviation, psi / (math.pi * (np.arange(psi.size) + 0.5)))
        return None

    @property
    def reach(self) -> tuple[float, float]:
        """What lies outside is as good as impossible."""
        most = 0.5 * PERIOD * self.deviation
        return self.mean - most, self.mean + most

    def below(self, x: float) -> float:
        """P(L <= x)."""
        y = (x - self.mean) / self.deviation
        if abs(y) > 0.5 * PERIOD:
            return 0.0 if y < 0.0 else 1.0
        turns = np.exp(-1j * (2.0 * np.arange(self.waves.size) + 1.0) * (math.pi / PERIOD) * y)
        share = 0.5 - float(np.sum((self.waves * turns).imag))
        return min(1.0, max(0.0, share))


def _log_transform(values: Array, masses: Array, t: Array) -> npt.NDArray[np.complex128]:
    """log E[e^{itX}] of a centred X, from what it is below one: a billion times its rounding would be seen."""
    less = np.array([np.dot(masses, -2.0 * np.sin(0.5 * x * values) ** 2 + 1j * np.sin(x * values)) for x in t])
    found: npt.NDArray[np.complex128] = np.log1p(np.where(less == -1.0, -1.0 + 1e-15, less))
    return found


def moved(laws: Sequence[Term], terms: Sequence[Term]) -> tuple[float, float]:
    """By how much a grid moves the mean and the variance of a sum: of what it made of the terms, and of these."""
    grid, true = Cumulants.of(laws), Cumulants.of(terms)
    return grid.mean - true.mean, grid.variance - true.variance
