"""Denials of training runs: a smaller plan that fits what is left, then a higher limit. Each one is tried first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.digits import decimal_down
from tallystick.errors import BudgetExceeded, Remedy, RunEnded, TallystickError
from tallystick.learn.training import at_epsilon
from tallystick.ledger.denial import Denial, can_pay, higher_limits, lower_value, needed_and_left
from tallystick.ledger.filters import Amount

if TYPE_CHECKING:
    from tallystick.learn.training import SgdPlan
    from tallystick.ledger.training import Run

PLAN = "ts.learn.sgd_plan"
LEAST_USEFUL = 0.001
"""Smallest part of the epsilon of a plan that is offered: with less, a model is all noise."""


def plan_denied(problem: BudgetExceeded, run: Run, plan: SgdPlan) -> BudgetExceeded:
    """Return the denial of a whole plan, with a smaller plan that fits."""
    if problem.asked is None or problem.left is None:
        return problem
    offers = [*_smaller(Denial(problem.asked, problem.left), run, plan), *higher_limits(run.account, problem.asked)]
    return problem.with_remedies(offers)


def blocks_denied(run: Run, plan: SgdPlan) -> RunEnded:
    """Return the error of a run in blocks of which the account could not pay the first one."""
    costs, left = run.costs(), run.account.remaining
    steps = min(run.block, run.steps)
    first = run._price_of_steps(steps)
    if first is None:
        return RunEnded(f"the account {run.account.name} cannot pay for a block of {steps:,} steps at any limit")
    needed, held = needed_and_left(first, left, run.account.limit)
    offers: list[Remedy] = []
    if costs.whole_fits:
        offers.append(Remedy("set_argument", argument="pay", value="whole"))
    if costs.blocks is not None:
        offers += _smaller(Denial(costs.blocks, left), run, plan, in_blocks=True)
    message = (
        f"the account {run.account.name} cannot pay for a block of {steps:,} steps: it needs {needed}, and {held} "
        "is left.\nNothing was trained or charged."
    )
    return RunEnded(
        message,
        asked=first,
        left=left,
        limit=run.account.limit,
        account=run.account.name,
        unit=run.account.unit,
        remedies=[*offers, *higher_limits(run.account, costs.blocks or first)],
    )


def _smaller(denial: Denial, run: Run, plan: SgdPlan, *, in_blocks: bool = False) -> list[Remedy]:
    """Return the plan with the largest epsilon that the account can pay, if one is found."""
    delta, account = plan.delta, run.account
    if delta is None:
        return []
    if denial.left.a1 < denial.asked.a1:
        delta = float(decimal_down(denial.left.delta))
    if delta <= 0.0:
        return []

    def price(epsilon: float) -> Amount:
        made = at_epsilon(plan, epsilon=epsilon, delta=delta)
        steps = min(run.block, plan.steps) if in_blocks else plan.steps
        count = -(-plan.steps // steps)
        share = delta * steps / plan.steps if account.currency.rule.spends_delta else None
        one = account.price(made.of_steps(steps), delta=share)
        return Amount(one.filter, count * one.a0, count * one.a1)

    try:
        asked = float(decimal_down(float(plan.privacy.epsilon(delta=plan.delta or delta)), 6))
        fits = denial.asked.a0 <= denial.left.a0 and can_pay(account, price(asked))
    except TallystickError:
        return []
    value = asked if fits else lower_value("epsilon", asked, price, denial, account)
    if value is None or value < asked * LEAST_USEFUL:
        return []
    facts = {"more": {"delta": delta}} if delta != plan.delta else {}
    return [Remedy("lower_price", argument="epsilon", value=value, estimator=PLAN, **facts)]
