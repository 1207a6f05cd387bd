"""Privacy profile and trade-off function are one object: convex conjugates, both ways, without loss."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tallystick.accounting import check
from tallystick.accounting.polygon import interpolated, lower_corners
from tallystick.errors import InvalidInput
from tallystick.rounding import delta_up, exp
from tallystick.theorems.piecewise import PiecewiseTradeoff, lower_hull
from tallystick.theorems.require import Floats

_LARGEST = 700.0


@dataclass(frozen=True, slots=True)
class PiecewiseProfile:
    """H(a) = delta(log a), linear between the knots ``ratios``, H(0) = 1, constant after the last knot.

    Lemma 16 of the lecture notes: convex, decreasing, H(0) = 1, H(a) >= (1 - a)_+;
    page ``theory/profile-duality.md``.

    >>> profile = PiecewiseProfile.of_points([(0.0, 0.1)])
    >>> round(profile.delta(epsilon=0.0), 9), round(profile.delta(epsilon=3.0), 9)
    (0.1, 0.1)
    """

    ratios: tuple[float, ...]
    deltas: tuple[float, ...]

    def __post_init__(self) -> None:
        a, h = np.asarray(self.ratios, dtype=float), np.asarray(self.deltas, dtype=float)
        allowed = "knots of a convex, decreasing profile with H(0) = 1 and H(a) >= (1 - a)_+"
        if a.ndim != 1 or a.shape != h.shape or a.size < 1 or not np.all(np.isfinite(a) & np.isfinite(h)):
            raise InvalidInput("ratios, deltas", (self.ratios, self.deltas), allowed)
        slopes = np.diff(np.append(1.0, h)) / np.diff(np.append(0.0, a))
        good = (
            bool(np.all(np.diff(np.append(0.0, a)) > 0.0))
            and bool(np.all(h <= 1.0))
            and bool(np.all(h >= np.maximum(0.0, 1.0 - a) - 1e-12))
            and bool(np.all(slopes <= 1e-12))
            and bool(np.all(np.diff(slopes) >= -1e-9))
        )
        if not good:
            raise InvalidInput("ratios, deltas", (self.ratios, self.deltas), allowed)

    def delta(self, *, epsilon: float) -> float:
        """delta at ``epsilon`` (any real number), rounded up."""
        ratio = exp(check.finite("epsilon", epsilon))
        return delta_up(float(interpolated(np.array(ratio), np.append(0.0, self.ratios), np.append(1.0, self.deltas))))

    @staticmethod
    def of_points(points: Iterable[tuple[float, float]]) -> PiecewiseProfile:
        """The best profile that follows from finitely many symmetric claims (epsilon_i, delta_i).

        Each claim also bounds H below 1 by H(1/a) = 1 - (1 - H(a))/a; the rest is convexity (Proposition 13.8).

        >>> round(PiecewiseProfile.of_points([(1.0, 0.0)]).delta(epsilon=0.0), 6)
        0.462117
        """
        ratios, heights = [0.0], [1.0]
        for epsilon, delta in points:
            e, d = check.nonnegative("epsilon", epsilon), check.probability("delta", delta)
            if e > _LARGEST:
                raise InvalidInput("epsilon", epsilon, f"at most {_LARGEST:g} (beyond it e^epsilon is not a float)")
            ratios += [math.exp(-e), math.exp(e)]
            heights += [1.0 - math.exp(-e) * (1.0 - d), d]
        if len(ratios) == 1:
            raise InvalidInput("points", points, "at least one (epsilon, delta)")
        return _profile(np.asarray(ratios), np.asarray(heights))


def profile_of_tradeoff(f: PiecewiseTradeoff) -> PiecewiseProfile:
    """delta(eps) = 1 + f*(-e^eps), which is H_{e^eps}(Q||P) for f = T(P, Q).

    Proposition 13.9(c) as corrected (erratum 7 prints f*(e^-eps), which exceeds 1); page
    ``theory/profile-duality.md``. For H(P||Q) pass ``f.inverse()``. Rounded up by 1e-15 absolute.

    >>> f = PiecewiseTradeoff.of_approx_dp(epsilon=1.0, delta=0.05)
    >>> round(profile_of_tradeoff(f).delta(epsilon=1.0), 9)
    0.05
    """
    a, b = np.asarray(f.alphas), np.asarray(f.betas)
    with np.errstate(over="ignore"):
        slopes = -np.diff(b) / np.diff(a)
    # a slope beyond every float says nothing at an epsilon that is one
    steep = np.isinf(slopes)
    slopes[steep] = 0.0
    # on the segment with slope -s the line beta + s alpha is constant, and 1 minus it is H(s); rounded up,
    # because corners are known to a few ulps of 1
    heights = np.minimum(1.0, 1.0 - (b[:-1] + slopes * a[:-1]) + 1e-15)
    keep = slopes > 0.0
    return _profile(np.append(0.0, slopes[keep]), np.append(1.0, heights[keep]))


def tradeoff_of_profile(profile: PiecewiseProfile) -> PiecewiseTradeoff:
    """f(alpha) = sup over eps of 1 - delta(eps) - e^eps alpha, the way back.

    Proposition 13.8 of the lecture notes, for all claims at once; page ``theory/profile-duality.md``.

    >>> f = PiecewiseTradeoff.of_approx_dp(epsilon=1.0, delta=0.05)
    >>> g = tradeoff_of_profile(profile_of_tradeoff(f))
    >>> bool(np.max(np.abs(f(np.linspace(0, 1, 99)) - g(np.linspace(0, 1, 99)))) < 1e-12)
    True
    """
    a, h = np.append(0.0, profile.ratios), np.append(1.0, profile.deltas)
    alphas = np.append(-np.diff(h) / np.diff(a), 0.0)
    # slope -alpha of H between two knots is the corner alpha of f; its height is read off either knot
    betas = 1.0 - h - a * alphas
    return lower_hull(np.append(alphas, 1.0), np.append(np.maximum(betas, 0.0), 0.0))


def tradeoff_of_points(points: Iterable[tuple[float, float]]) -> PiecewiseTradeoff:
    """f = sup_i f_{eps_i, delta_i}: everything that finitely many (epsilon, delta) claims say (Proposition 13.8).

    >>> f = tradeoff_of_points([(0.0, 0.3), (1.0, 0.0)])
    >>> float(f(0.3).round(6))
    0.4
    """
    return tradeoff_of_profile(PiecewiseProfile.of_points(points))


def _profile(ratios: Floats, heights: Floats) -> PiecewiseProfile:
    """Lower convex hull of the points, decreasing: H is convex and under every one of them."""
    order = np.lexsort((heights, ratios))
    at = ratios[order]
    levels = np.maximum(heights[order], np.maximum(0.0, 1.0 - at))
    corners = lower_corners(at, np.minimum.accumulate(np.minimum(levels, 1.0)))
    if len(corners) == 1:
        return PiecewiseProfile((1.0,), (1.0,))
    first, second = zip(*corners[1:], strict=True)
    return PiecewiseProfile(first, second)
