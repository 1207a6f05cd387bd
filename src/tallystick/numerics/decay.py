"""How fast a characteristic function must decay: a bound that holds for every larger t.

Let f be the density of a law tilted by theta. Cut f from below into layers, f >= sum of h_j 1[a_j, b_j], around its
mode. A uniform law on an interval of length l has |characteristic function| = |sinc(t l / 2)|, so

    |M(theta + i t)| / M(theta)  <=  rho(t) = rest + sum of w_j env(t (b_j - a_j) / 2),   w_j = h_j (b_j - a_j),

with env a non-increasing majorant of |sin x / x| and rest = 1 - sum of w_j (atoms, second modes). Since env does not
increase, rho(t) bounds the ratio at every t' >= t too: no sampling of |M| is involved.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tallystick.numerics.law import Array, Law, Segment, panel_nodes
from tallystick.numerics.line_decay import LineDecay

Index = npt.NDArray[np.int64]

LEVELS = 120
MODES = 4
SAFETY = 0.97
"""Share of the smallest mean density of a cell and its neighbours that is counted on inside the cell."""


@dataclass(frozen=True, slots=True, eq=False)
class Decay:
    """Layers of one tilted law: lengths and weights; ``rest`` has no decay; ``size`` and ``turns`` tell the cost.

    Gaussian lines have a bound of their own, each with its share of the tilted mass.
    """

    lengths: Array
    weights: Array
    rest: float
    lines: tuple[tuple[LineDecay, float], ...]
    size: int
    turns: float
    _kept: dict[float, float] = field(default_factory=dict)

    @staticmethod
    @lru_cache(maxsize=1024)
    def of(law: Law, theta: float) -> Decay:
        lines = [LineDecay.of(s.line, theta) for s in law.segments if s.line is not None]
        meshes = [_mesh(s, theta) for s in law.segments if s.line is None]
        logs = [theta * law.atoms + law.log_masses, *(masses for _, masses in meshes)]
        logs.append(np.array([line.log_norm for line in lines]))
        top = max(float(np.max(part)) for part in logs if part.size)
        total = float(sum(np.sum(np.exp(part - top)) for part in logs))
        shares = tuple((line, math.exp(line.log_norm - top) / total) for line in lines)
        lengths, weights = [np.zeros(0)], [np.zeros(0)]
        for edges, masses in meshes:
            found = _layers(edges, np.exp(masses - top) / total)
            lengths.append(found[0])
            weights.append(found[1])
        all_weights = np.concatenate(weights)
        smooth = float(np.sum(all_weights)) + sum(share for _, share in shares)
        # Without atoms and meshes nothing is left over, and nothing is known to be missing.
        rest = max(0.0, 1.0 - smooth) + 1e-12 if law.atoms.size or meshes else 0.0
        size, turns = law.atoms.size, 0.0
        for segment in law.segments:
            if segment.line is not None:
                size, turns = size + 200, turns + 3.5 * segment.line.mu
            elif not segment.exponential:
                reach = float(np.ptp(segment.loss(np.array([segment.low, segment.high]))))
                size, turns = size + 8 * segment.edges().size, turns + 3.0 * reach
        return Decay(np.concatenate(lengths), all_weights, rest, shares, max(size, 1), turns)

    def log_bound(self, time: float) -> float:
        """log of rho at ``time``, which holds for every larger one; never above zero."""
        found = self._kept.get(time)
        if found is None:
            total = self.rest + sum(share * line.bound(time) for line, share in self.lines)
            if self.lengths.size:
                total += float(np.dot(envelope(0.5 * time * self.lengths), self.weights))
            found = self._kept[time] = min(0.0, math.log(total)) if total > 0.0 else -math.inf
        return found

    def cost(self, last: float) -> float:
        """About how many exponentials one node at the largest t costs."""
        return self.size + last * self.turns


def envelope(x: Array) -> Array:
    """A non-increasing majorant of |sin x / x| on x >= 0.

    >>> import numpy as np
    >>> x = np.linspace(1e-9, 60, 100001)
    >>> bool(np.all(envelope(x) + 1e-15 >= np.abs(np.sin(x) / x))) and bool(np.all(np.diff(envelope(x)) <= 1e-15))
    True
    """
    square = x * x
    near = np.maximum(1.0 - square / 6.0 + square * square / 120.0, 0.5)
    with np.errstate(divide="ignore"):
        return np.where(x <= 2.0, near, 1.0 / x)


def _mesh(segment: Segment, theta: float) -> tuple[Array, Array]:
    """Cell edges in the value and log of the tilted mass of each cell, on a fine mesh of x."""
    low, high = segment.low, segment.high
    edges = np.linspace(low, high, max(800, min(3000, math.ceil((high - low) / 0.02))) + 1)
    x, log_weight = panel_nodes(edges, 4)
    exponent = (theta * segment.loss(x) + segment.log_density(x) + log_weight).reshape(-1, 4)
    top = exponent.max(axis=1)
    masses: Array = top + np.log(np.sum(np.exp(exponent - top[:, None]), axis=1))
    return segment.loss(edges), masses


def _layers(edges: Array, masses: Array) -> tuple[Array, Array]:
    """Lengths and weights of the layers under a density given by cell masses, mode after mode."""
    widths = np.diff(edges)
    with np.errstate(divide="ignore", invalid="ignore"):
        density = np.where(widths > 0, masses / widths, 0.0)
    padded = np.concatenate([density[:1], density, density[-1:]])
    # Where the density is monotone over three cells, the smallest of their means is below it in the middle one;
    # at an extremum the difference is of second order in the mesh, which SAFETY covers.
    free = SAFETY * np.minimum(np.minimum(padded[:-2], padded[1:-1]), padded[2:])
    lengths, weights = [], []
    for _ in range(MODES):
        mode = int(np.argmax(free * widths))
        if free[mode] <= 0.0:
            break
        starts, ends, heights = _around(free, mode)
        length = edges[ends] - edges[starts]
        lengths.append(length)
        weights.append(heights * length)
        used = np.zeros(free.size + 1)
        np.add.at(used, starts, heights)
        np.add.at(used, ends, -heights)
        free = np.maximum(free - np.cumsum(used)[:-1] * (1.0 + 1e-12), 0.0)
    if not lengths:
        return np.zeros(0), np.zeros(0)
    return np.concatenate(lengths), np.concatenate(weights)


def _around(free: Array, mode: int) -> tuple[Index, Index, Array]:
    """Cells [start, end) of the level sets around a mode, and the height of each layer."""
    left = np.minimum.accumulate(free[: mode + 1][::-1])
    right = np.minimum.accumulate(free[mode:])
    levels = free[mode] * np.exp(-np.linspace(0.0, 18.0, LEVELS))
    starts = mode - np.searchsorted(-left, -levels, side="right") + 1
    ends = mode + np.searchsorted(-right, -levels, side="right")
    return starts, ends, levels - np.append(levels[1:], 0.0)
