"""The shell's options in SQL words, the SQL that a question stands for, and cells of notebooks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
import pytest

import tallystick as ts
from sql.test_doors import GROUPED, ledger, shell
from tallystick.cli.question import TableOptions
from tallystick.errors import InvalidInput, NotAnswered, Refused
from tallystick.tables.sql import pieces
from tallystick.tables.sql.written import statement_of

assert ledger  # a fixture

ROWS = pyarrow.table({"patient": [1], "ward": ["a"], "year": [2026], "age": [40], "cost": [1.0]})
SOURCE = ts.Private({"visits": ROWS})
VISITS = SOURCE.table("visits", unit="patient").per_unit(max_groups=2, max_rows_per_group=3)
VISITS = VISITS.bounds(age=(0, 100), cost=(0, 500))


def asked(measures: str = "count", where: list[str] | None = None, **more: Any) -> TableOptions:
    return TableOptions([measures], None, None, None, where, {"rho": 0.1}, **more)


def test_python_shell_and_sql_say_the_same_plan() -> None:
    year, ward = ts.col("year"), ts.col("ward")
    python = VISITS.filter((year >= 2026) & (ward != "x")).agg(n=ts.count(), avg_age=ts.mean("age")).plan(rho=0.1)
    words = asked("count(*) AS n, avg(age)", ["year >= 2026 AND ward <> 'x'"]).plans(VISITS)[0]
    filtered = "SELECT COUNT(*) AS n, AVG(age) FROM (SELECT * FROM visits WHERE year >= 2026) AS t WHERE ward <> 'x'"
    assert words.hash == python.hash
    in_turn = VISITS.filter(year >= 2026).filter(ward != "x").agg(n=ts.count(), avg_age=ts.mean("age")).plan(rho=0.1)
    assert SOURCE.sql(f"EXPLAIN {filtered}", VISITS, rho=0.1).plan.hash == in_turn.hash
    assert asked("count", ["year >= 2026", "ward <> 'x'"]).plans(VISITS)[0].hash == (
        VISITS.filter(year >= 2026).filter(ward != "x").agg(count=ts.count()).plan(rho=0.1).hash
    )


def test_the_short_form_of_a_condition_still_means_what_it_did() -> None:
    same = VISITS.filter(ts.col("ward") == "north").agg(count=ts.count()).plan(rho=0.1).hash
    assert asked(where=["ward=north"]).plans(VISITS)[0].hash == same
    assert asked(where=["ward = 'north'"]).plans(VISITS)[0].hash == same
    assert asked(where=["year=2026"]).plans(VISITS)[0].hash == asked(where=["year = 2026"]).plans(VISITS)[0].hash


def test_derived_columns_and_public_joins(tmp_path: Path) -> None:
    (tmp_path / "floors.csv").write_text("ward,floor\na,1\nb,2\n")
    plan = asked("sum(twice)", derive=["twice = age * 2"], join=[tmp_path / "floors.csv"])
    with pytest.raises(InvalidInput, match="bounds"):
        plan.query(VISITS)
    query = asked("sum(twice,0,200)", ["floor = 1"], derive=["twice = age * 2"], join=[tmp_path / "floors.csv"]).query(
        VISITS
    )
    assert query.table.schema.names[-2:] == ("floor", "twice")


@pytest.mark.parametrize("text", ["1 = 1 GROUP BY ward", "ward", "COUNT(*) > 1", "ward IN (SELECT ward FROM visits)"])
def test_a_condition_is_a_condition_and_nothing_else(text: str) -> None:
    with pytest.raises((InvalidInput, Refused)):
        pieces.condition(text, VISITS)


def test_measures_are_aggregates_alone() -> None:
    with pytest.raises(InvalidInput, match="a list such as count"):
        asked("count(*) + 1").query(VISITS)
    with pytest.raises(NotAnswered, match="PERCENTILE_CONT"):
        asked("min(age)").query(VISITS)


@pytest.mark.parametrize(
    "query",
    [
        VISITS.agg(n=ts.count(), people=ts.count_units()),
        VISITS.filter(ts.col("year") >= 2026)
        .filter(~(ts.col("ward") == "x"))
        .agg(s=ts.sum("cost"), m=ts.median("age")),
        VISITS.filter(ts.col("ward").isin(["a", "b"])).group_by("ward", keys=["a", "b"]).agg(a=ts.mean("cost")),
        VISITS.agg(v=ts.variance("age"), sd=ts.standard_deviation("cost")),
    ],
)
def test_the_statement_of_a_question_reads_back_as_the_same_plan(query: Any) -> None:
    text = statement_of(query, "visits").partition(" -- ")[0]
    assert SOURCE.sql(f"EXPLAIN {text}", VISITS, rho=0.1).plan.hash == query.plan(rho=0.1).hash


def test_query_prints_the_sql_it_stands_for(ledger: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--measures", "count", "--where", "age > 3", "--rho", "0.05", "--why", "x", "--ledger", ledger)
    assert shell("query", "visits", *options, "--json") == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])["found"]
    assert found["sql"] == 'SELECT COUNT(*) AS "count" FROM "visits" WHERE "age" > 3'


class Shell:
    """As much of IPython as the extension uses."""

    def __init__(self) -> None:
        self.user_ns: dict[str, Any] = {}

    def register_magic_function(self, function: Any, *, magic_kind: str, magic_name: str) -> None:
        assert (magic_kind, magic_name) == ("cell", "tallystick")
        self.run = function


def test_a_cell_of_a_notebook_shows_table_price_and_what_is_left(ledger: str) -> None:
    notebook = Shell()
    ts.load_ipython_extension(notebook)
    answer = notebook.run(f'found --ledger {ledger} --why "weekly report" --rho 0.05', GROUPED)
    assert notebook.user_ns["found"] is answer
    shown = answer._repr_html_()
    assert "<table" in shown
    assert "Charged rho 0.05 (epsilon" in shown
    assert "Left: rho 0.95" in shown
    with pytest.raises(InvalidInput, match="%%tallystick"):
        notebook.run("--rho much", GROUPED)
