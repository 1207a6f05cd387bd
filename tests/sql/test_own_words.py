"""Columns that a statement makes are called as it says them, wherever a person reads of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pytest

import tallystick as ts
from tallystick.tables.sql.pieces import measures
from tallystick.tables.sql.relations import in_own_words
from tallystick.tables.sql.tree import Text
from tallystick.tables.sql.written import statement_of

ROWS = pyarrow.table({"p": [1, 2, 3], "g": ["a", "b", "a"], "x": [1.0, 2.0, 50.0], "y": [1, 2, None]})
STATEMENT = (
    "SELECT g, AVG(x / 60.0 CLAMPED BETWEEN 0 AND 3) AS hours, COUNT(y) AS has, COUNT(*) FILTER (WHERE x > 15) AS late"
    ", COUNT(DISTINCT p) FILTER (WHERE x > 15) AS who, SUM(x CLAMPED BETWEEN 0 AND 9) FILTER (WHERE y = 1) AS some "
    "FROM t GROUP BY g"
)


@pytest.mark.parametrize("version", [None, "one"])
def test_an_answer_speaks_of_expressions_and_not_of_names_made_up_for_them(tmp_path: Path, version: str | None) -> None:
    account = ts.Ledger(tmp_path / "b.db").open("people", budget=ts.zcdp(rho=1000))
    source = ts.Private({"t": ROWS}, account=account)
    table = source.table("t", unit="p").per_unit(max_groups=1, max_rows_per_group=1)
    answer = source.sql(STATEMENT, table, keys={"g": ["a", "b"]}, rho=1, why="x", version=version)
    said = "\n".join([str(answer), *answer.details(), answer.about_csv(), answer.statement.plan.explain()])
    for inside in ("avg_of", "sum_of", "counted,", "of counted", "made_of"):
        assert inside not in said
    for own in (
        "hours  mean of x / 60.0; values below 0 count as 0, above 3 as 3",
        "has    total of rows with y",
        "late   total of rows where x > 15",
        "with a value of p where x > 15 in some row",
        "total of x where y = 1; values below 0 count as 0, above 9 as 9",
        "had a value of x / 60.0 above 3",
    ):
        assert own in said, own
    assert "values of rows" not in said  # a count with a condition has no value beyond 0 and 1


def test_measures_of_the_shell_are_called_as_they_are_typed() -> None:
    table = ts.Private(ROWS).table(unit="p").per_unit(max_rows_per_group=1)
    made, asked = measures("avg(x / 60.0 clamped between 0 and 3) as hours, count(*) filter (where x > 15)", table)
    plan = made.agg(**asked).plan(rho=1)
    said = [each["said"].split(";")[0] for each in plan.facts()["measures"]]
    assert said == ["mean of x / 60.0", "total of rows where x > 15"]


def test_own_words_are_a_name_whatever_the_statement_holds() -> None:
    for text in (
        "'ｗ\u200b\u0301' = x",
        "x" + " + x" * 60,
        "CASE WHEN \"a b\" > 1 THEN 'y''z' END /* no */",
        "'e\u0301'",
    ):
        read = Text(f"SELECT {text}")
        tree = read.tree(read.tokens()).expressions[0]
        name = in_own_words("rows", tree, tree)
        assert 0 < len(name) <= 80
        ts.Private(ROWS).table(unit="p").derive(**{name: ts.col("x") + 1})
        assert "no" not in name.split()


def test_the_statement_that_a_query_stands_for_names_bounds_that_are_not_registered() -> None:
    table = ts.Private(ROWS).table(unit="p").per_unit(max_rows_per_group=1).bounds(x=(0, 60))
    made, asked = measures("avg(x) as plain, avg(x clamped between 0 and 3) as narrow, count_if(x > 3) as n", table)
    assert statement_of(made.agg(**asked), "t").endswith('FROM "t" -- narrow CLAMPED BETWEEN 0 AND 3')
