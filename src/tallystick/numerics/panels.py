"""Gauss-Legendre panels of smooth pieces, and the nodes of one piece kept for many thresholds.

Reading a curve asks the same piece for E[(1 - e^{t - X})_+] at many thresholds t. Only the panel with t in it, and
those in which e^{t - X} bends, are different for each: everything above is summed from nodes that were made once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from tallystick.numerics.law import Array, Segment

Part = tuple[int, float, int, int]
"""A threshold with its place in a list, and the edges between which a piece is still to be integrated for it."""

NODES = 8
"""Nodes of one panel, as ``Segment.panel`` promises."""

FAR = 40.0
"""Losses so far above a threshold that 1 - e^{threshold - loss} is one."""

BEND = np.linspace(0.0, FAR, 17)
"""Losses above a threshold between which that is resolved, however steep the loss is."""

STEEP = 1.0
"""A change of the loss within one panel from which the panel is divided there."""

NOTHING = 1e-18
"""Share of an answer that is left out of it."""


@lru_cache(maxsize=8)
def _gauss_legendre(count: int) -> tuple[Array, Array]:
    points, weights = np.polynomial.legendre.leggauss(count)
    return points, weights


def panel_nodes(edges: Array, count: int) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and log-weights on consecutive panels, flattened in order."""
    points, weights = _gauss_legendre(count)
    half = 0.5 * np.diff(edges)[:, None]
    x = 0.5 * (edges[1:] + edges[:-1])[:, None] + half * points
    with np.errstate(divide="ignore"):
        log_weight = np.log(half * weights)
    return x.ravel(), log_weight.ravel()


def excess_between(segment: Segment, edges: Array, threshold: float, *, steep: bool = True) -> float:
    """The integral of density (1 - e^{threshold - loss})_+ over these panels, divided where that bends if ``steep``."""
    if steep:
        bend = segment.inverse(threshold + BEND)
        edges = np.union1d(edges, bend[(bend > edges[0]) & (bend < edges[-1])])
    x, log_weight = panel_nodes(edges, NODES)
    gain = -np.expm1(np.minimum(threshold - segment.loss(x), 0.0))
    return float(np.sum(np.exp(segment.log_density(x) + log_weight) * gain))


@dataclass(frozen=True, slots=True, eq=False)
class Panels:
    """One piece of a law at its nodes: losses and masses, NODES for each panel."""

    segment: Segment
    edges: Array
    losses: Array
    """Of the edges, increasing."""
    values: Array
    """Losses of the nodes."""
    masses: Array
    """Of the nodes."""
    each: Array
    """Mass of each panel."""
    above: Array
    """Mass of each panel and all panels after it; zero after the last."""
    steep: npt.NDArray[np.intp]
    """The panels that are divided where e^{threshold - loss} bends."""

    @staticmethod
    def of(segment: Segment) -> Panels:
        edges = segment.edges()
        x, log_weight = panel_nodes(edges, NODES)
        masses = np.exp(segment.log_density(x) + log_weight)
        losses = np.maximum.accumulate(segment.loss(edges))
        each = masses.reshape(-1, NODES).sum(axis=1)
        above = np.append(np.cumsum(each[::-1])[::-1], 0.0)
        steep = np.flatnonzero(np.diff(losses) > STEEP)
        return Panels(segment, edges, losses, segment.loss(x), masses, each, above, steep)

    def excess(self, threshold: float) -> tuple[float, int, int]:
        """The integral over whole panels above a threshold, and between which edges it is still to be taken."""
        first = int(np.searchsorted(self.losses, threshold))
        if first == self.losses.size:
            return 0.0, first, first
        far = max(first, int(np.searchsorted(self.losses, threshold + FAR)))
        index = int(np.searchsorted(self.steep, far))
        start = max(first, int(self.steep[index - 1]) + 1) if index else first
        nodes = slice(NODES * start, NODES * min(max(start, far), self.edges.size - 1))
        total = float(np.dot(self.masses[nodes], -np.expm1(np.minimum(threshold - self.values[nodes], 0.0))))
        return total + float(self.above[min(max(start, far), self.edges.size - 1)]), max(0, first - 1), start

    def rests(self, parts: Sequence[Part]) -> Array:
        """``rest`` of several thresholds; where one flat panel is left of each, all of them at once."""
        bent = [end > begin + 1 or self.losses[end] - self.losses[begin] > STEEP for _, _, begin, end in parts]
        if len(parts) == 1 or any(bent):
            return np.array([self.rest(threshold, begin, end) for _, threshold, begin, end in parts])
        levels = np.array([threshold for _, threshold, _, _ in parts])
        last = np.array([end for _, _, _, end in parts])
        high = self.edges[last]
        low = np.minimum(np.maximum(self.segment.inverse(levels), self.edges[last - 1]), high)
        points, weights = _gauss_legendre(NODES)
        half = 0.5 * (high - low)[:, None]
        x = (0.5 * (high + low)[:, None] + half * points).ravel()
        gain = -np.expm1(np.minimum(levels.repeat(NODES) - self.segment.loss(x), 0.0))
        masses = np.exp(self.segment.log_density(x)) * (half * weights).ravel()
        return np.asarray((masses * gain).reshape(-1, NODES).sum(axis=1))

    def rest(self, threshold: float, begin: int, end: int) -> float:
        """The integral over the panels between two edges that ``excess`` left."""
        low = float(self.segment.inverse(np.array([threshold]))[0])
        inside = self.edges[begin : end + 1]
        edges = np.append(max(low, float(inside[0])), inside[inside > low])
        steep = end > begin + 1 or self.losses[end] - self.losses[begin] > STEEP
        return excess_between(self.segment, edges, threshold, steep=steep) if edges.size > 1 else 0.0

    def most(self, threshold: float, begin: int, end: int) -> float:
        """No less than ``rest``: all mass there with the largest gain."""
        gain = -math.expm1(min(0.0, threshold - float(self.losses[end])))
        return float(np.sum(self.each[begin:end])) * gain


def excesses_of(pieces: tuple[Panels, ...], thresholds: Array) -> Array:
    """The integral of (1 - e^{threshold - loss})_+ over all pieces, at several thresholds, which are read together.

    What is NOTHING beside the rest is left out.
    """
    total = np.zeros(thresholds.size)
    left: list[tuple[Panels, list[Part], Array]] = []
    for piece in pieces:
        found = [piece.excess(t) for t in thresholds.tolist()]
        total += [sums for sums, _, _ in found]
        parts = [(k, t, i, j) for k, (t, (_, i, j)) in enumerate(zip(thresholds.tolist(), found, strict=True)) if i < j]
        if parts:
            left.append((piece, parts, np.array([piece.most(t, i, j) for _, t, i, j in parts])))
    for piece, parts, most in sorted(left, key=lambda one: -float(np.max(one[2]))):
        counts = [part for part, height in zip(parts, most.tolist(), strict=True) if height > NOTHING * total[part[0]]]
        if counts:
            total[[place for place, _, _, _ in counts]] += piece.rests(counts)
    return total
