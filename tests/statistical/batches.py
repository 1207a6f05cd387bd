"""Many independent releases of one value at once, for counting: each uses the mechanism's own parts.

Mechanisms that act on arrays are given arrays. For private quantiles and the winsorised mean the draws that saw the
same earlier outcome go on together; ``test_mechanism_claims.py`` checks that batches have the law of single releases.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallystick.mechanisms.categorical import choose_many
from tallystick.mechanisms.quantile import Cells
from tallystick.mechanisms.randomness import SYSTEM
from tallystick.mechanisms.samplers.discrete_gaussian import discrete_gaussian
from tallystick.mechanisms.samplers.discrete_laplace import discrete_laplace
from tallystick.mechanisms.samplers.uniform import integers
from tallystick.mechanisms.selection import weights

Numbers = NDArray[Any]
Batch = Callable[[Any, Any, int], Numbers]


def one_by_one(mechanism: Any, value: Any, size: int) -> Numbers:
    """``size`` single releases, as rows of numbers."""
    prepared = mechanism.prepare(value, strict=False)
    return np.array([mechanism.draw(prepared, SYSTEM) for _ in range(size)], dtype=np.float64)


def numbered(outcomes: dict[Hashable, int]) -> Batch:
    """Single releases with finitely many outcomes, each given its number; others are -1."""

    def batch(mechanism: Any, value: Any, size: int) -> Numbers:
        prepared = mechanism.prepare(value, strict=False)
        return np.array([outcomes.get(mechanism.draw(prepared, SYSTEM), -1) for _ in range(size)])

    return batch


def scalars(mechanism: Any, value: Any, size: int) -> Numbers:
    """Additive noise on one number."""
    points = np.repeat(mechanism.prepare(value, strict=False), size)
    return np.asarray(replace(mechanism, dimension=size).draw(points, SYSTEM))


def vectors(mechanism: Any, value: Any, size: int) -> Numbers:
    """Additive noise on a vector."""
    points = np.tile(mechanism.prepare(value, strict=False), size)
    return np.asarray(mechanism.draw(points, SYSTEM)).reshape(size, mechanism.dimension)


def choices(mechanism: Any, value: Any, size: int) -> Numbers:
    """The exponential mechanism."""
    return choose_many(weights(mechanism.prepare(value, strict=False), mechanism.rate), size, SYSTEM)


def people(mechanism: Any, value: Any, size: int) -> Numbers:
    """A local mechanism: everybody gives the same answer."""
    return np.asarray(mechanism.draw(np.repeat(mechanism.prepare([value], strict=False), size), SYSTEM))


def points(cells: Cells, alpha: Fraction, rate: Fraction, size: int) -> NDArray[np.int64]:
    """Lattice points of private quantiles of the same data."""
    found = choose_many(cells.weights(alpha, rate), size, SYSTEM)
    out = cells.starts[found]
    for cell in np.unique(found):
        inside = np.flatnonzero(found == cell)
        out[inside] += integers(int(cells.counts[cell]), size=inside.size, source=SYSTEM)
    return out


def quantile_points(mechanism: Any, value: Any, size: int) -> Numbers:
    cells = Cells.of(mechanism.prepare(value, strict=False), mechanism.grid.first, mechanism.grid.last)
    return points(cells, Fraction(mechanism.alpha), mechanism.rate, size)


def two_quantiles(mechanism: Any, value: Any, size: int) -> Numbers:
    """Two levels at once: the higher first, then the lower among the records up to it."""
    data = mechanism.prepare(value, strict=False)
    low, high = (Fraction(alpha) for alpha in mechanism.alphas)
    first, last = mechanism.grid.first, mechanism.grid.last
    out = np.empty((size, 2))
    out[:, 1] = points(Cells.of(data, first, last), high, mechanism.rate(high), size)
    for found in np.unique(out[:, 1]).astype(int):
        rows = np.flatnonzero(out[:, 1] == found)
        left = Cells.of(data[data <= found], first, int(found))
        out[rows, 0] = points(left, low / high, mechanism.rate(low / high), rows.size)
    return out


def winsorized(mechanism: Any, value: Any, size: int) -> Numbers:
    """The mean in units of lattice step / count: a whole number."""
    data = mechanism.prepare(value, strict=False)
    cells, rate = Cells.of(data, mechanism.grid.first, mechanism.grid.last), Fraction(mechanism.quartile_epsilon) / 2
    lower, upper = (points(cells, alpha, rate, size) for alpha in (Fraction(1, 4), Fraction(3, 4)))
    out, span = np.empty(size), mechanism.grid.points
    pairs = (lower - mechanism.grid.first) * span + upper - mechanism.grid.first
    for pair in np.unique(pairs):
        rows = np.flatnonzero(pairs == pair)
        low, high = mechanism.widened(int(lower[rows[0]]), int(upper[rows[0]]), data.size)
        if low == high:
            out[rows] = low * data.size
            continue
        if mechanism.epsilon is not None:
            noise = discrete_laplace(2 * (high - low) / Fraction(mechanism.epsilon), size=rows.size, source=SYSTEM)
        else:
            sigma = np.nextafter((high - low) / np.sqrt(mechanism.rho), np.inf)
            noise = discrete_gaussian(float(sigma), size=rows.size, source=SYSTEM)
        out[rows] = int(np.clip(data, low, high).sum()) + noise
    return out


def groups(mechanism: Any, value: tuple[int, ...], size: int) -> Numbers:
    """Private choice of groups, with sizes where they are released: many data sets side by side, each its own groups.

    Every group is judged by itself, so data set i has the groups (i, 0), (i, 1), ... A group that is not shown is -1.
    """
    out = np.full((size, len(value)), -1.0)
    flat = {i * len(value) + j: count for i in range(size) for j, count in enumerate(value)}
    shown = mechanism.draw(mechanism.prepare(flat, strict=False), SYSTEM)
    found = np.fromiter(shown, dtype=np.int64, count=len(shown))
    sizes = np.fromiter(shown.values(), dtype=np.int64) if isinstance(shown, dict) else 1.0
    out.reshape(-1)[found] = sizes
    return out
