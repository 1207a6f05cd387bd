"""Gaussian noise on a contribution of random size: a person in several batches, groups that are sampled together.

With probability p_i the unit moves the noisy sum by a vector no longer than c_i, whatever the other units do; without
it the sum is not moved. Then (sum of p_i N(c_i, sigma^2), N(0, sigma^2)) on the line dominates, in both directions:
the likelihood ratio is B = sum of p_i V_i, V_i log-normal of mean one, and both profiles are expectations of convex
functions of B, which are largest where every V_i is as spread and as comonotone as it can be
(docs/theory/gaussian-mixture.md; Choquette-Choo, Ganesh, Steinke, Thakurta 2024, "mixture of Gaussians").
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency, Direction
from tallystick.accounting.leaf import Leaf
from tallystick.accounting.leaves.gaussian import Gaussian
from tallystick.accounting.leaves.sampled import sampled
from tallystick.accounting.leaves.tabulated import Numbers, probabilities
from tallystick.accounting.loss import PrivacyLoss, constructor, loss_of
from tallystick.accounting.pair import DominatingPair
from tallystick.digits import typed
from tallystick.errors import InvalidInput
from tallystick.numerics.law import NEGLIGIBLE, REACH, Array, Law, Segment
from tallystick.rounding import as_written

if TYPE_CHECKING:
    from tallystick.accounting.ask import Ask
    from tallystick.numerics.rigorous.laws import BallLaw

MOST_PARTS = 256
LEAST_SHIFT, MOST_SHIFT = 1e-15, 80.0
"""Sensitivities in units of sigma; beyond the last nothing is private, and the measures hardly overlap."""

HALF = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True, slots=True)
class GaussianMixture(Leaf):
    """Shifts > 0 only, in increasing order; a unit that may not take part at all is sampled (``Sampled``)."""

    kind: ClassVar[str] = "gaussian_mixture"
    relations: ClassVar[tuple[Adjacency, ...]] = (Adjacency.ADD_REMOVE,)
    sigma: float
    sensitivities: Numbers
    probabilities: Numbers

    def __post_init__(self) -> None:
        check.keep(self, sigma=check.scale("sigma", self.sigma))
        allowed = f"two to {MOST_PARTS} increasing numbers from {typed(LEAST_SHIFT)} sigma to {typed(MOST_SHIFT)} sigma"
        if not isinstance(self.sensitivities, tuple) or not 2 <= len(self.sensitivities) <= MOST_PARTS:
            raise InvalidInput("sensitivities", self.sensitivities, allowed)
        shifts = tuple(check.finite("sensitivities", shift, allowed) for shift in self.sensitivities)
        inside = shifts[0] / self.sigma >= LEAST_SHIFT and shifts[-1] / self.sigma <= MOST_SHIFT
        if not inside or any(low >= high for low, high in pairwise(shifts)):
            raise InvalidInput("sensitivities", self.sensitivities, allowed)
        shares = probabilities("probabilities", self.probabilities)
        if len(shares) != len(shifts) or min(shares) < check.SMALLEST_RATE:
            raise InvalidInput("probabilities", self.probabilities, "one number > 0 for each sensitivity, of sum 1")
        check.keep(self, sensitivities=shifts, probabilities=shares)

    def pair(self, direction: Direction) -> DominatingPair:
        pair = _pair(tuple(shift / self.sigma for shift in self.sensitivities), self.probabilities)
        return pair if direction is Direction.REMOVE else pair.swapped()

    @property
    def symmetric(self) -> bool:
        return False

    @property
    def gaussian_above(self) -> float:
        """The largest shift always: every V_i is less spread than the last."""
        return math.nextafter(self.sensitivities[-1] / self.sigma, math.inf)

    @property
    def unamplified(self) -> Leaf:
        return Gaussian(math.nextafter(self.sigma / self.sensitivities[-1], 0.0))

    def ball_law(self, ask: Ask) -> BallLaw:
        from tallystick.numerics.rigorous.mixtures import mixture

        shifts = [ask.ball(shift) / ask.ball(self.sigma) for shift in self.sensitivities]
        heights = mixture(shifts, [ask.ball(share) for share in self.probabilities], 2.0**-51 if ask.upper else 0.0)
        return ask.known_by(*ask.taken_off(*heights), exact=True)

    @property
    def rounded_up(self) -> bool:
        return True  # shares are rounded to nearest; from below each is taken a little smaller

    def concentrated(self) -> tuple[Fraction, Fraction]:
        shift = as_written("sensitivities", self.sensitivities[-1]) / as_written("sigma", self.sigma)
        return shift**2 / 2, Fraction(0)


@constructor
def gaussian_mixture(
    *,
    sigma: float,
    sensitivities: Iterable[Any],
    probabilities: Iterable[Any],
    adjacency: Any = Adjacency.ADD_REMOVE,
    unit: str | None = None,
) -> PrivacyLoss:
    """Gaussian noise on a sum that one unit moves by ``sensitivities[i]`` with probability ``probabilities[i]``.

    For a person whose records are sampled one by one, groups that are sampled together, or one person in several
    batches; the unit's own draw must not depend on the data. With sensitivities 0 and 1 it is Poisson sampling.

    >>> twice = gaussian_mixture(sigma=2, sensitivities=[0, 1, 2], probabilities=[0.81, 0.18, 0.01])
    >>> round((100 * twice).epsilon(delta=1e-6), 4)
    5.8454
    """
    given = check.vector("sensitivities", sensitivities, "numbers >= 0")
    chances = _probabilities("probabilities", probabilities)
    if np.any(given < 0.0) or given.size != len(chances):
        raise InvalidInput("sensitivities", sensitivities, "numbers >= 0, one for each probability")
    parts: dict[float, Fraction] = {}
    for shift, chance in zip(given.tolist(), chances, strict=True):
        if shift > 0.0 and chance > 0.0:
            parts[shift] = parts.get(shift, Fraction(0)) + Fraction(chance)
    noise = check.scale("sigma", sigma)
    if not parts:
        return loss_of(None, adjacency, unit)
    total, shifts = sum(parts.values(), Fraction(0)), sorted(parts)
    if len(shifts) == 1:
        ratio = noise / shifts[0]
        if not ratio <= check.LARGEST_SCALE:
            raise InvalidInput(
                "sensitivities", sensitivities, f"0, or numbers from sigma/{typed(check.LARGEST_SCALE)} on"
            )
        again = Fraction(ratio) * Fraction(shifts[0])
        leaf: Leaf = Gaussian(ratio if again <= noise else math.nextafter(ratio, 0.0), again != noise)
        rate = total
    else:
        leaf = made = GaussianMixture(noise, tuple(shifts), tuple(float(parts[shift] / total) for shift in shifts))
        # Shares are rounded: the rate makes up for it, so that no part is less likely than it was given.
        rate = max(parts[shift] / Fraction(share) for shift, share in zip(shifts, made.probabilities, strict=True))
    loss = loss_of(leaf, adjacency, unit)
    return loss if total >= 1 or rate >= 1 else sampled(loss, rate)


_probabilities = probabilities


@lru_cache(maxsize=256)
def _pair(shifts: Numbers, shares: Numbers) -> DominatingPair:
    """L(x) = log of the sum of p_i e^{mu_i x - mu_i^2/2}, which grows with x and is convex."""
    low, high = -REACH, REACH + shifts[-1]
    logs = [math.log(share) for share in shares]
    steep, others = shifts[-1], list(zip(shifts, logs, strict=True))[1:]

    def mixture(x: Array) -> Array:
        total = logs[0] - 0.5 * (x - shifts[0]) ** 2
        for mu, log in others:
            total = np.logaddexp(total, log - 0.5 * (x - mu) ** 2)
        return total - HALF

    def loss(x: Array) -> Array:
        # Near zero a logarithm of a sum near one would forget how small the losses are.
        small = (np.abs(x) + steep) * steep < 1.0
        found, near, far = np.empty(x.shape), x[small], x[~small]
        total = logs[0] + shifts[0] * (far - 0.5 * shifts[0])
        for mu, log in others:
            total = np.logaddexp(total, log + mu * (far - 0.5 * mu))
        found[~small] = total
        parts = (share * np.expm1(mu * (near - 0.5 * mu)) for mu, share in zip(shifts, shares, strict=True))
        found[small] = np.log1p(sum(parts))
        return found

    def inverse(value: Array) -> Array:
        ends = loss(np.array([low, high]))
        target = np.clip(value, ends[0], ends[1])
        # No part alone exceeds the sum, so its root is not left of the sum's; from there Newton goes down for ever.
        alone = [(target - log) / mu + 0.5 * mu for mu, log in zip(shifts, logs, strict=True)]
        x: Array = np.clip(np.min(alone, axis=0), low, high)
        left = np.ones(x.shape, dtype=np.bool_)
        for _ in range(100):
            here = x[left]
            slope, top = np.zeros(here.shape), mixture(here)
            for mu, log in zip(shifts, logs, strict=True):
                slope = slope + mu * np.exp(log - 0.5 * (here - mu) ** 2 - HALF - top)
            step = (loss(here) - target[left]) / slope
            x[left] = np.clip(here - step, low, high)
            # A step up is rounding: where the loss is flat that would go on for ever, and for all places with it.
            left[left] = step > 1e-15 * (1.0 + np.abs(here))
            if not left.any():
                break
        return x

    segment = Segment(
        low=low,
        high=high,
        log_density=mixture,
        loss=loss,
        inverse=inverse,
        panel=min(0.1, 1.0 / steep),
        log_other=lambda x: -0.5 * x * x - HALF,
        slopes=(steep, steep),
    )
    return DominatingPair.exact(Law(segments=(segment,), infinity=NEGLIGIBLE, zero=NEGLIGIBLE))
