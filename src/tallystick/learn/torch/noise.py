"""Gaussian noise for a sum of clipped gradients, on a lattice that is public.

    secure    cryptographic bits through Box and Muller's formula in double precision: a floating-point law
    exact     whole numbers with exactly the law that is priced (``mechanisms.exact``)

Sum and noise are whole multiples of one power of two chosen from clip, noise and size alone, so the low bits of what
is released carry nothing. The noise is wider than the plan says by ``SLACK``, which pays for everything a computed sum
can differ from the true one between neighbours (``docs/theory/private-training.md``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tallystick.errors import InvalidInput
from tallystick.mechanisms.exact.integer_noise import discrete_gaussian
from tallystick.mechanisms.exact.randomness import SYSTEM, Source

SLACK = 2.0**-12
KINDS = ("secure", "exact")
_BLOCK = 1 << 16
_TURN = 2.0 * math.pi / 2.0**64


@dataclass(frozen=True, slots=True)
class LatticeNoise:
    """Noise of standard deviation ``multiplier * clip * (1 + SLACK)`` in each of ``size`` coordinates."""

    multiplier: float
    clip: float
    size: int
    kind: str = "secure"
    source: Source = SYSTEM

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidInput("noise", self.kind, " or ".join(map(repr, KINDS)))
        if not 2.0**-500 < self.clip < 2.0**500:
            raise InvalidInput("clip", self.clip, "a number between 1e-150 and 1e150")
        if self.multiplier * math.sqrt(self.size) > 2.0**29:
            raise InvalidInput("noise_multiplier", self.multiplier, "less noise: nothing could be learned from this")
        if self.kind == "exact" and self.deviation < 2.0**12 * self.granularity:
            raise InvalidInput("noise_multiplier", self.multiplier, "at least 0.01 for exact noise")

    @property
    def granularity(self) -> float:
        """The lattice: rounding a sum to it moves a vector by less than clip 2^-20."""
        return float(2.0 ** (math.floor(math.log2(self.clip)) - 20 - math.ceil(math.log2(max(1, self.size)) / 2)))

    @property
    def deviation(self) -> float:
        """The standard deviation, in the units of the gradient."""
        return self.multiplier * self.clip * (1.0 + SLACK)

    def released(self, total: Tensor) -> Tensor:
        """A flat sum in double precision, rounded to the lattice, with noise."""
        points = torch.round(total / self.granularity)
        return (points + self._drawn().to(points)) * self.granularity

    def _drawn(self) -> Tensor:
        steps = self.deviation / self.granularity
        if self.kind == "exact":
            return torch.from_numpy(discrete_gaussian(steps, size=self.size, source=self.source)).double()
        return torch.round(normal(self.size, self.source) * steps)


def normal(size: int, source: Source) -> Tensor:
    """Standard normal numbers from 64 random bits for each radius and each angle; the tail ends at 9.4.

    >>> normal(3, SYSTEM).shape
    torch.Size([3])
    """
    out = torch.empty(size, dtype=torch.float64)
    for start in range(0, size, _BLOCK):
        part = out[start : start + _BLOCK]
        half = -(-len(part) // 2)
        words = source.words(2 * half)
        radius = torch.from_numpy(_above_zero(words[:half])).log_().mul_(-2.0).sqrt_()
        angle = torch.from_numpy(words[half:].astype(np.float64)).mul_(_TURN)
        part[:half] = radius * torch.cos(angle)
        part[half:] = (radius * torch.sin(angle))[: len(part) - half]
    return out


def _above_zero(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Uniform in (0, 1]: (word + 1) / 2^64."""
    return np.asarray((words.astype(np.float64) + 1.0) * 2.0**-64)
