"""Remedies for a denied plan: smaller plans that fit what is left.

The cost of each one is computed before it is offered, and the account is asked whether it could pay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tallystick.digits import decimal_down, decimal_up
from tallystick.errors import BelowLeastPrice, BudgetExceeded, Refused, Remedy, TallystickError
from tallystick.ledger.denial import Denial, can_pay, higher_value, lower_value, payable_delta, with_offers
from tallystick.ledger.epsilon_alone import counts_epsilon
from tallystick.ledger.filters import UNITS_0, USUAL_DELTA, Amount
from tallystick.ledger.pay import charged_delta
from tallystick.rounding import as_written
from tallystick.tables.budget import cost_of, cost_of_part
from tallystick.tables.keyset import PrivateKeys

SIZES: Final = (100, 1_000)
"""The sizes of a group for which a larger error is shown, where it depends on that."""

if TYPE_CHECKING:
    from tallystick.ledger.account import Account
    from tallystick.tables.table import Plan, Query


def with_prices(plan: Plan, problem: Refused, account: Account) -> Refused:
    """Return the refusal; one for a missing delta or below the least cost has costs that fit."""
    if isinstance(problem, BelowLeastPrice):
        return problem.with_remedies(_least_price(plan, problem, account))
    if problem.code == "needs_delta":
        return problem.with_remedies(_prices_with_delta(plan, account))
    return problem


def _least_price(plan: Plan, problem: BelowLeastPrice, account: Account) -> list[Remedy]:
    """The smallest cost in the plan's own words that reaches the least cost of its data."""
    argument = _argument(plan)
    if argument is None:
        return []

    def price(value: float) -> Amount:
        return _price(_planned(plan, account, {argument: value}), account)

    least = float(problem.least.first)
    is_least = problem.least.filter.rule.symbol == argument
    value = least if is_least else higher_value(float(plan.budget[argument]), price, account)
    if value is not None and not _fits(lambda: _planned(plan, account, {argument: value}), account):
        return []
    return [] if value is None else [Remedy("set_argument", argument=argument, value=value)]


def _prices_with_delta(plan: Plan, account: Account) -> list[Remedy]:
    """Delta at which the plan has a cost that fits; else an epsilon, which needs no delta where epsilon is counted."""
    left = float(decimal_down(account.remaining.delta)) if account.remaining.a1 > 0 else 0.0
    used = plan.query.keys.delta if isinstance(plan.query.keys, PrivateKeys) else 0.0
    for delta in dict.fromkeys((USUAL_DELTA, 2 * used, left)):
        words = {"delta": delta}
        if delta > 0 and _fits(partial(_planned, plan, account, words), account):
            return [Remedy("set_argument", argument="delta", value=delta)]
    return example_prices(plan.query, account, ("epsilon",))


def ways_to_groups(account: Account | None, wanted: float) -> list[Remedy]:
    """Remedies that give a question its groups: a public list, or the data at a delta, if the account can spend one."""
    delta = payable_delta(account, wanted)
    found = [] if delta is None else [Remedy("find_keys", delta=delta)]
    return [Remedy("list_keys"), *found]


def with_payable_keys(
    problem: Refused, account: Account, make: Callable[[PrivateKeys], Query], price: Mapping[str, Any]
) -> Refused:
    """The refusal of a question without groups; groups from the data are offered at a delta that its cost allows.

    ``make`` is the question with groups from the data. Half of a delta in the cost finds groups, the rest is noise.
    """
    remedies = []
    for remedy in problem.remedies:
        if remedy.kind != "find_keys":
            remedies.append(remedy)
            continue
        tried = [remedy["delta"], float(price.get("delta") or 0) / 2]
        deltas = (delta for delta in tried if delta and is_payable(make(PrivateKeys(delta)), account, price))
        remedies += [Remedy("find_keys", delta=delta) for delta in deltas][:1]
    return problem.with_remedies(remedies)


EXAMPLES: Final[Mapping[str, tuple[float, ...]]] = {
    "rho": (0.01, 0.001, 0.0001, 0.1, 1.0),
    "epsilon": (0.5, 0.1, 0.01, 0.001, 1.0),
}
"""Values of a cost that are tried as an example, in this order."""


def example_prices(query: Query, account: Account | None, words: Sequence[str] = ("rho", "epsilon")) -> list[Remedy]:
    """Costs of a question that the account can pay now, one for each word."""

    def price(given: Mapping[str, Any]) -> Amount:
        assert account is not None
        return _price(_plan(query, given, account), account)

    return payable_examples(account, price, words)


def payable_examples(
    account: Account | None, price: Callable[[Mapping[str, Any]], Amount], words: Sequence[str]
) -> list[Remedy]:
    """Examples of costs that the account can pay, one for each word; ``price`` computes the cost of words."""
    remedies = []
    for word in words:
        for given in _given(word, account):
            if account is None or _can_pay_words(account, price, given):
                value = given.pop(word)
                facts = {"more": given} if given else {}
                remedies.append(Remedy("set_argument", argument=word, value=value, **facts))
                break
    return remedies


def is_payable(query: Query, account: Account, words: Mapping[str, Any]) -> bool:
    """True if a question has a cost in these words and the account can pay it now."""
    return _fits(lambda: _plan(query, words, account), account)


def _plan(query: Query, words: Mapping[str, Any], account: Account) -> Plan:
    """The plan of a question at a cost, paid by this account, which may be a block of the table's own."""
    plan = query.plan(**words)
    return plan if query.table.account is account else plan.reprice({}, account)


def _given(word: str, account: Account | None) -> Iterator[dict[str, Any]]:
    """Words of a cost to try: an epsilon has a delta unless the account counts epsilon."""
    for value in EXAMPLES[word]:
        if word == "epsilon" and (account is None or not counts_epsilon(account)):
            yield {word: value, "delta": USUAL_DELTA}
        else:
            yield {word: value}


def _can_pay_words(account: Account, price: Callable[[Mapping[str, Any]], Amount], given: Mapping[str, Any]) -> bool:
    try:
        return can_pay(account, price(given))
    except TallystickError:  # there is no such price
        return False


def with_plans(plan: Plan, problem: BudgetExceeded, account: Account, dataset: str | None = None) -> BudgetExceeded:
    """Return the denial with the smaller plans that fit; ``dataset`` is the registered name of the table."""
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
    """The denial of a suggestion: its measures are made of what was asked for, and none can be left out."""
    kept = [remedy for remedy in problem.remedies if remedy.kind not in ("keep_measures", "lower_max_groups")]
    return problem.with_remedies(kept)


def _offers(plan: Plan, problem: BudgetExceeded, account: Account) -> Iterator[Remedy]:
    left, asked = problem.left, problem.asked
    if left is None or asked is None:
        return
    if left.a1 < asked.a1:
        yield from _other_keys(plan, problem, account)
        return
    yield from _larger_error(plan, problem, account)
    if left.a0 > 0:
        share = Fraction(left.a0, asked.a0)
        yield from _fewer_measures(plan, share, account)
        yield from _fewer_groups(plan, share, account)


def _planned(plan: Plan, account: Account, words: Mapping[str, Any], query: Query | None = None) -> Plan:
    """The plan of another question, or with other words of its cost."""
    return plan.reprice({"pure": plan.pure, **words}, account, query)


def _price(plan: Plan, account: Account) -> Amount:
    return account.price(plan.privacy, delta=charged_delta(account, plan.delta))


def _fits(make: Callable[[], Plan], account: Account) -> bool:
    """True if there is such a plan and the account can pay for it."""
    try:
        return can_pay(account, _price(make(), account))
    except TallystickError:
        return False


def _other_keys(plan: Plan, problem: BudgetExceeded, account: Account) -> Iterator[Remedy]:
    """Keys that spend less delta, if too little of it is left; at a lower cost if that does not fit either."""
    keys, left = plan.query.keys, problem.left
    argument = _argument(plan)
    if not isinstance(keys, PrivateKeys) or argument is None:
        return
    delta = float(decimal_down(left.delta)) if left.a1 > 0 else 0.0
    price: dict[str, Any] = {}
    if delta:
        smaller = replace(plan.query, keys=replace(keys, delta=delta))
        found = _price_that_fits(plan, smaller, argument, problem, account)
        if found is not None:
            price = found
            yield Remedy("find_keys", delta=delta, **price)
    if problem.asked.a0 <= left.a0:
        yield Remedy("list_keys")
    elif argument == "rho" and account.currency.kind == "zcdp":
        rho = price.get("value") or float(decimal_down(left.first))
        if can_pay(account, Amount(account.currency, round(rho * UNITS_0))):
            yield Remedy("list_keys", argument=argument, value=rho)


def _price_that_fits(
    plan: Plan, query: Query, argument: str, problem: BudgetExceeded, account: Account
) -> dict[str, Any] | None:
    """The cost of another question: nothing if its own fits, a lower one that does, or None."""
    own: dict[str, Any] = {"delta": None} if plan.budget.get("delta") else {}
    if own:
        own = {"delta": min(float(plan.budget["delta"]), float(problem.left.delta))}

    def price(value: float) -> Amount:
        return _price(_planned(plan, account, {**own, argument: value}, query), account)

    value = float(plan.budget[argument])
    try:
        cost = price(value)
    except TallystickError:
        return None
    if can_pay(account, cost):
        return {}
    lower = lower_value(argument, value, price, Denial(cost, problem.left), account)
    return None if lower is None else {"argument": argument, "value": lower}


def _argument(plan: Plan) -> str | None:
    """The argument that is the cost, or None if the plan was asked for by its error."""
    return next((word for word in ("rho", "epsilon") if word in plan.budget), None)


def _larger_error(plan: Plan, problem: BudgetExceeded, account: Account) -> Iterator[Remedy]:
    """Offer the table at a lower cost."""
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
        yield Remedy("lower_max_groups", max_groups=groups, unit=account.unit, **price)


def _same_noise(plan: Plan, share: Fraction) -> dict[str, Any] | None:
    """The cost at which a part of the plan has the same noise: no cost if the error was asked for.

    None in place of a cost means that the share does not say it: the cost is not in the currency of the noise.
    """
    argument = _argument(plan)
    if argument is None:
        return {}
    if argument != plan.noises[0].law.currency:
        return None
    return {"argument": argument, "value": float(decimal_up(share * as_written(argument, plan.budget[argument])))}


def _as_words(price: dict[str, Any]) -> dict[str, Any]:
    """A cost as a word of a plan."""
    return {price["argument"]: price["value"]} if price else {}
