"""Groups that follow from what is public are a public list by themselves, never from the data."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tallystick as ts
from tallystick.errors import Refused
from tallystick.tables import run as running
from tallystick.tables.implied import MOST_IMPLIED
from tallystick.tables.parts import Rows
from tallystick.tables.plan import Plan

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
