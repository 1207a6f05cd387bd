"""What a plan costs in an account's currency: a valid certified conversion, as cheap as we can prove.

Inside a plan the tight accountant works; the price is what the filter adds up across plans. A price is an upper bound:
every float below is one already, and turning it into integer units rounds up once more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from tallystick.errors import AdjacencyMismatch, InvalidInput, Refused, UnitMismatch
from tallystick.ledger.filters import UNITS_0, UNITS_1, Amount, Filter, Number, as_written, charge_units
from tallystick.ledger.truncation import truncated_rho

if TYPE_CHECKING:
    from tallystick.accounting.leaf import Leaf
    from tallystick.accounting.loss import PrivacyLoss

Price = tuple[Fraction, Fraction]
SLACK: Final = 1 + 1e-14  # two roundings of elementary functions, on the safe side


def price(
    loss: PrivacyLoss, currency: Filter, *, adjacency: str, unit: str | None = None, delta: Number | None = None
) -> Amount:
    """The amount a plan costs under a filter; ``delta`` is the part of the delta limit this plan may use.

    ``zcdp``: the smallest rho found with the plan's Renyi curve under rho * order, outside an event of probability
    delta. ``approx``: its certified epsilon at delta. ``gdp``: mu squared, only where a Gaussian trade-off curve
    dominates. ``rdp@order``: its Renyi divergence there. Refused where no finite price can be proved.
    """
    if not hasattr(loss, "terms"):
        raise InvalidInput("loss", type(loss).__name__, "a PrivacyLoss, such as gaussian(sigma=4)")
    if loss.terms and str(loss.adjacency) != adjacency:
        raise AdjacencyMismatch(adjacency, loss.adjacency)
    if loss.unit is not None and unit is not None and loss.unit != unit:
        raise UnitMismatch(unit, loss.unit)
    declared = None if delta is None else as_written("delta", delta)
    if declared is not None and not 0 <= declared < 1:
        raise InvalidInput("delta", delta, "a number in [0, 1)")
    return _price(loss, currency, declared)


@lru_cache(maxsize=4096)
def _price(loss: PrivacyLoss, currency: Filter, declared: Fraction | None) -> Amount:
    first, second = _PRICES[currency.kind](loss, currency, declared)
    a1 = charge_units("delta", second, UNITS_1)
    return Amount(currency, charge_units(currency.rule.symbol, first, UNITS_0), a1)


def _in_zcdp(loss: PrivacyLoss, currency: Filter, declared: Fraction | None) -> Price:
    """The cheapest of: closed forms alone; closed forms and the cut curve of the rest; the cut curve of the whole."""
    offers: list[Fraction] = []
    natural = Fraction(0)
    for rough in (False, True):
        known = [(closed_rho(leaf, rough=rough), count) for leaf, count in loss.terms]
        rho = sum((count * found[0] for found, count in known if found), Fraction(0))
        natural = sum((count * found[1] for found, count in known if found), Fraction(0))
        spare = Fraction(0) if declared is None else declared - natural
        # k^2 rho for groups of k (Bun & Steinke 2016, Prop 1.9); with a delta that is not a theorem.
        if spare >= 0 and (loss.group == 1 or natural == 0):
            rest = tuple(term for term, (found, _) in zip(loss.terms, known, strict=True) if found is None)
            more = _curve_in_zcdp(replace(loss, terms=rest), float(spare)) if rest else 0.0
            if math.isfinite(more):
                offers.append(rho * loss.group**2 + Fraction(more))
    total = natural if declared is None else declared
    if declared and math.isfinite(whole := _curve_in_zcdp(loss, float(declared))):
        offers.append(Fraction(whole))
    if not offers:
        raise Refused(
            f"this plan has no finite zCDP price at delta {float(total):.3g}; "
            "give delta=, the part of the account's delta that this plan may use"
        )
    return min(offers), total


def _curve_in_zcdp(loss: PrivacyLoss, delta: float) -> float:
    """rho of a plan from its whole curve, cut off where a delta is declared, or from its (epsilon, delta) alone."""
    epsilon = float(loss.epsilon(delta=delta))
    by_response = epsilon * math.tanh(epsilon / 2) * SLACK if math.isfinite(epsilon) else math.inf
    return min(by_response, truncated_rho(loss, delta=delta))


def _in_approx(loss: PrivacyLoss, currency: Filter, declared: Fraction | None) -> Price:
    points = [(leaf.point, count) for leaf, count in loss.terms]
    written = [(as_written("epsilon", p[0]), as_written("delta", p[1]), n) for p, n in points if p is not None]
    basic = sum((n * epsilon for epsilon, _, n in written), Fraction(0))
    natural = sum((n * delta for _, delta, n in written), Fraction(0))
    delta = natural if declared is None else declared
    offers = []
    if len(written) == len(loss.terms) and loss.group == 1 and natural <= delta:
        offers.append(basic)
    epsilon = float(loss.epsilon(delta=float(delta)))
    if math.isfinite(epsilon):
        offers.append(Fraction(epsilon))
    if not offers:
        raise Refused(
            f"this plan has no finite epsilon at delta {float(delta):.3g}; "
            "give delta=, the part of the account's delta that this plan may use"
        )
    return min(offers), delta


def _in_gdp(loss: PrivacyLoss, currency: Filter, declared: Fraction | None) -> Price:
    _no_delta(declared)
    squares = [(leaf.squared_mu(), count) for leaf, count in loss.terms]
    if all(square is not None for square, _ in squares):
        return sum((count * square for square, count in squares if square), Fraction(0)) * loss.group**2, Fraction(0)
    mu = float(loss.gdp_bound())
    if not math.isfinite(mu):
        raise Refused("no Gaussian trade-off curve dominates this plan; a GDP account cannot pay for it")
    return Fraction(mu) ** 2, Fraction(0)


def _in_rdp(loss: PrivacyLoss, currency: Filter, declared: Fraction | None) -> Price:
    _no_delta(declared)
    order = currency.order or Fraction(2)
    squares = [(leaf.squared_mu(), count) for leaf, count in loss.terms]
    if loss.group == 1 and all(square is not None for square, _ in squares):
        return order / 2 * sum((count * square for square, count in squares if square), Fraction(0)), Fraction(0)
    divergence = float(loss.renyi(order=float(order)))
    if not math.isfinite(divergence):
        raise Refused(f"this plan has an infinite Renyi divergence at order {order}; this account cannot pay for it")
    return Fraction(divergence), Fraction(0)


def _no_delta(declared: Fraction | None) -> None:
    if declared:
        raise InvalidInput("delta", float(declared), "no delta: this account's filter does not spend any")


def closed_rho(leaf: Leaf, *, rough: bool = False) -> Price | None:
    """(rho, delta) of a leaf for which a theorem gives it in closed form, or None.

    With ``rough``, sampling costs what is sampled (quasi-convexity of Renyi divergence): no amplification.
    """
    return (leaf.unamplified if rough else leaf).concentrated()


_PRICES: Final[dict[str, Callable[[PrivacyLoss, Filter, Fraction | None], Price]]] = {
    "zcdp": _in_zcdp,
    "approx": _in_approx,
    "gdp": _in_gdp,
    "rdp": _in_rdp,
}
