"""The cost of a plan in an account's currency: a valid certified conversion, as cheap as we can prove.

Inside a plan the tight accountant works; the cost is what the filter adds up across plans. A cost is an upper bound:
every float below is one already, and turning it into integer units rounds up once more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from tallystick.accounting.adjacency import Protects
from tallystick.accounting.leaves.pure import response_rho
from tallystick.accounting.loss import PrivacyLoss
from tallystick.digits import nearest
from tallystick.errors import InvalidInput, Refused, TallystickError
from tallystick.ledger.filters import UNITS_0, UNITS_1, Amount, Filter, Number, as_written, charge_units
from tallystick.rounding import double_above

if TYPE_CHECKING:
    from tallystick.accounting.leaf import Leaf
    from tallystick.ledger.account import Account
    from tallystick.ledger.book import Ledger

Price = tuple[Fraction, Fraction]


def price(loss: PrivacyLoss, currency: Filter, protects: Protects, *, delta: Number | None = None) -> Amount:
    """The amount a plan costs under a filter; ``delta`` is the part of the delta limit this plan may use.

    ``zcdp``: the smallest rho found with the plan's Renyi curve under rho * order, outside an event of probability
    delta. ``approx``: its certified epsilon at delta. ``gdp``: mu squared, only where a Gaussian trade-off curve
    dominates. ``rdp@order``: its Renyi divergence there. Refused where no finite cost can be proved.
    """
    if not hasattr(loss, "terms"):
        raise InvalidInput("loss", type(loss).__name__, "a PrivacyLoss, such as gaussian(sigma=4)")
    # A loss of nothing is one under every adjacency.
    protects.joined(loss.protects if loss.terms else Protects(protects.adjacency, loss.unit))
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
        rho = sum((count * zcdp[0] for zcdp, count in known if zcdp), Fraction(0))
        natural = sum((count * zcdp[1] for zcdp, count in known if zcdp), Fraction(0))
        spare = Fraction(0) if declared is None else declared - natural
        # k^2 rho for groups of k (Bun & Steinke 2016, Prop 1.9); with a delta that is not a theorem.
        if spare >= 0 and (loss.group == 1 or natural == 0):
            rest = tuple(term for term, (zcdp, _) in zip(loss.terms, known, strict=True) if zcdp is None)
            more = _curve_in_zcdp(replace(loss, terms=rest), float(spare)) if rest else 0.0
            if math.isfinite(more):
                offers.append(rho * loss.group**2 + Fraction(more))
    pure = all(leaf.point is not None and leaf.point[1] == 0 for leaf, _ in loss.terms)
    if pure and loss.group > 1 and math.isfinite(whole := _by_response(loss, 0.0)):
        offers.append(Fraction(whole))  # the group's epsilon, which costs less than k^2 rho of one
    total = natural if declared is None else declared
    if declared and math.isfinite(whole := _curve_in_zcdp(loss, float(declared))):
        offers.append(Fraction(whole))
    if not offers:
        raise _needs_delta("zCDP cost", total)
    return min(offers), total


def _needs_delta(price: str, delta: Fraction) -> Refused:
    """Return the refusal of a plan whose cost is finite only if it may use a part of the account's delta."""
    return Refused(
        f"this plan has no finite {price} at delta {nearest(delta)}; it needs a part of the account's delta",
        code="needs_delta",
    )


def _curve_in_zcdp(loss: PrivacyLoss, delta: float) -> float:
    """rho of a plan from its whole curve, cut off where a delta is declared, or from its (epsilon, delta) alone."""
    return min(_by_response(loss, delta), truncated_rho(loss, delta=delta))


def _by_response(loss: PrivacyLoss, delta: float) -> float:
    """rho of randomized response with the plan's epsilon, to which every such plan compares."""
    epsilon = float(loss.epsilon(delta=delta))
    return double_above(response_rho(epsilon)) if math.isfinite(epsilon) else math.inf


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
        raise _needs_delta("epsilon", delta)
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

    With ``rough``, sampling costs what is sampled (quasi-convexity of Renyi divergence), and what a Gaussian dominates
    costs what that one does: no amplification.
    """
    if not rough:
        return leaf.concentrated()
    plain = leaf.unamplified
    found, mu = plain.concentrated(), plain.gaussian_above
    return (Fraction(mu * (1.0 + 1e-15)) ** 2 / 2, Fraction(0)) if found is None and mu is not None else found


_PRICES: Final[dict[str, Callable[[PrivacyLoss, Filter, Fraction | None], Price]]] = {
    "zcdp": _in_zcdp,
    "approx": _in_approx,
    "gdp": _in_gdp,
    "rdp": _in_rdp,
}


# zCDP price of a plan by cutting off the rare large losses, so that sampled Gaussians keep their amplification.
#
# A sampled-Gaussian plan's Renyi curve is not under rho * order for any useful rho: at high orders the amplification is
# gone. Let E = {-t <= L <= t} with delta >= max(P(not E), Q(not E)), and condition both P and Q on E (conditioning P
# alone would leave D(Q||P') infinite). The conditioned pair has losses of about t at most, so its curve bends away from
# high orders, and the plan is delta-approximate rho-zCDP with rho = sup over orders of D_a / a
# (docs/theory/truncated-zcdp.md).

GAP: Final = 1e-3  # relative width at which refining the ladder of orders stops
ROUNDING: Final = 1 + 1e-9
LARGEST_ORDER: Final = 1e6
ORDERS: Final = tuple(1.7**n for n in range(-8, 20))  # orders less one that the cut is looked for at


def truncated_rho(loss: PrivacyLoss, *, delta: float) -> float:
    """An upper bound on rho such that the plan is delta-approximate rho-zCDP; infinite where none is found.

    At delta = 0 nothing is cut off and a bounded loss is needed.

    >>> import tallystick as ts
    >>> rho = truncated_rho(ts.laplace(scale=2), delta=0.0)
    >>> bool(math.exp(-0.5) + 0.5 - 1 <= rho <= 1.01 * (math.exp(-0.5) + 0.5 - 1))
    True
    """
    if not loss.terms:
        return 0.0
    top = float(loss.renyi(order=math.inf)) if delta == 0 else cut(loss, delta)
    if not math.isfinite(top):
        return math.inf
    if top <= 0:
        return 0.0
    lost = -math.log1p(-delta)
    curve = _curve(loss, top, lost)
    return _supremum(curve, top + lost, first=_first_order(curve)) * ROUNDING


def cut(loss: PrivacyLoss, delta: float) -> float:
    """A t with P(|L| > t) <= delta and Q(|L| > t) <= delta: Chernoff, P(L > t) <= exp(s D_{1+s} - s t).

    It holds in both directions, and P(L < -t) <= e^{-t} Q(L < -t), so each tail may have delta / (1 + e^{-t}).
    (The exact tail would lower t by about log(10) / s; the supremum below is rarely reached there.)
    """
    curve = [(s, float(loss.renyi(order=1.0 + s))) for s in ORDERS]

    def within(tail: float) -> float:
        return min(divergence - math.log(tail) / s for s, divergence in curve)

    least = 0.9 * within(delta / 2.0)
    return max(least, within(delta / (1.0 + math.exp(-least))))


def _first_order(curve: Callable[[float], float]) -> float:
    """The lowest a - 1 on the ladder, where D_a, which bounds all lower orders, is least: lost / theta grows below."""
    return min((math.pow(10.0, n / 2) for n in range(-6, 1)), key=lambda theta: curve(theta) / theta)


def _curve(loss: PrivacyLoss, top: float, lost: float) -> Callable[[float], float]:
    """theta -> a convex bound on theta * D_{1 + theta} of the conditioned pair, both directions.

    min over s <= theta of s D_{1+s}(P||Q) + (theta - s) top, plus (1 + theta) lost, where lost = -log P(E) at most.
    The minimum is attained at theta until the slope reaches ``top`` and stays at that point from there on.
    """
    known: dict[float, float] = {0.0: 0.0}

    def at(theta: float) -> float:
        if theta not in known:
            value = float(loss.renyi(order=1.0 + theta)) * theta if theta <= LARGEST_ORDER else math.inf
            known[theta] = value if value == value else math.inf
        # every known point s <= theta gives a valid bound; at theta itself it is the plain curve
        return min(value + (theta - s) * top for s, value in known.items() if s <= theta) + (1.0 + theta) * lost

    return at


def _supremum(curve: Callable[[float], float], top: float, *, first: float) -> float:
    """sup over a > 1 of D_a / a, certified: chords of a convex curve between the rungs, ``top`` / a beyond the last."""
    rungs = [first]
    while True:
        theta = rungs[-1]
        if theta > LARGEST_ORDER or (len(rungs) > 3 and top / (1.0 + theta) <= _best(curve, rungs)):
            break
        rungs.append(theta * 1.6)
    values = [curve(theta) for theta in rungs]
    for _ in range(60):
        heights = [_chord(rungs[i], rungs[i + 1], values[i], values[i + 1]) for i in range(len(rungs) - 1)]
        reached = max(_ratio(theta, value) for theta, value in zip(rungs, values, strict=True))
        worst = max(range(len(heights)), key=heights.__getitem__)
        ends = max(values[0] / rungs[0], top / (1.0 + rungs[-1]))
        highest = max(heights[worst], ends)
        if heights[worst] <= reached * (1.0 + GAP) or heights[worst] <= ends:
            break
        middle = math.sqrt(rungs[worst] * rungs[worst + 1])
        rungs.insert(worst + 1, middle)
        values.insert(worst + 1, curve(middle))
    return highest


def _best(curve: Callable[[float], float], rungs: list[float]) -> float:
    return max(_ratio(theta, curve(theta)) for theta in rungs)


def _ratio(theta: float, value: float) -> float:
    return value / (theta * (1.0 + theta))


def _chord(left: float, right: float, low: float, high: float) -> float:
    """sup over [left, right] of (A + B theta) / (theta (1 + theta)) for the chord A + B theta, by its derivative."""
    if not math.isfinite(high):
        return math.inf
    slope = (high - low) / (right - left)
    start = low - slope * left
    best = max(_ratio(left, low), _ratio(right, high))
    if slope > 0 and start < 0:  # B x^2 + 2 A x + A = 0
        root = (-start + math.sqrt(start * start - start * slope)) / slope
        if left < root < right:
            best = max(best, _ratio(root, start + slope * root))
    return best


# Was every charge enough? Plans are priced again from their text, by today's accountant.
#
# This is apart from ``verify``: a record can be whole and a price too low, because an accountant had a fault that was
# found later, or because somebody wrote a cheap charge into a ledger of their own making.


def underpriced(ledger: Ledger) -> list[str]:
    """One line for every charge that paid less than its plan costs, or whose plan has no cost that can be computed."""
    charges = []
    for account in ledger.accounts():
        known: dict[tuple[str, Amount], str] = {}
        for event in account.history():
            plan_and_price = (event.plan, event.amount)
            if event.paid and plan_and_price not in known:
                known[plan_and_price] = _shortfall(account, *plan_and_price)
            if event.paid and known[plan_and_price]:
                charges.append(f"ledger entry {event.charge} on {account.name}: {known[plan_and_price]}")
    return charges


def _shortfall(account: Account, plan: str, paid: Amount) -> str:
    delta = Fraction(paid.a1, UNITS_1) if paid.a1 else None
    try:
        loss = PrivacyLoss.from_json(plan)
        today = price(loss, account.currency, account.protects, delta=delta)
    except TallystickError as error:
        return f"the cost of its plan cannot be computed today ({type(error).__name__})"
    enough = today.a0 <= paid.a0 and today.a1 <= paid.a1
    return "" if enough else f"paid {paid}, and its plan costs {today} today"
