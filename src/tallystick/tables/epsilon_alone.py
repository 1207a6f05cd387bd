"""Refuses a new plan whose price is an epsilon without a delta, on an account that counts rho or mu."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.ledger.epsilon_alone import counts_epsilon, two_costs

if TYPE_CHECKING:
    from tallystick.ledger.account import Account
    from tallystick.ledger.filters import Amount
    from tallystick.tables.table import Plan


def require_stated(plan: Plan, account: Account) -> None:
    """Raise ``EpsilonWithoutDelta`` unless the plan says which epsilon it means.

    Call it for a new request alone: a stored answer is returned whatever its price was called.
    """
    is_alone = "epsilon" in plan.budget and "delta" not in plan.budget
    if plan.pure or not is_alone or counts_epsilon(account):
        return

    def price_at(delta: float) -> Amount:
        return plan.reprice({"delta": delta}, account).price(account)

    pure = plan.price(account)
    delta = account.quoted_delta(plan.delta or 0.0)
    raise two_costs(account, float(plan.budget["epsilon"]), delta, pure, price_at)
