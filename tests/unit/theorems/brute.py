"""Slow, obvious answers on finite pairs: every event, every test, every transcript. Nothing here uses the package."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import strategies as st


def delta_by_events(p, q, ratio):
    """max over all events S of P(S) - ratio Q(S)."""
    best = 0.0
    for chosen in itertools.product([False, True], repeat=len(p)):
        mask = np.array(chosen)
        best = max(best, float(p[mask].sum() - ratio * q[mask].sum()))
    return best


def type_two_by_tests(p, q, alpha):
    """Least type-II error at level alpha over all randomised mixtures of two deterministic tests."""
    points = []
    for chosen in itertools.product([False, True], repeat=len(p)):
        mask = np.array(chosen)
        points.append((float(p[mask].sum()), 1.0 - float(q[mask].sum())))
    best = 1.0
    for (a, b), (c, d) in itertools.product(points, repeat=2):
        if a <= alpha < c:
            best = min(best, b + (d - b) * (alpha - a) / (c - a))
        elif a <= alpha:
            best = min(best, b)
    return max(0.0, best)


def product(p, q, count):
    """The pair of ``count`` independent releases."""
    first, second = np.array([1.0]), np.array([1.0])
    for _ in range(count):
        first, second = np.outer(first, p).ravel(), np.outer(second, q).ravel()
    return first, second


def hockey(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def worst_pure_delta(epsilon, steps, total):
    """k-fold randomized response, counted output by output in exact binomials."""
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    return sum(
        math.comb(steps, i) * p**i * (1 - p) ** (steps - i) * (1 - math.exp(total - (2 * i - steps) * epsilon))
        for i in range(steps + 1)
        if (2 * i - steps) * epsilon > total
    )


def _normalise(numbers):
    total = sum(numbers)
    return np.array([number / total for number in numbers])


def pairs(least=2, most=5, zeros=True):
    """Hypothesis strategy: two probability vectors over one small space, zeros allowed."""
    low = 0 if zeros else 1

    def vectors(size):
        masses = st.lists(st.integers(low, 50), min_size=size, max_size=size).filter(lambda m: sum(m) > 0)
        return st.tuples(masses.map(_normalise), masses.map(_normalise))

    return st.integers(least, most).flatmap(vectors)
