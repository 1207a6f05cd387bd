"""An epsilon without a delta, on an account that counts neither: both costs are shown, and the caller chooses.

In rho or mu, pure epsilon costs many times as much as the same epsilon at a small delta.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

from tallystick.digits import percent_up, up
from tallystick.errors import EpsilonWithoutDelta, Remedy, TallystickError
from tallystick.ledger.denial import can_pay

if TYPE_CHECKING:
    from tallystick.ledger.account import Account
    from tallystick.ledger.filters import Amount


def counts_epsilon(account: Account) -> bool:
    """Whether the account's currency is epsilon: then pure epsilon costs exactly what it says."""
    return account.currency.kind == "approx"


def two_costs(
    account: Account, epsilon: float, delta: float, pure: Amount, price_at: Callable[[float], Amount]
) -> EpsilonWithoutDelta:
    """The refusal with the cost of pure epsilon, and of epsilon at ``delta`` where that can be priced."""
    try:
        other = price_at(delta)
    except TallystickError:  # this account cannot pay for it with a delta
        other = None
    remedies = []
    if can_pay(account, pure):
        share = percent_up(Fraction(pure.a0, account.remaining.a0))
        remedies.append(Remedy("mean_pure", epsilon=epsilon, cost=_cost(pure), share=f"{share} of what is left"))
    if other is not None and can_pay(account, other):
        remedies.append(Remedy("give_delta", epsilon=epsilon, delta=delta, cost=_cost(other)))
    return EpsilonWithoutDelta(epsilon, pure=pure, delta=delta, with_delta=other, remedies=remedies)


def _cost(amount: Amount) -> str:
    """The amount in three digits, rounded up."""
    return f"{amount.filter.rule.symbol} {up(amount.first)}"
