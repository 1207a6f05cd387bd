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
from tallystick.accounting.sampling import worst
from tallystick.errors import InvalidInput
from tallystick.mechanisms.base import Mechanism, confidence_level
from tallystick.mechanisms.exact.integer_noise import discrete_gaussian, discrete_laplace
from tallystick.mechanisms.exact.randomness import Source
from tallystick.mechanisms.keys.partition import Sizes, first_where, in_public_order, proper_delta, sizes

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

_UP = 1 + 1e-12  # more than the roundings of the tail formulas
_MANY = 4096.0
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
    def lone_probability(self) -> float:
        """The chance that a group with a single unit is shown, rounded up."""
        if self.scale is not None:
            return laplace_tail(self.scale, self.threshold - 1)
        assert self.sigma is not None
        return gaussian_tail(self.sigma, self.threshold - 1)

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
        if self.scale is not None:
            noise = discrete_laplace(self.scale, size=len(keys), source=source)
        else:
            assert self.sigma is not None
            noise = discrete_gaussian(self.sigma, size=len(keys), source=source)
        noisy = counts + noise
        # a size of 0 is a group that is not there: showing it would be a reveal without a unit
        passed = np.flatnonzero((noisy >= self.threshold) & (counts > 0))
        shown = {keys[i]: int(noisy[i]) for i in passed}
        return {key: shown[key] for key in in_public_order(shown)}

    def error(self, *, confidence: float) -> float:
        """Half-width of the noise of one size at this confidence.

        For a group that is shown at any size of the noise, so well above ``threshold``: a small group that is shown was
        shown because its noise was large.
        """
        failure = 1 - confidence_level(confidence)
        tail = laplace_tail if self.scale is not None else gaussian_tail
        width = self.scale if self.scale is not None else self.sigma
        assert width is not None
        return float(first_where(lambda m: 2 * tail(width, m) <= failure) - 1)


def laplace_tail(scale: float, least: int) -> float:
    """P(X >= least) of the discrete Laplace law, least >= 1: e^{-least/scale} / (1 + e^{-1/scale}).

    >>> round(laplace_tail(1.0, 1), 6)
    0.268941
    """
    return math.exp(-least / scale) / (1 + math.exp(-1 / scale)) * _UP if least >= 1 else 1.0


def gaussian_tail(sigma: float, least: int) -> float:
    """P(X >= least) of the discrete Gaussian law, from above: a sum, its rest bounded by a geometric series.

    Wide laws use the integral instead, too large by at most one part in sigma.

    >>> round(gaussian_tail(1.0, 5), 10)
    1.4928e-06
    """
    if least < 1:
        return 1.0
    if sigma > _MANY:  # the sum is at most its first term plus the integral, the normaliser at least sigma sqrt(2 pi)
        first = math.exp(-((least / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi))
        return (math.erfc(least / sigma / math.sqrt(2)) / 2 + first) * _UP
    last = least + math.ceil(40 * sigma) + 10
    with np.errstate(under="ignore"):
        terms = np.exp(-(np.arange(least, last, dtype=np.float64) ** 2) / (2 * sigma**2))
    ratio = math.exp(-(2 * last + 1) / (2 * sigma**2))
    rest = math.exp(-(last**2) / (2 * sigma**2)) / (1 - ratio)
    # by Poisson summation the normaliser is at least sigma sqrt(2 pi); for small sigma it is at least the sum near 0
    near = 1 + 2 * math.fsum(math.exp(-(x**2) / (2 * sigma**2)) for x in range(1, 20))
    return (float(terms.sum()) + rest) / max(sigma * math.sqrt(2 * math.pi), near) * _UP


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
        least = first_where(lambda m: laplace_tail(scale, m) <= lone)
    else:
        sigma = _drawable("rho", rho, math.sqrt(limit / (2 * check.positive("rho", rho))))
        least = first_where(lambda m: gaussian_tail(sigma, m) <= lone)
    return StableCounts(scale=scale, sigma=sigma, threshold=least + 1, max_keys=limit, unit=check.unit(unit))


def _drawable(argument: str, given: Any, noise: float) -> float:
    """A width of noise that the exact samplers and the accounting can take."""
    if not _NARROWEST <= noise <= _WIDEST:
        raise InvalidInput(argument, given, "a value whose noise is between 1e-6 and 2^40")
    return noise
