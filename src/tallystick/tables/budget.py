"""The ways to say what a plan may cost, and the noise each of them buys."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tallystick.accounting import check, losses
from tallystick.accounting.adjacency import Protects
from tallystick.errors import InvalidInput, Refused
from tallystick.mechanisms.base import confidence_level
from tallystick.mechanisms.noise.laws import SMOOTH_VECTOR_SIGMA, DiscreteGaussian, DiscreteLaplace
from tallystick.printing import down, up
from tallystick.tables.allocate import Noise, allocated, cost_of, privacy_of
from tallystick.tables.asked import Query
from tallystick.tables.estimates import Noisy
from tallystick.tables.keyset import PrivateKeys

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

ALLOWED = "rho= (and delta=), epsilon= and delta=, epsilon= alone, or error="
_WORDS = ("rho", "epsilon", "delta", "error", "confidence", "weights")


@dataclass(frozen=True, slots=True)
class Priced:
    """Noise, the certified loss of the whole plan, and the budget in canonical words."""

    noises: tuple[Noise, ...]
    privacy: PrivacyLoss
    budget: dict[str, Any]


def priced(query: Query, given: Mapping[str, Any], protects: Protects) -> Priced:
    """The noise a budget buys. The budget is the total charged, the delta of private keys included."""
    unknown = [word for word in given if word not in _WORDS]
    budget = {word: given[word] for word in _WORDS if given.get(word) is not None}
    named = [word for word in ("rho", "epsilon", "error") if word in budget]
    if unknown or len(named) != 1 or ("confidence" in budget and named != ["error"]):
        raise InvalidInput("budget", sorted(given), ALLOWED)
    if "weights" in budget:
        budget["weights"] = {str(name): float(weight) for name, weight in budget["weights"].items()}
    if "delta" in budget:
        budget["delta"] = check.probability("delta", budget["delta"])
    ways = {"rho": _by_rho, "error": _by_error, "epsilon": _by_epsilon if "delta" in budget else _by_pure_epsilon}
    return ways[named[0]](query, budget, protects)


def keys_delta(query: Query, budget: Mapping[str, Any]) -> float:
    """The delta that private keys use; it must fit in the delta that was given."""
    used = query.keys.delta if isinstance(query.keys, PrivateKeys) else 0.0
    if "delta" in budget and budget["delta"] < used:
        raise InvalidInput("delta", budget["delta"], f"at least {up(used)}, the delta of private_keys")
    return used


def _by_rho(query: Query, budget: dict[str, Any], protects: Protects) -> Priced:
    rho = budget["rho"] = check.positive("rho", budget["rho"])
    # The parts' exact sum is at most rho as written, so rho itself is what is charged.
    noises = allocated(query, DiscreteGaussian, Fraction(repr(rho)), budget.get("weights"))
    return Priced(noises, losses.zcdp(rho=rho, delta=keys_delta(query, budget), **protects.about), budget)


def _by_pure_epsilon(query: Query, budget: dict[str, Any], protects: Protects) -> Priced:
    epsilon = budget["epsilon"] = check.positive("epsilon", budget["epsilon"])
    noises = allocated(query, DiscreteLaplace, Fraction(repr(epsilon)), budget.get("weights"))
    delta = keys_delta(query, budget)
    loss = (
        losses.approx_dp(epsilon=epsilon, delta=delta, **protects.about)
        if delta
        else losses.pure_dp(epsilon=epsilon, **protects.about)
    )
    return Priced(noises, loss, budget)


def _by_epsilon(query: Query, budget: dict[str, Any], protects: Protects) -> Priced:
    epsilon = budget["epsilon"] = check.positive("epsilon", budget["epsilon"])
    delta, used = budget["delta"], keys_delta(query, budget)
    if delta == 0:
        return _by_pure_epsilon(query, budget, protects)
    if delta <= used:
        raise InvalidInput("delta", delta, f"more than {up(used)}, which private_keys uses; or epsilon= alone")
    # the noise may fail with what the keys leave of delta: delta = used + (1 - used) * rest
    rest = (delta - used) / (1.0 - used) * (1.0 - 1e-12)

    def fits(rho: float) -> bool:
        noises = allocated(query, DiscreteGaussian, Fraction(rho), budget.get("weights"))
        return bool(privacy_of(query, noises, 0.0, protects).epsilon(delta=rest) <= epsilon)

    rho = _largest(fits, _near_rho(epsilon, rest))
    noises = allocated(query, DiscreteGaussian, Fraction(rho), budget.get("weights"))
    return Priced(noises, privacy_of(query, noises, used, protects), budget)


def for_gaussian_account(query: Query, found: Priced, protects: Protects) -> PrivacyLoss:
    """The plan's loss as Gaussian trade-off curves, which is all that a GDP account can add up; else refused.

    Discrete Gaussian noise with sigma above 32 steps is continuous noise resampled to the lattice, so a Gaussian curve
    with variance sigma^2 - 4 dominates it; noise below that has none that we can prove, and neither have private keys.
    """
    if found.noises[0].law.currency == "epsilon" and not keys_delta(query, found.budget):
        return found.privacy
    if keys_delta(query, found.budget):
        raise Refused(
            "private keys spend delta, which a GDP account has none of; works: public keys, keys=[...], or an account "
            "with a limit in zCDP or in epsilon and delta"
        )
    least = min(found.noises, key=lambda noise: noise.scale)
    if least.scale <= SMOOTH_VECTOR_SIGMA:
        rho = float(cost_of(query, found.noises)) * (least.scale / SMOOTH_VECTOR_SIGMA) ** 2
        raise Refused(
            f"the noise on {least.part.label} has sigma {least.scale:.3g}; at 32 or less no Gaussian curve is proved "
            f"to dominate it, so a GDP account cannot pay for it. Works: rho at most {down(rho * 0.99, 3)}, or an "
            "account with a limit in zCDP or in epsilon and delta"
        )
    return privacy_of(query, found.noises, 0.0, protects)


def _near_rho(epsilon: float, delta: float) -> float:
    """The usual conversion solved for rho: a starting point, never a claim."""
    log = math.log(1.0 / delta)
    return (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2


def _largest(fits: Callable[[float], bool], start: float) -> float:
    """The largest rho that fits, to a thousandth, certified at the value returned."""
    low = start
    while not fits(low):
        low /= 2.0
    high = low * 1.25
    while fits(high):
        low, high = high, high * 1.25
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _by_error(query: Query, budget: dict[str, Any], protects: Protects) -> Priced:
    wanted = budget["error"]
    names = dict(query.measures)
    wishes = dict(wanted) if isinstance(wanted, Mapping) else {query.measures[0][0]: wanted}
    confidence = confidence_level(budget.get("confidence", 0.95))
    for name, half in wishes.items():
        if name not in names:
            raise InvalidInput("error", name, f"names of measures: {', '.join(names)}")
        check.positive(f"error of {name}", half)
        if names[name].error_needs_size:
            raise InvalidInput("error", name, "a count, sum or histogram: other errors depend on the size of the group")

    def meets(rho: float) -> bool:
        noises = allocated(query, DiscreteGaussian, Fraction(rho), budget.get("weights"))
        found = errors(query, noises, confidence, 1000.0)
        return all(found[name] <= half for name, half in wishes.items())

    low, high = 1e-12, 1e-12
    while not meets(high):
        low, high = high, high * 4.0
        if high > 1e4:
            raise InvalidInput("error", wanted, "an error that a rho below 10000 can reach")
    while high / low > 1.0001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if meets(middle) else (middle, high)
    # three more digits than anyone will read, rounded up: a little more exact than asked
    digits = 5 - math.floor(math.log10(high))
    rho = math.ceil(high * 10**digits) / 10**digits
    kept: dict[str, Any] = {word: budget[word] for word in ("delta", "weights") if word in budget}
    return _by_rho(query, {"rho": rho, **kept}, protects)


def errors(query: Query, noises: tuple[Noise, ...], confidence: float, group_size: float) -> dict[str, float]:
    """Predicted half-widths by measure."""
    import numpy as np

    nothing = np.zeros((0, 1), dtype=np.int64)
    numbers = {noise.part: Noisy(nothing, noise.law, noise.part.scale) for noise in noises}
    return {name: measure.error(numbers, confidence, group_size) for name, measure in query.measures}
