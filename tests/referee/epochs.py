"""One of two steps holds the unit: E_Q[H_{c - V}]/2, V the ratio of the other step, with the kink of H taken out."""

from __future__ import annotations

import itertools
import math

from flint import arb

from referee.balls import ONE, ZERO, ball, near, within
from referee.lattice import DiscreteGaussian
from referee.sides import Gaussian, Laplace, Smooth, gauss_nodes

WIDEST, GROWTH = 0.8, 1.0


def knows(base: Smooth) -> bool:
    if isinstance(base, DiscreteGaussian):
        return base.fine(1.0) is not None
    if isinstance(base, Laplace):
        return near(base.scale) > 0.05
    return isinstance(base, Gaussian) and 1e-3 < near(base.mu) < 20


def half_of_two(base: Smooth, c: arb) -> arb:
    """Half of the mean of H_{c - V} under Q, where H_b = 1 - b for b <= 0."""
    if isinstance(base, Gaussian):
        return _gaussian(base, c) / 2
    if isinstance(base, Laplace):
        return _laplace(base, c) / 2
    listed = base.fine(1.0) or []
    return within(sum((q * _stick(base, c - p / q) for p, q in listed), ZERO), 1e-20, 1e-60) / 2


def _stick(base: Smooth, level: arb) -> arb:
    return base.profile(level) if level > 0 else 1 - level


def _gaussian(base: Gaussian, c: arb) -> arb:
    """Above x* (where V = c) in closed form; below, Gauss panels that widen with the distance from x*."""
    mu = base.mu
    edge = (c.log() + mu**2 / 2) / mu
    p, q = base.tails(c)
    total = (1 - c) * q + p
    start, width = 0.0, min(WIDEST, math.exp(-14 * near(mu)) / near(mu * c))
    while near(edge) - start > -18:
        half = ball(width) / 2
        for node, weight in gauss_nodes():
            away = ball(start) + (1 + node) * half
            density = (-((edge - away) ** 2) / 2).exp() / (2 * arb.pi()).sqrt()
            total += weight * half * density * _stick(base, -c * (-mu * away).expm1())
        start, width = start + width, min(WIDEST, max(width, start * GROWTH))
    return within(total, 1e-14, 1e-40)


def _laplace(base: Laplace, c: arb) -> arb:
    """Gauss panels between the places where c - V passes zero and the least and the largest ratio, and two atoms."""
    b, reach = base.scale, 1 / base.scale
    least, most = (-reach).exp(), reach.exp()
    gone = least / 2
    total = gone * _stick(base, c - most) + _stick(base, c - least) / 2
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
                total += weight * half * density * _stick(base, c - ((2 * x - 1) / b).exp())
    return within(total, 1e-12, 1e-40)
