"""A number of rows or people that limits per person can touch says so in the name of its column, in every output."""

from __future__ import annotations

import json
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
from tallystick.tables.plan import Plan
from tallystick.tables.release import Release

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


def test_a_plan_cannot_say_that_limits_do_not_touch_a_column() -> None:
    plan = asked(max_groups=2, max_rows_per_group=5).agg(n=ts.rows()).plan(rho=1)
    assert Plan.from_json(plan.to_json()).hash == plan.hash
    edited = plan.to_json().replace('"says_limited": true', '"says_limited": false')
    assert edited != plan.to_json()
    with pytest.raises(Refused, match="edited"):
        Plan.from_json(edited)
