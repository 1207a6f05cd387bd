"""Groups from the data with their noisy sizes: add discrete noise, show what passes a threshold.

The threshold is the least at which a group with one unit is shown with probability small enough; delta is computed
from the discrete law itself, not from a continuous tail.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.accounting import check, losses
from tallystick.accounting.adjacency import Adjacency, Protects
from tallystick.accounting.leaves.nested import worst
from tallystick.errors import InvalidInput
from tallystick.mechanisms.base import Mechanism
from tallystick.mechanisms.exact.randomness import Source
from tallystick.mechanisms.keys.partition import Sizes, in_public_order, proper_delta, sizes
from tallystick.mechanisms.noise.gaussian import DiscreteGaussian
from tallystick.mechanisms.noise.laplace import DiscreteLaplace
from tallystick.mechanisms.noise.law import NoiseLaw
from tallystick.numerics.search import first_where

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

_UP = 1 + 1e-12  # more than the roundings of the tail formulas
_NARROWEST = 1e-6  # what the accounting of discrete noise takes
_WIDEST = 2.0**40  # the exact samplers make noise up to about 2^50


@dataclass(frozen=True, slots=True, kw_only=True)
class StableCounts(Mechanism[Sizes, dict[Hashable, int]]):
    """Noisy sizes of the groups that may be shown; built by :func:`stable_counts`.

    Exactly one of ``scale`` (discrete Laplace) and ``sigma`` (discrete Gaussian) is set.
    """

    scale: float | None
    sigma: float | None
    threshold: int
    max_keys: int
    unit: str | None

    @property
    def law(self) -> NoiseLaw:
        """The noise of one size."""
        if self.scale is not None:
            return DiscreteLaplace(self.scale)
        assert self.sigma is not None
        return DiscreteGaussian(self.sigma)

    @property
    def lone_probability(self) -> float:
        """The chance that a group with a single unit is shown, rounded up."""
        return self.law.upper_tail(self.threshold - 1)

    @property
    def privacy(self) -> PrivacyLoss:
        """The worst, over j of one unit's max_keys groups being its own, of j reveals and the rest noisy sizes."""
        about = Protects(Adjacency.ADD_REMOVE, self.unit).about
        if self.scale is not None:
            noise = losses.discrete_laplace(scale=self.scale, **about)
        else:
            assert self.sigma is not None
            noise = losses.discrete_gaussian(sigma=self.sigma, **about)
        reveal = losses.approx_dp(epsilon=0.0, delta=self.lone_probability, **about)
        if self.max_keys > 8:  # the sum dominates every mixture and stays cheap to evaluate
            return self.max_keys * noise + self.max_keys * reveal
        mixtures = [(self.max_keys - j) * noise + j * reveal for j in range(1, self.max_keys)]
        return worst(self.max_keys * noise, self.max_keys * reveal, *mixtures)

    def prepare(self, value: Any, *, strict: bool) -> Sizes:
        return sizes(value, strict=strict)

    def draw(self, prepared: Sizes, source: Source) -> dict[Hashable, int]:
        keys, counts = prepared
        if not keys:
            return {}
        noisy = counts + self.law.draw(len(keys), source)
        # a size of 0 is a group that is not there: showing it would be a reveal without a unit
        passed = np.flatnonzero((noisy >= self.threshold) & (counts > 0))
        shown = {keys[i]: int(noisy[i]) for i in passed}
        return {key: shown[key] for key in in_public_order(shown)}

    def error(self, *, confidence: float) -> float:
        """Half-width of the noise of one size at this confidence.

        For a group that is shown at any size of the noise, so well above ``threshold``: a small group that is shown was
        shown because its noise was large.
        """
        failure = 1 - check.inside("confidence", confidence)
        law = self.law
        return float(first_where(lambda m: 2 * law.upper_tail(m) <= failure) - 1)


def stable_counts(
    *,
    delta: float,
    epsilon: float | None = None,
    rho: float | None = None,
    max_keys: int = 1,
    unit: str | None = None,
) -> StableCounts:
    """Noisy sizes of groups from the data: discrete Laplace noise for ``epsilon``, discrete Gaussian for ``rho``.

    ``delta`` is the chance that some group only one unit has is shown. docs/theory/partition-selection.md

    >>> wards = stable_counts(epsilon=1.0, delta=1e-6)
    >>> wards.threshold, wards.release({"one patient": 0})
    (15, {})
    """
    limit = check.count("max_keys", max_keys, least=1)
    allowed = proper_delta(delta)
    if (epsilon is None) == (rho is None):
        raise InvalidInput("epsilon", epsilon, "either epsilon (Laplace) or rho (Gaussian), one of them")
    # 1 - (1 - p)^k <= delta, with p rounded down
    lone = -math.expm1(math.log1p(-allowed) / limit) / _UP**2
    scale = sigma = None
    if epsilon is not None:
        scale = _drawable("epsilon", epsilon, limit / check.positive("epsilon", epsilon))
        least = first_where(lambda m: DiscreteLaplace(scale).upper_tail(m) <= lone)
    else:
        sigma = _drawable("rho", rho, math.sqrt(limit / (2 * check.positive("rho", rho))))
        least = first_where(lambda m: DiscreteGaussian(sigma).upper_tail(m) <= lone)
    return StableCounts(scale=scale, sigma=sigma, threshold=least + 1, max_keys=limit, unit=check.unit(unit))


def _drawable(argument: str, given: Any, noise: float) -> float:
    """A width of noise that the exact samplers and the accounting can take."""
    if not _NARROWEST <= noise <= _WIDEST:
        raise InvalidInput(argument, given, "a value whose noise is between 1e-6 and 2^40")
    return noise
