"""One of two steps holds the unit: its mean hockey-stick over the ratio V of the other step, with the kink taken out.

    removing   H_a = E_Q[H_{2a - V}]/2            where H_b = 1 - b for b <= 0,
    adding     H_a = E_Q[k H_{1/k}; k > 0] a/2    where k = 2/a - V,

for pairs that are their own swap.  Every term is positive: nothing cancels.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
from flint import arb
from scipy.special import ndtr

from referee.balls import ONE, ZERO, ball, near, within
from referee.lattice import DiscreteGaussian
from referee.sides import Gaussian, Laplace, Smooth, gauss_nodes

WIDEST, GROWTH = 0.8, 1.0
Stick = Callable[[arb], arb]


def knows(base: Smooth) -> bool:
    if isinstance(base, DiscreteGaussian):
        return base.fine(1.0) is not None
    if isinstance(base, Laplace):
        return near(base.scale) > 0.05
    return isinstance(base, Gaussian) and 1e-3 < near(base.mu) < 20


def removing(base: Smooth, a: arb) -> arb:
    return _mean(base, 2 * a, lambda level: base.profile(level) if level > 0 else 1 - level) / 2


def adding(base: Smooth, a: arb) -> arb:
    return _mean(base, 2 / a, lambda level: level * base.profile(1 / level) if level > 0 else ZERO) * a / 2


def _mean(base: Smooth, c: arb, stick: Stick) -> arb:
    """E_Q[stick(c - V)]."""
    if isinstance(base, Gaussian):
        return _gaussian(base, c, stick)
    if isinstance(base, Laplace):
        return _laplace(base, c, stick)
    return within(sum((q * stick(c - p / q) for p, q in base.fine(1.0) or []), ZERO), 1e-20, 1e-60)


def _panels(mu: float, edge: float, c: float) -> list[tuple[float, float]]:
    """(start, width) of panels that widen with the distance from the kink at ``edge``, down to -18."""
    start, width, found = 0.0, min(WIDEST, math.exp(-14 * mu) / (mu * c)), []
    while edge - start > -18:
        found.append((start, width))
        start, width = start + width, min(WIDEST, max(width, (start + width) * GROWTH))
    return found


def _gaussian(base: Gaussian, c: arb, stick: Stick) -> arb:
    """Above x* (where V = c) the stick is linear, 1 - c + V or nothing; below, Gauss panels."""
    mu = base.mu
    edge = (c.log() + mu**2 / 2) / mu
    p, q = base.tails(c)
    total = (1 - c) * q + p if stick(ball(-1)) > 0 else ZERO
    for start, width in _panels(near(mu), near(edge), near(c)):
        half = ball(width) / 2
        for node, weight in gauss_nodes():
            away = ball(start) + (1 + node) * half
            density = (-((edge - away) ** 2) / 2).exp() / (2 * arb.pi()).sqrt()
            total += weight * half * density * stick(-c * (-mu * away).expm1())
    return within(total, 1e-14, 1e-40)


def _laplace(base: Laplace, c: arb, stick: Stick) -> arb:
    """Gauss panels between the places where c - V passes zero and the least and the largest ratio, and two atoms."""
    b, reach = base.scale, 1 / base.scale
    least, most = (-reach).exp(), reach.exp()
    total = least / 2 * stick(c - most) + stick(c - least) / 2
    breaks = [ZERO, ONE]
    for level in (c, c - least, c - most):
        if level > least and level < most:
            breaks.append((1 + b * level.log()) / 2)
    breaks.sort(key=near)
    for low, high in itertools.pairwise(breaks):
        panels = max(1, int(4 * near(high - low) / near(b)) + 1)
        half = (high - low) / (2 * panels)
        for i in range(panels):
            for node, weight in gauss_nodes():
                x = low + (2 * i + 1 + node) * half
                density = (-x / b).exp() / (2 * b)
                total += weight * half * density * stick(c - ((2 * x - 1) / b).exp())
    return within(total, 1e-12, 1e-40)


def roughly(base: Gaussian, a: float) -> float:
    """Removing, in doubles: to find where the exact value is wanted."""
    mu, c = near(base.mu), 2 * a
    edge = (math.log(c) + mu**2 / 2) / mu
    beyond = float((1 - c) * ndtr(-edge) + ndtr(mu - edge))
    if edge <= -18:
        return beyond / 2
    panels = np.array(_panels(mu, edge, c))
    nodes = np.array([[near(x), near(w)] for x, w in gauss_nodes()])
    half = panels[:, 1:] / 2
    away = panels[:, :1] + (1 + nodes[:, 0]) * half
    level = np.log(np.maximum(-c * np.expm1(-mu * away), 1e-300)) / mu
    stick = ndtr(mu / 2 - level) - np.exp(mu * level) * ndtr(-mu / 2 - level)
    weight = nodes[:, 1] * half * np.exp(-((edge - away) ** 2) / 2) / math.sqrt(2 * math.pi)
    return (float((weight * stick).sum()) + beyond) / 2
