"""Sums of losses that are uniform after a tilt: Laplace noise and the hull of bounded range, composed in closed form.

e^{-L/2} dP is the same measure for (P, Q) and (Q, P).  For Laplace noise of scale b it has atoms e^{-1/(2b)}/2 at
+-1/b and the constant density e^{-1/(2b)}/4 between; for bounded range epsilon it is constant on (-epsilon, epsilon).
So n losses add to splines: sums over (top atoms, bottom atoms, uniform parts) of Irwin-Hall densities.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from flint import arb, fmpz

from referee.balls import ONE, ZERO, ball
from referee.sides import BoundedRange, Laplace, Smooth, Tails

MOST_LOSSES = 12


@dataclass(frozen=True)
class TiltedUniformSum(Smooth):
    """``count`` losses, each with tilted atoms ``atom`` at +-reach and tilted density ``density`` between."""

    reach: arb
    atom: arb
    density: arb
    count: int

    @classmethod
    def of(cls, base: Laplace | BoundedRange, count: int) -> TiltedUniformSum:
        if isinstance(base, Laplace):
            half = (-1 / (2 * base.scale)).exp()
            return cls(1 / base.scale, half / 2, half / 4, count)
        return cls(base.epsilon, ZERO, (-base.epsilon / 2).exp() / (2 * (1 - (-base.epsilon).exp())), count)

    @cached_property
    def _parts(self) -> list[tuple[arb, arb, int]]:
        """(weight, where it is centred, number of uniform parts)."""
        parts = []
        for uniform in range(self.count + 1):
            for top in range(self.count - uniform + 1):
                bottom = self.count - uniform - top
                if (top or bottom) and self.atom.is_zero():
                    continue
                ways = fmpz(math.comb(self.count, uniform) * math.comb(self.count - uniform, top))
                weight = arb(ways) * self.atom ** (top + bottom) * (self.density * 2 * self.reach) ** uniform
                parts.append((weight, (top - bottom) * self.reach, uniform))
        return parts

    def tails(self, a: arb) -> Tails:
        if not a > 0:
            return ONE, ONE
        level = a.log()
        p, q = ZERO, ZERO
        for weight, centre, uniform in self._parts:
            if uniform == 0:
                if centre > level:
                    p, q = p + weight * (centre / 2).exp(), q + weight * (-centre / 2).exp()
            else:
                p += weight * self._above(level - centre, uniform, arb(0.5)) * (centre / 2).exp()
                q += weight * self._above(level - centre, uniform, arb(-0.5)) * (-centre / 2).exp()
        return p, q

    def _above(self, level: arb, uniform: int, tilt: arb) -> arb:
        """The integral of e^{tilt s} over s > level, s a sum of ``uniform`` uniforms on (-reach, reach)."""
        width, end = 2 * self.reach, uniform * self.reach
        if level >= end:
            return ZERO
        total = ZERO
        for m in range(uniform + 1):
            knot = m * width - end
            start = level.max(knot)
            if start < end:
                sign = -1 if m % 2 else 1
                total += (
                    sign
                    * math.comb(uniform, m)
                    * _integral(start - knot, end - knot, uniform - 1, tilt)
                    * (tilt * knot).exp()
                )
        return total / (arb(fmpz.fac_ui(uniform - 1)) * width**uniform)

    def top(self) -> arb | None:
        return self.count * self.reach


def _integral(low: arb, high: arb, power: int, tilt: arb) -> arb:
    """The integral of u^power e^{tilt u} from low to high."""

    def primitive(u: arb) -> arb:
        total, coefficient = ZERO, ONE / tilt
        for j in range(power + 1):  # Horner's rule, from the highest power down
            total = total * u + coefficient
            coefficient = -coefficient * (power - j) / tilt
        return total * (tilt * u).exp()

    return primitive(high) - primitive(low)


def summed(base: Laplace | BoundedRange, count: int) -> TiltedUniformSum | None:
    """The composition, where its splines stay short enough for 256 bits (cancellation grows with reach and count)."""
    if count > MOST_LOSSES or not base.top() > ball(1e-5):
        return None
    return TiltedUniformSum.of(base, count)
