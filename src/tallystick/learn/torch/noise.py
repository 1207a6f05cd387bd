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
        return self.multiplier * self.clip * (1.0 + SLACK)

    def released(self, total: Tensor, divisor: float = 1.0, dtype: torch.dtype = torch.float64) -> Tensor:
        """A flat sum in double precision, rounded to the lattice, with noise; then divided by a public number."""
        out = torch.empty(self.size, dtype=dtype, device=total.device)
        steps = self.deviation / self.granularity
        for start in range(0, self.size, _BLOCK):  # a block at a time stays in the cache
            part = total[start : start + _BLOCK].div(self.granularity).round_()
            if self.kind == "exact":
                drawn = torch.from_numpy(discrete_gaussian(steps, size=len(part), source=self.source))
            else:
                drawn = normal(len(part), self.source).mul_(steps).round_()
            part.add_(drawn.to(part.device)).mul_(self.granularity)
            out[start : start + _BLOCK] = part.div_(divisor) if divisor != 1.0 else part
        return out


def normal(size: int, source: Source) -> Tensor:
    """Standard normal numbers from 63 random bits for each radius and 64 for each angle; the tail ends at 9.3.

    >>> normal(3, SYSTEM).shape
    torch.Size([3])
    """
    half = -(-size // 2)
    words = torch.from_numpy(source.words(2 * half).view(np.int64))  # torch turns signed words into doubles fastest
    radius = words[:half].bitwise_and(2**63 - 1).double().add_(1.0).mul_(2.0**-63).log_().mul_(-2.0).sqrt_()
    angle = words[half:].double().mul_(_TURN)
    out = torch.empty(2 * half, dtype=torch.float64)
    torch.cos(angle, out=out[:half]).mul_(radius)
    torch.sin(angle, out=out[half:]).mul_(radius)
    return out[:size]
