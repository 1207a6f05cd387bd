"""A budget: which filter a loss names, and its limit in integers."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Final, NamedTuple

from tallystick.accounting.adjacency import ANY_UNIT, Protects
from tallystick.errors import InvalidInput
from tallystick.ledger.filters import (
    UNITS_0,
    UNITS_1,
    Filter,
    Number,
    as_written,
    first_limit,
    limit_units,
    second_limit,
)
from tallystick.rounding import read_amount

if TYPE_CHECKING:
    from tallystick.accounting.leaf import Limit
    from tallystick.accounting.loss import PrivacyLoss

SHAPE: Final = "rho=0.5,delta=1e-6, or epsilon=1,delta=1e-6, or epsilon=1, or mu=1"
ALLOWED: Final = (
    "a limit such as zcdp(rho=0.5, delta=1e-6), approx_dp(epsilon=1, delta=1e-6), pure_dp(epsilon=1), gdp(mu=1) or "
    "renyi_dp({8: 0.5})"
)


class Budget(NamedTuple):
    """A filter and a limit, rounded down.

    >>> Budget.zcdp(0.5, 1e-6).limit0
    500000000000
    """

    filter: Filter
    limit0: int
    limit1: int
    protects: Protects = ANY_UNIT

    @property
    def delta(self) -> Fraction:
        """The delta of the limit, exactly."""
        return Fraction(self.limit1, UNITS_1)

    @classmethod
    def zcdp(cls, rho: Number, delta: Number = 0) -> Budget:
        """A limit on the sum of rho and of delta."""
        return cls(Filter("zcdp"), first_limit("rho", rho), second_limit("delta", delta))

    @classmethod
    def approx(cls, epsilon: Number, delta: Number = 0) -> Budget:
        """A limit on the sum of epsilon and of delta."""
        return cls(Filter("approx"), first_limit("epsilon", epsilon), second_limit("delta", delta))

    @classmethod
    def gdp(cls, mu: Number) -> Budget:
        """A limit on the sum of mu squared."""
        written = as_written("mu", mu)
        if written <= 0:
            raise InvalidInput("mu", mu, "a finite number > 0")
        limit = limit_units("mu", written**2, UNITS_0)
        if limit == 0:
            raise InvalidInput("mu", mu, "a limit of at least 1e-6")
        return cls(Filter("gdp"), limit, 0)

    @classmethod
    def rdp(cls, order: Number, epsilon: Number) -> Budget:
        """A limit on the sum of Renyi divergences at one order."""
        at = as_written("order", order)
        if at <= 1 or at > 10**6 or at.denominator > 10**6:
            raise InvalidInput("order", order, "a number above 1 and at most 1000000")
        return cls(Filter("rdp", Fraction(at)), first_limit("epsilon", epsilon), 0)

    @classmethod
    def of(cls, loss: PrivacyLoss) -> Budget:
        """The budget a loss names by its type; a composition names none."""
        terms = loss.terms if hasattr(loss, "terms") else ()
        limit = terms[0][0].limit() if len(terms) == 1 and terms[0][1] == 1 else None
        if limit is None:
            raise InvalidInput("budget", str(loss), ALLOWED)
        if loss.group > 1:  # an account counts what single units lose: the group would be forgotten
            raise InvalidInput("budget", str(loss), "a budget for one unit; of a group, name the group as the unit")
        return cls._of_limit(limit)._replace(protects=loss.protects)

    @classmethod
    def _of_limit(cls, limit: Limit) -> Budget:
        if limit.currency == "rdp":
            return cls.rdp(limit.order or 0, limit.amount)
        if limit.currency == "gdp":
            return cls.gdp(limit.amount)
        return (cls.zcdp if limit.currency == "zcdp" else cls.approx)(limit.amount, limit.delta)


def read_limit(name: str, text: str, *, adjacency: str = "add_remove") -> PrivacyLoss:
    """A limit or a cost as the command line writes it; ``name`` is the option that a refusal names.

    >>> str(read_limit("--limit", "rho=0.5,delta=1e-6"))
    'zcdp(rho=0.5, delta=1e-06)'
    """
    from tallystick.accounting import losses

    makers: dict[frozenset[str], Callable[..., PrivacyLoss]] = {
        frozenset({"rho"}): losses.zcdp,
        frozenset({"rho", "delta"}): losses.zcdp,
        frozenset({"epsilon"}): losses.pure_dp,
        frozenset({"epsilon", "delta"}): losses.approx_dp,
        frozenset({"mu"}): losses.gdp,
    }
    pieces = [piece.partition("=") for piece in text.split(",")]
    try:
        words = {word.strip(): read_amount(word.strip(), value) for word, _, value in pieces}
    except InvalidInput:
        raise InvalidInput(name, text, SHAPE) from None
    maker = makers.get(frozenset(words))
    if maker is None or len(words) < len(pieces):
        raise InvalidInput(name, text, SHAPE)
    return maker(**words, adjacency=adjacency)
