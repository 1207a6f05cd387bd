"""Certified bounds on a profile from two blurred copies of it: for laws whose transform decays too slowly.

Let H(a) = E[(1 - a e^{-X})_+], which is convex, and let H_s(a) = E[H(a e^Y)], Y Gaussian with E[e^Y] = 1 and variance
s^2: the profile of the same composition with one more Gaussian release of mu = s. Then

    H_s >= H                                             (Jensen)
    (H_s - r H_t) / (1 - r) <= H,  r = C(s) / C(t)       for s < t

where C(s) = erf(s / sqrt 8) is the blur of a kink at its own place. Both differ from H in second order in s.
Proof of the second: H is a mixture of kinks (1 - a / u)_+, and a blur adds to a kink that is m = log(a / u) away
c(s, m) = e^{m/2} int_0^s e^{-m^2 / (2 v^2) - v^2 / 8} dv / sqrt(2 pi). Hence c(t, m) / c(s, m) is least at m = 0, so
c(s, m) <= r c(t, m) everywhere. docs/theory/certification.md has the steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tallystick.numerics.contour import ContourSum, Nodes
from tallystick.numerics.law import UNIT, Above, Below

RATIO = 2.0
"""Second blur over the first."""


def kink(blur: float) -> float:
    """By how much a Gaussian release of mu = blur raises a profile at a kink of height one.

    >>> round(kink(0.01), 8)
    0.00398941
    """
    return math.erf(blur / math.sqrt(8.0))


@dataclass(frozen=True, slots=True, eq=False)
class BlurredNodes:
    """Nodes of the composition with one more Gaussian of mu = s, and of mu = 2 s."""

    once: Nodes
    twice: Nodes
    blur: float
    ratio: float

    @staticmethod
    def of(engine: ContourSum, blur: float, theta: float, log_target: float, tolerance: float) -> BlurredNodes | None:
        """The nodes, or None where they would cost too much."""
        once = engine.blurred(blur).nodes(theta, log_target, tolerance)
        if once is None:
            return None
        twice = engine.blurred(RATIO * blur).like(once, log_target, tolerance)
        if twice is None:
            return None
        # A ratio rounded up keeps the bound a bound.
        return BlurredNodes(once, twice, blur, kink(blur) / kink(RATIO * blur) * (1.0 + 1e-14))

    @property
    def theta(self) -> float:
        return self.once.theta

    @property
    def count(self) -> int:
        return 2 * self.once.count

    @property
    def log_scale(self) -> float:
        return self.once.log_scale

    def upper(self, threshold: float) -> Above:
        """Upper bound of the excess: one more release tells more."""
        return self.once.upper(threshold)

    def lower(self, threshold: float) -> Below:
        """Lower bound of the excess, extrapolated from both blurs; none where they are so wide that they look alike."""
        if self.ratio >= 1.0:
            return Below(0.0)
        first, second = self.once.lower(threshold), self.twice.upper(threshold)
        least = (first * (1.0 - 4.0 * UNIT) - self.ratio * second * (1.0 + 4.0 * UNIT)) / (1.0 - self.ratio)
        return Below(max(0.0, least))
