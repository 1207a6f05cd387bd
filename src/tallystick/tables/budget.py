"""The ways to say what a plan may cost, and the noise of each part that they buy.

The stated rule: the same predicted relative error for every part, for a group in which each unit contributes as much
as it may and values are spread evenly over their declared range. Noise of a part at share s has standard deviation
proportional to sensitivity / sqrt(s) (Gaussian) or sensitivity / s (Laplace), so shares go by the square, or by the
first power, of ``reference * levels^(1/2)``, or ``reference * levels``. Only public numbers enter. Weights multiply.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.accounting import check, losses
from tallystick.accounting.adjacency import Protects
from tallystick.digits import nearest, up
from tallystick.errors import InvalidInput, Refused, Remedy
from tallystick.mechanisms.exact.lattice import rounded_up
from tallystick.mechanisms.noise.gaussian import SMOOTH_VECTOR_SIGMA, DiscreteGaussian
from tallystick.mechanisms.noise.laplace import DiscreteLaplace
from tallystick.mechanisms.noise.law import NoiseLaw
from tallystick.numerics.search import first_where
from tallystick.rounding import fraction_down
from tallystick.tables.estimates import Noisy
from tallystick.tables.keyset import PrivateKeys
from tallystick.tables.parts import UNITS, Part, RowsOver
from tallystick.tables.reporting.limits import removed_parts

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.tables.table import Query

LARGEST_SCALE = 2.0**48
LEAST_SEEN, MOST_SEEN = 10, 1 << 30


@dataclass(frozen=True, slots=True)
class PartNoise:
    """The noise of one part, in integer steps of that part, and its share of the budget."""

    part: Part
    law: NoiseLaw
    share: float


def weights_of(query: Query, weights: Mapping[str, float] | None) -> dict[Part, float]:
    """Weight of each part: the largest weight of the measures that use it."""
    given = dict(weights or {})
    names = [name for name, _ in query.measures]
    for name, weight in given.items():
        if name not in names:
            raise InvalidInput("weights", name, f"names of measures: {', '.join(names)}")
        if not 1e-6 <= check.positive(f"weights[{name}]", weight) <= 1e6:
            raise InvalidInput(f"weights[{name}]", weight, "a weight from 1e-6 to 1e6")
    by_part: dict[Part, float] = dict.fromkeys(query.parts, 0.0)
    for name, measure in query.measures:
        for part in measure.parts():
            by_part[part] = max(by_part[part], given.get(name, 1.0))
    return {part: weight or 1.0 for part, weight in by_part.items()}


def shares(query: Query, law: type[NoiseLaw], budget: Mapping[str, Any]) -> dict[Part, Fraction]:
    """The share of each part; they add up to one exactly. What caps leave out has ``caps_share`` of it all."""
    aside = Fraction(repr(budget["caps_share"])) if query.removed else Fraction(0)
    found: dict[Part, Fraction] = {}
    for weights, whole in (
        (weights_of(query, budget.get("weights")), 1 - aside),
        (dict.fromkeys(query.removed, 1.0), aside),
    ):
        raw = {part: Fraction(weight * part.reference**law.order * part.levels) for part, weight in weights.items()}
        total = sum(raw.values(), Fraction(0))
        found |= {part: whole * value / total for part, value in raw.items()}
    return found


def with_removed(query: Query, budget: dict[str, Any]) -> Query:
    """The question with the reports on its caps; the words of the budget become those that are needed for it."""
    share, seen_to = budget.pop("caps_share", 0.0), budget.pop("caps_seen_to", None)
    totals = budget.pop("caps_totals", False)
    if not isinstance(totals, bool):
        raise InvalidInput("caps_totals", totals, "True, or False: no totals that what is left out is a share of")
    if share != 0 and not 0.001 <= check.finite("caps_share", share) <= 0.5:
        raise InvalidInput("caps_share", share, "a share of the budget from 0.001 to 0.5, or 0: no report on limits")
    usual = max(LEAST_SEEN, query.caps.most_added(1))
    seen_to = check.count("caps_seen_to", usual if seen_to is None else seen_to, least=1, most=MOST_SEEN)
    removed = removed_parts(query, seen_to, totals) if share else ()
    if removed:
        budget |= {"caps_share": float(share), **({"caps_totals": True} if totals else {})}
    if any(isinstance(part, RowsOver) for part in removed):
        budget["caps_seen_to"] = seen_to
    return replace(query, removed=removed)


def allocated(query: Query, kind: type[NoiseLaw], total: Fraction, budget: Mapping[str, Any]) -> tuple[PartNoise, ...]:
    """Noise for a total of rho (Gaussian) or epsilon (Laplace); rounded so that the exact sum stays within it."""
    noises = []
    for part, share in shares(query, kind, budget).items():
        law = kind.that_costs(norm_of(query, part, kind.order), share * total)
        if not 1e-3 <= law.scale <= LARGEST_SCALE:
            raise InvalidInput(
                "budget", float(total), f"a budget at which the noise on {part.label} is neither absent nor absurd"
            )
        noises.append(PartNoise(part, law, float(share)))
    return tuple(noises)


def norm_of(query: Query, part: Part, order: int) -> Fraction:
    """The norm of that order by which one unit moves a part, to the power of that order."""
    return Fraction(part.norm(query.caps, query.table.adjacency, order))


def cost_of(query: Query, noises: tuple[PartNoise, ...]) -> Fraction:
    """Exact sum over the parts of L2^2 / (2 sigma^2), or of L1 / scale: rho, or epsilon."""
    return sum((cost_of_part(query, noise) for noise in noises), Fraction(0))


def cost_of_part(query: Query, noise: PartNoise) -> Fraction:
    """Cost of one part in the currency of its noise."""
    return noise.law.cost(norm_of(query, noise.part, noise.law.order))


def privacy_of(query: Query, noises: tuple[PartNoise, ...], keys_delta: float, protects: Protects) -> PrivacyLoss:
    """Certified loss of all parts and the choice of groups together, where only (epsilon, delta) matters.

    With every sigma above 32 the lattice is fine enough for the proved Gaussian pairs; otherwise zCDP.
    """
    total = rounded_up(cost_of(query, noises))
    if noises[0].law.currency == "epsilon":
        loss = losses.pure_dp(epsilon=total, **protects.about)
    elif min(noise.law.scale for noise in noises) > SMOOTH_VECTOR_SIGMA:
        norms = [(n.law, norm_of(query, n.part, n.law.order)) for n in noises]
        loss = sum((law.norm_privacy(norm, protects) for law, norm in norms), losses.no_loss(**protects.about))
    else:
        return losses.zcdp(rho=total, delta=keys_delta, **protects.about)
    if keys_delta:
        loss = loss + losses.approx_dp(epsilon=0.0, delta=keys_delta, **protects.about)
    return loss


def threshold(query: Query, noises: tuple[PartNoise, ...]) -> int | None:
    """The least tau at which a unit's own groups stay hidden: 1 - (1 - P[1 + noise >= tau])^K <= delta."""
    if not isinstance(query.keys, PrivateKeys):
        return None
    noise = next(noise for noise in noises if noise.part == UNITS)
    lone = -math.expm1(math.log1p(-query.keys.delta) / query.caps.max_groups) * (1.0 - 1e-12)
    if noise.law.upper_tail(1 << 50) > lone:
        raise Refused("no threshold hides a single unit at this delta and budget")
    return first_where(lambda least: noise.law.upper_tail(least) <= lone) + 1


def lone_probability(query: Query, noises: tuple[PartNoise, ...], tau: int) -> float:
    """The chance that at least one of K groups that only one unit has is shown, from above."""
    noise = next(noise for noise in noises if noise.part == UNITS)
    return -math.expm1(query.caps.max_groups * math.log1p(-noise.law.upper_tail(tau - 1)))


AMOUNTS = ("rho", "epsilon", "delta")
"""Words of a cost that may be fractions, such as "1/24"."""
LEAST_DELTA = 2.3e-308
"""The smallest delta above 0 that a plan may name. Smaller doubles lose digits, and no cost can be computed."""
ALLOWED = "one cost: a rho, an epsilon, or an error"
_WORDS = ("rho", "epsilon", "delta", "error", "confidence", "weights", "caps_share", "caps_seen_to", "caps_totals")


@dataclass(frozen=True, slots=True)
class PricedQuery:
    """The question, its noise, the certified loss of the whole plan, and the budget in canonical words."""

    query: Query
    noises: tuple[PartNoise, ...]
    privacy: PrivacyLoss
    budget: dict[str, Any]


def _not_one_price(named: Sequence[str], unknown: Sequence[str]) -> InvalidInput:
    """The error for words that name no cost, several costs, or something else."""
    if unknown:
        return InvalidInput("budget", unknown, ALLOWED, problem=f"{', '.join(unknown)} does not name a cost")
    if len(named) > 1:
        return InvalidInput("budget", named, ALLOWED, problem=f"{' and '.join(named)} are two costs")
    problem = "a confidence goes with an error" if named else "no cost is named"
    return InvalidInput("budget", named or None, ALLOWED, code="no_price", problem=problem)


def priced(query: Query, given: Mapping[str, Any], protects: Protects) -> PricedQuery:
    """The noise a budget buys. The budget is the total charged, the delta of private keys included."""
    unknown = [word for word in given if word not in _WORDS]
    budget = {word: given[word] for word in _WORDS if given.get(word) is not None}
    named = [word for word in ("rho", "epsilon", "error") if word in budget]
    if unknown or len(named) != 1 or ("confidence" in budget and named != ["error"]):
        raise _not_one_price(named, unknown)
    for word in AMOUNTS:
        if word in budget:
            budget[word] = fraction_down(word, budget[word])
    if "weights" in budget:
        budget["weights"] = {str(name): float(weight) for name, weight in budget["weights"].items()}
    for word in ("rho", "epsilon"):
        if word in budget and not 1e-9 <= check.positive(word, budget[word]) <= 1e9:
            raise InvalidInput(word, budget[word], "a budget from 1e-9 to 1e9")
    if "delta" in budget:
        budget["delta"] = check.probability("delta", budget["delta"])
        if 0 < budget["delta"] < LEAST_DELTA:
            raise InvalidInput("delta", budget["delta"], f"0, or a number from {LEAST_DELTA} to 1")
    query = with_removed(query, budget)
    ways = {"rho": _by_rho, "error": _by_error, "epsilon": _by_epsilon if "delta" in budget else _by_pure_epsilon}
    return ways[named[0]](query, budget, protects)


def keys_delta(query: Query, budget: Mapping[str, Any]) -> float:
    """The delta that private keys use; it must fit in the delta that was given."""
    used = query.keys.delta if isinstance(query.keys, PrivateKeys) else 0.0
    if "delta" in budget and budget["delta"] < used:
        raise InvalidInput("delta", budget["delta"], f"at least {up(used)}, the delta of private_keys")
    return used


def _by_rho(query: Query, budget: dict[str, Any], protects: Protects) -> PricedQuery:
    rho = budget["rho"] = check.positive("rho", budget["rho"])
    # The parts' exact sum is at most rho as written, so rho itself is what is charged.
    noises = allocated(query, DiscreteGaussian, Fraction(repr(rho)), budget)
    return PricedQuery(query, noises, losses.zcdp(rho=rho, delta=keys_delta(query, budget), **protects.about), budget)


def _by_pure_epsilon(query: Query, budget: dict[str, Any], protects: Protects) -> PricedQuery:
    epsilon = budget["epsilon"] = check.positive("epsilon", budget["epsilon"])
    noises = allocated(query, DiscreteLaplace, Fraction(repr(epsilon)), budget)
    delta = keys_delta(query, budget)
    loss = (
        losses.approx_dp(epsilon=epsilon, delta=delta, **protects.about)
        if delta
        else losses.pure_dp(epsilon=epsilon, **protects.about)
    )
    return PricedQuery(query, noises, loss, budget)


def _by_epsilon(query: Query, budget: dict[str, Any], protects: Protects) -> PricedQuery:
    epsilon = budget["epsilon"] = check.positive("epsilon", budget["epsilon"])
    delta, used = budget["delta"], keys_delta(query, budget)
    if delta == 0:
        return _by_pure_epsilon(query, budget, protects)
    finding = f"{up(used)}, the delta that finding the groups uses"
    if delta <= used:
        raise InvalidInput("delta", delta, f"more than {finding}")
    # the noise may fail with what the keys leave of delta: delta = used + (1 - used) * rest
    rest = (delta - used) / (1.0 - used) * (1.0 - 1e-12)
    if rest < sys.float_info.min:
        raise InvalidInput("delta", delta, f"at least {LEAST_DELTA} more than {finding}")

    def fits(rho: float) -> bool:
        noises = allocated(query, DiscreteGaussian, Fraction(rho), budget)
        return bool(privacy_of(query, noises, 0.0, protects).epsilon(delta=rest) <= epsilon)

    rho = _largest(fits, _near_rho(epsilon, rest))
    noises = allocated(query, DiscreteGaussian, Fraction(rho), budget)
    return PricedQuery(query, noises, privacy_of(query, noises, used, protects), budget)


def for_gaussian_account(query: Query, priced_query: PricedQuery, protects: Protects) -> PrivacyLoss:
    """The plan's loss as Gaussian trade-off curves, which is all that a GDP account can add up; else refused.

    Discrete Gaussian noise with sigma above 32 steps is continuous noise resampled to the lattice, so a Gaussian curve
    with variance sigma^2 - 4 dominates it; for less noise, and for private keys, we cannot prove such a curve.
    """
    if priced_query.noises[0].law.currency == "epsilon" and not keys_delta(query, priced_query.budget):
        return priced_query.privacy
    if keys_delta(query, priced_query.budget):
        raise Refused(
            "private keys spend delta. A GDP account has no delta; accounts in zCDP or in epsilon and delta have one",
            remedies=[Remedy("list_keys")],
        )
    least = min(priced_query.noises, key=lambda noise: noise.law.scale)
    if least.law.scale <= SMOOTH_VECTOR_SIGMA:
        raise Refused(
            f"the noise on {least.part.label} has sigma {nearest(least.law.scale)}; at 32 or less no Gaussian curve is "
            "proved to dominate it, so a GDP account cannot pay for it",
            code="noise_too_small",
        )
    return privacy_of(query, priced_query.noises, 0.0, protects)


def _near_rho(epsilon: float, delta: float) -> float:
    """The usual conversion solved for rho: a starting point, never a claim."""
    log = math.log(1.0 / delta)
    return (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2


def _largest(fits: Callable[[float], bool], start: float) -> float:
    """Return the largest rho that fits, to a thousandth, certified at the value returned."""
    low = start
    while not fits(low):
        low /= 2.0
    high = low * 1.25
    while fits(high):
        low, high = high, high * 1.25
    return _narrow(low, high, 1.001, fits)[0]


def _narrow(low: float, high: float, ratio: float, is_below: Callable[[float], bool]) -> tuple[float, float]:
    """Return the ends of a search between two numbers, at most this ratio apart."""
    while high / low > ratio:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return low, high


def _by_error(query: Query, budget: dict[str, Any], protects: Protects) -> PricedQuery:
    wanted = budget["error"]
    names = dict(query.measures)
    wishes = dict(wanted) if isinstance(wanted, Mapping) else {query.measures[0][0]: wanted}
    confidence = check.inside("confidence", budget.get("confidence", 0.95))
    for name, half in wishes.items():
        if name not in names:
            raise InvalidInput("error", name, f"names of measures: {', '.join(names)}")
        check.positive(f"error of {name}", half)
        if names[name].error_needs_size:
            raise InvalidInput("error", name, "a count, sum or histogram: other errors depend on the size of the group")

    def misses(rho: float) -> bool:
        noises = allocated(query, DiscreteGaussian, Fraction(rho), budget)
        halves = errors(query, noises, confidence, 1000.0)
        return not all(halves[name] <= half for name, half in wishes.items())

    low, high = 1e-12, 1e-12
    while misses(high):
        low, high = high, high * 4.0
        if high > 1e4:
            raise InvalidInput("error", wanted, "an error that a rho below 10000 can reach")
    high = _narrow(low, high, 1.0001, misses)[1]
    # three more digits than anyone will read, rounded up: a little more exact than asked
    digits = 5 - math.floor(math.log10(high))
    rho = math.ceil(high * 10**digits) / 10**digits
    kept: dict[str, Any] = {word: budget[word] for word in KEPT if word in budget}
    return _by_rho(query, {"rho": rho, **kept}, protects)


KEPT = ("delta", "weights", "caps_share", "caps_seen_to", "caps_totals")


def errors(query: Query, noises: tuple[PartNoise, ...], confidence: float, group_size: float) -> dict[str, float]:
    """Predicted half-widths by measure."""
    nothing = np.zeros((0, 1), dtype=np.int64)
    numbers = {noise.part: Noisy(nothing, noise.law, noise.part.scale) for noise in noises}
    return {name: measure.error(numbers, confidence, group_size) for name, measure in query.measures}
