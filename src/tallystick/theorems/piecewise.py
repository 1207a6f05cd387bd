"""Trade-off functions with finitely many corners: the algebra of chapter 13, without loss.

A piecewise-linear trade-off function f = T(P, Q) is a finite pair in disguise: each segment of width ``dp`` and
drop ``dq`` is an outcome of P-mass ``dp`` and Q-mass ``dq``. Values are exact up to double rounding;
the functions that turn them into claims (``divergences``, ``duality``) round so that the claims hold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tallystick.accounting import check
from tallystick.accounting.polygon import LowerTradeoff, interpolated, lower_corners
from tallystick.errors import InvalidInput
from tallystick.rounding import TINY
from tallystick.theorems import require
from tallystick.theorems.require import Floats

_TOLERANCE = 1e-12
_MOST_OUTCOMES = 4_000_000


@dataclass(frozen=True, slots=True)
class PiecewiseTradeoff:
    """The corners (alpha_i, beta_i) of a convex, non-increasing f <= 1 - alpha, from alpha = 0 to 1.

    Proposition 13.1 of the lecture notes says that these are all of them; page ``theory/tradeoff-functions.md``.

    >>> f = PiecewiseTradeoff.of_pair([0.75, 0.25], [0.25, 0.75])
    >>> float(f(0.25))
    0.25
    """

    alphas: tuple[float, ...]
    betas: tuple[float, ...]

    def __post_init__(self) -> None:
        a, b = np.asarray(self.alphas, dtype=float), np.asarray(self.betas, dtype=float)
        allowed = "the corners of a convex, non-increasing function with f(x) <= 1 - x, from x = 0 to x = 1"
        if a.ndim != 1 or a.shape != b.shape or a.size < 2 or not np.all(np.isfinite(a) & np.isfinite(b)):
            raise InvalidInput("alphas, betas", (self.alphas, self.betas), allowed)
        wide = np.maximum(a[2:] - a[:-2], 1e-300)
        above_chord = b[1:-1] - (b[:-2] * (a[2:] - a[1:-1]) + b[2:] * (a[1:-1] - a[:-2])) / wide
        good = (
            a[0] == 0.0
            and a[-1] == 1.0
            and bool(np.all(np.diff(a) > 0.0))
            and bool(np.all(np.diff(b) <= _TOLERANCE))
            and bool(np.all(above_chord <= _TOLERANCE))
            and bool(np.all(b >= -_TOLERANCE))
            and bool(np.all(b <= 1.0 - a + _TOLERANCE))
        )
        if not good:
            raise InvalidInput("alphas, betas", (self.alphas, self.betas), allowed)

    def __call__(self, alpha: float | Floats) -> Floats:
        """The least type-II error at type-I error ``alpha``."""
        corners = self.polygon
        return interpolated(np.asarray(alpha, dtype=float), corners.alpha, corners.beta)

    @property
    def polygon(self) -> LowerTradeoff:
        """Return the corners for the accountant's geometry."""
        return LowerTradeoff(np.asarray(self.alphas, dtype=float), np.asarray(self.betas, dtype=float))

    @staticmethod
    def of_pair(p: Sequence[float] | Floats, q: Sequence[float] | Floats) -> PiecewiseTradeoff:
        """T(P, Q) by Neyman-Pearson: reject the outcomes with the largest q/p first.

        >>> PiecewiseTradeoff.of_pair([1.0, 0.0], [0.5, 0.5]).betas
        (0.5, 0.0)
        """
        first, second = require.pair(p, q)
        keep = (first > 0.0) | (second > 0.0)
        first, second = first[keep], second[keep]
        with np.errstate(divide="ignore", over="ignore"):
            ratio = second / first
        # what P never shows comes before what it hardly ever shows, also where both ratios are infinite as floats
        ranked = np.lexsort((-ratio, first > 0.0))
        alphas = np.concatenate([[0.0], np.cumsum(first[ranked])])
        # what is left of Q, summed from the far end, so that nothing left is exactly zero
        betas = np.concatenate([np.cumsum(second[ranked][::-1])[::-1], [0.0]])
        return lower_hull(alphas, betas)

    @staticmethod
    def of_approx_dp(*, epsilon: float, delta: float = 0.0) -> PiecewiseTradeoff:
        """f_{epsilon, delta} = max(0, 1 - delta - e^eps alpha, e^-eps (1 - delta - alpha)).

        Remark 13.3 of the lecture notes; page ``theory/tradeoff-functions.md``.

        >>> float(PiecewiseTradeoff.of_approx_dp(epsilon=0.0, delta=0.2)(0.3))
        0.5
        """
        e, d = check.nonnegative("epsilon", epsilon), check.probability("delta", delta)
        knee = (1.0 - d) * math.exp(-e) / (1.0 + math.exp(-e))
        return lower_hull(np.array([0.0, knee, 1.0 - d, 1.0]), np.array([1.0 - d, knee, 0.0, 0.0]))

    @staticmethod
    def identity() -> PiecewiseTradeoff:
        """Id(alpha) = 1 - alpha: no test helps (Example 13.1).

        >>> float(PiecewiseTradeoff.identity()(0.25))
        0.75
        """
        return PiecewiseTradeoff((0.0, 1.0), (1.0, 0.0))

    def pair(self) -> tuple[Floats, Floats]:
        """A finite pair (P, Q) with T(P, Q) = f, the corrected Example 14.1 (erratum 33).

        >>> p, q = PiecewiseTradeoff.of_approx_dp(epsilon=0.0, delta=0.2).pair()
        >>> p.round(3).tolist(), q.round(3).tolist()
        ([0.0, 0.8, 0.2], [0.2, 0.8, 0.0])
        """
        p = np.concatenate([[0.0], np.diff(self.alphas)])
        q = np.concatenate([[1.0 - self.betas[0]], -np.diff(self.betas)])
        return p, np.maximum(q, 0.0)

    def inverse(self) -> PiecewiseTradeoff:
        """f^-1(alpha) = inf{t: f(t) <= alpha}, which is T(Q, P).

        >>> PiecewiseTradeoff.of_pair([1.0, 0.0], [0.5, 0.5]).inverse().alphas
        (0.0, 0.5, 1.0)
        """
        mirrored = self.polygon.inverse()
        return lower_hull(mirrored.alpha, mirrored.beta)


def lower_hull(alphas: Floats, betas: Floats) -> PiecewiseTradeoff:
    """The largest convex function under the points, as a trade-off function.

    >>> lower_hull(np.array([0.0, 0.5, 0.5, 1.0]), np.array([1.0, 0.5, 0.25, 0.0])).betas
    (1.0, 0.25, 0.0)
    """
    a = np.append(np.clip(np.asarray(alphas, dtype=float), 0.0, 1.0), 1.0)
    b = np.append(np.clip(np.asarray(betas, dtype=float), 0.0, 1.0), 0.0)
    # the last cumulative sum may miss 1 by an ulp; the corner (1, 0) is on every trade-off function
    a[a > 1.0 - 1e-15] = 1.0
    order = np.lexsort((b, a))
    corners = lower_corners(a[order], b[order])
    if len(corners) < 2:
        raise InvalidInput("alphas", alphas, "points from alpha = 0 to alpha = 1")
    first, second = zip(*corners, strict=True)
    return PiecewiseTradeoff(first, second)


def pointwise_max(f: PiecewiseTradeoff, g: PiecewiseTradeoff) -> PiecewiseTradeoff:
    """max(f, g), again a trade-off function (Remark 13.1).

    If a mechanism is f-DP and g-DP it is max(f, g)-DP: two true statements are one stronger statement;
    page ``theory/tradeoff-functions.md``.

    >>> f = PiecewiseTradeoff.of_approx_dp(epsilon=1.0)
    >>> g = PiecewiseTradeoff.of_approx_dp(epsilon=0.0, delta=0.3)
    >>> float(pointwise_max(f, g)(0.3).round(6))
    0.4
    """
    both = f.polygon.larger(g.polygon)
    return lower_hull(both.alpha, both.beta)


def hull_of_min(f: PiecewiseTradeoff, g: PiecewiseTradeoff) -> PiecewiseTradeoff:
    """The convex hull of min(f, g): what holds when either f or g may be the truth (Remark 4.2).

    >>> f = PiecewiseTradeoff.of_approx_dp(epsilon=1.0)
    >>> hull_of_min(f, PiecewiseTradeoff.identity()) == f
    True
    """
    return lower_hull(np.concatenate([f.alphas, g.alphas]), np.concatenate([f.betas, g.betas]))


def symmetrised(f: PiecewiseTradeoff) -> PiecewiseTradeoff:
    """max(f, f^-1): a mechanism that is f-DP for a symmetric adjacency is this much DP (Proposition 13.2).

    Not for one direction of add/remove: there f and f^-1 are different claims; page ``theory/symmetrisation.md``.

    >>> f = PiecewiseTradeoff.of_pair([0.9, 0.1], [0.5, 0.5])
    >>> bool(symmetrised(f)(0.05) >= f(0.05))
    True
    """
    return pointwise_max(f, f.inverse())


def chained(g: PiecewiseTradeoff, f: PiecewiseTradeoff) -> PiecewiseTradeoff:
    """g(1 - f(alpha)): if T(P, Q) >= f and T(Q, R) >= g then T(P, R) >= this (Lemma 11).

    Also the corrected reading of Proposition 4.2's "f(1 - f)", which is a composition of functions and not a product
    (erratum 20); page ``theory/chained.md``.

    >>> f = PiecewiseTradeoff.of_approx_dp(epsilon=1.0)
    >>> twice = PiecewiseTradeoff.of_approx_dp(epsilon=2.0)
    >>> bool(np.allclose(chained(f, f)(np.linspace(0, 1, 11)), twice(np.linspace(0, 1, 11))))
    False
    >>> bool(np.all(chained(f, f)(np.linspace(0, 1, 11)) >= twice(np.linspace(0, 1, 11)) - 1e-12))
    True
    """
    # 1 - f between its corners, never as one minus a number near 1: g may fall to nothing at a level of 1e-300
    power = 1.0 - np.asarray(f.betas)
    # corners of the outer function pulled back through the inner one: where 1 - f(alpha) = x, on f's decreasing part
    back = interpolated(g.polygon.alpha, power, f.polygon.alpha)
    grid = np.union1d(f.alphas, back)
    values = g(interpolated(grid, f.polygon.alpha, power))
    # a corner pulled back to where floats lose their digits counts as lying at 0: the lower side of the jump is safe
    lost = (back < TINY) & (np.asarray(g.alphas) > power[0])
    values[0] = np.min(np.asarray(g.betas)[lost], initial=values[0])
    # 1 - f leaves rounding dust where the value is 0; an inverse would blow it up, and 0 is the safe side
    values[values < 1e-15] = 0.0
    return lower_hull(grid, values)


def mixed_with_identity(f: PiecewiseTradeoff, *, rate: float) -> PiecewiseTradeoff:
    """f_q = q f + (1 - q) Id, the first half of the subsampling operator (section 13.10).

    >>> float(mixed_with_identity(PiecewiseTradeoff.of_approx_dp(epsilon=0.0, delta=0.2), rate=0.5)(0.0))
    0.9
    """
    q = check.probability("rate", rate)
    a, b = np.asarray(f.alphas), np.asarray(f.betas)
    return lower_hull(a, q * b + (1.0 - q) * (1.0 - a))


def tensor_product(f: PiecewiseTradeoff, g: PiecewiseTradeoff) -> PiecewiseTradeoff:
    """f (x) g = T(P x P', Q x Q'): the exact composition (Definition 13.5, Theorem 13.4).

    Adaptive steps are covered: Theorem 13.4 of the lecture notes; page ``theory/tensor-product.md``.

    >>> f = PiecewiseTradeoff.of_approx_dp(epsilon=0.0, delta=0.1)
    >>> float(tensor_product(f, f)(0.0).round(6))
    0.81
    """
    p, q = f.pair()
    other_p, other_q = g.pair()
    if p.size * other_p.size > _MOST_OUTCOMES:
        raise InvalidInput("f, g", (p.size, other_p.size), f"functions with at most {_MOST_OUTCOMES} corner pairs")
    return PiecewiseTradeoff.of_pair(np.outer(p, other_p).ravel(), np.outer(q, other_q).ravel())
