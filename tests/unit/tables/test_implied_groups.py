"""Groups that follow from what is public are a public list by themselves, never from the data."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tallystick as ts
from tallystick.errors import InvalidInput, Refused
from tallystick.tables import run as running
from tallystick.tables.implied import MOST_IMPLIED
from tallystick.tables.parts import Rows
from tallystick.tables.plan import Plan
from tallystick.tables.table import Table

DAY = datetime.date(2026, 3, 9)
VISITS = pa.table(
    {
        "who": [1, 2, 3, 4, 5],
        "grade": [1, 5, 9, None, 5],
        "ill": [True, None, False, True, True],
        "day": [DAY, DAY, None, DAY, datetime.date(2026, 12, 31)],
        "ward": ["a", "b", "a", "c", "b"],
        "cost": [1.5, 2.0, 3.0, 4.0, 5.0],
    }
)


def visits(table: pa.Table = VISITS) -> Any:
    return ts.Private(table).table(unit="who").per_unit(max_groups=1, max_rows_per_group=1)


def keys_of(grouped: Any) -> list[Any]:
    return [row[0] if len(row) == 1 else row for row in grouped.keys.rows]


def test_they_are_truth_values_whole_numbers_between_bounds_and_parts_of_dates() -> None:
    table = visits().bounds(grade=(1, 5)).derive(month=ts.col("day").month(), quarter=ts.col("day").quarter())
    assert keys_of(table.group_by("ill")) == [False, True]
    assert keys_of(table.group_by("grade")) == [1, 2, 3, 4, 5]
    assert keys_of(table.group_by("month")) == list(range(1, 13))
    assert keys_of(table.group_by("quarter", "ill"))[:3] == [(1, False), (1, True), (2, False)]


def test_they_are_cuts_and_choices_among_constants() -> None:
    cost, grade = ts.col("cost"), ts.col("grade")
    table = visits().derive(band=cost.cut([2, 4]), size=ts.when(cost > 3, "large", ts.when(cost > 1, "small", "none")))
    table = table.derive(good=grade >= 4)
    assert keys_of(table.group_by("band")) == [0, 1, 2]
    assert keys_of(table.group_by("size")) == ["large", "none", "small"]
    assert keys_of(table.group_by("good")) == [False, True]


@pytest.mark.parametrize("columns", [["ward"], ["grade"], ["ill", "ward"], ["day"]])
def test_what_does_not_follow_is_refused_as_before(columns: list[str]) -> None:
    with pytest.raises(Refused, match="which groups appear can itself reveal someone"):
        visits().group_by(*columns)


def test_at_most_a_thousand_groups_follow() -> None:
    assert len(keys_of(visits().bounds(grade=(1, MOST_IMPLIED)).group_by("grade"))) == MOST_IMPLIED
    for columns, top in ((["grade"], MOST_IMPLIED + 1), (["grade", "ill"], 501)):
        with pytest.raises(Refused):
            visits().bounds(grade=(1, top)).group_by(*columns)


def test_bounds_that_no_whole_number_lies_between_give_no_groups() -> None:
    with pytest.raises(Refused):
        visits().bounds(grade=(0.2, 0.8)).group_by("grade")


def test_they_do_not_depend_on_the_data_and_other_values_are_left_out() -> None:
    other = VISITS.slice(0, 0)
    plans = [
        visits(table).bounds(grade=(1, 5)).group_by("grade").agg(n=ts.count()).plan(rho=1) for table in (VISITS, other)
    ]
    assert plans[0].hash == plans[1].hash
    assert plans[0].to_json() == plans[1].to_json()
    assert plans[0].explain() == plans[1].explain()
    exact = running.integers(plans[0])
    assert exact.numbers[Rows()][:, 0].tolist() == [1, 0, 0, 0, 2]  # neither 9 nor a missing grade


def test_the_plan_says_it_and_is_stored_like_one_whose_groups_were_listed() -> None:
    followed = visits().bounds(grade=(1, 5)).group_by("grade", "ill").agg(n=ts.count()).plan(rho=1)
    said = "grade 1 to 5, ill false or true, by what is public; rows with another value, or without one, are left out"
    assert f"Groups   {said}" in followed.explain()
    assert Plan.from_json(followed.to_json()).hash == followed.hash
    rows = [(grade, ill) for grade in range(1, 6) for ill in (False, True)]
    listed = visits().bounds(grade=(1, 5)).group_by("grade", "ill", keys=rows).agg(n=ts.count()).plan(rho=1)
    assert listed.hash == followed.hash
    some = visits().bounds(grade=(1, 5)).group_by("grade", keys=[1, 2]).agg(n=ts.count()).plan(rho=1)
    assert "by what is public" not in some.explain()


def test_they_are_days_weeks_months_quarters_and_years_between_declared_dates() -> None:
    """Against every day of the period, cut by Python's own calendar."""
    day = datetime.date
    col = ts.col("day")
    for first, last in ((day(2025, 11, 20), day(2026, 3, 2)), (day(1, 1, 1), day(1, 2, 3)), (day(9999, 12, 1),) * 2):
        days = [day.fromordinal(n) for n in range(first.toordinal(), last.toordinal() + 1)]
        starts = {
            "day": lambda each: each,
            "week": lambda each: each - datetime.timedelta(days=each.weekday()),
            "month": lambda each: each.replace(day=1),
            "quarter": lambda each: each.replace(month=(each.month - 1) // 3 * 3 + 1, day=1),
            "year": lambda each: each.replace(month=1, day=1),
        }
        table = visits().bounds(day=(first, last.isoformat())).derive(y=col.year())
        assert keys_of(table.group_by("day")) == days
        assert keys_of(table.group_by("y")) == sorted({each.year for each in days})
        for part, start in starts.items():
            made = table.derive(part=col.date_trunc(part)).group_by("part")
            assert keys_of(made) == sorted({start(each) for each in days}), part


def test_a_period_is_part_of_the_plan_and_too_many_days_are_no_groups() -> None:
    table = visits().bounds(day=("2020-01-01", "2026-12-31"), grade=(1, 5))
    assert Table.from_json(table.to_json()).periods == table.periods
    with pytest.raises(Refused):
        table.group_by("day")
    months = table.derive(month=ts.col("day").date_trunc("month")).group_by("month").agg(n=ts.count()).plan(rho=1)
    assert "month 2020-01-01, 2020-02-01, ..., 2026-12-01, by what is public" in months.explain()
    assert Plan.from_json(months.to_json()).hash == months.hash
    for pair in (("2026-02-01", "2026-01-01"), ("2026-02-30", "2026-03-01"), (1, 5)):
        with pytest.raises(InvalidInput):
            visits().bounds(day=pair)


def test_other_values_and_missing_ones_have_a_group_where_the_question_names_one() -> None:
    table = visits().bounds(grade=(1, 5))
    asked = {
        "grade": (table.group_by("grade", other={"grade": 0}), [1, 0, 0, 0, 2, 2]),
        "ward": (table.group_by("ward", keys=["a", "b"], other={"ward": "other"}), [2, 2, 1]),
        "day": (table.group_by("day", keys=[DAY], other={"day": datetime.date(1, 1, 1)}), [3, 2]),
    }
    for column, (grouped, counts) in asked.items():
        assert grouped.columns == (f"{column}_or_other",)
        plan = grouped.agg(n=ts.count()).plan(rho=1)
        exact = running.integers(plan)
        assert exact.numbers[Rows()][:, 0].tolist() == counts
        assert "no row is left out" in plan.explain()
        assert Plan.from_json(plan.to_json()).hash == plan.hash
    both = table.group_by("grade", "ill", other={"grade": 0}).agg(n=ts.count()).plan(rho=1)
    assert running.integers(both).numbers[Rows()].sum() == 4  # all but the row without an "ill"
    assert "rows with another value of ill, or without one, are left out" in both.explain()


def test_an_other_group_that_could_not_be_told_apart_is_refused() -> None:
    table = visits().bounds(grade=(1, 5))
    for other in ({"grade": 3}, {"grade": "other"}, {"ward": "x"}, {"grade": None}):
        with pytest.raises(InvalidInput):
            table.group_by("grade", other=other)
    with pytest.raises(InvalidInput):
        table.group_by("ward", keys=ts.private_keys(delta=1e-8), other={"ward": "x"})
    with pytest.raises(InvalidInput, match="all combinations"):
        table.group_by("grade", "ill", keys=[(1, True), (2, False)], other={"grade": 0})
    with pytest.raises(InvalidInput):
        table.group_by("ill", other={"ill": True})
    with pytest.raises(Refused, match="which groups appear"):
        table.group_by("ward", other={"ward": "x"})


def test_a_statement_writes_its_other_group_as_a_case(tmp_path: Path) -> None:
    account = ts.Ledger(tmp_path / "x.db").open("people", budget=ts.zcdp(rho=9), unit="patient")
    private = ts.Private({"v": VISITS}, account=account)
    table = private.table("v", unit="who").per_unit(max_groups=1, max_rows_per_group=1)
    text = "SELECT CASE WHEN ward IN ('a', 'b') THEN ward ELSE 'other' END AS w, COUNT(*) AS n FROM v GROUP BY w"
    made = private.sql(text, table, rho=8, why="x")
    assert [row["w"] for row in made.rows] == ["a", "b", "other"]


def test_listed_groups_say_that_other_rows_are_left_out() -> None:
    plan = visits().group_by("ward", keys=["a", "b"]).agg(n=ts.count()).plan(rho=1)
    assert "Groups   listed; rows with another value, or without one, are left out" in plan.explain()


def test_the_shell_has_other_groups_months_and_people_who_are_not_protected(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    rows = "".join(f"{i},{'abx'[i % 3]},{1 + i % 7},2026-0{1 + i % 6}-09,t{i % 2}\n" for i in range(300))
    (tmp_path / "v.csv").write_text("who,ward,grade,day,teacher\n" + rows)
    (tmp_path / "g.csv").write_text("ward\na\nb\n")
    (tmp_path / "t.csv").write_text("teacher\nt0\nt1\n")
    add = "dataset add v.csv --population p --unit who --limit rho=9 --max-groups 1 --max-rows-per-group 1"
    more = "--type grade=integer --bounds grade=1:5 --bounds day=2026-02-01:2026-04-30 --keys ward=g.csv,teacher=t.csv"
    assert run(*add.split(), *more.split(), "--about", "identifies=who").code == 2
    assert run(*add.split(), *more.split(), "--about", "identifies=nobody").code == 2
    added = run(*add.split(), *more.split(), "--about", "identifies=teacher")
    assert added.code == 0, added.errors
    assert "bounds   day 2026-02-01 to 2026-04-30" in run("dataset", "show", "v").out
    for by, other, groups in (("ward", "rest", 3), ("grade", "0", 6)):
        words = ("--by", by, "--other", f"{by}={other}", "--measures", "count", "--rho", "1")
        planned = run("publish", "plan", "v", *words)
        assert f"v by {by}_or_other, {groups} groups" in planned.out, planned.errors
        made = run("query", "v", *words, "--why", "x", "--json").document["found"]
        assert len(made["rows"]) == groups
        assert abs(sum(row[1] for row in made["rows"]) - 300) < 60
    month = "SELECT DATE_TRUNC('month', day) AS m, COUNT(*) AS n FROM v GROUP BY m ORDER BY m"
    rows_of_months = run("sql", month, "--rho", "1", "--why", "x", "--json").document["found"]["rows"]
    assert [row[0] for row in rows_of_months] == ["2026-02-01", "2026-03-01", "2026-04-01"]
    said = "column teacher identifies other people, who are not protected"
    planned = run("publish", "plan", "v", "--by", "teacher", "--measures", "count", "--rho", "1", "--out", "p.json")
    assert said in planned.out
    made = run("publish", "run", "p.json", "--why", "x", "--card", "c.html")
    assert said.capitalize() in made.errors
    assert said in (tmp_path / "c.html").read_text()
    assert run("card", "verify", "c.html").code == 0
    text = "SELECT CASE WHEN teacher = 't0' THEN 1 ELSE 0 END AS t, COUNT(*) AS n FROM v GROUP BY t"
    assert said in run("sql", f"EXPLAIN {text}", "--rho", "1").out
    assert said not in run("sql", "EXPLAIN SELECT ward, COUNT(*) AS n FROM v GROUP BY ward", "--rho", "1").out


def test_a_column_that_a_later_step_makes_anew_is_not_taken_for_the_derived_one() -> None:
    table = visits().derive(size=ts.when(ts.col("cost") > 3, "large", "small")).distinct("size", "grade")
    with pytest.raises(Refused):
        table.per_unit(max_groups=1, max_rows_per_group=1).group_by("size")


def test_the_shell_and_sql_know_registered_lists_and_what_follows(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    (tmp_path / "visits.csv").write_text("who,ward,grade,ill\n1,a,3,true\n2,b,9,false\n")
    (tmp_path / "wards.csv").write_text("ward\na\nb\nc\n")
    add = "dataset add visits.csv --population patients --unit who --limit rho=1 --max-groups 1 --max-rows-per-group 1"
    more = "--type grade=integer --type ill=boolean --bounds grade=1:5 --keys ward=wards.csv"
    added = run(*add.split(), *more.split())
    assert added.code == 0, added.errors
    for by, groups in (("ward", 3), ("grade", 5), ("ill", 2), ("ward,grade", 15)):
        planned = run("publish", "plan", "visits", "--by", by, "--measures", "count", "--rho", "0.1")
        assert f"visits by {by.replace(',', ' and ')}, {groups} groups" in planned.out, planned.errors
        shown = run("sql", f"EXPLAIN SELECT {by}, COUNT(*) AS n FROM visits GROUP BY {by}", "--rho", "0.1")
        assert shown.code == 0, shown.errors
    refused = run("publish", "plan", "visits", "--by", "who", "--measures", "count", "--rho", "0.1")
    assert refused.code == 4
