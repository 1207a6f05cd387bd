"""Comparing losses: the certified Blackwell order, and the smallest Gaussian above a loss."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from tallystick.accounting import gdp
from tallystick.accounting.direction import OneDirection
from tallystick.accounting.leaves.nested import Composed
from tallystick.accounting.loss import PrivacyLoss
from tallystick.accounting.readout import Reader, reader
from tallystick.errors import AdjacencyMismatch


def at_most(left: PrivacyLoss, right: PrivacyLoss) -> bool:
    """True only when certified: delta_left <= delta_right at every epsilon, in both directions."""
    if left.adjacency is not right.adjacency and left.terms and right.terms:
        raise AdjacencyMismatch(left.adjacency, right.adjacency)
    if left == right or not left.terms:
        return True
    ours, theirs = reader(left), reader(right)
    goal = _point_goal(right)
    if goal is not None:
        epsilon, delta = goal
        if delta == 0.0:
            # The largest loss is known exactly; a delta read numerically never is exactly zero.
            return ours.epsilon_bounds(0.0).upper <= epsilon
        return ours.delta_bounds(epsilon).upper <= delta
    if theirs.sides[0].route == "gaussian" and right.group == 1:
        return ours.gdp_bound() <= theirs.sides[0].mu
    return _knotwise(ours, theirs)


def _point_goal(loss: PrivacyLoss) -> tuple[float, float] | None:
    """(epsilon, delta) if the loss is exactly one (epsilon, delta)-DP leaf: then one point decides."""
    if loss.group != 1 or len(loss.terms) != 1 or loss.terms[0][1] != 1:
        return None
    return loss.terms[0][0].point


def _knotwise(ours: Reader, theirs: Reader) -> bool:
    """Between knots our chord must stay below their lower bound at the right knot (both are decreasing)."""
    top = ours.epsilon_bounds(1e-12).upper
    if not math.isfinite(top) or max(s.infinity for s in ours.sides) > min(s.infinity for s in theirs.sides):
        return False
    highest = max(s.highest for s in ours.sides)
    if highest > min(s.highest for s in theirs.sides):
        return False
    knots = np.unique(np.concatenate([np.linspace(0.0, top, 40), np.geomspace(max(top, 1e-6), 8 * max(top, 1e-6), 20)]))
    upper = [ours.delta_bounds(float(e)).upper for e in knots]
    lower = [theirs.delta_bounds(float(e)).lower for e in knots]
    inside = all(u <= nxt for u, nxt in zip(upper[:-1], lower[1:], strict=True))
    return inside and upper[-1] <= 0.0


def least_mu(reading: Reader) -> float:
    """Upper bound on the smallest mu with delta(eps) <= delta_mu(eps) for every eps.

    Exact for Gaussians. A bounded loss is checked on a ladder up to its largest value, each rung against the
    next one's epsilon (delta decreases, so that certifies the interval). An unbounded sampled loss is at
    most its unsampled base (sampling never hurts). Otherwise no finite mu is certain.
    """
    side = reading.closed_group or reading.sides[0]
    if side.route == "nothing":
        return 0.0
    if side.route == "gaussian" and (reading.loss.group == 1 or reading.closed_group is not None):
        return side.mu
    if any(s.infinity > 0.0 for s in reading.sides):
        return math.inf
    highest = reading.loss.group * max(s.highest for s in reading.sides)
    if not math.isfinite(highest):
        return _unsampled_mu(reading)
    ladder = highest * np.linspace(0.0, 1.0, 400)
    best = 0.0
    for here, there in pairwise(ladder):
        delta = reading.delta_bounds(float(here)).upper
        if gdp.delta_bounds(best, float(there)).lower < delta:
            best = _least_mu_at(float(there), delta)
    return best


def _least_mu_at(epsilon: float, delta: float) -> float:
    low, high = 0.0, 1.0
    while gdp.delta_bounds(high, epsilon).lower < delta and high < 1e6:
        high *= 2.0
    for _ in range(80):
        middle = 0.5 * (low + high)
        if gdp.delta_bounds(middle, epsilon).lower < delta:
            low = middle
        else:
            high = middle
    return high


def _unsampled_mu(reading: Reader) -> float:
    total = 0.0
    for leaf, count in reading.loss.terms:
        base = leaf.unamplified
        mu = base.gaussian_mu
        if mu is None:
            terms = base.terms if isinstance(base, Composed) else ((base, 1),)
            alone = PrivacyLoss(terms, reading.loss.protects)
            bounded = OneDirection.of(alone.terms, reading.sides[0].direction)
            if not math.isfinite(bounded.highest) or bounded.infinity > 0.0:
                return math.inf
            mu = least_mu(reader(alone))
        total += count * mu * mu
        if len(reading.loss.terms) == 1 and count == 1:
            return reading.loss.group * mu
    return reading.loss.group * math.sqrt(total) * (1.0 + 1e-14)
