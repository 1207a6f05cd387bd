"""Very many draws of a pair with two finite losses: binomial laws, from the incomplete beta function in balls."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from flint import arb

from referee.balls import ONE, ZERO, joined, near
from referee.finite import Finite
from referee.sides import Smooth, Tails


@dataclass(frozen=True)
class Repeated(Smooth):
    """``count`` independent draws; L = count low + K (high - low) where no draw gives everything away."""

    pair: Finite
    count: int

    @cached_property
    def _ends(self) -> tuple[tuple[arb, arb, arb], tuple[arb, arb, arb]]:
        """Loss, mass under P and mass under Q, of the smaller and of the larger loss."""
        high, low = ((loss, p, q) for (p, q), loss in self.pair._finite())
        return low, high

    def tails(self, a: arb) -> Tails:
        (low, p0, q0), (high, p1, q1) = self._ends
        if not a > 0:
            return ONE, ONE
        place = (a.log() - self.count * low) / (high - low)
        least, most = (math.floor(float(end)) if abs(end) < 2**50 else None for end in (place.lower(), place.upper()))
        given = self.infinite()
        if least is None or most is None:
            everything = place < 0
            return (ONE, self._kept(q0, q1)) if everything else (given, ZERO)
        kept = self._kept(p0, p1), self._kept(q0, q1)
        shares = p1 / (p0 + p1), q1 / (q0 + q1)
        found = [
            (given + kept[0] * self._above(k, shares[0]), kept[1] * self._above(k, shares[1])) for k in {least, most}
        ]
        p, q = (joined(min(ends, key=float), max(ends, key=float)) for ends in zip(*found, strict=True))
        return p, q

    def _kept(self, one: arb, other: arb) -> arb:
        """The chance that every draw has a finite loss."""
        rest = (1 - one - other).nonnegative_part()
        return (self.count * (-rest).log1p()).exp() if rest < 1 else ZERO

    def _above(self, k: int, share: arb) -> arb:
        """P(K > k) for K binomial with this share."""
        if k < 0 or k >= self.count:
            return ONE if k < 0 else ZERO
        return share.beta_lower(arb(k + 1), arb(self.count - k), regularized=True)

    def infinite(self) -> arb:
        mass = self.pair.infinite()
        return -((self.count * (-mass).log1p()).expm1()) if mass < 1 else ONE

    def top(self) -> arb | None:
        return self.count * self._ends[1][0]


def repeated(pair: Finite, count: int) -> Repeated | None:
    """Where the pair has two different finite losses."""
    finite = [near(loss) for _, loss in pair._finite()]
    return Repeated(pair, count) if len(finite) == 2 and finite[0] != finite[1] else None
