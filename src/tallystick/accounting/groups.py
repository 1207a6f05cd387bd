"""Group privacy and chains of neighbours: 1 - f(1 - g), on polygons that err on the safe side."""

from __future__ import annotations

import math

import numpy as np

from tallystick.numerics.law import Array

Knots = tuple[Array, Array]


def power_of_profile(epsilon: Array, upper: Array) -> Knots:
    """Upper bound on the best power 1 - f(alpha), from upper bounds on delta at knots (any real epsilon).

    Every knot gives the line delta + e^epsilon alpha above the power; the minimum of lines is a concave
    polygon, returned as its vertices from alpha = 0 to 1.
    """
    slopes, heights = np.exp(epsilon), upper
    order = np.argsort(-slopes)
    slopes, heights = slopes[order], heights[order]
    xs, ys = [0.0], [float(np.min(heights))]
    lines: list[tuple[float, float]] = []
    starts: list[float] = []
    for slope, height in zip(slopes.tolist(), heights.tolist(), strict=True):
        while lines:
            before = lines[-1]
            meet = (height - before[1]) / (before[0] - slope) if before[0] > slope else math.inf
            if meet <= starts[-1]:
                lines.pop()
                starts.pop()
                continue
            break
        if not lines:
            lines.append((slope, height))
            starts.append(0.0)
        elif meet < 1.0:
            lines.append((slope, height))
            starts.append(meet)
    xs = [*starts, 1.0]
    ys = [line[1] + line[0] * start for line, start in zip(lines, starts, strict=True)]
    ys.append(lines[-1][1] + lines[-1][0])
    return np.array(xs), np.minimum(np.array(ys), 1.0)


def chained_power(first: Knots, second: Knots) -> Knots:
    """Vertices of second(first(alpha)): both concave and increasing, so the chain is too."""
    x1, y1 = first
    pre = np.interp(second[0], y1, x1, left=0.0, right=1.0)
    x = np.unique(np.concatenate([x1, pre[(pre > 0) & (pre < 1)]]))
    return x, np.minimum(np.interp(np.interp(x, x1, y1), *second) * (1.0 + 1e-14), 1.0)


def profile_of_power(power: Knots, epsilon: Array) -> Array:
    """delta(eps) = max over alpha of power(alpha) - e^eps alpha, attained at a vertex."""
    x, y = power
    return np.array([max(0.0, float(np.max(y - math.exp(min(e, 700.0)) * x))) for e in epsilon])


def chained_profile(first: Knots, second: Knots) -> Knots:
    """Profile knots (eps, delta) of two neighbouring steps one after the other."""
    power = chained_power(power_of_profile(*first), power_of_profile(*second))
    ends = float(first[0][-1] + second[0][-1])
    ladder = np.concatenate([first[0], second[0], 2.0 * first[0], 2.0 * second[0]])
    epsilon = np.unique(np.append(ladder[ladder < ends], ends))
    upper = np.minimum(1.0, profile_of_power(power, epsilon) * (1.0 + 1e-13))
    if first[1][-1] == 0.0 and second[1][-1] == 0.0:
        # Largest losses add, and beyond them the profile is zero.
        upper[-1] = 0.0
    return epsilon, upper


def grouped_power(single: Knots, size: int) -> Knots:
    """1 - f iterated ``size`` times (Dong, Roth, Su 2019): f_k = 1 - (1 - f)^{o k}."""
    result: Knots = (np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    base, left = single, size
    while left:
        if left & 1:
            result = chained_power(result, base)
        left >>= 1
        if left:
            base = chained_power(base, base)
    return result


def grouped_delta(single: Knots, epsilon: float, size: int) -> float:
    """Least of the trade-off chain and of the (eps, delta) rule delta(k e) <= delta(e) (e^{ke} - 1)/(e^e - 1)."""
    knots, upper = single
    power = grouped_power(power_of_profile(knots, upper), size)
    best = float(profile_of_power(power, np.array([epsilon]))[0])
    each = epsilon / size
    near = knots[knots <= each]
    if each > 0.0 and near.size and near[-1] > 0.0:
        e = float(near[-1])
        factor = math.expm1(size * e) / math.expm1(e) if size * e < 700.0 else math.inf
        best = min(best, float(upper[np.argmax(knots == e)]) * factor)
    return min(1.0, best * (1.0 + 1e-12))
