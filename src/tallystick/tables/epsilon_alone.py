"""Refuses a new plan whose cost is an epsilon without a delta, on an account that counts rho or mu."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.ledger.epsilon_alone import counts_epsilon, two_costs

if TYPE_CHECKING:
    from tallystick.errors import EpsilonWithoutDelta
    from tallystick.ledger.account import Account
    from tallystick.ledger.filters import Amount
    from tallystick.tables.table import Plan


def require_stated(plan: Plan, account: Account) -> None:
    """Raise ``EpsilonWithoutDelta`` unless the plan says which epsilon it means.

    Call it for a new request alone: a stored answer is returned for any words of its cost.
    """
    if not is_unstated(plan, account):
        return
    raise stated_costs(plan, account)


def stated_costs(plan: Plan, account: Account) -> EpsilonWithoutDelta:
    """The refusal of a plan at an epsilon without a delta, with both costs."""

    def price_at(epsilon: float, delta: float) -> Amount:
        return plan.reprice({"epsilon": epsilon, "delta": delta}, account).price(account)

    pure = plan.price(account)
    delta = account.quoted_delta(plan.delta or 0.0)
    return two_costs(account, float(plan.budget["epsilon"]), delta, pure, price_at)


def is_unstated(plan: Plan, account: Account) -> bool:
    """True if the plan's cost is an epsilon without a delta that the account would charge in two ways."""
    is_alone = "epsilon" in plan.budget and "delta" not in plan.budget
    return is_alone and not plan.pure and not counts_epsilon(account)
