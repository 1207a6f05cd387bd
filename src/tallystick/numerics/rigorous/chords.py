"""The route for every sum: pairs on a lattice above and below each term, tilted, folded and raised to their powers.

Every law that knows its own delta has it; the enclosure is as wide as the lattice is coarse (docs/theory/rigorous.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from flint import acb, arb, arb_poly, fmpq

from tallystick.errors import NotComputable
from tallystick.numerics.rigorous.continuous import sampled_profile
from tallystick.numerics.rigorous.contour import Laws, Profile
from tallystick.numerics.rigorous.heights import finite_part, known_by, largest, whole
from tallystick.numerics.rigorous.laws import Ball, BallLaw, look, point_work, work
from tallystick.numerics.rigorous.polygon import masses_above, masses_below
from tallystick.numerics.rigorous.sketch import LEFT_OUT, Height, Sketch, sketched, tilt_and_period

SIZES = (2**12, 2**11)
"""Points of a period: the first that is affordable."""
FAINT = 1e-9
"""Share of a tilted law at either end around which a long lattice has fewer knots."""
STEEPS = (0.5, 1.5, 3.0, 6.0)
"""Tilts that bound what lies outside of a period differ by these, over the standard deviation; the best is taken."""


def chords_profile(laws: Laws, epsilon: float, log_delta: float) -> Profile:
    """delta of the finite part near epsilon, between two lattices."""
    delta, count = math.exp(max(log_delta, -600.0)), sum(count for _, count in laws)
    heights = [(finite_part(law), law.total - law.infinite, count) for law, count in laws]
    work(4e2 * len(heights) * 3 * point_work())
    sketches = [sketched(*term, LEFT_OUT / count, delta) for term in heights]
    tilt, period, spread = tilt_and_period(sketches, epsilon, delta)
    if not spread > 0.0:
        raise NotComputable("a law whose spread is lost in doubles")
    # A smaller tilt leaves less outside of the period, and there are bits enough for what it costs.
    tilt = min(tilt, max(0.5 * tilt, 30.0 / period))
    # Outcomes of their own at both ends of a law, as Laplace noise has, are on the lattice if its step divides it.
    whole = max(sketches, key=lambda one: one.count)
    for size in SIZES:
        wanted = 2.0 * min(period, sum(one.count * (one.high - one.low) for one in sketches)) / (size - 8.0)
        longest = whole.high - whole.low
        step = Fraction(longest / math.floor(longest / wanted) if longest > wanted else wanted)
        knots = sum(math.ceil((one.high - one.low) / step) + 3 for one in sketches)
        try:
            work((3 * knots + 1.5 * size * (len(sketches) + 1)) * point_work())
        except NotComputable:
            continue
        steeps = [arb(steep / spread) for steep in STEEPS]
        only = any(law.above_only for law, _ in laws)
        above, below = _sums(heights, sketches, step, size, arb(tilt), steeps, only)
        if below is None:
            return lambda at: arb(0).union(above.delta(at)[1])
        return lambda at: below.delta(at)[0].union(above.delta(at)[1])
    raise NotComputable("a lattice for this composition takes too long")


def subset_law(base: BallLaw, rate: Ball) -> BallLaw:
    """A fixed-size subset of a symmetric pair: the larger of both orders of the mixture (Dong, Roth, Su 2019)."""
    plain = whole(base)
    both = largest([sampled_profile(plain, rate, True), sampled_profile(plain, rate, False)])
    highest = None if base.highest is None else (1 + rate * base.highest.expm1()).log()
    found = known_by(both, infinite=rate * base.infinite, highest=highest)
    return replace(found, above_only=base.above_only)


@dataclass(frozen=True, eq=False)
class Folded:
    """A sum of losses start + n step, tilted, known modulo the number of its masses."""

    start: Fraction
    step: Fraction
    tilt: Ball
    last: int
    infinite: Ball
    log_moment: Ball
    masses: list[Ball]
    steeper: list[tuple[Ball, Ball, Ball]]
    """(s, log E[e^{t loss}] at the tilt less s, the same at the tilt plus s)"""

    def delta(self, at: Ball) -> tuple[Ball, Ball]:
        """Balls whose lower and upper ends bound delta of the lattice pair: half a period lies above ``at``."""
        size, step, start = len(self.masses), _ball(self.step), _ball(self.start)
        first = int(((at - start) / step).lower().floor().unique_fmpz())
        if first >= self.last:
            return arb(0), self.infinite
        origin, turned = start + first * step, (first + 1) % size
        half = (self.masses[turned:] + self.masses[:turned])[: size // 2 - 1]
        if not origin + 2 * step > at:
            raise NotComputable("an epsilon that is wider than a lattice's step")
        fall = (-self.tilt * step).exp()
        nearest = half[0] * fall * (-(at - origin - step).expm1()).max(arb(0))
        rest = arb_poly([0, 0, *half[1:]])
        inside = nearest + rest(fall) - (at - origin).exp() * rest(fall * (-step).exp())
        end = len(half) + 1
        beyond = (-self.tilt * step * end).exp() if self.last >= first + end else arb(0)
        # Markov: the tilted law has at most so much beyond the period's ends, which are half a period away.
        below, ahead = origin - step * (size - end), origin + step * end
        outside = _least((more - self.log_moment - s * ahead).exp() for s, _, more in self.steeper)
        outside += _least((less - self.log_moment + s * below).exp() for s, less, _ in self.steeper)
        scale = (self.log_moment - self.tilt * origin).exp()
        return (scale * (inside - outside)).max(arb(0)), self.infinite + scale * (inside + beyond)


def _least(bounds: Iterable[Ball]) -> Ball:
    return min((bound.upper() for bound in bounds), key=float)


def _ball(value: Fraction) -> Ball:
    return arb(fmpq(value.numerator, value.denominator))


Terms = Sequence[tuple[Height, Ball, int]]


def _sums(
    terms: Terms, sketches: Sequence[Sketch], step: Fraction, size: int, tilt: Ball, steeps: list[Ball], only: bool
) -> tuple[Folded, Folded | None]:
    """The sums of the pairs above and (unless ``only`` those are wanted) below every term."""
    start, last, kept, whole = Fraction(0), 0, arb(0), arb(1)
    sides = [Spectrum(tilt, steeps, size) for _ in range(1 if only else 2)]
    for (height, total, count), sketch in zip(terms, sketches, strict=True):
        low = Fraction(sketch.low)
        knots = math.ceil((Fraction(sketch.high) - low) / step) + 2
        places = chosen_knots(sketch, float(step), knots, float(tilt), size)
        levels = [_ball(low + n * step) for n in places]
        heights, ratios = [height(x) for x in levels], [x.exp() for x in levels]
        masses, infinite = masses_above(heights, ratios, total)
        sides[0].add(places, levels, masses, count)
        if not only:
            sides[1].add(places, levels, masses_below(heights, ratios, total), count)
        start, last = start + count * low, last + count * (knots - 1)
        kept, whole = kept + count * (-infinite / total).log1p(), whole * total**count
    given = (-kept.expm1() * whole, arb(0))
    found = [
        Folded(start, step, tilt, last, infinite, side.moments[0], side.masses(), side.steeper())
        for side, infinite in zip(sides, given, strict=False)
    ]
    return found[0], None if only else found[1]


def chosen_knots(sketch: Sketch, step: float, knots: int, tilt: float, size: int) -> list[int]:
    """All points of a lattice, or of a long one those where the tilted law is and some of the others.

    Chords between any of them are a bound, and those of few matter only where the tilted law has mass.
    """
    if knots <= 2 * size:
        return list(range(knots))
    below = sketch.tilted(tilt)[3]
    ends = np.interp([FAINT, 1.0 - FAINT], below, sketch.losses)
    first, last = ((ends - sketch.low) / step).astype(int)
    near = range(max(0, first - 2), min(knots, last + 3))
    return sorted({*range(0, knots, knots // size), *near, knots - 1})


def _tilted(levels: list[Ball], masses: list[Ball], tilt: Ball) -> list[Ball]:
    look()
    return [mass * (tilt * x).exp() for x, mass in zip(levels, masses, strict=True)]


class Spectrum:
    """Transforms and moments of the terms so far."""

    def __init__(self, tilt: Ball, steeps: list[Ball], size: int) -> None:
        self.steeps = steeps
        self.tilts = [tilt, *(tilt - s for s in steeps), *(tilt + s for s in steeps)]
        self.moments = [arb(0)] * len(self.tilts)
        self.spectrum = [acb(1)] * (size // 2 + 1)
        self.size = size

    def add(self, places: Sequence[int], levels: list[Ball], masses: list[Ball], count: int) -> None:
        weighted = [_tilted(levels, masses, tilt) for tilt in self.tilts]
        sums = [sum(row, arb(0)) for row in weighted]
        if not all(total > 0 for total in sums):
            raise NotComputable("the masses of a lattice are lost in rounding")
        self.moments = [old + count * total.log() for old, total in zip(self.moments, sums, strict=True)]
        fold = [arb(0)] * self.size
        for n, mass in zip(places, weighted[0], strict=True):
            fold[n % self.size] += mass
        look()
        found = acb.dft([acb(mass / sums[0]) for mass in fold])
        self.spectrum = [old * new**count for old, new in zip(self.spectrum, found, strict=False)]

    def steeper(self) -> list[tuple[Ball, Ball, Ball]]:
        count = len(self.steeps)
        return list(zip(self.steeps, self.moments[1 : count + 1], self.moments[count + 1 :], strict=True))

    def masses(self) -> list[Ball]:
        look()
        both = [*self.spectrum, *(value.conjugate() for value in self.spectrum[-2:0:-1])]  # the masses are real
        return [value.real for value in acb.dft(both, inverse=True)]
