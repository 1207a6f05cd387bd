"""A whole sum of losses as one finite pair, above it or below it: what is sampled, chained or chosen from afterwards.

Short sums of listed outcomes are listed; any other is the sum of lattice pairs around each term, in one window. What
lies outside of the window is bounded by Markov's inequality and counted as given away (docs/theory/rigorous.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from flint import arb, fmpq

from tallystick.errors import NotComputable
from tallystick.numerics.rigorous.chords import Spectrum
from tallystick.numerics.rigorous.contour import Laws
from tallystick.numerics.rigorous.exact import listed
from tallystick.numerics.rigorous.heights import whole
from tallystick.numerics.rigorous.laws import Ball, Base, Point, look, point_work, work
from tallystick.numerics.rigorous.polygon import masses_above, masses_below
from tallystick.numerics.rigorous.sketch import Height, Sketch, sketched

MOST_LISTED = 1000
"""Joint outcomes that are listed instead of put on a lattice."""
SIZES = (2**12, 2**11)
"""Points of a window: the first that is affordable."""


def gathered(laws: Laws, log_tiny: float, upper: bool) -> Base:
    """A pair that dominates the sum, or (not ``upper``) that it dominates.

    From above P and Q have mass one. From below Q may have more, and P less: its H is below that of the sum at every
    level, but not that of the swapped pair, nor that of a mixture of both, which also ask for the masses themselves.
    """
    few = listed_pair_of(laws, log_tiny, upper)
    if few is not None:
        return few
    count = sum(times for _, times in laws)
    terms = [(whole(law), times) for law, times in laws]
    tiny = math.exp(max(log_tiny, -80.0)) / count
    work(4e2 * len(terms) * point_work())
    sketches = [
        _with_mass(height, sketched(height, arb(1), times, tiny, 1.0, float(law.infinite.upper()) * (1 + 1e-9)), tiny)
        for (height, times), (law, _) in zip(terms, laws, strict=True)
    ]
    low, high, spread = _window(sketches, tiny)
    most = max(sketches, key=lambda one: one.count * (one.high - one.low))
    for size in SIZES:
        # Outcomes of their own at both ends of a law are on the lattice if its step divides it.
        wanted, longest = (high - low) / (size - 8.0 - 2.0 * len(sketches)), most.high - most.low
        step = Fraction(longest / math.floor(longest / wanted) if longest > wanted else wanted)
        knots = sum(math.ceil((one.high - one.low) / step) + 3 for one in sketches)
        try:
            work((2 * knots + 1.5 * size * (len(sketches) + 1)) * point_work())
        except NotComputable:
            continue
        return _on_lattice(terms, sketches, step, size, low, spread, upper)
    raise NotComputable("a lattice for the sum inside takes too long")


def listed_pair_of(laws: Laws, log_tiny: float, upper: bool) -> Base | None:
    """The joint outcomes themselves, where they are few: swapped and mixed like the pairs they are made of."""
    if any(law.atoms is None for law, _ in laws):
        return None
    try:
        states = listed(laws, log_tiny, most=MOST_LISTED)
    except NotComputable:
        return None
    base = _base(states.points, arb(states.dropped), upper)
    nothing_left = arb(states.dropped).is_zero() and all(law.infinite.is_zero() for law, _ in laws)
    # Then all of P is listed, and what its masses leave of one is rounding.
    return replace(base, only_p=arb(0)) if nothing_left else base


def _with_mass(height: Height, sketch: Sketch, tiny: float) -> Sketch:
    """From where P has mass: what only Q has further left is given away anyhow."""

    def below(x: float) -> float:
        """About P's mass of losses below x: one, less H and e^x times Q's mass above."""
        here, there = arb(x), arb(x + 1e-3)
        slope = (height(here) - height(there)) / (there.exp() - here.exp())
        return float((1 - height(here) - here.exp() * slope).upper())

    low, high = sketch.low, sketch.high
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if below(middle) <= tiny else (low, middle)
    kept = sketch.losses >= low
    return replace(sketch, low=low, losses=sketch.losses[kept], logs=sketch.logs[kept]) if kept.sum() > 1 else sketch


def _window(sketches: Sequence[Sketch], tiny: float) -> tuple[float, float, float]:
    """Where all but a tiny mass of the sum is, and its standard deviation, in doubles."""
    spread = math.sqrt(sum(one.count * one.tilted(0.0)[2] for one in sketches))
    # A sketch has less than all of its law, which counts would make nothing of.
    sketched_mass = sum(one.count * one.tilted(0.0)[0] for one in sketches)
    ends = []
    for side in (1.0, -1.0):
        farthest = sum(one.count * (one.high if side > 0 else -one.low) for one in sketches)
        tilts = np.geomspace(0.02, 200.0, 60) / max(spread, 1e-9)
        logs = [sum(one.count * one.tilted(side * t)[0] for one in sketches) - sketched_mass for t in tilts]
        bounds = [(log - math.log(tiny)) / t for log, t in zip(logs, tilts, strict=True)]
        ends.append(min(farthest, min(bounds)))
    low, high = float(-ends[1]), float(ends[0])
    return low, max(high, low + 1e-9 * max(1.0, abs(low))), max(spread, 1e-9)


def _on_lattice(
    terms: Sequence[tuple[object, int]], sketches: Sequence[Sketch], step: Fraction, size: int, low: float,
    spread: float, upper: bool,
) -> Base:  # fmt: skip
    steeps = [arb(s / spread) for s in (0.5, 2.0, 6.0, 15.0, 40.0)]
    side, start, reach, kept = Spectrum(arb(0), steeps, size), Fraction(0), 0, arb(1)
    for (height, count), sketch in zip(terms, sketches, strict=True):
        first = Fraction(sketch.low)
        knots = math.ceil((Fraction(sketch.high) - first) / step) + 2
        levels = [_ball(first + n * step) for n in range(knots)]
        look()
        heights, ratios = [height(x) for x in levels], [x.exp() for x in levels]  # type: ignore[operator]
        look()
        masses = masses_above(heights, ratios, arb(1))[0] if upper else masses_below(heights, ratios, arb(1))
        side.add(range(knots), levels, masses, count)
        start, reach = start + count * first, reach + count * (knots - 1)
        kept *= sum(masses, arb(0)) ** count
    begin = 0 if reach < size else max(0, math.floor((Fraction(low) - start) / step) - 2)
    outside = arb(0)
    if reach >= size:
        bottom, top = _ball(start + begin * step), _ball(start + (begin + size) * step)
        outside = min(((more - s * top).exp().upper() for s, _, more in side.steeper()), key=float)
        if begin > 0:
            outside += min(((less + s * bottom).exp().upper() for s, less, _ in side.steeper()), key=float)
    scale, masses = side.moments[0].exp(), side.masses()
    places = range(begin, min(begin + size, reach + 1))
    # Modulo the size, a mass is of its own index and of some that lie outside.
    points = [(_ball(start + n * step), (scale * masses[n % size] - arb(0).union(outside)).max(arb(0))) for n in places]
    return _base(points, arb(outside), upper)


def _base(points: list[Point], outside: Ball, upper: bool) -> Base:
    """Outcomes with these losses and masses under P; all else of P and of Q gives everything away, or may not be."""
    look()
    found = [(loss, mass, mass * (-loss).exp()) for loss, mass in points if not mass.is_zero()]
    only_p = (1 - sum((p for _, p, _ in found), arb(0))).max(arb(0))
    only_q = (1 - sum((q for _, _, q in found), arb(0))).max(arb(0))
    if not upper:
        only_p, only_q = arb(0).union(only_p), arb(0).union(only_q)
    return Base(found, only_p, only_q)


def _ball(value: Fraction) -> Ball:
    return arb(fmpq(value.numerator, value.denominator))
