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
from tallystick.mechanisms.exact.lattice import rounded_up
from tallystick.mechanisms.noise.laws import SMOOTH_VECTOR_SIGMA, NoiseLaw
from tallystick.tables.asked import UNITS, Query
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
        return self.law.scale


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


def shares(query: Query, law: type[NoiseLaw], weights: Mapping[str, float] | None) -> dict[Part, Fraction]:
    """The share of each part; they add up to one exactly."""
    raw = {
        part: Fraction(weight * part.reference**law.order * part.levels)
        for part, weight in weights_of(query, weights).items()
    }
    total = sum(raw.values(), Fraction(0))
    return {part: value / total for part, value in raw.items()}


def allocated(
    query: Query, kind: type[NoiseLaw], total: Fraction, weights: Mapping[str, float] | None
) -> tuple[Noise, ...]:
    """Noise for a total of rho (Gaussian) or epsilon (Laplace); rounded so that the exact sum stays within it."""
    found = []
    for part, share in shares(query, kind, weights).items():
        law = kind.that_costs(norm_of(query, part, kind.order), share * total)
        if not 1e-3 <= law.scale <= LARGEST_SCALE:
            raise InvalidInput(
                "budget", float(total), f"a budget at which the noise on {part.label} is neither absent nor absurd"
            )
        found.append(Noise(part, law, float(share)))
    return tuple(found)


def norm_of(query: Query, part: Part, order: int) -> Fraction:
    """The norm of that order by which one unit moves a part, to the power of that order."""
    return Fraction(part.norm(query.caps, query.table.adjacency, order))


def cost_of(query: Query, noises: tuple[Noise, ...]) -> Fraction:
    """Exact sum over the parts of L2^2 / (2 sigma^2), or of L1 / scale: rho, or epsilon."""
    return sum((cost_of_part(query, noise) for noise in noises), Fraction(0))


def cost_of_part(query: Query, noise: Noise) -> Fraction:
    """What one part costs in the currency of its law."""
    return noise.law.cost(norm_of(query, noise.part, noise.law.order))


def privacy_of(query: Query, noises: tuple[Noise, ...], keys_delta: float, protects: Protects) -> PrivacyLoss:
    """Certified loss of all parts and the choice of groups together, where only (epsilon, delta) matters.

    With every sigma above 32 the lattice is fine enough for the proved Gaussian pairs; otherwise zCDP.
    """
    total = rounded_up(cost_of(query, noises))
    if noises[0].law.currency == "epsilon":
        loss = losses.pure_dp(epsilon=total, **protects.about)
    elif min(noise.scale for noise in noises) > SMOOTH_VECTOR_SIGMA:
        norms = [(n.law, norm_of(query, n.part, n.law.order)) for n in noises]
        loss = sum((law.norm_privacy(norm, protects) for law, norm in norms), losses.no_loss(**protects.about))
    else:
        return losses.zcdp(rho=total, delta=keys_delta, **protects.about)
    if keys_delta:
        loss = loss + losses.approx_dp(epsilon=0.0, delta=keys_delta, **protects.about)
    return loss


def threshold(query: Query, noises: tuple[Noise, ...]) -> int | None:
    """The least tau at which a unit's own groups stay hidden: 1 - (1 - P[1 + noise >= tau])^K <= delta."""
    if not isinstance(query.keys, PrivateKeys):
        return None
    noise = next(noise for noise in noises if noise.part == UNITS)
    lone = -math.expm1(math.log1p(-query.keys.delta) / query.caps.max_groups) * (1.0 - 1e-12)
    high = 1
    while noise.law.upper_tail(high) > lone:
        high *= 2
        if high > 1 << 50:
            raise Refused("no threshold hides a single unit at this delta and budget")
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if noise.law.upper_tail(middle) <= lone else (middle, high)
    return high + 1


def lone_probability(query: Query, noises: tuple[Noise, ...], tau: int) -> float:
    """The chance that at least one of K groups that only one unit has is shown, from above."""
    noise = next(noise for noise in noises if noise.part == UNITS)
    return -math.expm1(query.caps.max_groups * math.log1p(-noise.law.upper_tail(tau - 1)))
