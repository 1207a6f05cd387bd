"""Privacy filters: running totals that stay valid when the analyst adapts to the answers; and the amounts they add.

Only four are shipped, each a theorem (docs/theory/filters.md). Totals of natural PLDs, trade-off curves, "some
Renyi order is still under budget", the smaller of two filters, or a change of currency are **not** filters, and the
schema has no room for them: an account has one currency, fixed when it is opened.

An amount is two 64-bit integers: ``a0`` counts units of 1e-12 (of rho, epsilon, mu squared or epsilon at an order) and
``a1`` counts units of 1e-18 (of delta). Charges round up, limits round down, and no float ever reaches the database.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from tallystick.digits import amount_down, amount_up, typed, up
from tallystick.errors import InvalidInput, NotComputable
from tallystick.rounding import UNITS_0 as UNITS_0
from tallystick.rounding import UNITS_1 as UNITS_1
from tallystick.rounding import Number as Number
from tallystick.rounding import as_written as as_written

if TYPE_CHECKING:
    from tallystick.accounting.adjacency import Protects
    from tallystick.accounting.loss import PrivacyLoss

LARGEST: Final = 2**62 - 1  # used + asked then never overflows int64 in SQL


def _near(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def charge_units(name: str, value: Fraction, units: int) -> int:
    """Integer units of a charge, rounded up: a positive charge costs at least one unit.

    >>> charge_units("rho", Fraction(1, 3), UNITS_0)
    333333333334
    >>> charge_units("rho", Fraction(1, 10**30), UNITS_0)
    1
    """
    if value < 0:
        raise InvalidInput(name, _near(value), "a number >= 0")
    amount = math.ceil(value * units)
    if amount > LARGEST:
        raise InvalidInput(name, _near(value), f"at most {LARGEST / units:.6g}")
    return amount


def limit_units(name: str, value: Fraction, units: int) -> int:
    """Integer units of a limit, rounded down.

    >>> limit_units("rho", Fraction(1, 3), UNITS_0)
    333333333333
    """
    if value < 0:
        raise InvalidInput(name, _near(value), "a number >= 0")
    amount = math.floor(value * units)
    if amount > LARGEST:
        raise InvalidInput(name, _near(value), f"at most {LARGEST / units:.6g}")
    return amount


def first_limit(name: str, value: Number) -> int:
    """A limit on the first coordinate: it must be positive after rounding down.

    >>> first_limit("rho", 0.5)
    500000000000
    """
    amount = limit_units(name, as_written(name, value), UNITS_0)
    if amount == 0:
        raise InvalidInput(name, value, "a limit of at least 1e-12")
    return amount


def second_limit(name: str, value: Number) -> int:
    """A limit on delta: zero is normal and means that no delta may be spent; one or more is refused.

    >>> second_limit("delta", 1e-6)
    1000000000000
    """
    amount = limit_units(name, as_written(name, value), UNITS_1)
    if amount >= UNITS_1:
        raise InvalidInput(name, value, "a number in [0, 1)")
    return amount


@dataclass(frozen=True, slots=True)
class Rule:
    """Quantity that one kind of filter adds up, and the theorem that makes the sum a filter."""

    symbol: str
    title: str
    theorem: str
    spends_delta: bool


RULES: Final[dict[str, Rule]] = {
    "zcdp": Rule(
        "rho",
        "zCDP",
        "the sum of rho is a filter: Feldman & Zrnic 2021; with delta: Whitehouse, Ramdas, Rogers & Wu 2023",
        True,
    ),
    "approx": Rule(
        "epsilon", "(epsilon, delta)", "basic composition is a filter: Rogers, Roth, Ullman & Vadhan 2016", True
    ),
    "gdp": Rule("mu^2", "GDP", "the sum of mu^2 is a filter: Smith & Thakurta 2022", False),
    "rdp": Rule(
        "epsilon", "RDP", "divergence at one fixed order is a filter: Feldman & Zrnic 2021; Lecuyer 2021", False
    ),
}


MOST_DELTA: Final = Fraction(1, 100)
"""Largest delta of a new limit."""
USUAL_DELTA: Final = 1e-6
"""The delta at which epsilon is shown for an account whose limit has no delta."""
MOST_FOR_CONVERSION: Final = Fraction(1, 100_000)
"""Largest part of a quoted delta that the conversion to epsilon uses. A larger part shows a smaller epsilon."""
WHAT_RHO_IS: Final = (
    "rho (zCDP) is the unit of cost: costs in rho add up. "
    "At any delta, epsilon is at most rho + 2 sqrt(rho ln(1/delta))"
)
"""Sentence that stands beside a rho, once."""


@dataclass(frozen=True, slots=True)
class Filter:
    """One currency: ``zcdp``, ``approx``, ``gdp`` or ``rdp@order``.

    >>> Filter.named("rdp@16").order
    Fraction(16, 1)
    """

    kind: str
    order: Fraction | None = None

    @classmethod
    def named(cls, name: str) -> Filter:
        """The filter of that name, as stored in the ledger."""
        kind, at, order = name.partition("@")
        if kind in RULES and (kind == "rdp") == bool(at):
            try:
                value = Fraction(order) if at else None
            except (ValueError, ZeroDivisionError):
                value = Fraction(0)
            if value is None or value > 1:
                return cls(kind, value)
        raise InvalidInput("filter", name, "zcdp, approx, gdp or rdp@order with order > 1")

    @property
    def name(self) -> str:
        """The name stored in the ledger.

        >>> Filter("rdp", Fraction(3, 2)).name
        'rdp@3/2'
        """
        return self.kind if self.order is None else f"{self.kind}@{self.order}"

    @property
    def rule(self) -> Rule:
        """Words for what is added up, and why that is valid."""
        return RULES[self.kind]

    @property
    def title(self) -> str:
        """The name for people.

        >>> Filter("zcdp").title
        'zCDP filter'
        """
        return f"{self.rule.title} filter" + (f" at order {self.order}" if self.order else "")

    def guarantee(self, limit0: int, limit1: int, protects: Protects) -> PrivacyLoss:
        """The loss an account of this limit promises never to exceed, for every strategy of the analyst."""
        from tallystick.accounting import losses

        first, second = float(Fraction(limit0, UNITS_0)), float(Fraction(limit1, UNITS_1))
        about = protects.about
        if self.kind == "zcdp":
            return losses.zcdp(rho=first, delta=second, **about)
        if self.kind == "approx":
            if limit1 == 0:
                return losses.pure_dp(epsilon=first, **about)
            return losses.approx_dp(epsilon=first, delta=second, **about)
        if self.kind == "gdp":
            return losses.gdp(mu=root_up(first), **about)
        return losses.renyi_dp({float(self.order or 0): first}, **about)


@dataclass(frozen=True, slots=True, order=False)
class Amount:
    """An amount in one currency, held as the two integers of the record.

    >>> str(Amount(Filter("zcdp"), 12_500_000_000, 10**12))
    'rho 0.0125, delta 1e-6'
    """

    filter: Filter
    a0: int
    a1: int = 0
    rounds_up: bool = field(default=True, compare=False, repr=False)
    """False for what is left: its text must not promise more than there is."""
    adjacency: str = field(default="add_remove", compare=False, repr=False)
    """The neighbours of the account that the amount belongs to."""

    @property
    def first(self) -> Fraction:
        """rho, epsilon or mu squared, exactly."""
        return Fraction(self.a0, UNITS_0)

    @property
    def delta(self) -> Fraction:
        """delta, exactly."""
        return Fraction(self.a1, UNITS_1)

    def fits(self, left: Amount) -> bool:
        """True if it can be paid from what is left."""
        return self.a0 <= left.a0 and self.a1 <= left.a1

    def split(self, parts: int) -> PrivacyLoss:
        """One of ``parts`` equal shares as a loss, as ``PrivacyLoss.split`` makes it: all of them fit together.

        The loss is about the neighbours of the account that the amount belongs to, so that the account can pay it.

        >>> print(Amount(Filter("zcdp"), 5 * 10**11).split(12))
        zcdp(rho=0.041666666666, delta=0)
        """
        from tallystick.accounting.adjacency import Adjacency, Protects

        protects = Protects(Adjacency(self.adjacency))
        return self.filter.guarantee(self.a0, self.a1, protects).split(parts)

    def times(self, count: int) -> Amount:
        """Return what so many charges of this amount come to.

        >>> print(Amount(Filter("zcdp"), 8_333_333_333).times(12))
        rho 0.1
        """
        return replace(self, a0=self.a0 * count, a1=self.a1 * count)

    def __str__(self) -> str:
        return self.text(upward=self.rounds_up)

    def text(self, *, upward: bool = True) -> str:
        """The amount for people. What is spent or promised is rounded up, what is left down."""
        order = f" at order {self.filter.order}" if self.filter.order else ""
        shown = amount_up if upward else amount_down
        text = f"{self.filter.rule.symbol} {shown(self.first)}{order}"
        return f"{text}, delta {shown(self.delta)}" if self.a1 else text

    def of_left(self, left: Amount) -> str:
        """Return the cost beside what is left.

        >>> Amount(Filter("zcdp"), 6 * 10**10).of_left(Amount(Filter("zcdp"), 10**11))
        'rho 0.06 of the 0.1 left'
        """
        is_one_number = not self.a1 and not self.filter.order
        rest = amount_down(left.first) if is_one_number else left.text(upward=False)
        return f"{self} of the {rest} left"

    def of_limit(self, limit: Amount, *, with_delta: bool = False) -> str:
        """Return what is left beside the limit; JSON has all digits. Every command prints what is left with this.

        ``with_delta`` shows delta even if the limit is without one.

        >>> limit = Amount(Filter("zcdp"), 10**11, 10**12)
        >>> Amount(Filter("zcdp"), 4 * 10**10, 10**12).of_limit(limit)
        'rho 0.04 of 0.1, delta 1e-6 of 1e-6'
        >>> Amount(Filter("zcdp"), 4567).of_limit(Amount(Filter("zcdp"), 10**11))
        'rho 0 of 0.1'
        """
        order = f" at order {self.filter.order}" if self.filter.order else ""
        text = f"{self.filter.rule.symbol} {_left(self.first, limit.first)} of {amount_up(limit.first)}{order}"
        if not limit.a1 and not with_delta:
            return text
        return f"{text}, delta {_left(self.delta, limit.delta)} of {amount_up(limit.delta)}"

    def as_epsilon_at(self, delta: float) -> str:
        """The amount as epsilon at a delta above its own; empty if it is an epsilon already, or nothing.

        Amounts of one account are all shown at ``account.quoted_delta()``: at two deltas they cannot be compared.

        >>> Amount(Filter("zcdp"), 12_500_000_000).as_epsilon_at(1e-3)
        'epsilon 0.404 at delta 0.001'
        """
        if self.filter.kind == "approx" or self.a0 <= 0:
            return ""
        from tallystick.accounting.adjacency import Protects

        loss = self.filter.guarantee(self.a0, self.a1, Protects())
        return f"epsilon {up(loss.epsilon(delta=delta))} at delta {typed(delta)}"

    def to_dict(self) -> dict[str, object]:
        """The amount as plain data; the integers are the record, the floats are for reading."""
        return {
            "filter": self.filter.name,
            "a0": self.a0,
            "a1": self.a1,
            self.filter.rule.symbol: float(self.first),
            "delta": float(self.delta),
        }


DUST: Final = Fraction(1, 1_000_000)
"""Share of a limit below which an amount that is left is printed as 0: no query costs so little."""


def _left(value: Fraction, limit: Fraction) -> str:
    """Return an amount that is left, rounded down."""
    return "0" if value < DUST * limit else amount_down(value)


def why_quoted(limit: Amount) -> str:
    """Sentence on a quoted delta that is above the delta of the limit; empty if it is not.

    >>> why_quoted(Amount(Filter("zcdp"), 5 * 10**11, 10**12))
    'Epsilon is shown at delta 2e-6: 1e-6 of the limit, and 1e-6 to turn rho into epsilon.'
    """
    quoted = as_written("delta", quoted_delta(limit))
    if limit.filter.kind != "zcdp" or not limit.a1 or quoted <= limit.delta:
        return ""
    shown = [typed(float(each)) for each in (quoted, limit.delta, quoted - limit.delta)]
    return f"Epsilon is shown at delta {shown[0]}: {shown[1]} of the limit, and {shown[2]} to turn rho into epsilon."


def quoted_delta(limit: Amount, spent: float = 0.0) -> float:
    """The one delta at which every screen, card and file shows epsilon for an account with this limit.

    An account in epsilon has the delta of its limit. For any other, epsilon is finite only above the delta that the
    limit lets the account spend. Half of the quoted delta is for the limit, and half for the conversion of rho: twice
    the limit's delta. A smaller factor hardly lowers delta and raises epsilon without bound. The conversion gets at
    most 1e-5, so a large limit is quoted at about its own delta, where epsilon is never 0. The quoted delta is at
    least 1e-6. ``spent`` is the delta of a plan that may be above the limit.

    >>> quoted_delta(Amount(Filter("zcdp"), 5 * 10**11)), quoted_delta(Amount(Filter("zcdp"), 5 * 10**11, 10**12))
    (1e-06, 2e-06)
    """
    most = max(limit.delta, as_written("delta", spent))
    if limit.filter.kind == "approx" and limit.delta == most:
        return float(limit.delta)
    for_conversion = min(most, MOST_FOR_CONVERSION, (1 - most) / 2)
    return max(USUAL_DELTA, float(most + for_conversion))


def epsilon_alone(loss: PrivacyLoss, price: Amount, delta: float) -> str:
    """Return a release alone as epsilon; empty if the cost is an epsilon.

    The release's own loss may guarantee more than the cost it is charged at. ``delta`` is that at which the account's
    epsilon is shown.

    >>> from tallystick.accounting.losses import pure_dp, zcdp
    >>> epsilon_alone(pure_dp(epsilon=0.1), Amount(Filter("zcdp"), 5_000_000_000), 1e-6)
    'epsilon 0.1'
    >>> epsilon_alone(zcdp(rho=0.005), Amount(Filter("zcdp"), 5_000_000_000), 1e-6)
    'epsilon 0.43 at delta 1e-6'
    """
    if price.filter.kind == "approx" or price.a0 <= 0:
        return ""
    from tallystick.accounting.adjacency import Protects

    charged = price.filter.guarantee(price.a0, price.a1, Protects()).epsilon(delta=delta)
    try:
        pure, own = loss.epsilon(delta=0.0), loss.epsilon(delta=delta)
    except NotComputable:
        pure, own = math.inf, charged
    if pure < math.inf:
        return f"epsilon {up(as_written('epsilon', pure))}"
    return f"epsilon {up(min(own, charged))} at delta {typed(delta)}"


def root_up(value: float) -> float:
    """A float at least as large as the square root.

    >>> root_up(2.0) ** 2 >= 2
    True
    """
    root = math.sqrt(value)
    return root if Fraction(root) ** 2 >= Fraction(value) else math.nextafter(root, math.inf)
