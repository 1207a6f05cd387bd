"""A column that limits per person can touch says so in its name, in every output."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tallystick as ts
from tallystick.cards import card
from tallystick.cards.check import check_card
from tallystick.errors import InvalidInput, Refused
from tallystick.inference import from_csv
from tallystick.tables.measures import parse
from tallystick.tables.output import with_limits
from tallystick.tables.plan import Plan
from tallystick.tables.release import Release
from tallystick.tables.sources import FORM

VISITS = pa.table({"who": [1, 1, 2, 3], "ward": ["a", "b", "a", "b"], "age": [40, 40, 7, 99]})


def asked(account: Any = None, **caps: int) -> Any:
    visits = ts.Private(VISITS, account=account).table(unit="who")
    return visits.per_unit(**caps).group_by("ward", keys=["a", "b", "c"])


def names(query: Any) -> list[str]:
    return list(query.fields)


def test_rows_are_limited_by_every_limit_and_people_by_that_on_groups() -> None:
    counts = {"visits": ts.rows(), "patients": ts.people(), "aged": ts.people("age")}
    assert names(asked(max_groups=2, max_rows_per_group=5).agg(**counts)) == [
        "visits_limited", "patients_limited", "aged_limited",
    ]  # fmt: skip
    # each person is in as many of the groups as there are
    assert names(asked(max_groups=3, max_rows_per_group=5).agg(**counts)) == ["visits_limited", "patients", "aged"]
    total = ts.Private(VISITS).table(unit="who").per_unit(max_rows=7)
    assert names(total.agg(**counts)) == ["visits_limited", "patients", "aged"]
    assert names(ts.Private(VISITS).table(unit=ts.each_row).agg(n=ts.rows())) == ["n"]


def test_the_old_names_keep_their_columns_and_their_place_in_stored_plans() -> None:
    plan = asked(max_groups=2, max_rows_per_group=5).agg(n=ts.count(), people=ts.count_units()).plan(rho=1)
    assert names(plan.query) == ["n", "people"]
    assert "limited" not in plan.to_json()


def test_the_shell_has_both_words() -> None:
    assert {name: measure.to_data()["kind"] for name, measure in parse("rows, people").items()} == {
        "rows": "count", "people": "count_units",
    }  # fmt: skip
    with pytest.raises(InvalidInput, match="Did you mean people"):
        parse("peple")


def released(tmp_path: Path) -> tuple[Release, ts.Ledger]:
    book = ts.Ledger(tmp_path / "x.db")
    account = book.open("people", budget=ts.zcdp(rho=9), unit="patient")
    query = asked(account, max_groups=1, max_rows_per_group=2).agg(rows=ts.rows(), people=ts.people())
    return query.plan(rho=1).release(why="test"), book


def test_every_output_says_it(tmp_path: Path) -> None:
    release, book = released(tmp_path)
    columns = ["rows_limited", "people_limited"]
    assert [name for name in release.columns if f"{name}_lower" in release.columns] == columns
    assert release.to_csv().splitlines()[0].split(",")[1::3] == columns
    assert set(columns) <= set(json.loads(release.to_json())["rows"][0])
    for column in columns:
        assert f"{column} ±" in str(release)
        assert column in release.html()
    made = card(release)
    assert all(found.holds or found.not_checked for found in check_card(made, book, table=release.to_csv()))
    assert "rows_limited" in made.to_html()
    cells = from_csv(release.to_csv(), made.to_json(), measure="rows_limited")
    assert list(cells) == [("a",), ("b",), ("c",)]


def asked_under_old_names(tmp_path: Path, **limits: int) -> tuple[Release, ts.Ledger]:
    book = ts.Ledger(tmp_path / "x.db")
    account = book.open("people", budget=ts.zcdp(rho=9), unit="patient")
    query = asked(account, **limits).agg(n=ts.count(), people=ts.count_units(), age=ts.mean("age", 0, 110))
    return query.plan(rho=1).release(why="test"), book


def test_columns_with_the_old_names_say_it_too(tmp_path: Path) -> None:
    release, book = asked_under_old_names(tmp_path, max_groups=1, max_rows_per_group=2)
    columns = ["n_limited", "people_limited", "age_limited"]
    ends = [f"{name}{end}" for name in columns for end in ("", "_lower", "_upper")]
    assert release.to_csv().splitlines()[0].split(",") == ["ward", *ends]
    assert list(json.loads(release.to_json())["rows"][0]) == ["ward", *ends]
    for made in (release.to_arrow().to_pydict(), release.to_pandas().to_dict("list"), pa.table(release).to_pydict()):
        assert list(made) == ["ward", *ends]
    for column in columns:
        assert column in str(release)
        assert column in release.html()
        assert column in release.about_csv()
        assert column in "\n".join(release.details())
    assert [chart["field"] for chart in release.bars()] == columns
    page = card(release)
    assert [chart["field"] for chart in page.facts["chart"]] == columns
    assert all(found.holds or found.not_checked for found in check_card(page, book, table=release.to_csv()))
    assert list(from_csv(release.to_csv(), page.to_json(), measure="n")) == [("a",), ("b",), ("c",)]
    assert from_csv(release.to_csv(), page.to_json(), measure="n_limited")[("a",)].value == release.rows[0]["n"]
    assert list(release.rows[0])[:2] == ["ward", "n"]  # in a program a column has the name that the question gave


def test_columns_that_no_limit_touches_keep_their_names(tmp_path: Path) -> None:
    release, _ = asked_under_old_names(tmp_path, max_groups=3, max_rows_per_group=2)
    assert [name for name in release.headers.values() if name.endswith("_limited")] == ["n_limited", "age_limited"]
    single = ts.Private(VISITS, account=release.plan.account).table(unit=ts.each_row)
    with pytest.raises(Refused, match="single rows"):
        single.agg(n=ts.count()).plan(rho=0.1)
    rows = ts.Private(VISITS).table(unit=ts.each_row).agg(n=ts.count(), age=ts.mean("age", 0, 110))
    assert not any(rows.is_limited(measure) for _, measure in rows.measures)


def test_stored_answers_of_earlier_versions_keep_their_names(tmp_path: Path) -> None:
    release, book = asked_under_old_names(tmp_path, max_groups=1, max_rows_per_group=2)
    answer = {name: value for name, value in release.answer.items() if name != FORM}
    earlier = replace(release, answer=answer)
    assert "limited" not in earlier.to_csv()
    assert "limited" not in str(earlier)
    again = Plan.from_json(release.plan.to_json()).on(VISITS).with_account(book.open("people"))
    assert "limited" not in again.to_json()
    assert again.hash == release.plan.hash


def test_two_columns_never_get_one_name() -> None:
    found = with_limits(["n", "n_lower", "n_upper", "n_limited"], {"n"})
    assert list(found.values()) == [
        "n_limited_limited", "n_limited_limited_lower", "n_limited_limited_upper", "n_limited",
    ]  # fmt: skip
    assert len(set(found.values())) == 4


def test_a_statement_says_it_of_all_that_it_makes_of_such_columns(tmp_path: Path) -> None:
    account = ts.Ledger(tmp_path / "x.db").open("people", budget=ts.zcdp(rho=9), unit="patient")
    visits = ts.Private({"v": VISITS}, account=account).table("v", unit="who")
    capped = visits.per_unit(max_groups=1, max_rows_per_group=1).bounds(age=(0, 110))
    private = ts.Private({"v": VISITS}, account=account)
    text = "SELECT ward, COUNT(*) AS n, 2 * COUNT(*) AS m, RANK() OVER (ORDER BY COUNT(*)) AS k FROM v GROUP BY ward"
    made = private.sql(text, capped, rho=0.1, why="x", keys={"ward": ["a", "b"]})
    assert made.limited == {"n", "m", "k"}
    assert "n_limited" in made.to_csv()
    assert "n_limited" in made.to_json()
    around = private.sql(f"SELECT ward, x FROM ({text}) AS t(ward, x)", capped, rho=0.1, why="y", keys={"ward": ["a"]})
    assert around.limited == {"x"}
    total = private.sql("SELECT COUNT(DISTINCT who) AS n FROM v", capped, rho=0.1, why="z")
    assert total.limited == frozenset()


def test_people_over_a_limit_are_those_of_whom_not_all_rows_count() -> None:
    """With a limit on rows in all, people who are not over the limit of a group can lose rows of it."""
    visits = ts.Private(VISITS).table(unit="who").per_unit(max_groups=2, max_rows_per_group=2, max_rows=3)
    plan = visits.group_by("ward", keys=["a", "b", "c"]).agg(o=ts.units_over_cap()).plan(rho=1)
    assert "with more rows in the group than count there" in plan.explain()


def test_a_plan_cannot_say_that_limits_do_not_touch_a_column() -> None:
    plan = asked(max_groups=2, max_rows_per_group=5).agg(n=ts.rows()).plan(rho=1)
    assert Plan.from_json(plan.to_json()).hash == plan.hash
    edited = plan.to_json().replace('"says_limited": true', '"says_limited": false')
    assert edited != plan.to_json()
    with pytest.raises(Refused, match="edited"):
        Plan.from_json(edited)
