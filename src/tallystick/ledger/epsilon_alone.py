"""An epsilon without a delta, on an account that counts neither: both costs are shown, and the caller chooses.

In rho or mu, pure epsilon costs many times as much as the same epsilon at a small delta.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

from tallystick.digits import percent_up, up
from tallystick.errors import EpsilonWithoutDelta, Remedy, TallystickError
from tallystick.ledger.denial import Denial, higher_limits, higher_value, lower_value, why_not

if TYPE_CHECKING:
    from tallystick.ledger.account import Account
    from tallystick.ledger.filters import Amount


def counts_epsilon(account: Account) -> bool:
    """True if the account's currency is epsilon: then pure epsilon costs exactly what it says."""
    return account.currency.kind == "approx"


def two_costs(
    account: Account,
    epsilon: float,
    delta: float,
    pure: Amount,
    price_at: Callable[[float, float], Amount],
    *,
    estimator: str | None = None,
) -> EpsilonWithoutDelta:
    """The refusal with the cost of pure epsilon, and of epsilon at ``delta`` where that is known.

    ``price_at`` is the cost of an epsilon at a delta. If neither cost fits, another epsilon at the delta is offered.
    ``estimator`` names the class whose constructor takes the delta, if the refused call does not.
    """
    try:
        other = price_at(epsilon, delta)
    except TallystickError:  # this account cannot pay for it with a delta
        other = None
    remedies = []
    reasons = (why_not(account, pure), None if other is None else why_not(account, other))
    if reasons[0] is None:
        share = percent_up(Fraction(pure.a0, account.remaining.a0))
        remedies.append(Remedy("mean_pure", epsilon=epsilon, cost=_cost(pure), share=f"{share} of what is left"))
    if other is not None and reasons[1] is None:
        takes = {} if estimator is None else {"estimator": estimator}
        remedies.append(Remedy("give_delta", epsilon=epsilon, delta=delta, cost=_cost(other), **takes))
    if not remedies and other is not None:
        remedies += _other_epsilon(account, epsilon, delta, other, price_at)
    return EpsilonWithoutDelta(epsilon, pure=pure, delta=delta, with_delta=other, reasons=reasons, remedies=remedies)


def _other_epsilon(
    account: Account, epsilon: float, delta: float, cost: Amount, price_at: Callable[[float, float], Amount]
) -> list[Remedy]:
    """Return an epsilon at the delta that fits, and the limit at which the epsilon itself does."""

    def price(value: float) -> Amount:
        return price_at(value, delta)

    left = account.remaining
    offers: list[Remedy] = []
    if why_not(account, cost) == "too_little":
        value = higher_value(epsilon, price, account)
    else:
        value = lower_value("epsilon", epsilon, price, Denial(cost, left), account)
        offers = [Remedy(each.kind, **each.facts, delta=delta) for each in higher_limits(account, cost)]
    if value is None:
        return offers
    return [Remedy("set_argument", argument="epsilon", value=value, more={"delta": delta}), *offers]


def _cost(amount: Amount) -> str:
    """The amount in three digits, rounded up."""
    return f"{amount.filter.rule.symbol} {up(amount.first)}"
