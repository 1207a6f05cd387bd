"""What a noise law on the integers must know of itself. A law, its noise and its verbs are one file beside this one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting.adjacency import Protects
from tallystick.mechanisms.exact.randomness import Source

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

UP = 1 + 1e-12
"""More than the roundings of the tail formulas."""


class NoiseLaw(ABC):
    """A symmetric log-concave law on the integers, made from its ``scale`` alone.

    ``order`` is that of the norm it protects: L1 or L2. ``currency`` is what ``cost`` counts: epsilon or rho.
    """

    __slots__ = ()
    name: ClassVar[str]
    order: ClassVar[int]
    currency: ClassVar[str]

    @property
    @abstractmethod
    def scale(self) -> float:
        """The one parameter, in lattice units."""

    @abstractmethod
    def cost(self, norm: Fraction) -> Fraction:
        """What it costs, exactly, to protect a vector; ``norm`` is as in ``norm_privacy``."""

    @classmethod
    @abstractmethod
    def that_costs(cls, norm: Fraction, most: Fraction) -> NoiseLaw:
        """The law of the least scale, to a rounding, whose ``cost`` is at most this."""

    @abstractmethod
    def draw(self, size: int, source: Source) -> NDArray[np.int64]:
        """Independent exact draws."""

    @abstractmethod
    def one(self, source: Source) -> int:
        """A single exact draw, some five microseconds."""

    @abstractmethod
    def mass(self, points: NDArray[np.int64]) -> NDArray[np.float64]:
        """Probability of each integer: the law is public, so inference may use it (Remark 3.7). For pictures too."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """Of one draw, in squared lattice units."""

    @abstractmethod
    def half_width(self, miss: float) -> int:
        """Least w (Laplace, summed Gaussian; otherwise at most one more) with P(|noise| > w) <= miss."""

    @abstractmethod
    def upper_tail(self, least: int) -> float:
        """P(noise >= least), from above."""

    @abstractmethod
    def deviations(self, confidence: float) -> float:
        """Standard deviations in a two-sided interval for a sum of several noises of this kind."""

    @abstractmethod
    def shift_privacy(self, steps: int, protects: Protects) -> PrivacyLoss:
        """The pair of the law against its shift by this many lattice points: exact, or a continuous pair above it."""

    @abstractmethod
    def norm_privacy(self, norm: Fraction, protects: Protects) -> PrivacyLoss:
        """A proven bound for vectors; ``norm`` is the norm of the law's order to the power of that order."""


def normal_deviations(confidence: float) -> float:
    """Standard deviations in a two-sided interval of a normal variable."""
    return NormalDist().inv_cdf((1.0 + confidence) / 2.0)
