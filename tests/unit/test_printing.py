"""Numbers as people see them: a printed bound is still one, everywhere by the same rule."""

from __future__ import annotations

import json
import math
import random
from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import given as drawn_from
from hypothesis import strategies as st

import tallystick as ts
from tallystick.cards import meaning
from tallystick.ledger.denial import written
from tallystick.ledger.filters import Amount, Filter
from tallystick.printing import (
    amount,
    csv_cell,
    csv_value,
    down,
    escaped,
    given,
    json_text,
    nearest,
    percent_down,
    percent_up,
    unescaped,
    up,
    visible,
)


def test_rounding_keeps_its_side() -> None:
    draw = random.Random(7)
    for _ in range(2000):
        value = draw.random() * 10.0 ** draw.randint(-320, 300)
        digits = draw.randint(1, 9)
        assert Fraction(up(value, digits)) >= Fraction(value) >= Fraction(down(value, digits))
        assert Fraction(up(value, digits)) - Fraction(down(value, digits)) <= 2 * Fraction(value) * Fraction(10) ** (
            1 - digits
        )
        assert float(given(value)) == value


def test_amounts_of_budget_are_rounded_outward() -> None:
    """A charge of .33333 was shown as .3333, and what was left of it could not be spent."""
    draw = random.Random(8)
    for _ in range(500):
        value = Fraction(draw.randint(1, 10**15), 10 ** draw.randint(0, 18))
        assert Fraction(amount(value)) >= value >= Fraction(amount(value, upward=False))
    spent = Amount(Filter("zcdp"), 333_333_333_334)
    assert str(spent) == "rho 0.3334"
    assert spent.text(upward=False) == "rho 0.3333"


def test_a_denial_names_the_order_of_the_account() -> None:
    """Orders were printed to six digits: {1.000001: ...} became {1: ...}, another filter."""
    for order in ("1.000001", "16", "123456.789"):
        budget = written(Filter.named(f"rdp@{order}"), 4 * 10**11, 0)
        assert budget == f"renyi_dp({{{order}: 0.4}})"


def test_shares_in_per_cent_keep_their_side() -> None:
    """100 times the double 0.0015, which is above 15 in ten thousand, was 0.15 in doubles, and shown as 0.15 %."""
    assert (percent_up(0.0015), percent_down(0.0015)) == ("0.1501 %", "0.15 %")
    draw = random.Random(9)
    shares = [draw.randint(1, 9999) / 10**4 for _ in range(500)] + [draw.random() for _ in range(500)]
    for share in [*shares, *(math.nextafter(each, 0.0) for each in shares), 5e-324, 1.0]:
        upper, lower = (Fraction(shown(share).removesuffix(" %")) / 100 for shown in (percent_up, percent_down))
        assert lower <= Fraction(share) <= upper
        assert upper - lower <= Fraction(share) / 500
    assert percent_up(math.inf) == "infinite %"


def test_nothing_is_nearest_where_it_is_a_bound() -> None:
    assert percent_up(0.7310585) == "73.11 %"
    assert nearest(0.0123456) == "0.0123"
    assert up(math.inf) == "infinite"
    row = ts.compare(ts.gdp(mu=1), delta=1e-5)["tight"]
    assert Fraction(row.shown) >= Fraction(row.epsilon)


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


HOSTILE = st.text(st.sampled_from("\\xuUnrt'=ab0\x1b\n\t\x7f\x85\u202e\u200b\u2028\ud800\U000e0001é"), max_size=12)


@drawn_from(HOSTILE)
def test_an_escaped_value_is_printable_and_comes_back(text: str) -> None:
    assert escaped(text).isprintable()
    assert unescaped(escaped(text)) == text
    assert csv_cell(text).isprintable()
    assert csv_value(csv_cell(text)) == text
    assert not csv_cell(text).startswith(("=", "+", "-", "@"))


@drawn_from(HOSTILE)
def test_a_visible_line_does_not_change_again(text: str) -> None:
    assert visible(visible(text)) == visible(text)
    assert visible(escaped(text)) == escaped(text)


@drawn_from(HOSTILE)
def test_json_with_escapes_has_the_same_value(text: str) -> None:
    for ascii_only in (True, False):
        made = json_text(json.dumps({"key": text}, indent=1, ensure_ascii=ascii_only))
        assert json.loads(made) == {"key": text}
        assert made.replace("\n", "").isprintable()
