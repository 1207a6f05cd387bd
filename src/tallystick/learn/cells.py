"""Draw a lattice point of a ball with probability proportional to exp(-score), exactly, for scores known in cells.

The ball {|i_1| + ... + |i_d| <= radius} is covered by boxes, cut finer where the weight is. In each box the score has a
lower bound, so box by (number of points) exp(-bound), then a point of it at random, kept with probability
exp(bound - score), has exactly the wanted law: rejection with a proved envelope. Bounds are doubles and may be loose;
what is kept is decided with the exact score. How the boxes were cut changes the time only.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tallystick.mechanisms.exact.coins import exp_probability, flip
from tallystick.mechanisms.exact.randomness import Source
from tallystick.mechanisms.exact.uniform import integer
from tallystick.mechanisms.exact.weighted_choice import Weights, choose

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FINE = 1.0
"""A box in which the score varies by less than this is fine enough."""

MOST_BOXES = 400_000
MOST_DIMENSIONS = 3


class Score(Protocol):
    """A score >= 0 of lattice points, in doubles from below and exactly."""

    def below(self, middle: Floats, half: Floats) -> tuple[Floats, Floats]:
        """For boxes of lattice points: a proved lower bound on the score, and about how far above it the score gets."""

    def exact(self, point: tuple[int, ...]) -> Fraction:
        """The score of one point."""


@dataclass(frozen=True, slots=True, eq=False)
class Boxes:
    """Corners (the least point) and sides of boxes, with the lower bound on the score in each."""

    corners: Ints
    sides: Ints
    bounds: Floats

    def weights(self) -> Weights:
        """Points times exp(-bound); the bounds are the exact numbers they are."""
        dimensions = self.corners.shape[1]
        counts = self.sides.astype(np.float64) ** dimensions
        return Weights(
            counts,
            self.bounds,
            np.zeros(self.bounds.size),
            lambda i: (int(self.sides[i]) ** dimensions, Fraction(float(self.bounds[i]))),
        )


def draw(score: Score, *, radius: int, dimensions: int, source: Source) -> tuple[int, ...]:
    """One point of the ball with probability proportional to exp(-score).

    >>> from tallystick.mechanisms.exact.randomness import SYSTEM
    >>> class Flat:
    ...     def below(self, middle, half): return np.zeros(len(middle)), np.zeros(len(middle))
    ...     def exact(self, point): return Fraction(0)
    >>> abs(draw(Flat(), radius=2, dimensions=1, source=SYSTEM)[0]) <= 2
    True
    """
    boxes = cover(score, radius, dimensions)
    weights = boxes.weights()
    while True:
        box = choose(weights, source)
        side = int(boxes.sides[box])
        point = tuple(int(corner) + integer(side, source) for corner in boxes.corners[box])
        if sum(map(abs, point)) > radius:
            continue
        excess = score.exact(point) - Fraction(float(boxes.bounds[box]))
        if flip(exp_probability(max(excess, Fraction(0))), 1, source)[0]:
            return point


def cover(score: Score, radius: int, dimensions: int) -> Boxes:
    """Boxes that cover the ball, of which those that are fine and inside hold half the weight.

    Until then the heavier half of the others is cut; a proposal from a fine box is kept with a chance of about e^-1.
    """
    half = 1 << max(1, radius.bit_length())
    corners = np.full((1, dimensions), -half, dtype=np.int64)
    sides = np.array([2 * half], dtype=np.int64)
    bounds, coarse = _judged(score, corners, sides, radius)
    while bounds.size < MOST_BOXES:
        logs = dimensions * np.log(sides) - bounds
        shares = np.exp(logs - logs.max())
        rough = float(shares[coarse].sum())
        if rough <= 0.5 * float(shares.sum()):
            break
        split = coarse & (shares >= 0.5 * rough / np.count_nonzero(coarse))
        parts, sizes = _halves(corners[split], sides[split], radius)
        more = _judged(score, parts, sizes, radius)
        corners, sides = np.concatenate([corners[~split], parts]), np.concatenate([sides[~split], sizes])
        bounds, coarse = np.concatenate([bounds[~split], more[0]]), np.concatenate([coarse[~split], more[1]])
    return Boxes(corners, sides, bounds)


def _judged(score: Score, corners: Ints, sides: Ints, radius: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Lower bounds on the score, and which boxes are too coarse or reach out of the ball."""
    reach = (sides - 1) / 2.0
    bounds, above = score.below(corners + reach[:, None], reach)
    crossing = np.maximum(np.abs(corners), np.abs(corners + sides[:, None] - 1)).sum(axis=1) > radius
    return np.maximum(bounds, 0.0), ((above > FINE) | crossing) & (sides > 1)


def _halves(corners: Ints, sides: Ints, radius: int) -> tuple[Ints, Ints]:
    """The 2^d halves of every box that have a point of the ball."""
    dimensions = corners.shape[1]
    shifts = np.array(np.meshgrid(*[[0, 1]] * dimensions)).reshape(dimensions, -1).T
    half = sides // 2
    parts = (corners[:, None, :] + shifts[None, :, :] * half[:, None, None]).reshape(-1, dimensions)
    sizes = np.repeat(half, len(shifts))
    nearest = np.maximum(0, np.maximum(parts, -(parts + sizes[:, None] - 1)))
    inside = nearest.sum(axis=1) <= radius
    return parts[inside], sizes[inside]
