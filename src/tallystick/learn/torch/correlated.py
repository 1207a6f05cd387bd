"""Noise that partly takes back earlier noise, for cyclic batches: the same price, much less of it in the sum of steps.

Released is C G + Z (rows are steps, G the clipped sums, Z independent noise); the model sees G + C^-1 Z, which is a
function of it, so any such C costs what C G + Z costs: the Gaussian mechanism with the sensitivity of C G, also when
gradients depend on earlier releases, because C is lower triangular (Denisov et al. 2022). C is the truncated square
root of the prefix sum, c_j = binom(2j, j) / 4^j for j below the band. With the band equal to the turn of a cyclic plan
the columns of one record's steps do not overlap, so k turns cost k Gaussian releases; of which sensitivity is what
``ts.correlated`` says of one turn (``accounting/leaves/correlated.py``), and the noise is wider by as much.

A run that starts again has forgotten its past noise and begins with an empty one. That is the same release with a
block-diagonal C, whose columns are no longer: nothing is refused, and no step is drawn twice (``ledger.training``).
"""

from __future__ import annotations

from collections import deque

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tallystick.accounting.losses import correlated
from tallystick.learn.torch.noise import LatticeNoise
from tallystick.mechanisms.base import OnlyOne
from tallystick.mechanisms.exact.randomness import SYSTEM, Source


def coefficients(band: int) -> NDArray[np.float64]:
    """c_0, ..., c_(band - 1) of the square root of the prefix sum.

    >>> coefficients(4).tolist()
    [1.0, 0.5, 0.375, 0.3125]
    """
    later = 1.0 - 0.5 / np.arange(1.0, band)
    return np.concatenate([[1.0], np.cumprod(later)])


class CorrelatedNoise(OnlyOne):
    """Like ``LatticeNoise``, with a memory of ``band - 1`` vectors; a floating-point law."""

    kind = "secure"

    def __init__(self, multiplier: float, clip: float, size: int, band: int, source: Source = SYSTEM) -> None:
        super().__init__()  # nor is it ever stored: who has past noise takes it off what was released
        self.weights = coefficients(band)
        turn = correlated(sigma=1.0, steps=band, coefficients=self.weights, uses=1, separation=band)
        self.fresh = LatticeNoise(multiplier * turn.gdp_bound(), clip, size, "secure", source)
        self.past: deque[Tensor] = deque(maxlen=band - 1)

    def released(self, total: Tensor, divisor: float = 1.0, dtype: torch.dtype = torch.float64) -> Tensor:
        """The rounded sum with noise that solves C N = Z, divided by a public number."""
        total = total.double()
        drawn = self.fresh.released(torch.zeros_like(total))
        for weight, earlier in zip(self.weights[1:], self.past, strict=False):
            drawn.sub_(earlier, alpha=float(weight))
        self.past.appendleft(drawn)
        step = self.fresh.granularity
        return (torch.round(total / step).mul_(step) + drawn).div_(divisor).to(dtype)
