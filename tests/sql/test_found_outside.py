"""What an outsider found in an hour of asking in SQL."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from sqlglot import exp

import tallystick as ts
from pace import Clock
from tallystick.cli import main
from tallystick.errors import InvalidInput, Refused
from tallystick.tables.sql import outside
from tallystick.tables.sql.catalogue import Catalogue, Known
from tallystick.tables.sql.statement import planned


@pytest.fixture
def visits(tmp_path: Path):
    people = [person for person in range(120) for _ in range(1 + person % 60)]
    rows = {
        "p": people,
        "g": ["ab"[i % 2] for i in range(len(people))],
        "x": [float(i % 100) for i in range(len(people))],
    }
    with ts.Ledger(tmp_path / "budget.db", config=tmp_path) as ledger:
        account = ledger.open("people", budget=ts.zcdp(rho=1e6, delta=1e-6), unit="p")
        private = ts.Private(pa.table(rows), account=account)
        table = private.table(unit="p").per_unit(max_groups=2, max_rows_per_group=10).bounds(x=(0, 100))
        yield lambda text: private.sql(text, table, keys={"g": ["a", "b"]}, rho=1e3, why="test")


def test_a_condition_sees_every_count_of_a_unit_and_a_mean_says_what_it_clamped(visits):
    """Counts stopped at the caps, 2 x 10, in silence: nobody had more than 40 rows."""
    inner = '(SELECT p, COUNT(*) AS n FROM "table" GROUP BY p) t'
    assert visits(f"SELECT COUNT(*) AS many FROM {inner} WHERE n > 40").data["many"] == [40]
    mean = visits(f"SELECT AVG(n) AS mean FROM {inner}")
    above = next(each for each in mean.release.removed() if each.what == "values of n above 20")
    assert above.lower <= 80 <= above.upper


def test_having_may_name_an_output(visits):
    text = 'SELECT g, COUNT(*) AS n, AVG(x) AS m FROM "table" GROUP BY g HAVING n > {} AND m > 10 ORDER BY n'
    assert len(visits(text.format(5))) == 2
    assert len(visits(text.format(10**6))) == 0


def test_a_wished_error_does_not_walk_around_the_most_a_statement_may_cost():
    table = ts.Private(pa.table({"p": [1], "g": ["a"]})).table(unit="p").per_unit(max_groups=1, max_rows_per_group=1)
    known = Catalogue({"visits": Known(table, keys={"g": ("a", "b")}, most={"rho": 2.0})})
    assert planned("SELECT COUNT(*) FROM visits", known, error=50.0).plan.budget["rho"] < 2.0
    for text in (
        "SELECT COUNT(*) FROM visits",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(error=0.001) COUNT(*) FROM visits",
    ):
        with pytest.raises(Refused, match=r"at most (rho|epsilon) 2 in a statement"):
            planned(text, known, error=0.001)


def test_the_dearest_price_is_that_of_every_table_in_the_statement():
    """Only the first table's owner was asked."""
    private = ts.Private(pa.table({"p": [1], "g": ["a"]}))
    table = private.table(unit="p").per_unit(max_groups=1, max_rows_per_group=1)
    known = Catalogue({"planes": Known(table), "flights": Known(table, most={"rho": 2.0})})
    text = "SELECT COUNT(*) FROM planes WHERE p IN (SELECT p FROM flights WHERE g = 'a')"
    assert planned(text, known, rho=1.0).plan.budget["rho"] == 1.0
    with pytest.raises(Refused, match=r"at most (rho|epsilon) 2 in a statement"):
        planned(text, known, rho=3.0)


OWN_DELTA = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(delta=0.4) g, COUNT(*) FROM visits GROUP BY g"


def test_a_delta_beside_the_default_price_is_the_askers_own_price():
    """OPTIONS(delta=0.4) alone was answered where OPTIONS(rho=0.02, delta=0.4) was refused."""
    table = ts.Private(pa.table({"p": [1], "g": ["a"]})).table(unit="p").per_unit(max_groups=1, max_rows_per_group=1)
    asking = Known(table, key_delta=1e-8, price={"rho": 0.02}, most={"rho": 0.2, "delta": 1e-7})
    known = Catalogue({"visits": asking})
    assert planned("SELECT COUNT(*) FROM visits", known).plan.budget["rho"] == 0.02
    with pytest.raises(Refused, match="at most delta 1e-7 in a statement"):
        planned(OWN_DELTA, known)
    with pytest.raises(Refused, match="at most delta 1e-7 in a statement"):
        planned("SELECT g, COUNT(*) FROM visits GROUP BY g", known, delta=0.4)
    paired = Known(table, price={"rho": 0.02, "delta": 1e-8}, most={"rho": 0.2, "delta": 1e-7})
    for text, budget in ((OWN_DELTA, {}), ("SELECT g, COUNT(*) FROM visits GROUP BY g", {"delta": 0.4})):
        with pytest.raises(Refused, match=r"at most delta 1e-7 in a statement, and this one names delta 0\.4"):
            planned(text, Catalogue({"visits": paired}), **budget)


def test_a_delta_beside_the_statement_finds_groups_as_one_in_its_options_does():
    """``--delta`` was a price, and the groups were refused all the same."""
    table = ts.Private(pa.table({"p": [1], "g": ["a"]})).table(unit="p").per_unit(max_groups=1, max_rows_per_group=1)
    known = Catalogue({"visits": Known(table, most={"rho": 0.2, "delta": 1e-6})})
    plain = "SELECT g, COUNT(*) FROM visits GROUP BY g"
    inside = plain.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(rho=0.1, delta=1e-7)", 1)
    assert planned(plain, known, rho=0.1, delta=1e-7).plan.hash == planned(inside, known).plan.hash
    assert planned(inside, known, delta=1e-9).plan.hash == planned(inside, known).plan.hash
    with pytest.raises(
        Refused, match=r"GROUP BY g without a public list of groups \(line 1, column 32\).*OPTIONS\(delta="
    ):
        planned(plain, known, rho=0.1)
    with pytest.raises(Refused, match="at most delta 1e-6 in a statement"):
        planned(plain, known, rho=0.1, delta=1e-5)
    for wrong in ("1e-7", -1e-7, float("nan"), 0):
        with pytest.raises(InvalidInput, match="delta"):
            planned(plain, known, rho=0.1, delta=wrong)


def test_the_default_price_of_one_table_is_not_above_the_dearest_of_another():
    private = ts.Private(pa.table({"p": [1], "g": ["a"]}))
    table = private.table(unit="p").per_unit(max_groups=1, max_rows_per_group=1)
    known = Catalogue({"planes": Known(table, price={"rho": 1.0}), "flights": Known(table, most={"rho": 0.1})})
    assert planned("SELECT COUNT(*) FROM planes", known).plan.budget["rho"] == 1.0
    with pytest.raises(Refused, match=r"at most (rho|epsilon) 0\.1 in a statement"):
        planned("SELECT COUNT(*) FROM planes WHERE p IN (SELECT p FROM flights)", known)


def test_no_output_is_called_like_an_end_of_an_interval(visits):
    with pytest.raises(Refused, match="interval of n"):
        visits('SELECT COUNT(*) AS n, COUNT(DISTINCT p) AS N_lower FROM "table"')


def test_an_answer_overwrites_neither_data_nor_ledger(tmp_path, capsys):
    data, ledger = tmp_path / "flights.csv", tmp_path / "budget.db"
    data.write_text("p,g\n1,a\n2,b\n")
    options = ["--population", "people", "--unit", "p", "--max-groups", "1", "--max-rows-per-group", "1"]
    assert main(["dataset", "add", str(data), *options, "--limit", "rho=5", "--ledger", str(ledger)]) == 0
    (tmp_path / "led.csv").symlink_to(ledger)
    for out in (data, tmp_path / "led.csv"):
        asked = ["sql", "SELECT COUNT(*) FROM flights", "--rho", "1", "--why", "x", "--ledger", str(ledger)]
        assert main([*asked, "--out", str(out)]) == 2
    assert data.read_text() == "p,g\n1,a\n2,b\n"
    assert ledger.read_bytes().startswith(b"SQLite format 3")
    capsys.readouterr()


def test_the_least_of_two_columns_may_be_the_larger_where_the_smaller_is_missing():
    """What is missing is passed over; values were clamped as if no argument could be."""
    rows = {"p": [1, 2], "h": [None, 3.0], "x": [80.0, 90.0]}
    table = ts.Private(pa.table(rows)).table(unit="p").per_unit(max_groups=1, max_rows_per_group=1)
    known = Catalogue({"t": Known(table.bounds(h=(0, 5), x=(0, 100)))})
    limits = {
        "LEAST(h, x)": (0.0, 100.0),
        "LEAST(h, 50)": (0.0, 50.0),
        "GREATEST(h, x)": (0.0, 100.0),
        "GREATEST(x, 50)": (50.0, 100.0),
    }
    for value, ends in limits.items():
        plan = planned(f"SELECT SUM({value}) AS s FROM t", known, rho=1.0).plan
        assert [(each.lower, each.upper) for _, each in plan.query.measures if each.kind == "sum"] == [ends]


def test_rows_of_nobody_are_not_counted_through_a_subquery():
    table = ts.Private(pa.table({"p": [1], "g": ["a"]})).table(unit="p").per_unit(max_groups=1, max_rows_per_group=1)
    known = Catalogue({"t": Known(table, keys={"g": ("a", "b")})})
    keys = "(VALUES ('a'), ('b')) AS k(label)"
    for text in (
        f"SELECT COUNT(label) AS n FROM (SELECT t.p, k.label FROM {keys} LEFT JOIN t ON t.g = k.label) AS s",
        f"WITH s AS (SELECT t.p, k.label FROM {keys} LEFT JOIN t ON t.g = k.label) SELECT COUNT(label) AS n FROM s",
    ):
        with pytest.raises(Refused, match=r"LEFT JOIN from a public table in a subquery .*the outermost SELECT"):
            planned(text, known, rho=1.0)
    planned(f"SELECT label, COUNT(t.p) AS n FROM {keys} LEFT JOIN t ON t.g = k.label GROUP BY label", known, rho=1.0)


def chained(levels: int, made: str, base: str) -> str:
    text = base
    for level in range(levels):
        text = f"(SELECT w, {made} FROM {text}) AS z{level}"
    return text


def test_columns_that_double_at_every_level_are_refused_before_an_engine_sees_them():
    """Twelve levels in 500 characters took an engine more than a minute, before the charge."""
    table = ts.Private(pa.table({"p": [1], "w": ["a"], "x": [1.0]})).table(unit="p")
    known = Catalogue({"v": Known(table.per_unit(max_groups=1, max_rows_per_group=1), keys={"w": ("a", "b")})})
    rows = chained(10, "p, x + x AS x", "(SELECT p, w, x FROM v) AS b")
    with pytest.raises(InvalidInput, match="500 functions"):
        planned(f"SELECT w, COUNT(*) FROM {rows} WHERE x > 3 GROUP BY w", known, rho=1.0)


def test_texts_that_double_after_the_noise_are_not_written_out():
    """Four times as long for every level: thirteen took an optimizer more than a minute, before the charge."""
    table = ts.Private(pa.table({"p": [1], "w": ["a"]})).table(unit="p")
    known = Catalogue({"v": Known(table.per_unit(max_groups=1, max_rows_per_group=1), keys={"w": ("a", "b")})})
    rows = chained(10, "CONCAT(s, s, s, s) AS s", "(SELECT w, w AS s, COUNT(*) AS n FROM v GROUP BY w) AS b")
    clock = Clock()
    planned(f"SELECT w FROM {rows} WHERE s > 'a'", known, rho=1.0).released.rehearse()
    assert clock.seconds < 3.0


def test_what_takes_long_after_the_noise_is_given_up(monkeypatch):
    monkeypatch.setattr(outside, "_PATIENCE", 0.2)
    with outside.Outside({}) as engine, pytest.raises(Refused, match=r"takes more than 0\.2 seconds"):
        engine.rows(exp.maybe_parse("SELECT COUNT(DISTINCT range) FROM range(100000000000)", dialect="duckdb"))
