"""From a total budget to the noise of each part.

The stated rule: the same predicted relative error for every part, for a group in which each unit contributes as much
as it may and values are spread evenly over their declared range. Noise of a part at share s has standard deviation
proportional to sensitivity / sqrt(s) (Gaussian) or sensitivity / s (Laplace), so shares go by the square, or by the
first power, of ``reference * levels^(1/2)``, or ``reference * levels``. Only public numbers enter. Weights multiply.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from tallystick.accounting import check, losses
from tallystick.accounting.adjacency import Protects
from tallystick.errors import InvalidInput, Refused
from tallystick.mechanisms.keys.counts import gaussian_tail, laplace_tail
from tallystick.mechanisms.noise.laws import SMOOTH_VECTOR_SIGMA, NoiseLaw
from tallystick.tables.asked import UNITS, Query
from tallystick.tables.estimates import law_of
from tallystick.tables.keyset import PrivateKeys
from tallystick.tables.parts import Part

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

LARGEST_SCALE = 2.0**48


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise of one part, and its share of the budget. ``scale`` is in integer steps of the part."""

    part: Part
    law: NoiseLaw
    share: float

    @property
    def scale(self) -> float:
        """Sigma of the discrete Gaussian, or scale of the discrete Laplace law."""
        return float(getattr(self.law, "sigma", 0.0) or getattr(self.law, "scale", 0.0))


def weights_of(query: Query, weights: Mapping[str, float] | None) -> dict[Part, float]:
    """What each part counts for: the largest weight of the measures that use it."""
    given = dict(weights or {})
    names = [name for name, _ in query.measures]
    for name, weight in given.items():
        if name not in names:
            raise InvalidInput("weights", name, f"names of measures: {', '.join(names)}")
        check.positive(f"weights[{name}]", weight)
    found: dict[Part, float] = dict.fromkeys(query.parts, 0.0)
    for name, measure in query.measures:
        for part in measure.parts():
            found[part] = max(found[part], given.get(name, 1.0))
    return {part: weight or 1.0 for part, weight in found.items()}


def shares(query: Query, noise: str, weights: Mapping[str, float] | None) -> dict[Part, Fraction]:
    """The share of each part; they add up to one exactly."""
    power = 2 if noise == "gaussian" else 1
    raw = {
        part: Fraction(weight * part.reference**power * part.levels)
        for part, weight in weights_of(query, weights).items()
    }
    total = sum(raw.values(), Fraction(0))
    return {part: value / total for part, value in raw.items()}


def allocated(query: Query, noise: str, total: Fraction, weights: Mapping[str, float] | None) -> tuple[Noise, ...]:
    """Noise for a total of rho (Gaussian) or epsilon (Laplace); rounded so that the exact sum stays within it."""
    adjacency = query.table.adjacency
    found = []
    for part, share in shares(query, noise, weights).items():
        if noise == "gaussian":
            scale = _root_up(Fraction(part.l2_squared(query.caps, adjacency)) / (2 * share * total))
        else:
            scale = _up(Fraction(part.l1(query.caps, adjacency)) / (share * total))
        if not 1e-3 <= scale <= LARGEST_SCALE:
            raise InvalidInput(
                "budget", float(total), f"a budget at which the noise on {part.label} is neither absent nor absurd"
            )
        found.append(Noise(part, law_of(noise, scale), float(share)))
    return tuple(found)


def rho_of(query: Query, noises: tuple[Noise, ...]) -> Fraction:
    """Exact sum of L2^2 / (2 sigma^2) over the parts."""
    return sum((rho_of_part(query, noise) for noise in noises), Fraction(0))


def rho_of_part(query: Query, noise: Noise) -> Fraction:
    """L2^2 / (2 sigma^2): zCDP of discrete Gaussian noise on an integer vector (Canonne, Kamath, Steinke 2020)."""
    return Fraction(noise.part.l2_squared(query.caps, query.table.adjacency)) / (2 * Fraction(noise.scale) ** 2)


def privacy_of(query: Query, noises: tuple[Noise, ...], keys_delta: float, protects: Protects) -> PrivacyLoss:
    """Certified loss of all parts and the choice of groups together, where only (epsilon, delta) matters.

    With every sigma above 32 the lattice is fine enough for the proved Gaussian pairs; otherwise zCDP.
    """
    if noises[0].law.order == 1:
        adjacency = query.table.adjacency
        total = sum((Fraction(n.part.l1(query.caps, adjacency)) / Fraction(n.scale) for n in noises), Fraction(0))
        loss = losses.pure_dp(epsilon=_up(total), **protects.about)
    elif min(noise.scale for noise in noises) > SMOOTH_VECTOR_SIGMA:
        squared = [(n, Fraction(n.part.l2_squared(query.caps, query.table.adjacency))) for n in noises]
        loss = sum((n.law.norm_privacy(norm, protects) for n, norm in squared), losses.no_loss(**protects.about))
    else:
        return losses.zcdp(rho=_up(rho_of(query, noises)), delta=keys_delta, **protects.about)
    if keys_delta:
        loss = loss + losses.approx_dp(epsilon=0.0, delta=keys_delta, **protects.about)
    return loss


def threshold(query: Query, noises: tuple[Noise, ...]) -> int | None:
    """The least tau at which a unit's own groups stay hidden: 1 - (1 - P[1 + noise >= tau])^K <= delta."""
    if not isinstance(query.keys, PrivateKeys):
        return None
    noise = next(noise for noise in noises if noise.part == UNITS)
    tail = gaussian_tail if noise.law.order == 2 else laplace_tail
    lone = -math.expm1(math.log1p(-query.keys.delta) / query.caps.max_groups) * (1.0 - 1e-12)
    high = 1
    while tail(noise.scale, high) > lone:
        high *= 2
        if high > 1 << 50:
            raise Refused("no threshold hides a single unit at this delta and budget")
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if tail(noise.scale, middle) <= lone else (middle, high)
    return high + 1


def lone_probability(query: Query, noises: tuple[Noise, ...], tau: int) -> float:
    """The chance that at least one of K groups that only one unit has is shown, from above."""
    noise = next(noise for noise in noises if noise.part == UNITS)
    tail = gaussian_tail if noise.law.order == 2 else laplace_tail
    return -math.expm1(query.caps.max_groups * math.log1p(-tail(noise.scale, tau - 1)))


def _root_up(square: Fraction) -> float:
    root = math.sqrt(square)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


def _up(value: Fraction) -> float:
    number = float(value)
    return number if Fraction(number) >= value else math.nextafter(number, math.inf)
