"""Gauss-Legendre panels of smooth pieces, and the nodes of one piece kept for many thresholds.

Reading a curve asks the same piece for E[(1 - e^{t - X})_+] at many thresholds t. Only the panel with t in it, and
those in which e^{t - X} bends, are different for each: everything above is summed from nodes that were made once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from tallystick.numerics.law import Array, Segment

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
    """The same with all panels after it; zero after the last."""
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


def excess_of(pieces: tuple[Panels, ...], threshold: float) -> float:
    """The integral of (1 - e^{threshold - loss})_+ over all pieces; what is NOTHING beside the rest is left out."""
    found = [piece.excess(threshold) for piece in pieces]
    total = math.fsum(part for part, _, _ in found)
    left = [(piece.most(threshold, i, j), piece, i, j) for piece, (_, i, j) in zip(pieces, found, strict=True) if i < j]
    for most, piece, begin, end in sorted(left, key=lambda one: -one[0]):
        if most > NOTHING * total:
            total += piece.rest(threshold, begin, end)
    return total
