"""Compositions of finitely many outcomes, outcome by outcome: no grid, no tilt, nothing to certify but rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tallystick.accounting import gdp
from tallystick.accounting.bounds import Bounds
from tallystick.numerics.convolve import LOCATION_ULPS
from tallystick.numerics.law import UNIT, Array, Law, certain
from tallystick.numerics.search import bisect_decreasing

LIMIT = 2**17
"""Largest number of joint outcomes that are listed."""

LIMIT_BESIDE_GAUSSIAN = 2**13
"""The same beside a Gaussian, where each costs two error functions a look."""


@dataclass(frozen=True, slots=True, eq=False)
class Direct:
    """A law that is the whole composition, the relative error of its masses, and the rounding of its values."""

    law: Law
    error: float
    location: float
    below: Law | None = None
    mu: float = 0.0
    """One Gaussian release beside the listed outcomes, in closed form."""
    relative: float = math.inf
    """Rounding of each value relative to itself, where a value is not a sum of others."""

    def shift(self, epsilon: float) -> float:
        """By how much rounded values near the threshold can be off.

        Those more than 10 above it give all but e^-10 anyway; what they are off by is in ``_error``.
        """
        return min(self.location, self.relative * (abs(epsilon) + 10.0))

    def _error(self, epsilon: float) -> float:
        return self.error + math.exp(-9.0) * self.shift(epsilon)

    @staticmethod
    def alone(law: Law, below: Law | None = None) -> Direct:
        """One release, read by quadrature (relative error 1e-13, kept tenfold); ``below`` if only bracketed."""
        relative = max(law.value_ulps, 0.0 if below is None else below.value_ulps) * UNIT
        return Direct(law, 1e-12, relative * max(abs(law.lowest), abs(law.highest)), below, relative=relative)

    def upper(self, epsilon: float) -> float:
        """Upper bound on delta."""
        if self.mu > 0.0:
            value = self._beside_gaussian(epsilon - self.shift(epsilon), 1.0) + self.law.infinity
        else:
            value = float(self.law.excess(np.array([epsilon - self.shift(epsilon)]))[0])
        # Positive up to the largest loss, however small.
        tiny = 1e-320 if self.mu > 0.0 or epsilon < self.law.highest else 0.0
        return min(1.0, value * (1.0 + self._error(epsilon)) + tiny)

    def lower(self, epsilon: float) -> float:
        """Lower bound on delta."""
        law = self.law if self.below is None else self.below
        if self.mu > 0.0:
            value = self._beside_gaussian(epsilon + self.shift(epsilon), -1.0) + certain(law.infinity)
        else:
            dust = law.infinity - certain(law.infinity)
            value = float(law.excess(np.array([epsilon + self.shift(epsilon)]))[0]) - dust
        return max(0.0, value) * max(0.0, 1.0 - self._error(epsilon))

    def _beside_gaussian(self, epsilon: float, side: float) -> float:
        """Each outcome leaves a Gaussian its own threshold."""
        values, errors = gdp.excess(self.mu, epsilon - self.law.atoms)
        return float(np.sum(np.exp(self.law.log_masses) * np.maximum(values + side * errors, 0.0)))

    def delta_bounds(self, epsilon: float) -> Bounds:
        """Both bounds on delta."""
        upper = self.upper(epsilon)
        return Bounds(min(self.lower(epsilon), upper), upper)

    def epsilon_bounds(self, delta: float) -> Bounds:
        """Both bounds on epsilon."""
        high = max(self.law.highest, 0.0)
        high += 2.0 * self.shift(high)
        if self.mu > 0.0:
            high += self.mu * self.mu / 2.0 + self.mu * (math.sqrt(2.0 * max(0.0, -math.log(delta))) + 1.0)
        upper = bisect_decreasing(self.upper, delta, 0.0, high, relative=1e-13)[1]
        lower = bisect_decreasing(self.lower, delta, 0.0, high, relative=1e-13)[0]
        return Bounds(min(lower, upper), upper)


def enumerated(terms: Sequence[tuple[Law, int]], mu: float = 0.0) -> Direct | None:
    """The law of the whole composition, if it is finite and has at most LIMIT outcomes, beside one Gaussian."""
    size, limit = 1, LIMIT if mu == 0.0 else LIMIT_BESIDE_GAUSSIAN
    for law, count in terms:
        if law.segments or not law.atoms.size:
            return None
        few = law.atoms.size < 40 or count == 1
        size *= math.comb(count + law.atoms.size - 1, count) if few else LIMIT + 1
        if size > limit:
            return None
    losses, logs, finite = np.zeros(1), np.zeros(1), 0.0
    error, location = 1e-13, 0.0
    for law, count in terms:
        more, weights = repeated(law.atoms, law.log_masses, count)
        losses = (losses[:, None] + more[None, :]).ravel()
        logs = (logs[:, None] + weights[None, :]).ravel()
        finite += count * math.log1p(-law.infinity) if law.infinity < 1.0 else -math.inf
        # A log-mass is a sum of log-factorials and of counts times logs; its absolute error is relative for the mass.
        error += 8.0 * UNIT * (3.0 * math.lgamma(count + 2.0) + count * float(np.max(np.abs(law.log_masses))) + 8.0)
        location += law.value_ulps * UNIT * count * float(np.max(np.abs(law.atoms)))
    order = np.argsort(losses, kind="stable")
    location += LOCATION_ULPS * UNIT * mu * mu
    return Direct(Law(losses[order], logs[order], infinity=-math.expm1(finite)), error, location, None, mu)


def repeated(atoms: Array, masses: Array, count: int) -> tuple[Array, Array]:
    """Sums and log-masses of ``count`` independent copies, by the numbers of times each atom occurs."""
    if count == 1:
        return atoms, masses
    if atoms.size == 1:
        return count * atoms, count * masses
    remaining = np.array([count], dtype=np.float64)
    losses, logs = np.zeros(1), np.array([math.lgamma(count + 1.0)])
    log_factorial = np.array([math.lgamma(k + 1.0) for k in range(count + 1)])
    for index in range(atoms.size):
        last = index == atoms.size - 1
        picks, parents = [], []
        for parent, left in enumerate(remaining.astype(int).tolist()):
            taken = np.array([left]) if last else np.arange(left + 1)
            picks.append(taken)
            parents.append(np.full(taken.size, parent))
        taken, parent_of = np.concatenate(picks), np.concatenate(parents)
        losses = losses[parent_of] + taken * atoms[index]
        logs = logs[parent_of] + taken * masses[index] - log_factorial[taken]
        remaining = remaining[parent_of] - taken
    return losses, logs
