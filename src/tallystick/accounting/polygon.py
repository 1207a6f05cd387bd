"""Piecewise-linear trade-off functions and profiles, and the finite pairs they stand for.

A trade-off function is held as knots (alpha, beta), convex and decreasing from alpha = 0; a profile as knots
(a, H) with a = e^epsilon, convex and decreasing. Both are lossless pictures of a finite pair (P, Q).
"""

from __future__ import annotations

import math

import numpy as np

from tallystick.numerics.law import Array, Law


def law_of_pair(p: Array, q: Array) -> Law:
    """The loss law of a finite pair of mass vectors."""
    both = (p > 0) & (q > 0)
    # p - q is exact where they are close, so the loss keeps its relative accuracy near zero.
    near = np.abs(p[both] - q[both]) < 0.5 * q[both]
    with np.errstate(invalid="ignore"):
        close = np.log1p(np.where(near, (p[both] - q[both]) / q[both], 0.0))
    losses = np.where(near, close, np.log(p[both]) - np.log(q[both]))
    order = np.argsort(losses, kind="stable")
    lattice = None
    distinct = np.unique(losses)
    if distinct.size == 2:
        lattice = float(distinct[1] - distinct[0])
    return Law(
        losses[order],
        np.log(p[both])[order],
        infinity=float(np.sum(p[(p > 0) & (q == 0)])),
        zero=float(np.sum(q[(q > 0) & (p == 0)])),
        lattice=lattice,
    )


def tradeoff_knots(p: Array, q: Array) -> tuple[Array, Array]:
    """Knots of T(P, Q): reject by decreasing q/p.

    >>> import numpy as np
    >>> alpha, beta = tradeoff_knots(np.array([0.25, 0.75]), np.array([0.75, 0.25]))
    >>> alpha.tolist(), beta.tolist()
    ([0.0, 0.25, 1.0], [1.0, 0.25, 0.0])
    """
    with np.errstate(divide="ignore"):
        order = np.argsort(np.log(p) - np.log(q), kind="stable")
    alpha = np.concatenate([[0.0], np.cumsum(p[order])])
    beta = np.concatenate([[0.0], np.cumsum(q[order][::-1])])[::-1]
    return alpha, beta / max(beta[0], 1e-300) if abs(beta[0] - 1.0) < 1e-9 else beta


def pair_of_tradeoff(alpha: Array, beta: Array) -> tuple[Array, Array]:
    """A finite pair (P, Q) with T(P, Q) equal to the polygon through the knots."""
    p = [*np.diff(alpha)]
    q = [*(-np.diff(beta))]
    p, q = [0.0, *p, 1.0 - float(alpha[-1])], [1.0 - float(beta[0]), *q, float(beta[-1])]
    return np.maximum(np.array(p), 0.0), np.maximum(np.array(q), 0.0)


def lower_hull(x: Array, y: Array) -> tuple[Array, Array]:
    """The lower convex hull of points sorted by x, by dropping points above the chord of their neighbours."""
    while x.size > 2:
        slopes = np.diff(y) / np.diff(x)
        keep = np.concatenate([[True], slopes[1:] > slopes[:-1], [True]])
        if keep.all():
            break
        x, y = x[keep], y[keep]
    return x, y


def inverse_knots(alpha: Array, beta: Array) -> tuple[Array, Array]:
    """Knots of the left inverse f^{-1}(a) = inf{t: f(t) <= a}: the polygon mirrored at the diagonal."""
    x, y = beta[::-1], alpha[::-1]
    if x[0] > 0.0:
        x, y = np.concatenate([[0.0], x]), np.concatenate([[y[0]], y])
    if x[-1] < 1.0:
        x, y = np.concatenate([x, [1.0]]), np.concatenate([y, [y[-1]]])
    keep = np.concatenate([np.diff(x) > 0, [True]])
    return x[keep], y[keep]


def combined(first: tuple[Array, Array], second: tuple[Array, Array], *, worst: bool) -> tuple[Array, Array]:
    """Pointwise minimum with its hull (``worst``) or pointwise maximum of two trade-off polygons."""
    x = np.union1d(first[0], second[0])
    f, g = np.interp(x, *first), np.interp(x, *second)
    gap = f - g
    flips = np.nonzero(gap[:-1] * gap[1:] < 0)[0]
    cross = x[flips] + (x[flips + 1] - x[flips]) * gap[flips] / (gap[flips] - gap[flips + 1])
    x = np.union1d(x, cross)
    f, g = np.interp(x, *first), np.interp(x, *second)
    # The crossing is rounded; the smaller value there keeps the maximum a minorant of the true one.
    at_cross = np.isin(x, cross)
    y = np.minimum(f, g) if worst else np.where(at_cross, np.minimum(f, g), np.maximum(f, g))
    return lower_hull(x, y)


def law_of_profile(levels: Array, heights: Array, infinity: float) -> Law:
    """The law with profile through (a, H) for a >= 1, H constant = infinity after, and its mirror for a < 1.

    ``levels`` start at 1 and increase; ``heights`` are convex, decreasing and end at ``infinity``. The mirror
    H(a) = 1 - a + a H(1/a) makes the pair symmetric, as a guarantee in both directions is; where the two
    halves do not join convexly the hull cuts the corner, because a true profile is convex.
    """
    slopes = np.append(-np.diff(heights) / np.diff(levels), 0.0)
    across = (1.0 - heights) / (levels + 1.0)  # slope of the chord from the mirror image to the knot
    start = int(np.argmax(slopes <= across))
    levels, heights, slopes = levels[start:], heights[start:], slopes[start:]
    before = np.append(across[start], slopes[:-1])
    p_up = np.maximum((before - slopes) * levels, 0.0)
    if start == 0:
        p_up = p_up[1:]
        levels = levels[1:]
    down = p_up / levels
    kink = max(0.0, 1.0 - float(np.sum(p_up) + np.sum(down)) - infinity) if start == 0 else 0.0
    losses = np.log(levels)
    atoms = np.concatenate([-losses[::-1], [0.0], losses])
    masses = np.concatenate([down[::-1], [kink], p_up])
    kept = masses > 0
    return Law(atoms[kept], np.log(masses[kept]), infinity=infinity, zero=infinity)


def profile_minorant(epsilon: Array, bound: Array) -> tuple[Array, Array, float]:
    """Convex minorant in a = e^epsilon of a decreasing bound, as knots and the value at infinity.

    The true profile is convex and below the bound, so it is below the minorant too. After the last knot the
    bound is taken as constant, which is the side of less privacy claimed.
    """
    levels = np.exp(epsilon)
    heights = np.minimum.accumulate(np.minimum(bound, 1.0))
    far_level, last = levels[-1] * math.e**40, float(heights[-1])
    x, y = lower_hull(np.append(levels, far_level), np.append(heights, last))
    keep = x <= levels[-1]
    return x[keep], y[keep], last
