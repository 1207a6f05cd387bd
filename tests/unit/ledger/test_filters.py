"""Which totals stop an adaptive analyst in time: two classic traps exceed the budget, the shipped filters never do."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest

import tallystick as ts
from tallystick.accounting.adjacency import ANY_UNIT
from tallystick.ledger.budget import Budget
from tallystick.ledger.pricing import price
from unit.ledger.adaptive import (
    Node,
    Tool,
    delta,
    joint,
    most_achieved,
    renyi,
    response,
    reveal,
    two_point,
)

# -- trap 1: totalling natural privacy-loss distributions

SPENT = math.log(7)
CHANCE = (1.25 / 2.25) * (6 / 7) * (1 - 7 / 7.5)


def natural_total(*mechanisms):
    """delta(ln 7) of the mechanisms used so far as if they had been fixed in advance."""
    node = None
    for p, q in reversed(mechanisms):
        node = Node(p, q, {} if node is None else dict.fromkeys(range(len(p)), node))
    return delta(joint(node), SPENT)


def test_totalling_natural_loss_distributions_lets_an_analyst_exceed_the_budget():
    first = response(math.log(1.25))
    after = {0: response(math.log(6)), 1: reveal(CHANCE)}
    assert pytest.approx(0.031746, abs=5e-7) == CHANCE
    for second in after.values():
        assert natural_total(first, second) <= CHANCE * (1 + 1e-12), "the forbidden rule admits both branches"
    strategy = Node(*first, {outcome: Node(*second) for outcome, second in after.items()})
    realised = delta(joint(strategy), SPENT)
    assert realised == pytest.approx(0.045855, abs=5e-7)
    assert realised / CHANCE == pytest.approx(1.444, abs=5e-4)


def test_the_shipped_filter_stops_that_analyst():
    limit = Budget.approx(SPENT, CHANCE)
    first, second = (price_of(ts.pure_dp(epsilon=e), limit) for e in (math.log(1.25), math.log(6)))
    assert first.a0 + second.a0 > limit.limit0, "the branch that would exceed the budget is denied"
    third = price_of(ts.approx_dp(epsilon=0, delta=CHANCE * (1 - 1e-9)), limit)
    assert first.a0 + third.a0 <= limit.limit0
    assert first.a1 + third.a1 <= limit.limit1
    admitted = Node(*response(math.log(1.25)), {1: Node(*reveal(CHANCE))})
    assert delta(joint(admitted), SPENT) <= CHANCE


# -- trap 2: some Renyi order is still under its budget

EPSILON, DELTA, ORDERS = 4.924, 2.2757e-4, (3.57, 19.0)


def renyi_budget(order):
    """The divergence at which Canonne, Kamath and Steinke's conversion gives (EPSILON, DELTA)."""
    return EPSILON + (math.log(DELTA) + math.log(order - 1) - order * math.log(1 - 1 / order)) / (order - 1)


def largest_mass(loss, order, left):
    """The largest two-point mechanism of that loss whose divergence still fits."""
    low, high = 0.0, 1 - 1e-9
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if renyi(joint(Node(*two_point(middle, loss))), order) <= left else (low, middle)
    return low


def trap():
    first = two_point(0.0046, 0.59)
    spent = {order: renyi(joint(Node(*first)), order) for order in ORDERS}
    after = {}
    for outcome, (order, margin) in enumerate(zip(reversed(ORDERS), (0.0532, 0.336), strict=True)):
        loss = EPSILON - math.log(first[0][outcome] / first[1][outcome]) + margin
        after[outcome] = two_point(largest_mass(loss, order, renyi_budget(order) - spent[order]), loss)
    return first, after, spent


def test_asking_that_some_order_is_under_budget_lets_an_analyst_exceed_it():
    first, after, spent = trap()
    for second in after.values():
        totals = [spent[order] + renyi(joint(Node(*second)), order) for order in ORDERS]
        assert any(t <= renyi_budget(o) for t, o in zip(totals, ORDERS, strict=True)), "the forbidden rule admits it"
        assert not all(t <= renyi_budget(o) for t, o in zip(totals, ORDERS, strict=True))
    strategy = Node(*first, {outcome: Node(*second) for outcome, second in after.items()})
    assert delta(joint(strategy), EPSILON) > 1.9 * DELTA


@pytest.mark.parametrize("order", ORDERS)
def test_one_fixed_order_stops_that_analyst(order):
    first, after, spent = trap()
    admitted = {
        outcome: Node(*second)
        for outcome, second in after.items()
        if spent[order] + renyi(joint(Node(*second)), order) <= renyi_budget(order)
    }
    assert len(admitted) == 1
    strategy = joint(Node(*first, admitted))
    assert delta(strategy, EPSILON) <= DELTA
    assert renyi(strategy, order) <= renyi_budget(order) * (1 + 1e-9)


# -- random adaptive analysts against every shipped filter


def price_of(loss, budget, **options):
    return price(loss, budget.filter, ANY_UNIT, **options)


def random_pairs(count, seed):
    draw = random.Random(seed)
    pairs = [response(draw.uniform(0.1, 1.2)) for _ in range(count // 2)]
    for _ in range(count - len(pairs)):
        size = draw.choice((2, 3))
        p, q = ([draw.uniform(0.2, 1) for _ in range(size)] for _ in range(2))
        pairs.append((tuple(x / sum(p) for x in p), tuple(x / sum(q) for x in q)))
    return pairs


def tools_for(budget, pairs):
    found = []
    for p, q in pairs:
        amount = price_of(ts.discrete_pair(p, q), budget)
        found.append(Tool(p, q, amount.a0, amount.a1))
    return found


ORDER_GRID = [1.0001, 1.01, 1.1, 1.5, 2, 3, 4, 6, 8, 16, 32, 64]
EPSILON_GRID = [0.0, 0.1, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0]


def share_of_approx(budget):
    epsilon, chance = float(Fraction(budget.limit0, 10**12)), float(Fraction(budget.limit1, 10**18))
    return lambda laws: delta(laws, epsilon) / chance if chance else highest(laws) / epsilon


def highest(laws):
    import numpy as np

    return float(np.max(np.abs(np.log(laws[0]) - np.log(laws[1]))))


def share_of_zcdp(budget):
    rho = float(Fraction(budget.limit0, 10**12))
    return lambda laws: max(renyi(laws, order) / (rho * order) for order in ORDER_GRID)


def share_of_gdp(budget):
    mu = math.sqrt(Fraction(budget.limit0, 10**12))
    allowed = [float(ts.gdp(mu=mu).delta(epsilon=e)) for e in EPSILON_GRID]
    return lambda laws: max(delta(laws, e) / a for e, a in zip(EPSILON_GRID, allowed, strict=True))


def share_of_rdp(budget):
    limit, order = float(Fraction(budget.limit0, 10**12)), float(budget.filter.order)
    return lambda laws: renyi(laws, order) / limit


CASES = [
    (Budget.zcdp(0.5), share_of_zcdp),
    (Budget.approx(1.5), share_of_approx),
    (Budget.gdp(1.0), share_of_gdp),
    (Budget.rdp(4, 1.0), share_of_rdp),
]


@pytest.mark.parametrize(
    ("budget", "share"), CASES, ids=lambda value: getattr(getattr(value, "filter", None), "name", "")
)
def test_no_random_analyst_beats_a_shipped_filter(budget, share):
    tools = tools_for(budget, random_pairs(14, seed=budget.limit0 % 97))
    limit = (budget.limit0, budget.limit1)
    achieved = most_achieved(tools, limit, share(budget), trials=400)
    assert achieved <= 1 + 1e-9
    assert achieved > 0.35, "the analysts come close enough for the test to mean something"
    cheap = [Tool(t.p, t.q, t.a0 // 3, t.a1) for t in tools]
    assert most_achieved(cheap, limit, share(budget), trials=400) > 1, "a filter that undercharges would be caught"


def test_no_analyst_with_delta_beats_the_approximate_filter():
    budget = Budget.approx(1.5, 0.05)
    limit = (budget.limit0, budget.limit1)
    tools = tools_for(budget, [response(e) for e in (0.2, 0.5, 0.8)])
    for chance in (0.01, 0.02, 0.03):
        p, q = reveal(chance)
        amount = price_of(ts.approx_dp(epsilon=0, delta=chance), budget)
        tools.append(Tool(p, q, amount.a0, amount.a1))
    achieved = most_achieved(tools, limit, share_of_approx(budget), trials=600)
    assert 0.5 < achieved <= 1 + 1e-9


def test_not_even_the_best_of_all_analysts_beats_the_approximate_filter():
    """The theorems' own game finds the best adaptive choice by an exact recursion, not by trying strategies."""
    from tallystick.theorems.game import FinitePair, worst_delta

    budget = Budget.approx(math.log(7), 0.05)
    ratios, chances = (1.25, 2.0, 6.0), (0.01, 0.031)
    choices = [FinitePair.randomized_response(ratio=r) for r in ratios] + [
        FinitePair.leak(probability=c) for c in chances
    ]
    prices = [price_of(ts.pure_dp(epsilon=math.log(r)), budget) for r in ratios]
    prices += [price_of(ts.approx_dp(epsilon=0, delta=c), budget) for c in chances]

    def worst(discount):
        def admits(spent, choice):
            taken = [prices[i] for i in (*spent, choice)]
            return (
                sum(a.a0 // discount for a in taken) <= budget.limit0
                and sum(a.a1 // discount for a in taken) <= budget.limit1
            )

        return float(worst_delta(choices, rounds=3, ratio=7.0, admits=admits))

    assert 0.4 * 0.05 < worst(1) <= 0.05 * (1 + 1e-9)
    assert worst(2) > 0.05, "a filter that undercharges would be caught"
