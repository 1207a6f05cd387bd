"""Laws of which only moments are known: E[e^{theta L}] bounds delta at one order, and any order will do."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from flint import acb, arb

from tallystick.errors import NotComputable
from tallystick.numerics.rigorous.contour import Laws, Profile, smallest
from tallystick.numerics.rigorous.heights import known_by, mirrored
from tallystick.numerics.rigorous.laws import Ball, BallLaw, point_work, work

LogMoment = Callable[[Ball], Ball]
FARTHEST = 1e7
"""Largest theta that is tried."""


def log_factor(theta: Ball) -> Ball:
    """log of theta^theta / (1 + theta)^{1 + theta} (Canonne, Kamath, Steinke 2020, Proposition 12)."""
    return theta * theta.log() - (1 + theta) * (1 + theta).log()


def converted(log_moment: LogMoment, most: float, listed: Sequence[float] = ()) -> Profile:
    """delta at x by the best theta <= most that doubles find; the listed ones are tried too."""

    def exponent(theta: float, x: Ball) -> Ball:
        at = arb(theta)
        return log_moment(at) - at * x + log_factor(at)

    def profile(x: Ball) -> Ball:
        work(40.0 * point_work())
        at = float(x)

        def size(theta: float) -> float:
            """In doubles beside the moment itself: it only chooses."""
            if not 0.0 < theta <= most:
                return math.inf
            return (
                float(log_moment(arb(theta))) - theta * at + theta * math.log(theta) - (1 + theta) * math.log1p(theta)
            )

        tried = [theta for theta in (smallest(size), most if most < FARTHEST else 1.0, *listed) if 0.0 < theta <= most]
        best = min(tried, key=size)
        return exponent(best, x).exp().min(arb(1))

    return profile


def known_moments(log_moment: LogMoment, leak: Ball, most: float = FARTHEST, listed: Sequence[float] = ()) -> BallLaw:
    """Both orders of a mechanism that keeps these moments but for a part ``leak`` that gives everything away."""
    kept = 1 - leak
    inside = converted(log_moment, most, listed)
    law = known_by(mirrored(lambda x: leak + kept * inside(x)), infinite=leak)
    return replace(law, log_moment=lambda theta: log_moment(theta) + kept.log(), orders=(most, tuple(listed)))


def moments_profile(laws: Laws) -> Profile:
    """delta of the finite part of a sum, some of whose terms are known by moments only."""

    def log_moment(theta: Ball) -> Ball:
        total = arb(0)
        for law, count in laws:
            if law.log_moment is not None:
                total += count * law.log_moment(theta)
            elif law.closed is not None:
                total += count * law.closed(acb(theta)).real.log()
            elif law.atoms is not None and law.missing.is_zero():
                total += count * sum((mass * (theta * loss).exp() for loss, mass in law.atoms), arb(0)).log()
            elif law.points is not None and law.atoms is None:
                total += count * law.mgf(float(theta)).log()
            else:
                raise NotComputable("a term beside moments whose own are not known")
        return total

    most = min(law.orders[0] for law, _ in laws if law.log_moment is not None)
    listed = [theta for law, _ in laws if law.log_moment is not None for theta in law.orders[1]]
    return converted(log_moment, most, listed)
