"""Blackwell's theorem on finite pairs, and the tight pair of a finite mechanism (Theorem 13.2, section 14.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from tallystick.errors import InvalidInput
from tallystick.theorems import require
from tallystick.theorems.piecewise import PiecewiseTradeoff, lower_hull
from tallystick.theorems.require import Floats

_MOST_CELLS = 10_000
_NEAR = 1e-9


@dataclass(frozen=True, slots=True)
class Channel:
    """A randomized function: row i is the law of the new outcome where the old one was i.

    It maps P and Q within ``distance`` (the largest difference of a mass) of P' and Q'.
    """

    matrix: Floats
    distance: float


@dataclass(frozen=True, slots=True)
class SeparatingTest:
    """Reason why no channel exists: at this level a test of P' against Q' is better than one of P against Q.

    ``before`` and ``after`` are the least type-II errors, T(P, Q)(level) > T(P', Q')(level).
    """

    level: float
    before: float
    after: float


def blackwell_channel(
    p: Sequence[float] | Floats,
    q: Sequence[float] | Floats,
    to_p: Sequence[float] | Floats,
    to_q: Sequence[float] | Floats,
) -> Channel | SeparatingTest:
    """A channel that turns (P, Q) into (P', Q'), or a test which shows that no channel exists.

    Theorem 13.2 of the lecture notes (Blackwell 1951): one of the two exists. The channel is a linear programme; where
    the two trade-off functions touch to within 1e-9 a channel that is as close is returned with its ``distance``.
    Page ``theory/post-processing.md``.

    >>> found = blackwell_channel([0.9, 0.1], [0.1, 0.9], [0.7, 0.3], [0.3, 0.7])
    >>> found.matrix.round(3).tolist(), found.distance < 1e-9
    ([[0.75, 0.25], [0.25, 0.75]], True)
    >>> none = blackwell_channel([0.7, 0.3], [0.3, 0.7], [0.9, 0.1], [0.1, 0.9])
    >>> round(none.level, 3), round(none.before, 3), round(none.after, 3)
    (0.1, 0.767, 0.1)
    """
    first, second = require.pair(p, q)
    wanted, other = require.pair(to_p, to_q)
    if first.size * wanted.size > _MOST_CELLS:
        raise InvalidInput("p", f"{first.size} and {wanted.size} outcomes", f"at most {_MOST_CELLS} cells of a channel")
    before, after = PiecewiseTradeoff.of_pair(first, second), PiecewiseTradeoff.of_pair(wanted, other)
    levels = np.union1d(before.alphas, after.alphas)
    gaps = before(levels) - after(levels)
    worst = int(np.argmax(gaps))
    if gaps[worst] > _NEAR:
        level = float(levels[worst])
        return SeparatingTest(level, float(before(level)), float(after(level)))
    return _channel(first, second, wanted, other)


def _channel(p: Floats, q: Floats, to_p: Floats, to_q: Floats) -> Channel:
    """The channel whose images are nearest; outcomes that neither law shows go anywhere."""
    from scipy.optimize import linprog

    n, m = p.size, to_p.size
    # variables: the n m entries row by row, then the distance t
    images = np.vstack([np.kron(law, np.eye(m)) for law in (p, q)])
    target = np.concatenate([to_p, to_q])
    least = np.concatenate([np.zeros(n * m), [1.0]])
    loose = -np.ones((2 * m, 1))
    solved = linprog(
        least,
        A_ub=np.vstack([np.hstack([images, loose]), np.hstack([-images, loose])]),
        b_ub=np.concatenate([target, -target]),
        A_eq=np.hstack([np.kron(np.eye(n), np.ones(m)), np.zeros((n, 1))]),
        b_eq=np.ones(n),
        method="highs",
    )
    assert solved.x is not None  # the programme is feasible: t may be 1
    matrix = np.maximum(np.asarray(solved.x)[:-1].reshape(n, m), 0.0)
    matrix /= matrix.sum(axis=1, keepdims=True)
    distance = max(float(np.max(np.abs(p @ matrix - to_p))), float(np.max(np.abs(q @ matrix - to_q))))
    return Channel(matrix, distance)


@dataclass(frozen=True, slots=True)
class TightPair:
    """The greatest trade-off function under all neighbours', and the neighbours that attain it, if some do.

    ``data_sets`` is None if no two datasets are the worst at every level: the pair of ``tradeoff`` then does not belong
    to two datasets.
    """

    tradeoff: PiecewiseTradeoff
    data_sets: tuple[int, int] | None


def tight_pair(laws: Sequence[Sequence[float]], neighbours: Sequence[tuple[int, int]]) -> TightPair:
    """The tight dominating pair of a finite mechanism, given by the law of its output on every dataset.

    Each pair of ``neighbours`` counts both ways round. Section 14.4 and Proposition 14.3 of the lecture notes;
    page ``theory/tradeoff-functions.md``. The curve is the hull of the least of all; corners are exact up to rounding.

    >>> found = tight_pair([[0.8, 0.2, 0.0], [0.8, 0.0, 0.2], [0.75, 0.25, 0.0], [0.25, 0.75, 0.0]], [(0, 1), (2, 3)])
    >>> found.data_sets, float(found.tradeoff(0.0)), float(found.tradeoff(0.25))
    (None, 0.8, 0.25)
    """
    if not neighbours:
        raise InvalidInput("neighbours", neighbours, "at least one pair of datasets")
    masses = [require.distribution("laws", law) for law in laws]
    if len({law.size for law in masses}) != 1:
        raise InvalidInput("laws", "laws of several lengths", "laws over one space")
    both = list(chain.from_iterable(((i, j), (j, i)) for i, j in neighbours))
    if any(type(i) is not int or not 0 <= i < len(masses) for one in both for i in one):
        raise InvalidInput("neighbours", neighbours, f"pairs of places from 0 to {len(masses) - 1}")
    curves = {one: PiecewiseTradeoff.of_pair(masses[one[0]], masses[one[1]]) for one in both}
    points = [(curve.alphas, curve.betas) for curve in curves.values()]
    whole = lower_hull(*(np.concatenate(part) for part in zip(*points, strict=True)))
    levels = np.asarray(whole.alphas)
    attained = [one for one, curve in curves.items() if np.all(curve(levels) <= whole(levels) + _NEAR)]
    return TightPair(whole, attained[0] if attained else None)
