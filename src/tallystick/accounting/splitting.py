"""Equal shares of a budget, each a whole number of the ledger's units."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from tallystick.accounting import check, losses
from tallystick.errors import InvalidInput
from tallystick.rounding import UNITS_0, UNITS_1, as_written, root_below, units_below

if TYPE_CHECKING:
    from tallystick.accounting.leaf import Limit
    from tallystick.accounting.loss import PrivacyLoss

ALLOWED: Final = "a budget: zcdp(rho=, delta=), approx_dp(epsilon=, delta=), pure_dp(epsilon=) or gdp(mu=)"
MOST_PARTS: Final = 10**9


def split(budget: PrivacyLoss, parts: int) -> PrivacyLoss:
    """The loss of one of ``parts`` equal shares; see ``PrivacyLoss.split``."""
    count = check.count("parts", parts, least=1, most=MOST_PARTS)
    limit = _limit(budget)
    about = budget.protects.about
    if limit.currency == "gdp":
        mu = root_below(_share("mu", limit.amount, 2, count), UNITS_0)
        return losses.gdp(mu=_least("parts", parts, mu), **about)
    amount = units_below(_share("budget", limit.amount, 1, count), UNITS_0)
    delta = units_below(_share("delta", limit.delta, 1, count), UNITS_1)
    _least("parts", parts, amount)
    if limit.delta:
        _least("parts", parts, delta)
    if limit.currency == "zcdp":
        return losses.zcdp(rho=amount, delta=delta, **about)
    if limit.delta:
        return losses.approx_dp(epsilon=amount, delta=delta, **about)
    return losses.pure_dp(epsilon=amount, **about)


def _limit(budget: PrivacyLoss) -> Limit:
    """The limit that a budget names, in a currency whose shares are exact."""
    is_one_leaf = len(budget.terms) == 1 and budget.terms[0][1] == 1 and budget.group == 1
    limit = budget.terms[0][0].limit() if is_one_leaf else None
    if limit is None or limit.currency == "rdp":
        raise InvalidInput("budget", str(budget), ALLOWED)
    return limit


def _share(name: str, amount: float, power: int, count: int) -> Fraction:
    return as_written(name, amount) ** power / count


def _least(name: str, parts: int, amount: float) -> float:
    """The share itself, if it is at least one unit."""
    if amount == 0:
        raise InvalidInput(name, parts, "fewer parts: each one must be at least one unit of the ledger")
    return amount
