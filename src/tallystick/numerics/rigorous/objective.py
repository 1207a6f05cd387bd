"""Objective perturbation in balls: the profile J of docs/theory/objective-perturbation.md between the ends of G.

l(z) = max over c in [0, 1] of mu c z + mu^2 c^2/2 + log(1 + c (1 - c)/ridge) is convex and grows by at most mu, so
chords between knots and a line of slope mu after the last are above it, and e^{-chord} times a Gaussian is integrated
in closed form.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise

from flint import acb_poly, arb

from tallystick.numerics.rigorous.continuous import gaussian_profile, normal_tail
from tallystick.numerics.rigorous.laws import Ball, point_work, work
from tallystick.numerics.rigorous.sketch import Height

PIECES = 128
REACH = 12.0


def worst_loss(z: Ball, mu: Ball, ridge: Ball) -> Ball:
    """A number at or above l(z): the ends, and the stationary points, which are roots of a cubic."""

    def gain(c: Ball) -> Ball:
        return mu * c * z + mu * mu * c * c / 2 + (1 + c * (1 - c) / ridge).log()

    best = gain(arb(1)).max(arb(0))
    square, slope = mu * mu, mu * z
    try:
        roots = acb_poly([slope * ridge + 1, slope + square * ridge - 2, square - slope, -square]).roots()
    except ValueError:  # two of them look equal; curvature alone gains at most log(1 + 1/(4 ridge))
        return (best + (1 + 1 / (4 * ridge)).log()).upper()
    for root in roots:
        if root.imag.contains(0) and not root.real < 0 and not root.real > 1:
            best = best.max(gain(root.real.max(arb(0)).min(arb(1))))
    return best.upper()


def objective(mu: Ball, ridge: Ball) -> tuple[Height, Height]:
    """H of removing and of adding a record."""
    start = 1 / ridge - mu * mu / 2

    def plain(x: Ball) -> Ball:
        return gaussian_profile(mu, x)

    if start <= 0:
        return plain, plain
    work(20.0 * PIECES * point_work())
    low = max(-float(max(1 / ridge, mu * mu / 2, key=float) / mu), -REACH)
    high = min(float(start / mu - mu / 2), REACH)
    knots = [arb(low + (high - low) * n / PIECES) for n in range(PIECES + 1)]
    losses = [worst_loss(z, mu, ridge) for z in knots]
    slopes = [(two - one) / (b - a) for (one, two), (a, b) in zip(pairwise(losses), pairwise(knots), strict=True)]

    def under(k: int, z: Ball) -> Ball:
        """Of e^{-chord} from z to the end of piece k, under N(0, 1)."""
        b = slopes[k] if k < PIECES else mu
        whole = normal_tail(z + b) - (normal_tail(knots[k + 1] + b) if k < PIECES else 0)
        return (b * knots[k] - losses[k] + b * b / 2).exp() * whole

    beyond = [under(PIECES, knots[-1])]
    for k in range(PIECES - 1, -1, -1):
        beyond.append(beyond[-1] + under(k, knots[k]))
    beyond.reverse()
    marks = [float(loss) for loss in losses]

    def curved(x: Ball) -> Ball:
        """J(x) where a chord is at the level x."""
        k = bisect_right(marks, float(x)) - 1
        if k < 0 or not losses[k] <= x or (k < PIECES and not x <= losses[k + 1]):
            return arb(1)
        z = knots[k] + (x - losses[k]) / (slopes[k] if k < PIECES else mu)
        rest = beyond[k + 1] if k < PIECES else arb(0)
        return normal_tail(z) - x.exp() * (under(k, z) + rest)

    first = plain(arb(0))
    ends = [(x, curved(x)) for x in losses if x > 0 and x < start] + [(start, plain(start))]
    falls = [((first - height) / x.expm1(), x) for x, height in ends]

    def remove(x: Ball) -> Ball:
        if x <= 0 or x >= start:
            return plain(x)
        # Both directions have one total variation; from there on H is below every chord, as it is convex in e^x.
        steepest = max((fall for fall, end in falls if end >= x), key=float)
        return curved(x).min(first - steepest * x.expm1())

    def add(x: Ball) -> Ball:
        return plain(x) if x >= 0 else -x.expm1() + x.exp() * remove(-x)

    return remove, add
