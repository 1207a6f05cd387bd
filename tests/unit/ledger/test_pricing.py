"""Prices are valid and as cheap as the theorem allows."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import tallystick as ts
from tallystick.accounting.adjacency import ANY_UNIT, Protects
from tallystick.errors import AdjacencyMismatch, InvalidInput, Refused, UnitMismatch
from tallystick.ledger import Budget, Filter
from tallystick.ledger.pricing import cut, price, truncated_rho
from unit.ledger.adaptive import two_point

ZCDP, APPROX, GDP, RDP = (Filter.named(name) for name in ("zcdp", "approx", "gdp", "rdp@4"))


def cost(loss, currency, **options):
    return price(loss, currency, Protects(loss.adjacency), **options)


@pytest.mark.parametrize(
    ("loss", "currency", "first"),
    [
        (ts.gaussian(sigma=10), ZCDP, Fraction(1, 200)),
        (ts.gdp(mu=0.1), ZCDP, Fraction(1, 200)),
        (7 * ts.gaussian(sigma=10), GDP, Fraction(7, 100)),
        (ts.gaussian(sigma=10), RDP, Fraction(4, 200)),
        (ts.zcdp(rho=0.1), ZCDP, Fraction(1, 10)),
        (10 * ts.pure_dp(epsilon=0.1), APPROX, Fraction(1)),
        (ts.exponential(epsilon=1), ZCDP, Fraction(1, 8)),
        (ts.discrete_gaussian(sigma=5, sensitivity=2), ZCDP, Fraction(4, 50)),
        (ts.gaussian(sigma=10).for_groups(3), ZCDP, Fraction(9, 200)),
        (ts.gaussian(sigma=10).for_groups(3), GDP, Fraction(9, 100)),
        (ts.no_loss(), ZCDP, Fraction(0)),
    ],
)
def test_closed_forms_are_exact_to_the_unit(loss, currency, first):
    assert cost(loss, currency).a0 == math.ceil(first * 10**12)


def test_pure_epsilon_costs_the_supremum_of_randomized_response():
    assert float(cost(ts.pure_dp(epsilon=1), ZCDP).first) == pytest.approx(math.tanh(0.5), rel=1e-11)
    both = cost(ts.approx_dp(epsilon=1, delta=1e-7), ZCDP)
    assert float(both.first) == pytest.approx(math.tanh(0.5), rel=1e-11)
    assert both.a1 == 10**11


@pytest.mark.parametrize("group", [2, 5])
def test_a_group_of_a_pure_plan_pays_no_more_than_its_epsilon(group):
    """Found from outside: k^2 rho(epsilon / k) is more than rho(epsilon), which any such plan has."""
    loss = ts.pure_dp(epsilon=1 / group).for_groups(group)
    rho = float(cost(loss, ZCDP).first)
    assert rho == pytest.approx(math.tanh(0.5), rel=1e-9)
    for order in (1.0, 2, 20, 1000):
        assert float(loss.renyi(order=order)) <= rho * order * (1 + 1e-6)
    assert cost(ts.gaussian(sigma=10).for_groups(3) + ts.pure_dp(epsilon=0.1).for_groups(3), ZCDP).a0 > 0


def test_laplace_costs_its_mean_loss():
    truth = math.exp(-0.5) + 0.5 - 1
    assert truth <= float(cost(ts.laplace(scale=2), ZCDP).first) <= 1.003 * truth


@pytest.mark.parametrize(
    "loss", [ts.laplace(scale=1), 5 * ts.randomized_response(epsilon=0.5, choices=4), ts.discrete_laplace(scale=3)]
)
def test_a_zcdp_price_bounds_the_whole_curve(loss):
    rho = float(cost(loss, ZCDP).first)
    for order in (1.0, 1.001, 1.1, 2, 5, 20, 100, 1000):
        assert float(loss.renyi(order=order)) <= rho * order * (1 + 1e-6)


def test_a_sampled_plan_keeps_its_amplification_when_it_may_spend_delta():
    plan = 1000 * ts.gaussian(sigma=1).sampled(rate=0.01)
    without = float(cost(plan, ZCDP).first)
    with_delta = float(cost(plan, ZCDP, delta=1e-6).first)
    assert without == pytest.approx(500)
    assert with_delta < 0.5
    assert with_delta >= float(plan.renyi(order=1.0001)) * 0.999


@pytest.mark.parametrize("cut", ["ranked", "random"])
def test_a_batch_cut_by_rank_costs_what_the_gaussian_that_dominates_it_does(cut):
    plan = ts.gaussian(sigma=2).sampled(rate=0.3, largest=3, population=10, cut=cut)
    rho = float(cost(plan, ZCDP).first)
    assert rho == pytest.approx(0.5)  # one unit for another moves the mean by two: mu is 1
    assert all(float(plan.renyi(order=order)) <= rho * order * (1 + 1e-9) for order in (1.001, 2, 10, 50, 500, 5000))
    assert float(cost(10 * plan + ts.zcdp(rho=1), ZCDP).first) == pytest.approx(6)
    assert float(cost(plan, ZCDP, delta=1e-3).first) < rho


def test_a_light_plan_is_priced_by_its_epsilon_when_that_is_cheaper():
    plan = 100 * ts.gaussian(sigma=2).sampled(rate=0.001)
    epsilon = float(plan.epsilon(delta=1e-7))
    # An amount is rounded up to a whole unit of 1e-12.
    assert float(cost(plan, ZCDP, delta=1e-7).first) <= epsilon * math.tanh(epsilon / 2) * (1 + 1e-9) + 1e-12


def brute_force_rho(p, q, top, delta):
    """Cut the true pair at ``top`` and take the supremum over many orders of both directions."""
    loss = np.log(p / q)
    keep = np.abs(loss) <= top
    assert max(p[~keep].sum(), q[~keep].sum()) <= delta
    p, q = np.log(p[keep] / p[keep].sum()), np.log(q[keep] / q[keep].sum())
    orders = 1 + np.geomspace(1e-4, 1e3, 300)
    return max(
        float(np.logaddexp.reduce(order * a + (1 - order) * b)) / (order - 1) / order
        for order in orders
        for a, b in ((p, q), (q, p))
    )


@pytest.mark.parametrize("seed", range(6))
def test_the_truncated_price_is_above_a_pair_cut_by_brute_force(seed):
    draw = np.random.default_rng(seed)
    heavy = two_point(1e-9, 14.0)
    p, q = (draw.dirichlet(np.ones(5)) for _ in range(2))
    p, q = np.append(p * (1 - heavy[0][0]), heavy[0][0]), np.append(q * (1 - heavy[1][0]), heavy[1][0])
    p, q = p / p.sum(), q / q.sum()
    loss = ts.discrete_pair(tuple(p), tuple(q))
    delta = 2e-2
    cheap, full = truncated_rho(loss, delta=delta), truncated_rho(loss, delta=0.0)
    assert cheap >= brute_force_rho(p, q, cut(loss, delta), delta) * (1 - 1e-9)
    assert full >= brute_force_rho(p, q, math.inf, 0.0) * (1 - 1e-9)
    assert full <= 1.01 * brute_force_rho(p, q, math.inf, 0.0)


@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_the_cut_leaves_at_most_delta_outside(delta):
    from scipy.stats import norm

    t = cut(ts.gaussian(sigma=1), delta)
    outside = norm.sf(t - 0.5) + norm.cdf(-t - 0.5)
    assert outside <= delta
    assert t <= 1.3 * (norm.isf(delta) + 0.5)


def test_a_plan_without_a_finite_price_is_refused_and_told_how():
    for loss, currency in ((ts.gaussian(sigma=1), APPROX), (ts.renyi_dp({8: 0.1}), ZCDP)):
        with pytest.raises(Refused, match="needs a part of the account's delta"):
            cost(loss, currency)
    with pytest.raises(Refused, match="Gaussian trade-off"):
        cost(ts.approx_dp(epsilon=1, delta=1e-5), GDP)
    with pytest.raises(Refused, match="infinite Renyi"):
        cost(ts.approx_dp(epsilon=1, delta=1e-5), RDP)


def test_an_approximate_account_pays_the_certified_epsilon():
    amount = cost(ts.gaussian(sigma=1), APPROX, delta=1e-5)
    assert float(amount.first) == pytest.approx(4.3772, abs=1e-3)
    assert amount.a1 == 10**13
    assert cost(ts.approx_dp(epsilon=1, delta=1e-7), APPROX).a1 == 10**11


def test_a_gdp_account_pays_a_dominating_gaussian():
    mu = math.sqrt(float(cost(ts.pure_dp(epsilon=1), GDP).first))
    for epsilon in (0.0, 0.5, 0.9):
        assert ts.gdp(mu=mu).delta(epsilon=epsilon) >= ts.pure_dp(epsilon=1).delta(epsilon=epsilon) * (1 - 1e-9)


def test_delta_is_refused_where_the_filter_spends_none():
    for currency in (GDP, RDP):
        with pytest.raises(InvalidInput, match="no delta"):
            cost(ts.gaussian(sigma=1), currency, delta=1e-6)


@pytest.mark.parametrize("delta", [1, -0.1, math.nan, math.inf, "0.1"])
def test_a_delta_outside_zero_to_one_is_refused(delta):
    with pytest.raises(InvalidInput):
        cost(ts.gaussian(sigma=1), ZCDP, delta=delta)


def test_losses_about_other_neighbours_or_units_are_refused():
    with pytest.raises(AdjacencyMismatch):
        price(ts.gaussian(sigma=1, adjacency="replace"), ZCDP, ANY_UNIT)
    with pytest.raises(UnitMismatch):
        price(ts.gaussian(sigma=1, unit="visit"), ZCDP, Protects(unit="patient"))
    with pytest.raises(InvalidInput, match="PrivacyLoss"):
        price(3.0, ZCDP, ANY_UNIT)


@pytest.mark.parametrize(
    ("budget", "name"),
    [
        (ts.zcdp(rho=0.5, delta=1e-6), "zcdp"),
        (ts.approx_dp(epsilon=1, delta=1e-6), "approx"),
        (ts.pure_dp(epsilon=1), "approx"),
        (ts.gdp(mu=1), "gdp"),
        (ts.renyi_dp({16: 0.4}), "rdp@16"),
    ],
)
def test_the_budgets_type_picks_the_filter(ledger, budget, name):
    account = ledger.open("people", budget=budget, unit="person")
    assert account.filter == name
    guarantee = account.guarantee()
    assert guarantee.unit == "person"
    assert Budget.of(guarantee)[:3] == Budget.of(budget)[:3]


def test_milestones_give_a_valid_figure_so_far(ledger):
    account = ledger.open("people", budget=ts.zcdp(rho=1), milestones=[0.1, 0.5], unit="person")
    with account.charge(ts.zcdp(rho=0.05), why="x"):
        pass
    said = account.so_far(delta=1e-5)
    assert said.epsilon == pytest.approx(float(ts.zcdp(rho=0.1).epsilon(delta=1e-5 / 3)))
    assert said.epsilon < float(account.guarantee().epsilon(delta=1e-5))
    account.raise_limit(ts.zcdp(rho=2), why="more")
    assert account.so_far(delta=1e-5).statements == 4
