"""One release beside few joint outcomes of all others: each outcome leaves the release its own threshold.

If X is the loss of the one and l_j, with mass p_j, what the others lose together, then

    delta(e) = sum over j of p_j E[(1 - e^{(e - l_j) - X})_+] + the mass that the others have at infinity.

Every term is read from the one law as if it stood alone, so there is no grid, no tilt and no blur, and the errors are
those of one release and of a list. Beside atoms a contour hardly decays and a grid must be finer than the answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tallystick.accounting.bounds import WIDTH, Bounds
from tallystick.accounting.compose import Direct, enumerated
from tallystick.accounting.pair import DominatingPair, swapped
from tallystick.numerics.law import DUST, UNIT, Above, Array, Below, Law, certain
from tallystick.numerics.saddle import bisect_decreasing

MOST_OUTCOMES, MOST_READINGS = 64, 256
"""Outcomes, and outcomes times smooth pieces of the one law, at most: each is an integral at every read-out."""

SUMMED = 1e-12
"""Relative error of the whole mass of a law: of its quadrature (1e-13) and of the sum of some thousand pieces."""


@dataclass(frozen=True, slots=True, eq=False)
class Shifted:
    """One smooth law, read at a threshold of its own for each listed outcome of the other releases."""

    one: Direct
    others: Direct
    masses: tuple[float, float] | None = None
    """By how much the two masses of a law that only bounds a pair are above one; None where it is the pair."""

    @property
    def highest(self) -> float:
        """The largest finite loss of all together."""
        return self.one.highest + self.others.highest

    def shift(self, epsilon: float) -> float:
        """By how much the largest losses can be off."""
        return self.one.shift(epsilon) + self.others.location + 4.0 * UNIT * abs(epsilon)

    def upper(self, epsilon: float) -> Above:
        """Upper bound on delta."""
        value, error = self._read(epsilon, 1.0)
        value += self.others.law.infinity
        # Positive up to the largest loss, which may have been rounded down, however small.
        tiny = 1e-320 if epsilon - self.shift(epsilon) < self.highest else 0.0
        return Above(min(1.0, value * (1.0 + error) + tiny))

    def lower(self, epsilon: float) -> Below:
        """Lower bound on delta."""
        value, error = self._read(epsilon, -1.0)
        value += certain(self.others.law.infinity)
        # Sums of what doubles hardly hold have no digits: nothing is claimed.
        return Below(value * max(0.0, 1.0 - error) if value > DUST else 0.0)

    def _read(self, epsilon: float, side: float) -> tuple[float, float]:
        """The sum over the outcomes, thresholds moved to this side, and its relative error."""
        law, losses = self.one.law, self.others.law.atoms
        places = epsilon - losses
        # A threshold is off by what both losses are off by, and by the rounding of their difference.
        rounding = self.others.location + 2.0 * UNIT * (abs(epsilon) + np.abs(losses))
        own = np.array([self.one.shift(place) for place in places.tolist()])
        places = places - side * (own + rounding)
        values = law.excess(places, everywhere=True)
        if self.masses is not None:
            values = np.maximum(0.0, values + side * self._room(places, side))
        if side < 0.0:
            values = np.maximum(0.0, values - (law.infinity - certain(law.infinity)))
        # One law alone errs by ``one.error``, and by e^-9 of its shift for losses far above the threshold.
        error = self.one.error + self.others.error + math.exp(-9.0) * float(np.max(own))
        return float(np.dot(np.exp(self.others.law.log_masses), values)), error + UNIT * losses.size

    def _room(self, places: Array, side: float) -> Array:
        """What levels below zero of a law that bounds a pair may be off by because its masses are not one.

        With masses P and Q, H(t) = P - e^t Q + e^t H'(-t), H' of the swapped law, which is a bound from zero on. The
        pair's own H has ones there: it is larger by at most (1 - P) + e^t (Q - 1), and smaller by the opposite.
        """
        assert self.masses is not None
        p, q = (max(0.0, side * mass) + SUMMED for mass in (-self.masses[0], self.masses[1]))
        return np.where(places < 0.0, p + np.exp(np.minimum(places, 0.0)) * q, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Beside:
    """Both ends: of the upper laws from above, of the lower ones, the same where pairs are exact, from below."""

    above: Shifted | Direct
    under: Shifted | Direct

    @staticmethod
    def of(pairs: Sequence[tuple[DominatingPair, int]], mu: float, mu_below: float) -> Beside | None:
        """Read so where at most one release is not a list of outcomes, the merged Gaussian included; else None."""
        exact = all(pair.upper is pair.lower for pair, _ in pairs)
        above = shifted([(pair.upper, count) for pair, count in pairs], mu, bounding=not exact)
        if above is None or (mu == mu_below and exact):
            return None if above is None else Beside(above, above)
        under = shifted([(pair.lower, count) for pair, count in pairs], mu_below, bounding=not exact)
        return None if under is None else Beside(above, under)

    def delta_bounds(self, epsilon: float) -> Bounds:
        """Both bounds on delta."""
        return Bounds.between(self.under.lower(epsilon), self.above.upper(epsilon))

    def epsilon_bounds(self, delta: float, width: float = WIDTH) -> Bounds:
        """Both bounds on epsilon, no narrower than ``width`` where less is enough."""
        near = 1e-13 if width <= WIDTH else 0.1 * width
        upper = self.epsilon_upper(delta, near)
        # Where the laws are the same the root from below is next to the one from above.
        ends = (upper * (1.0 - 1e-6), upper) if self.under is self.above and math.isfinite(upper) else (0.0, upper)
        if not self.under.lower(ends[0]) > delta:
            ends = (0.0, ends[1])
        high = ends[1] if math.isfinite(ends[1]) else _reach(self.under, delta)
        lower = bisect_decreasing(self.under.lower, delta, ends[0], high, relative=near)[0]
        return Bounds.between(Below(lower), upper)

    def epsilon_upper(self, delta: float, near: float = 1e-13) -> Above:
        """The upper end alone."""
        return Above(bisect_decreasing(self.above.upper, delta, 0.0, _reach(self.above, delta), relative=near)[1])


def _reach(side: Shifted | Direct, delta: float) -> float:
    """An epsilon beyond which nothing finite is left, or less than delta of a Gaussian."""
    high = max(side.highest, 0.0)
    high += 2.0 * side.shift(high)
    if isinstance(side, Direct) and side.mu > 0.0:
        high += side.mu * side.mu / 2.0 + side.mu * (math.sqrt(2.0 * max(0.0, -math.log(delta))) + 1.0)
    return high


def shifted(terms: Sequence[tuple[Law, int]], mu: float, *, bounding: bool = False) -> Shifted | Direct | None:
    """All releases where at most one is smooth, a Gaussian included, and the others have few joint outcomes."""
    smooth = [(law, count) for law, count in terms if law.segments]
    if not smooth:
        return enumerated(terms, mu)
    law, count = smooth[0]
    if mu > 0.0 or len(smooth) > 1 or count > 1:
        return None
    others = enumerated([term for term in terms if term[0] is not law])
    outcomes = MOST_OUTCOMES + 1 if others is None else others.law.atoms.size
    if others is None or outcomes > MOST_OUTCOMES or outcomes * len(law.segments) > MOST_READINGS:
        return None
    masses = (law.tail(-math.inf) - 1.0, swapped(law).tail(-math.inf) - 1.0) if bounding else None
    return Shifted(Direct.alone(law), others, masses)
