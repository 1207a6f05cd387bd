"""Gaussian noise for a sum of clipped gradients, on a lattice that is public.

    secure    cryptographic bits through Box and Muller's formula in double precision: a floating-point law
    exact     whole numbers with exactly the law that is priced (``mechanisms.exact``)

Sum and noise are whole multiples of one power of two chosen from clip, noise and size alone, so the low bits of what
is released carry nothing. The noise is wider than the plan says by ``SLACK``, which pays for everything a computed sum
can differ from the true one between neighbours (``docs/theory/private-training.md``): exact noise wants sums in double
precision, secure noise takes them in single precision and pays more for that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tallystick.errors import InvalidInput
from tallystick.mechanisms.exact.integer_noise import discrete_gaussian
from tallystick.mechanisms.exact.randomness import SYSTEM, Source

SLACK = {"secure": 2.0**-8, "exact": 2.0**-12}
SUMS = {"secure": torch.float32, "exact": torch.float64}
"""In which precision examples are summed at most coarsely, and how much wider the noise is for it."""

_BLOCK = 1 << 16  # a block at a time stays in the cache
_TURN = 2.0 * math.pi / 2.0**64
_NEVER_ZERO = torch.tensor(2.0**-128, dtype=torch.float64)


@dataclass(frozen=True, slots=True)
class LatticeNoise:
    """Noise of standard deviation ``multiplier * clip * (1 + SLACK[kind])`` in each of ``size`` coordinates."""

    multiplier: float
    clip: float
    size: int
    kind: str = "secure"
    source: Source = SYSTEM

    def __post_init__(self) -> None:
        if self.kind not in SLACK:
            raise InvalidInput("noise", self.kind, " or ".join(map(repr, SLACK)))
        if not 1e-9 <= self.clip <= 1e12:  # squares of what is near the clip must not vanish or overflow
            raise InvalidInput("clip", self.clip, "a number between 1e-9 and 1e12")
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
        return self.multiplier * self.clip * (1.0 + SLACK[self.kind])

    def released(self, total: Tensor, divisor: float = 1.0, dtype: torch.dtype = torch.float64) -> Tensor:
        """A flat sum, rounded to the lattice, with noise; then divided by a public number. Writes over ``total``."""
        out = total if total.dtype == dtype else torch.empty(self.size, dtype=dtype, device=total.device)
        step, width = self.granularity, self.deviation / self.granularity
        points, half = (torch.empty(n, dtype=torch.float64) for n in (_BLOCK, _BLOCK // 2))
        for part, to in zip(total.split(_BLOCK), out.split(_BLOCK), strict=True):
            size = part.numel()
            if size < _BLOCK:  # the last one
                points, half = points[:size], half[: (size + 1) // 2]
            points.copy_(part.mul_(1.0 / step).round_())  # a power of two: exact in single precision too
            to.copy_(points.add_(self._drawn(half, width)[:size])).mul_(step / divisor)
        return out

    def _drawn(self, half: Tensor, width: float) -> Tensor:
        """Whole numbers, twice as many as half has: noise in steps of the lattice."""
        if self.kind == "exact":
            drawn = discrete_gaussian(width, size=2 * half.numel(), source=self.source)
            return torch.from_numpy(drawn).to(torch.float64)
        return normal(half, width, self.source).round_()


def normal(half: Tensor, width: float, source: Source) -> Tensor:
    """Normal numbers of a width, twice as many as there is room in ``half``, which is needed on the way.

    63 random bits for each radius, never 0, and 64 for each angle; the tail ends at 9.4 widths. Fewer bits for an angle
    would be quicker, and would show: what is released lies on a lattice, and few angles reach only some of its points.
    Everything stays in the memory of the bits, because a second array as large would leave no room in the cache.

    >>> normal(torch.empty(2, dtype=torch.float64), 1.0, SYSTEM).shape
    torch.Size([4])
    """
    words = torch.from_numpy(source.words(2 * half.numel()).view(np.int64))  # signed: turned into doubles fastest
    both = words.view(torch.float64).copy_(words)
    radius, angle = both.view(2, -1)
    torch.addcmul(_NEVER_ZERO, radius, radius, value=2.0**-126, out=radius)  # the square of a number in (0, 1]
    radius.log_().mul_(-width * width).sqrt_()
    torch.cos(angle.mul_(_TURN), out=half)
    angle.sin_().mul_(radius)
    radius.mul_(half)
    return both
