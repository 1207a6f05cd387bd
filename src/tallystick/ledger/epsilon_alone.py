"""An epsilon without a delta, on an account that counts neither: both costs are shown, and the caller chooses.

In rho or mu, pure epsilon costs many times as much as the same epsilon at a small delta.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

from tallystick.errors import EpsilonWithoutDelta, TallystickError
from tallystick.printing import given, percent_up, up

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
    shown = given(epsilon)
    lines = [
        f"epsilon {shown} without a delta can mean two things, and this account is charged differently for each",
        f"Pure epsilon {shown} costs {_cost(pure)} ({_share_of_left(pure, account)}): add pure=True.",
    ]
    if other is not None:
        lines.append(f"Epsilon {shown} at delta {given(delta)} costs {_cost(other)}: add delta={given(delta)}.")
    lines.append("nothing was charged and no data was read")
    return EpsilonWithoutDelta("\n".join(lines), epsilon, pure=pure, delta=delta, with_delta=other)


def _cost(amount: Amount) -> str:
    """The amount in three digits, rounded up."""
    return f"{amount.filter.rule.symbol} {up(amount.first, 3)}"


def _share_of_left(cost: Amount, account: Account) -> str:
    left = account.remaining
    if cost.a0 > left.a0:
        return "more than what is left"
    return f"{percent_up(Fraction(cost.a0, left.a0), 3)} of what is left"
