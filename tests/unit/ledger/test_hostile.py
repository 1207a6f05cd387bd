"""NaN, infinities, subnormals, 2^62, megabytes of text: a clear refusal, nothing lost, nothing granted."""

from __future__ import annotations

import math
import os
import sqlite3
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import tallystick as ts
from crash.stores import fresh_schema, raised, spend
from tallystick.errors import InvalidInput, LedgerIntegrity, Refused
from tallystick.ledger import Budget, Filter, Ledger
from tallystick.ledger.filters import LARGEST, UNITS_0, as_written, charge_units, limit_units

BAD_NUMBERS = [
    math.nan,
    math.inf,
    -math.inf,
    -1,
    -1e-300,
    "1",
    None,
    True,
    b"1",
    1e300,
    Decimal("NaN"),
    Decimal("sNaN"),
    Decimal("Infinity"),
    np.float64("nan"),
    [1],
    1j,
]
BAD_TEXT = ["", "   ", "\0", "a\nb", "\ud800", "x" * 1_000_000, "\x1b[31m", "\u202eabc", 7, None, b"x"]
GOOD_TEXT = ["é", "患者", "🏥", "x" * 200, "'; DROP TABLE entry; --", "%s ? :1 {}", "..", "a/b"]


@pytest.mark.parametrize("value", [*BAD_NUMBERS, 0, 5e-324, 1e-13])
def test_a_limit_that_is_not_a_positive_number_is_refused(value):
    for make in (Budget.zcdp, Budget.approx, Budget.gdp, lambda v: Budget.rdp(16, v)):
        with pytest.raises(InvalidInput):
            make(value)


@pytest.mark.parametrize("value", [v for v in BAD_NUMBERS if v is not True] + [1, 1.5])
def test_a_delta_limit_outside_zero_to_one_is_refused(value):
    with pytest.raises(InvalidInput):
        Budget.zcdp(1, value)


@pytest.mark.parametrize("order", [1, 0.5, 0, -1, math.inf, math.nan, 1e7, 1 + 1e-12])
def test_an_order_that_cannot_be_kept_exactly_is_refused(order):
    with pytest.raises(InvalidInput):
        Budget.rdp(order, 1)


@pytest.mark.parametrize("text", ["sNaN", "-sNaN7", "NaN", "Infinity", "-Infinity"])
def test_a_price_at_a_decimal_that_is_no_number_names_delta(ledger, text):
    """A NaN that signals raised a ValueError of Python's own."""
    account = ledger.open("people", budget=ts.approx_dp(epsilon=1, delta=1e-6))
    with pytest.raises(InvalidInput, match=r"delta = .*a finite number"):
        account.price(ts.gaussian(sigma=10), delta=Decimal(text))


@pytest.mark.parametrize("name", ["rdp", "rdp@", "rdp@1", "rdp@x", "rdp@1/0", "zcdp@2", "pld", "min", "", "rdp@inf"])
def test_only_the_four_filters_have_names(name):
    with pytest.raises(InvalidInput):
        Filter.named(name)


@pytest.mark.parametrize("name", ["zcdp", "approx", "gdp", "rdp@16", "rdp@3/2"])
def test_filter_names_round_trip(name):
    assert Filter.named(name).name == name
    assert "20" in Filter.named(name).rule.theorem


def test_charges_round_up_and_limits_round_down():
    third = Fraction(1, 3)
    assert charge_units("rho", third, UNITS_0) - limit_units("rho", third, UNITS_0) == 1
    assert charge_units("rho", Fraction(5e-324), UNITS_0) == 1
    assert charge_units("rho", Fraction(0), UNITS_0) == 0
    assert ten_tenths_fit_one()
    with pytest.raises(InvalidInput):
        charge_units("rho", Fraction(LARGEST + 1, UNITS_0), UNITS_0)
    with pytest.raises(InvalidInput):
        charge_units("rho", Fraction(-1), UNITS_0)
    with pytest.raises(InvalidInput):
        limit_units("rho", Fraction(-1), UNITS_0)


def ten_tenths_fit_one() -> bool:
    return 10 * charge_units("rho", as_written("rho", 0.1), UNITS_0) <= limit_units(
        "rho", as_written("rho", 1.0), UNITS_0
    )


def test_the_largest_amounts_do_not_overflow(ledger):
    account = ledger.open("people", budget=Budget(Filter("zcdp"), LARGEST, 0))
    with spend(account, LARGEST):
        pass
    for asked in (1, LARGEST - 1, LARGEST):
        assert raised(spend(account, asked).reserve) == "BudgetExceeded"
    assert account.remaining.a0 == 0
    assert ledger.verify().problems == ()


@pytest.mark.parametrize("text", BAD_TEXT)
def test_text_that_cannot_be_kept_is_refused_before_anything_is_charged(ledger, text):
    account = ledger.open("people", budget=Budget.zcdp(1))
    before = ledger.head()
    given = 0 if text is None else text  # None means "not given" for some
    attempts = (
        lambda: ledger.open(given, budget=Budget.zcdp(1)),
        lambda: ledger.open("x", budget=Budget.zcdp(1), unit=given or "\0"),
        lambda: spend(account, why=given),
        lambda: account.register(given),
        lambda: account.close(why=given),
        lambda: account.raise_limit(Budget.zcdp(2), why=given),
    )
    for attempt in attempts:
        with pytest.raises(InvalidInput) as caught:
            attempt()
        assert len(str(caught.value)) < 400
    if isinstance(text, str):
        with pytest.raises(InvalidInput):
            spend(account, key=text)
    assert ledger.head() == before


@pytest.mark.parametrize("text", GOOD_TEXT)
def test_unusual_text_is_kept_as_it_is(ledger, text):
    account = ledger.open(text, budget=Budget.zcdp(1), unit=text)
    why = f"a reason {text}"  # a reason has words
    with spend(account, key=text, why=why) as charge:
        charge.answer = {text: text}
    assert account.history()[0].why == why
    assert ledger.open(text).unit == text
    with pytest.raises(Exception) as caught, spend(account, key=text):
        pass
    assert caught.value.answer == {text: text}
    assert ledger.verify().problems == ()


@pytest.mark.parametrize("lease", [0, -1, math.nan, math.inf, 1e12, "5"])
def test_a_lease_is_a_positive_number_of_seconds(ledger, lease):
    account = ledger.open("people", budget=Budget.zcdp(1))
    with pytest.raises(InvalidInput):
        spend(account, lease=lease)


@pytest.mark.parametrize("place", ["", "http://example.org/x", "mysql://x", "a\0b"])
def test_a_place_that_is_neither_file_nor_postgresql_is_refused(place):
    with pytest.raises(InvalidInput):
        Ledger(place)


def test_a_missing_ledger_is_not_created_by_accident(tmp_path, postgres):
    with pytest.raises(InvalidInput, match="there is no ledger at"):
        Ledger(tmp_path / "none.db", create=False)
    with pytest.raises(InvalidInput, match="there is no ledger at"):
        Ledger(fresh_schema(postgres), create=False)
    assert not (tmp_path / "none.db").exists()
    with pytest.raises(InvalidInput):
        Ledger(tmp_path)
    assert raised(lambda: Ledger(tmp_path / "no" / "folder.db")) == "Unavailable"


def test_files_that_are_not_ledgers_are_left_alone(tmp_path):
    text = tmp_path / "text.db"
    text.write_text("not a database, but long enough to look at " * 100)
    foreign = tmp_path / "foreign.db"
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE mine (x)")
    for path in (text, foreign):
        before = path.read_bytes()
        with pytest.raises(LedgerIntegrity):
            Ledger(path)
        assert path.read_bytes()[100:] == before[100:]


def test_a_newer_schema_is_refused_and_left_alone(tmp_path, postgres):
    path = tmp_path / "budget.db"
    Ledger(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO migration VALUES (4, 'future')")
    with pytest.raises(LedgerIntegrity, match="newer"):
        Ledger(path)
    import psycopg

    place = fresh_schema(postgres)
    Ledger(place).close()
    with psycopg.connect(place, autocommit=True) as other:
        other.execute("INSERT INTO migration VALUES (4, 'future')")
    with pytest.raises(LedgerIntegrity, match="newer"):
        Ledger(place)


def test_an_altered_list_of_migrations_is_refused(tmp_path):
    path = tmp_path / "budget.db"
    Ledger(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE migration SET name = 'other' WHERE version = 1")
    with pytest.raises(LedgerIntegrity, match="migrations was altered"):
        Ledger(path)


def test_a_schema_that_stopped_half_way_is_completed(tmp_path):
    from tallystick.ledger.sqlite import statements_of
    from tallystick.ledger.store import migrations

    path = tmp_path / "budget.db"
    with sqlite3.connect(path) as connection:
        for sql in statements_of(migrations("sqlite")[0].sql):
            connection.execute(sql)
        connection.execute("INSERT INTO migration VALUES (1, 'tables')")
    with Ledger(path) as ledger:
        assert ledger.verify().problems == ()


def test_the_file_is_private(tmp_path):
    path = tmp_path / "budget.db"
    with Ledger(path):
        for name in (path, f"{path}-wal", f"{path}.gate"):
            import os

            assert os.stat(name).st_mode & 0o777 == 0o600


def test_a_budget_of_several_orders_or_terms_is_not_a_filter():
    with pytest.raises(InvalidInput, match="not a filter"):
        Budget.of(ts.renyi_dp({2: 1.0, 4: 2.0}))
    for loss in (ts.no_loss(), ts.laplace(scale=1), 2 * ts.zcdp(rho=0.1), object()):
        with pytest.raises(InvalidInput, match="a limit such as zcdp"):
            Budget.of(loss)


def test_a_refusal_never_creates_an_entry(ledger):
    account = ledger.open("people", budget=Budget.zcdp(1))
    before = ledger.head()
    with pytest.raises(Refused):
        ledger.open("people", budget=Budget.zcdp(2))
    assert raised(spend(account, 2 * 10**12).reserve) == "BudgetExceeded"
    assert ledger.head() == before


def test_a_refused_ledger_leaves_no_open_files(tmp_path, config):
    """Found by the campaign: a thousand refusals used up the process's descriptors."""
    path = tmp_path / "budget.db"
    Ledger(path).close()
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO migration VALUES (99, 'from the future')")
    connection.commit()
    connection.close()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        assert raised(lambda: Ledger(path)) == "LedgerIntegrity"
    assert len(os.listdir("/proc/self/fd")) == before
