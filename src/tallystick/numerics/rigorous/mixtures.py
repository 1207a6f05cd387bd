"""H of mixtures of Gaussians of one width, in balls: the ratio grows with x, so the best events are x > t."""

from __future__ import annotations

import math
from collections.abc import Sequence

from flint import arb, ctx

from tallystick.errors import NotComputable
from tallystick.numerics.rigorous.continuous import normal_tail
from tallystick.numerics.rigorous.laws import Ball, point_work, work
from tallystick.numerics.rigorous.sketch import Height


def two_mixtures(mu: Ball, rate: Ball) -> Height:
    """(1-q) N(0,1) + q N(mu,1) against (1-q) N(0,1) + q N(-mu,1); its own swap (docs/theory/poisson-replace.md)."""
    share = rate * (-mu * mu / 2).exp()

    def ahead(x: Ball) -> Ball:
        gap = (1 - rate) * x.expm1()
        t = ((gap + (gap * gap + 4 * x.exp() * share * share).sqrt()) / (2 * share)).log() / mu
        return rate * (normal_tail(t - mu) - x.exp() * normal_tail(t + mu)) - gap * normal_tail(t)

    return lambda x: ahead(x) if x >= 0 else -x.expm1() + x.exp() * ahead(-x)


def mixture(shifts: Sequence[Ball], shares: Sequence[Ball], slack: float) -> tuple[Height, Height]:
    """Sum of p_i N(mu_i, 1) against N(0, 1), and the other way round; shares may be off by so much, relatively."""
    parts = list(zip(shifts, shares, strict=True))
    rough = [(float(mu), math.log(float(share))) for mu, share in parts]

    def moments(t: Ball) -> tuple[Ball, Ball]:
        """The ratio at t and its derivative."""
        terms = [(mu, share * (mu * t - mu * mu / 2).exp()) for mu, share in parts]
        return sum((term for _, term in terms), arb(0)), sum((mu * term for mu, term in terms), arb(0))

    def threshold(x: Ball) -> Ball:
        """A ball around the t at which the ratio is e^x: doubles, then Newton, then a proof at both ends."""
        level, t = x.exp(), arb(_nearly(rough, float(x)))
        for _ in range(1 + math.ceil(math.log2(ctx.prec / 40))):  # each doubles the digits of a double
            ratio, slope = moments(t)
            t = (t + (level - ratio) / slope).mid()
        radius = arb(2) ** (16 - int(ctx.prec)) * (1 + abs(t))
        for _ in range(8):
            if moments(t - radius)[0] < level and moments(t + radius)[0] > level:
                return (t - radius).union(t + radius)
            radius *= 2**12
        raise NotComputable("a mixture whose losses are too far apart")

    def remove(x: Ball) -> Ball:
        work(3.0 * len(parts) * point_work())
        t = threshold(x)
        above = sum((share * normal_tail(t - mu) for mu, share in parts), arb(0))
        return above * (1 + arb(slack)) - x.exp() * normal_tail(t)

    def add(x: Ball) -> Ball:
        work(3.0 * len(parts) * point_work())
        t = threshold(-x)
        below = sum((share * normal_tail(mu - t) for mu, share in parts), arb(0))
        return normal_tail(-t) - x.exp() * below * (1 - arb(slack))

    return remove, add


def _nearly(parts: Sequence[tuple[float, float]], x: float) -> float:
    """About the t at which the sum of p_i e^{mu_i t - mu_i^2/2} is e^x: Newton on its logarithm, which is convex.

    The first t is one at which some part alone is e^x, so that the steps go down to the root and never past it.
    """
    t = min((x - log) / mu + 0.5 * mu for mu, log in parts)
    for _ in range(60):
        exponents = [log + mu * (t - 0.5 * mu) for mu, log in parts]
        top = max(exponents)
        weights = [math.exp(one - top) for one in exponents]
        total = math.fsum(weights)
        step = (
            (top + math.log(total) - x) * total / math.fsum(w * mu for w, (mu, _) in zip(weights, parts, strict=True))
        )
        t -= step
        if abs(step) <= 1e-14 * (1.0 + abs(t)):
            break
    return t
