"""Remedies for a denied plan: smaller plans that fit what is left.

Each one is planned and priced before it is offered, and the account is asked whether it could pay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from tallystick.digits import decimal_down, decimal_up
from tallystick.errors import BudgetExceeded, Remedy, TallystickError
from tallystick.ledger.denial import can_pay, lower_value, with_offers
from tallystick.ledger.pay import charged_delta
from tallystick.rounding import as_written
from tallystick.tables.budget import cost_of, cost_of_part
from tallystick.tables.keyset import PrivateKeys

SIZES: Final = (100, 1_000)
"""The sizes of a group for which a larger error is shown, where it depends on that."""

if TYPE_CHECKING:
    from tallystick.ledger.account import Account
    from tallystick.ledger.filters import Amount
    from tallystick.tables.table import Plan, Query


def with_plans(plan: Plan, problem: BudgetExceeded, account: Account, dataset: str | None = None) -> BudgetExceeded:
    """The same denial, with the smaller plans that fit; ``dataset`` is the registered name of the table."""
    offers = _offers(plan, problem, account)
    if dataset is not None:
        offers = (each.about(dataset) for each in offers)
    return with_offers(problem, account, offers)


def for_model(problem: BudgetExceeded) -> BudgetExceeded:
    """The denial of a model that is read from sums: none can be dropped, and their errors are not the model's."""
    remedies = []
    for remedy in problem.remedies:
        if remedy.kind == "lower_price":
            remedies.append(Remedy("lower_price", argument=remedy["argument"], value=remedy["value"]))
        elif remedy.kind == "raise_limit":
            remedies.append(remedy)
    return problem.with_remedies(remedies)


def for_suggestion(problem: BudgetExceeded) -> BudgetExceeded:
    """The denial of a suggestion: its measures are made of what was asked for, and nobody can leave some out."""
    kept = [remedy for remedy in problem.remedies if remedy.kind not in ("keep_measures", "lower_max_groups")]
    return problem.with_remedies(kept)


def _offers(plan: Plan, problem: BudgetExceeded, account: Account) -> Iterator[Remedy]:
    left, asked = problem.left, problem.asked
    if left is None or asked is None:
        return
    if left.a1 < asked.a1:
        yield from _other_keys(plan, left, account, lacks_delta_alone=asked.a0 <= left.a0)
        return
    yield from _larger_error(plan, problem, account)
    if left.a0 > 0:
        share = Fraction(left.a0, asked.a0)
        yield from _fewer_measures(plan, share, account)
        yield from _fewer_groups(plan, share, account)


def _planned(plan: Plan, account: Account, words: Mapping[str, Any], query: Query | None = None) -> Plan:
    """The plan of another question, or with other words of its price."""
    return plan.reprice({"pure": plan.pure, **words}, account, query)


def _price(plan: Plan, account: Account) -> Amount:
    return account.price(plan.privacy, delta=charged_delta(account, plan.delta))


def _fits(make: Callable[[], Plan], account: Account) -> bool:
    """True if there is such a plan and the account can pay for it."""
    try:
        return can_pay(account, _price(make(), account))
    except TallystickError:
        return False


def _other_keys(plan: Plan, left: Amount, account: Account, *, lacks_delta_alone: bool) -> Iterator[Remedy]:
    """Keys that spend less delta, if too little of it is left."""
    keys = plan.query.keys
    if not isinstance(keys, PrivateKeys):
        return
    delta = float(decimal_down(left.delta)) if left.a1 else 0.0
    smaller = replace(plan.query, keys=replace(keys, delta=delta)) if delta else plan.query
    if delta and _fits(lambda: _planned(plan, account, {}, smaller), account):
        yield Remedy("find_keys", delta=delta)
    if lacks_delta_alone:
        yield Remedy("list_keys")


def _argument(plan: Plan) -> str | None:
    """The argument that is the price, or None if the plan was asked for by its error."""
    return next((word for word in ("rho", "epsilon") if word in plan.budget), None)


def _larger_error(plan: Plan, problem: BudgetExceeded, account: Account) -> Iterator[Remedy]:
    """The same table at a lower price."""
    argument = _argument(plan)
    if argument is None:
        return

    def price(value: float) -> Amount:
        return _price(_planned(plan, account, {argument: value}), account)

    value = lower_value(argument, float(plan.budget[argument]), price, problem, account)
    if value is None:
        return
    smaller = _planned(plan, account, {argument: value})
    name, measure = plan.query.measures[0]
    if measure.error_needs_size:
        larger, now = (each.error_by_size(SIZES)[name] for each in (smaller, plan))
        errors: list[list[Any]] = [[size, larger[size], now[size]] for size in SIZES]
    else:
        errors = [[None, smaller.error()[name], plan.error()[name]]]
    yield Remedy("lower_price", argument=argument, value=value, measure=name, errors=errors)


def _fewer_measures(plan: Plan, share: Fraction, account: Account) -> Iterator[Remedy]:
    """The first measures whose parts cost no more than is left, at the same error."""
    measures = plan.query.measures
    costs = {noise.part: cost_of_part(plan.query, noise) for noise in plan.noises}
    total = sum(costs.values(), Fraction(0))
    paid: set[Any] = set(costs)
    for _, measure in measures:
        paid -= set(measure.parts())
    kept: list[str] = []
    for name, measure in measures:
        wanted = paid | set(measure.parts())
        if sum((costs[part] for part in wanted), Fraction(0)) > share * total:
            break
        paid, kept = wanted, [*kept, name]
    if not kept or len(kept) == len(measures):
        return
    cost = sum((costs[part] for part in paid), Fraction(0))
    price = _same_noise(plan, cost / total)
    query = replace(plan.query, measures=measures[: len(kept)])
    if price is not None and _fits(lambda: _planned(plan, account, _as_words(price), query), account):
        yield Remedy("keep_measures", measures=kept, dropped=len(measures) - len(kept), **price)


def _fewer_groups(plan: Plan, share: Fraction, account: Account) -> Iterator[Remedy]:
    """A smaller cap on groups per unit, at the same noise."""
    caps = plan.query.caps
    if plan.noises[0].law.currency != "rho" or caps.max_groups < 2:
        return
    groups = math.floor(caps.max_groups * share)
    if not 1 <= groups < caps.max_groups:
        return
    query = replace(plan.query, caps=replace(caps, max_groups=groups))
    price = _same_noise(plan, cost_of(query, plan.noises) / cost_of(plan.query, plan.noises))
    if price is not None and _fits(lambda: _planned(plan, account, _as_words(price), query), account):
        yield Remedy("lower_max_groups", max_groups=groups, **price)


def _same_noise(plan: Plan, share: Fraction) -> dict[str, Any] | None:
    """The price at which a part of the plan has the same noise: none if the error was asked for.

    None in place of a price means that the share does not say it: the price is not in the currency of the noise.
    """
    argument = _argument(plan)
    if argument is None:
        return {}
    if argument != plan.noises[0].law.currency:
        return None
    return {"argument": argument, "value": float(decimal_up(share * as_written(argument, plan.budget[argument])))}


def _as_words(price: dict[str, Any]) -> dict[str, Any]:
    """A price as a word of a plan."""
    return {price["argument"]: price["value"]} if price else {}
