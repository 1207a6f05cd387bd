"""SQL about one unit's rows: bounds of values, caps of tables together, FULL JOIN, ranks and months as in DuckDB."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow
import pytest

import tallystick as ts
from sql import judge
from sql.catalogue import catalogue
from tallystick.errors import Refused
from tallystick.tables.release import Release, answer_of
from tallystick.tables.run import integers
from tallystick.tables.sql.catalogue import Catalogue, Known
from tallystick.tables.sql.statement import planned

ROWS = {
    "visits": pyarrow.table({"u": [1, 1, 1, 2, 3], "x": [9, -4, 2, 30, None], "t": ["a", "b", "a", "a", None]}),
    "cases": pyarrow.table({"u": [1, 1, 4], "y": [1, 2, 3]}),
}


def tables(groups: int = 5) -> Catalogue:
    source = ts.Private(ROWS)
    visits = source.table("visits", unit="u").per_unit(max_groups=2, max_rows_per_group=3).bounds(x=(0, 10))
    cases = source.table("cases", unit="u").per_unit(max_groups=groups, max_rows_per_group=1).bounds(y=(0, 3))
    price = {"rho": 1, "caps_share": 0}
    return Catalogue(
        {name: Known(table, price=price) for name, table in {"visits": visits, "cases": cases}.items()}, {}
    )


def exact(sql: str, groups: int = 5) -> list[tuple[Any, ...]]:
    """The answer before the noise."""
    statement = planned(sql, tables(groups))
    found = integers(statement.plan)
    numbers = [found.numbers[noise.part] for noise in statement.plan.noises]
    names, rows = statement.released.rows(Release(statement.plan, answer_of(statement.plan, found.keys, numbers)))
    shown = [i for i, name in enumerate(names) if not name.endswith(("_lower", "_upper"))]
    return [tuple(row[i] for i in shown) for row in rows]


@pytest.mark.parametrize(
    ("function", "total"),
    [
        ("SUM(x)", 9 + 0 + 2 + 10),
        ("AVG(x)", (9 + 0 + 2) / 3 + 10),
        ("MAX(x)", 9 + 10),
        ("MIN(x)", 0 + 10),
        ("SUM(x CLAMPED BETWEEN 1 AND 5)", 5 + 1 + 2 + 5),
        ("AVG(x CLAMPED BETWEEN 1 AND 5)", (5 + 1 + 2) / 3 + 5),
        ("MAX(x CLAMPED BETWEEN 1 AND 5)", 5 + 5),
        ("MIN(x CLAMPED BETWEEN 1 AND 5)", 1 + 5),
        ("SUM(x) FILTER (WHERE t = 'a')", 9 + 2 + 10),
        ("MAX(x + 1)", 10 + 11),
    ],
)
def test_a_value_beyond_its_bounds_counts_as_the_bound_in_every_function_of_a_unit(function: str, total: float) -> None:
    [(found,)] = exact(f"SELECT SUM(s) FROM (SELECT u, {function} AS s FROM visits GROUP BY u) AS each_unit")
    assert found == pytest.approx(total, abs=1e-3)


def test_a_window_clamps_as_a_subquery_does_and_a_condition_on_the_row_sees_the_value_itself() -> None:
    [(found,)] = exact("SELECT SUM(m) FROM (SELECT u, MAX(x) OVER (PARTITION BY u) AS m FROM visits) AS t")
    assert found == pytest.approx(3 * 9 + 10, abs=1e-3)
    assert exact("SELECT COUNT(*) FROM visits WHERE x > 20") == [(1,)]
    assert exact("SELECT COUNT(*) FROM (SELECT u FROM visits GROUP BY u HAVING MAX(x) > 20) AS t") == [(0,)]


def test_bounds_inside_are_no_wider_than_those_that_are_registered() -> None:
    with pytest.raises(Refused, match="within 0 to 10"):
        exact("SELECT SUM(s) FROM (SELECT u, SUM(x CLAMPED BETWEEN 0 AND 11) AS s FROM visits GROUP BY u) AS t")
    with pytest.raises(Refused, match=r"COUNT|CLAMPED BETWEEN here"):
        exact("SELECT SUM(s) FROM (SELECT u, COUNT(x CLAMPED BETWEEN 0 AND 1) AS s FROM visits GROUP BY u) AS t")


@pytest.mark.parametrize(
    "rows",
    [
        "visits v JOIN cases c ON v.u = c.u",
        "cases c JOIN visits v ON v.u = c.u",
        "visits v LEFT JOIN cases c USING (u)",
        "visits v FULL JOIN cases c USING (u)",
        "(SELECT u, x FROM visits UNION ALL SELECT u, y FROM cases) AS v",
        "(SELECT u, y FROM cases UNION ALL SELECT u, x FROM visits) AS v",
    ],
)
def test_tables_together_have_the_larger_caps_whichever_is_named_first_and_say_so(rows: str) -> None:
    statement = planned(f"SELECT COUNT(*) FROM {rows}", tables())
    table = statement.released.query.table
    assert (table.max_groups, table.max_rows) == (5, 3)
    assert "at most 5 groups with 3 rows in each, by the larger limits" in " ".join(statement.notes)
    tight = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed=1, max_rows_per_group=2)"
    table = planned(f"{tight} COUNT(*) FROM {rows}", tables()).released.query.table
    assert (table.max_groups, table.max_rows) == (1, 2)
    with pytest.raises(Refused, match="from 1 to 3"):
        planned(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_per_group=4) COUNT(*) FROM {rows}", tables())


def test_caps_of_a_join_hold_after_it() -> None:
    """Unit 1 has six pairs of rows, of which the caps let three count."""
    assert exact("SELECT COUNT(*) FROM visits v JOIN cases c ON v.u = c.u") == [(3,)]
    assert exact("SELECT COUNT(*) FROM visits WHERE u IN (SELECT u FROM cases)") == [(3,)]
    assert planned("SELECT COUNT(*) FROM cases WHERE u IN (SELECT u FROM visits)", tables()).notes == ()


@pytest.mark.parametrize(("groups", "wanted"), [(5, ("100", "100")), (1, ("10,000", "1"))])
def test_what_a_join_takes_of_one_unit_is_always_said_and_the_order_of_tables_changes_nothing(
    groups: int, wanted: tuple[str, str]
) -> None:
    for first, second in (("visits", "cases"), ("cases", "visits")):
        statement = planned(f"SELECT COUNT(*) FROM {first} JOIN {second} USING (u)", tables(groups))
        one, two = wanted if first == "visits" else wanted[::-1]
        assert f"at most {one} rows of one u are joined with at most {two} others" in " ".join(statement.notes)
        assert any(f"the join with {second}" in rule for rule in statement.plan.facts()["rules"])


AS_DUCKDB = """
SELECT COUNT(*), COUNT(a.cost), COUNT(b.case_id) FROM visits a FULL JOIN treatments b
ON a.patient = b.patient AND a.case_id = b.case_id

SELECT COUNT(DISTINCT patient), COUNT(a.patient), COUNT(b.patient) FROM visits a FULL JOIN treatments b USING (patient)

SELECT n, COUNT(*) FROM (SELECT COALESCE(a.patient, b.patient) AS p, COUNT(*) AS n FROM visits a
FULL JOIN treatments b ON a.patient = b.patient GROUP BY COALESCE(a.patient, b.patient)) AS t WHERE n < 4 GROUP BY n

SELECT COUNT(*), COUNT(f), COUNT(g) FROM visits a LEFT JOIN (SELECT patient, 1 AS f, COALESCE(case_id, 0) AS g
FROM treatments) AS b ON a.patient = b.patient

SELECT n, COUNT(*) FROM (SELECT patient, RANK() OVER (PARTITION BY patient ORDER BY ward) AS n FROM visits) AS t
WHERE n < 5 GROUP BY n

SELECT n, COUNT(*) FROM (SELECT patient, DENSE_RANK() OVER (PARTITION BY patient ORDER BY ward) AS n FROM visits) AS t
WHERE n < 5 GROUP BY n

SELECT COUNT(*) FROM visits
WHERE visited + INTERVAL 1 MONTH > DATE '2025-03-31' AND visited - INTERVAL 1 YEAR < DATE '2024-07-01'

SELECT DATE_DIFF('month', DATE '2025-01-31', visited) % 5 AS d, COUNT(*) FROM visits GROUP BY 1

SELECT EXTRACT(week FROM visited) % 10 AS w, COUNT(*) FROM visits GROUP BY 1

SELECT EXTRACT(doy FROM visited) % 7 AS w, YEAR(visited) % 2 AS y, COUNT(*) FROM visits GROUP BY 1, 2

SELECT COUNT(*) FROM visits WHERE TRIM('  ' || ward || ' ') = LTRIM(RTRIM(ward)) AND LEFT(ward, 2) <> 'xx'
""".strip().split("\n\n")


@pytest.fixture(scope="module")
def engine() -> duckdb.DuckDBPyConnection:
    return judge.plain()


@pytest.mark.parametrize("sql", AS_DUCKDB, ids=lambda sql: sql[:40])
def test_before_the_noise_it_is_what_duckdb_says(sql: str, engine: duckdb.DuckDBPyConnection) -> None:
    assert not judge.differences(sql, engine)


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [("RANK()", "DENSE_RANK()"), ("RANK()", "ROW_NUMBER()"), ("DENSE_RANK()", "ROW_NUMBER()")],
)
def test_places_are_told_apart(mine: str, theirs: str, engine: duckdb.DuckDBPyConnection) -> None:
    text = (
        "SELECT n, COUNT(*) FROM (SELECT patient, {} OVER (PARTITION BY patient ORDER BY ward) AS n FROM visits) AS t "
    )
    asked = [text.format(each) + "WHERE n < 5 GROUP BY n" for each in (mine, theirs)]
    assert judge.differences(asked[0], engine, of=asked[1])


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM visits a FULL JOIN treatments b ON a.case_id = b.case_id",
        "SELECT COUNT(*) FROM visits a FULL JOIN treatments b ON a.patient = b.patient OR a.case_id = b.case_id",
        "SELECT COUNT(*) FROM visits a FULL JOIN treatments b ON a.patient = b.patient AND a.age > 50",
        "SELECT COUNT(*) FROM patients p FULL JOIN (VALUES ('n')) AS k(region) ON k.region = p.region",
        "SELECT COUNT(*) FROM (SELECT patient, RANK() OVER (ORDER BY visited) AS n FROM visits) AS t WHERE n = 1",
        "SELECT COUNT(*) FROM (SELECT patient, RANK() OVER (PARTITION BY patient) AS n FROM visits) AS t WHERE n = 1",
        "SELECT COUNT(*) FROM visits WHERE DATE_DIFF('week', visited, DATE '2026-01-01') > 3",
        "SELECT COUNT(*) FROM visits WHERE TRIM(BOTH 'x' FROM ward) = 'a'",
    ],
)
def test_what_is_not_of_one_unit_or_differs_between_engines_is_refused(sql: str) -> None:
    with pytest.raises(Refused, match=r"\(line \d+, column \d+\) cannot be answered.*Try: "):
        planned(sql, catalogue())


CASES = "SELECT u, COUNT(*) AS n FROM cases GROUP BY u"


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        (f"SELECT SUM(n) AS s FROM ({CASES}) AS c", [(1 + 1,)]),
        (f"SELECT COUNT(*) AS s FROM ({CASES}) AS c WHERE n > 1", [(1,)]),
        (f"SELECT n, COUNT(*) AS s FROM ({CASES}) AS c GROUP BY n", [(0, 0), (1, 1)]),
    ],
)
def test_a_count_of_one_unit_is_cut_in_totals_and_not_in_conditions(sql: str, found: list[Any]) -> None:
    """Unit 1 has two cases, unit 4 has one, and the caps let one count."""
    assert exact(sql, groups=1) == found
