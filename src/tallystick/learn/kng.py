"""Least squares by the K-norm gradient mechanism: density exp(-rate * largest entry of the gradient), noise O(1/n).

The exponential mechanism loses because its score is flat at the minimiser. The norm of the gradient is not: it has a
kink there, and its sensitivity is that of one record's gradient (Theorems 7.11 and 7.12;
docs/theory/exponential-erm.md). Sampled exactly in one to three dimensions, like ``ExponentialERM``.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tallystick.accounting.adjacency import Adjacency
from tallystick.learn.cells import Score
from tallystick.learn.erm import ExponentialERM, Moments, SquaredLossRecipe, doubles, rounding
from tallystick.learn.records import Array


@dataclass(frozen=True, slots=True, eq=False)
class LargestPull:
    """rate * max over j of |sum of (target - row.theta) row_j| at theta = point * 2^-shift, as ``cells.Score``."""

    moments: Moments
    rate: Fraction
    shift: int
    bound: float

    def below(self, middle: Array, half: Array) -> tuple[Array, Array]:
        """Every entry is affine: in a box it moves by at most the sum of its slopes' sizes times half a side."""
        theta, reach = np.ldexp(middle, -self.shift), np.ldexp(half, -self.shift)
        gram, cross = doubles(self.moments)
        pull = np.abs(theta @ gram - cross)
        rate = float(self.rate)
        slopes = np.abs(gram).sum(axis=0)
        least = np.max(pull - slopes[None, :] * reach[:, None], axis=1)
        slack = rounding(self.moments, rate, self.bound, len(cross))
        return rate * least - slack, 2.0 * rate * float(slopes.max()) * reach

    def exact(self, point: tuple[int, ...]) -> Fraction:
        """In whole numbers over 2^(40 + shift)."""
        unit = 1 << self.shift
        pulls = (
            abs(unit * cross - sum(a * entry for a, entry in zip(point, line, strict=True)))
            for cross, line in zip(self.moments.cross, self.moments.gram, strict=True)
        )
        return self.rate * Fraction(max(pulls), unit << 40)


@dataclass(frozen=True, slots=True)
class GradientRecipe(SquaredLossRecipe):
    """Bounds and budget of a linear model, with the gradient's norm for a score."""

    @property
    def rate(self) -> Fraction:
        """Exponent per unit of the largest |sum of residual * entry|: epsilon/2 over what one neighbour changes.

        One record's entry is at most 1 + bound. With the gradient's factor 2 this is Delta = 2 (1 + B) under
        ADD_REMOVE and 4 (1 + B) under REPLACE, so epsilon/(4 (1 + B)) there; the notes print 8 (1 + B), which forgets
        that factor in the density and uses half the budget (erratum 22).
        """
        records = 1 if self.protects.adjacency is Adjacency.ADD_REMOVE else 2
        return Fraction(self.epsilon) / (2 * records * self.largest_residual)

    def score(self, moments: Moments) -> Score:
        """What the density is made of."""
        return LargestPull(moments, self.rate, self.shift, self.bound)


class KNormGradient(ExponentialERM):
    """Linear regression without intercept by the K-norm gradient mechanism (Example 7.7), largest entry as norm.

    Arguments as for ``ExponentialERM``: you declare the three bounds, and ``epsilon`` protects a whole person.

    >>> import numpy as np
    >>> model = KNormGradient(epsilon=1.0, feature_bound=1, target_bound=1, coefficient_bound=1)
    >>> _ = model.fit(np.ones((10_000, 1)), np.full(10_000, 0.5))
    >>> bool(abs(model.coef_[0] - 0.5) < 0.01)
    True
    """

    _slow = False

    def _recipe(self) -> GradientRecipe:
        return GradientRecipe(**self._checked())
