"""Equal shares of a limit: all of them fit, and one more unit is denied."""

from __future__ import annotations

import random
from fractions import Fraction

import pyarrow
import pytest

import tallystick as ts
from tallystick.accounting.adjacency import Protects
from tallystick.errors import BudgetExceeded, InvalidInput
from tallystick.ledger.budget import Budget
from tallystick.ledger.filters import UNITS_0, UNITS_1, Amount, Filter
from tallystick.ledger.pricing import price
from tallystick.rounding import fraction_down, read_amount

BUDGETS = {
    "rho": ts.zcdp(rho=0.5),
    "rho with delta": ts.zcdp(rho=1, delta=1e-6),
    "rho of many digits": ts.zcdp(rho=0.123456789012),
    "a large rho": ts.zcdp(rho=98765.4321),
    "mu": ts.gdp(mu=1),
    "a mu that no float is": ts.gdp(mu=0.7),
    "pure epsilon": ts.pure_dp(epsilon=3),
    "epsilon and delta": ts.approx_dp(epsilon=1, delta=1e-5),
    "replace": ts.zcdp(rho=0.5, adjacency="replace", unit="person"),
}


@pytest.mark.parametrize("name", BUDGETS)
def test_all_shares_fit_and_no_unit_is_wasted(name):
    budget = BUDGETS[name]
    limit = Budget.of(budget)
    for parts in [*range(2, 60), 97, 365, 366, 500, 730, 999, 1000]:
        share = budget.split(parts)
        cost = price(share, limit.filter, limit.protects)
        assert cost.a0 * parts <= limit.limit0, (parts, str(share))
        assert cost.a1 * parts <= limit.limit1, (parts, str(share))
        if limit.limit0 < 1000 * UNITS_0:  # larger amounts have more digits than a float
            assert cost.a0 == limit.limit0 // parts, (parts, str(share))
            assert cost.a1 == limit.limit1 // parts, (parts, str(share))
        assert (share.adjacency, share.unit) == (budget.adjacency, budget.unit)


def test_twelve_payments_fit_and_a_thirteenth_of_one_unit_is_denied(ledger):
    for name, budget, unit in [
        ("rho", ts.zcdp(rho=0.5), ts.zcdp(rho=1e-12)),
        ("mu", ts.gdp(mu=0.5), ts.gdp(mu=1e-6)),
        ("epsilon", ts.pure_dp(epsilon=0.6), ts.pure_dp(epsilon=1e-12)),
        ("delta", ts.approx_dp(epsilon=1.2, delta=1.2e-6), ts.approx_dp(epsilon=0, delta=1e-18)),
    ]:
        account = ledger.open(name, budget=budget, unit="person")
        for month in range(12):
            account.pay(budget.split(12), why=f"month {month + 1}")
        left = account.remaining
        assert left.a0 < 12
        assert left.a1 < 12
        for _ in range(left.a1 if name == "delta" else left.a0):
            account.pay(unit, why="a unit that rounding left")
        with pytest.raises(BudgetExceeded):
            account.pay(unit, why="one unit too many")


@pytest.mark.parametrize("adjacency", ["add_remove", "replace"])
def test_an_account_pays_all_shares_of_its_limit_and_of_what_is_left(ledger, adjacency):
    """A share of an amount is about the neighbours of its account; under replace it could not be paid."""
    budgets = {
        "rho": ts.zcdp(rho=0.5, adjacency=adjacency),
        "rho and delta": ts.zcdp(rho=0.7, delta=1e-6, adjacency=adjacency),
        "mu": ts.gdp(mu=0.7, adjacency=adjacency),
        "pure": ts.pure_dp(epsilon=3, adjacency=adjacency),
        "approximate": ts.approx_dp(epsilon=1, delta=1e-5, adjacency=adjacency),
    }
    for name, budget in budgets.items():
        account = ledger.open(name, budget=budget, unit="person")
        share = account.limit.split(7)
        assert share == budget.split(7)
        assert account.price(share).a0 * 7 <= account.limit.a0
        account.pay(share, why="the first of seven")
        left = account.remaining
        for number in range(11):
            account.pay(left.split(11), why="a share of the rest", key=f"{name} {number}")
        assert account.remaining.a0 < 11


@pytest.mark.parametrize("adjacency", ["add_remove", "replace"])
@pytest.mark.parametrize("filter_name", ["zcdp", "approx", "gdp"])
def test_shares_of_every_amount_fit_together(filter_name, adjacency):
    """Amounts that no budget has written: what is left after some charges."""
    draw = random.Random(filter_name)
    currency = Filter(filter_name)
    for _ in range(150):
        amount = Amount(currency, draw.randrange(1000, 10 ** draw.randrange(5, 16)), adjacency=adjacency)
        parts = draw.randrange(1, 500)
        share = amount.split(parts)
        cost = price(share, currency, Protects(adjacency, "person"))
        assert 0 < cost.a0 * parts <= amount.a0, (amount, parts)


def test_a_share_of_less_than_one_unit_is_refused():
    with pytest.raises(InvalidInput, match="fewer parts"):
        ts.zcdp(rho=1e-12).split(2)
    with pytest.raises(InvalidInput, match="fewer parts"):
        ts.approx_dp(epsilon=1, delta=1e-18).split(2)
    for parts in (0, -1, 2.5, "12"):
        with pytest.raises(InvalidInput, match="parts"):
            ts.zcdp(rho=1).split(parts)


def test_only_a_budget_can_be_split():
    for loss in (2 * ts.zcdp(rho=1), ts.laplace(scale=1), ts.renyi_dp({16: 0.4}), ts.no_loss()):
        with pytest.raises(InvalidInput, match="a budget"):
            loss.split(2)


@pytest.fixture
def visits(ledger):
    account = ledger.open("clinic", budget=ts.zcdp(rho=0.5), unit="person")
    source = ts.Private({"visits": pyarrow.table({"who": [1, 2, 3], "ward": ["a", "b", "a"]})}, account=account)
    return source.table("visits", unit="who").per_unit(max_groups=1, max_rows_per_group=1)


@pytest.mark.parametrize("share", ["1/24", "0.5/12", Fraction(1, 24)])
def test_twelve_tables_at_a_twelfth_of_the_limit_fit(visits, share):
    plan = visits.agg(n=ts.count()).plan(rho=share)
    account = plan.account
    assert account.price(plan.privacy).a0 == UNITS_0 // 24
    for month in range(12):
        plan.release(why="monthly", key=f"month {month}")
    assert account.remaining.a0 < 12
    with pytest.raises(BudgetExceeded):
        visits.agg(n=ts.count()).plan(rho="1/24").release(why="a thirteenth", key="13")


def test_a_float_that_is_a_little_more_than_a_twelfth_still_rounds_up(visits):
    plan = visits.agg(n=ts.count()).plan(rho=0.5 / 12)
    assert plan.account.price(plan.privacy).a0 == UNITS_0 // 24 + 1


def test_a_fraction_in_sql_is_rounded_down(visits):
    source = ts.Private({"visits": pyarrow.table({"who": [1, 2, 3]})}, account=visits.account)
    table = source.table("visits", unit="who").per_unit(max_rows_per_group=1)
    for option in ("rho=1/24", "rho='1/24'", "rho = 0.5/12"):
        told = source.sql(
            f"EXPLAIN SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({option}) COUNT(*) AS n FROM visits", table
        )
        assert told.plan.budget["rho"] == 0.041666666666
    told = source.sql("EXPLAIN SELECT COUNT(*) AS n FROM visits", table, rho="1/24")
    assert told.plan.budget["rho"] == 0.041666666666
    with pytest.raises(ts.errors.TallystickError, match="such as 1/24"):
        source.sql("EXPLAIN SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(rho=1/0) COUNT(*) AS n FROM visits", table)


def test_fractions_keep_the_unit_of_their_word():
    assert read_amount("delta", "1e-6/7") == float(Fraction(10**12 // 7, UNITS_1))
    assert read_amount("--delta", "1/1000000") == 1e-6
    for text in ("1/0", "1/2/3", "a/b", "/", "1/", "1e999999/3", "nan/2", "1e-40/1", "inf/2", "half"):
        with pytest.raises(InvalidInput, match="a fraction, such as 1/24"):
            read_amount("rho", text)
    with pytest.raises(InvalidInput, match="unit of the ledger"):
        read_amount("rho", "1/10000000000000")
    with pytest.raises(InvalidInput, match="below 1e"):
        fraction_down("rho", Fraction(10**400))
