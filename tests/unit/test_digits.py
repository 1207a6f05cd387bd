"""Numbers as people see them: a printed bound is still one, everywhere by the same rule."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import mpmath as mp
import pytest

import tallystick as ts
from tallystick.cards import meaning
from tallystick.digits import (
    amount_down,
    amount_up,
    down,
    fixed,
    interval,
    nearest,
    percent_down,
    percent_up,
    typed,
    up,
    with_error,
    with_interval,
)
from tallystick.ledger.denial import written
from tallystick.ledger.filters import Amount, Filter


def number(text: str) -> Fraction:
    """The number in a printed text."""
    return Fraction(text.replace(",", ""))


def test_rounding_keeps_its_side() -> None:
    draw = random.Random(7)
    for _ in range(2000):
        value = draw.random() * 10.0 ** draw.randint(-320, 300)
        digits = draw.randint(1, 9)
        above, below = number(up(value, digits)), number(down(value, digits))
        assert above >= Fraction(value) >= below
        assert above - below <= 2 * Fraction(value) * Fraction(10) ** (1 - digits)
        assert float(typed(value)) == value


def test_amounts_of_budget_are_rounded_outward() -> None:
    """A charge of .33333 was shown as .3333, and what was left of it could not be spent."""
    draw = random.Random(8)
    for _ in range(500):
        value = Fraction(draw.randint(1, 10**15), 10 ** draw.randint(0, 18))
        assert number(amount_up(value)) >= value >= number(amount_down(value))
    spent = Amount(Filter("zcdp"), 333_333_333_334)
    assert str(spent) == "rho 0.334"
    assert spent.text(upward=False) == "rho 0.333"


def test_a_denial_names_the_order_of_the_account() -> None:
    """Orders were printed to six digits: {1.000001: ...} became {1: ...}, another filter."""
    for order in ("1.000001", "16", "123456.789"):
        budget = written(Filter.named(f"rdp@{order}"), 4 * 10**11, 0)
        assert budget == f"renyi_dp({{{order}: 0.4}})"


def test_shares_in_per_cent_keep_their_side() -> None:
    """100 times the double 0.0015, which is above 15 in ten thousand, was 0.15 in doubles, and shown as 0.15 %."""
    assert (percent_up(0.0015), percent_down(0.0015)) == ("0.151 %", "0.15 %")
    draw = random.Random(9)
    shares = [draw.randint(1, 9999) / 10**4 for _ in range(500)] + [draw.random() for _ in range(500)]
    for share in [*shares, *(math.nextafter(each, 0.0) for each in shares), 5e-324, 1.0]:
        upper, lower = (number(shown(share).removesuffix(" %")) / 100 for shown in (percent_up, percent_down))
        assert lower <= Fraction(share) <= upper
        assert upper - lower <= Fraction(share) / 50
    assert percent_up(math.inf) == "infinite %"


def test_nothing_is_nearest_where_it_is_a_bound() -> None:
    assert percent_up(0.7310585) == "73.2 %"
    assert nearest(0.0123456) == "0.0123"
    assert up(math.inf) == "infinite"
    row = ts.compare(ts.gdp(mu=1), delta=1e-5)["tight"]
    assert number(row.shown) >= Fraction(row.epsilon)


@pytest.mark.parametrize("mu", [1e-12, 1e-6, 1e-4, 3e-4, 0.01, 1.0])
def test_the_even_handed_test_of_weak_losses(mu: float) -> None:
    """Below mu = 3e-4 it was called a coin: .5 for .50006."""
    found = meaning(ts.gdp(mu=mu))
    with mp.workdps(40):
        truth = mp.ncdf(mp.mpf(mu) / 2)
        assert mp.mpf(found.hit) >= truth
        assert mp.mpf(found.false_alarm) <= 1 - truth
        assert mp.mpf(found.guess_accuracy) >= truth
        assert found.hit <= float(truth) + 1e-9
        assert mp.mpf(found.odds_factor) >= mp.e ** mp.mpf(found.epsilon)


@pytest.mark.parametrize("value", [1e3, 1e4, 999.9999, 123456.0, 1e-6, 2e-10, 0.06, 1e14])
def test_a_number_is_never_printed_as_code_prints_it(value: float) -> None:
    """Terminals showed 1e+03, 1e-06 and 0.0600."""
    for shown in (up(value), down(value), nearest(value), typed(value)):
        assert "e+" not in shown
        assert "e-0" not in shown
        assert not (("." in shown) and shown.endswith("0") and "e" not in shown)


def test_an_interval_is_rounded_outward_and_its_value_has_the_same_decimals() -> None:
    draw = random.Random(11)
    for _ in range(1000):
        value = draw.gauss(0, 1) * 10.0 ** draw.randint(-12, 16)
        low, high = value - draw.random() * 10.0 ** draw.randint(-9, 9), value + draw.random()
        shown, ends = with_interval(value, low, high).split(" (")
        first, last = ends.removesuffix(")").split(" to ")
        assert number(first) <= Fraction(low)
        assert number(last) >= Fraction(high)
        assert number(first) <= number(shown) <= number(last) or math.isclose(value, float(number(shown)), rel_tol=0.01)
        assert f"{first} to {last}" == interval(low, high)


def test_an_error_covers_what_rounding_moves_its_value() -> None:
    draw = random.Random(12)
    for _ in range(1000):
        value, half = draw.gauss(0, 1e3), draw.random() * 10.0 ** draw.randint(-4, 4)
        shown, error = with_error(value, half).split(" ±")
        middle, reach = number(shown), number(error)
        assert middle - reach <= Fraction(value) - Fraction(half)
        assert middle + reach >= Fraction(value) + Fraction(half)
    assert with_error(1860, 20) == "1,860 ±20"
    assert fixed(12345.678, 1) == "12,345.7"


def test_an_amount_that_a_person_typed_is_printed_as_typed() -> None:
    """A budget of 0.06 was printed as 0.0600, and what 0.0125 left of 1 as 0.9875 in one place only."""
    for text in ("0.06", "0.1", "1", "0.0125", "0.9875", "1e-6", "123.456", "2e-9"):
        assert amount_up(Fraction(text)) == amount_down(Fraction(text)) == text
    assert amount_up(Fraction(1, 10**11)) == "1e-11"
    assert (amount_up(Fraction(0)), amount_up(Fraction(10**7))) == ("0", "10,000,000")
