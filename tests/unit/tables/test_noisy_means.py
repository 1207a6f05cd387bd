"""Means and quantiles whose interval covers most of their bounds: the table and its files say so."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tallystick as ts
from tallystick.tables.reporting.words import too_noisy_to_use

SIZES = (*range(5, 62), 100, 110, 120)
"""Of about every third ward with 20 to 55 patients the mean is too noisy: that none is has probability 1e-7."""
WARDS = [f"w{size:03}" for size in SIZES]


def rows() -> pa.Table:
    """Wards with 5, 6, 7, ... patients."""
    wards = [ward for ward in WARDS for _ in range(int(ward[1:]))]
    return pa.table({"who": list(range(len(wards))), "ward": wards, "age": [0.1] * len(wards)})


@pytest.fixture
def private(tmp_path: Path) -> Any:
    with ts.Ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open("clinic", budget=ts.zcdp(rho=10))
        yield ts.Private(rows(), account=account)


def noisy_rows(table: list[dict[str, Any]], name: str) -> list[str]:
    """The wards whose mean has no value, or an interval of more than half of 0 to 5."""

    def is_wide(row: dict[str, Any]) -> bool:
        return row[name] is None or row[f"{name}_upper"] - row[f"{name}_lower"] > 2.5

    return [row["ward"] for row in table if is_wide(row)]


def told(text: str) -> int:
    """How many groups a note says are too noisy."""
    inside = text.split(" of ", 1)[1].split(" (the interval", 1)[0].replace(" and ", ", ").split(", ")
    more = int(inside.pop().split()[0]) if "more group" in inside[-1] else 0
    return len(inside) + more


def test_a_release_says_which_means_are_too_noisy(private: Any) -> None:
    visits = private.table(unit="who").per_unit(max_groups=1, max_rows_per_group=1).bounds(age=(0, 5))
    made = visits.group_by("ward", keys=WARDS).agg(n=ts.count(), age=ts.mean("age")).plan(rho=0.02).release(why="x")
    wards = noisy_rows(made.rows, "age")
    assert 0 < len(wards) < len(WARDS)
    assert made.noisy.startswith(f"Too noisy to use: age_limited of {wards[0]}")
    assert told(made.noisy) == len(wards)
    for shown in (str(made), made._repr_html_()):
        assert "Too noisy to use" in shown
    values = [row["age_limited"] for row in csv.DictReader(io.StringIO(made.to_csv()))]
    assert [value or None for value in values] == [None if v is None else f"{v:.10g}" for v in made.data["age"]]


def test_a_statement_says_it_under_its_own_names(private: Any) -> None:
    visits = private.table(unit="who").per_unit(max_groups=1, max_rows_per_group=1).bounds(age=(0, 5))
    asked = 'SELECT ward, AVG(age) AS years FROM "table" GROUP BY ward'
    made = private.sql(asked, visits, rho=0.02, keys={"ward": WARDS}, why="x")
    (note,) = [each for each in made.notes if "Too noisy to use: years_limited of " in each]
    assert told(note) == len(noisy_rows(made.rows, "years"))


def test_nothing_is_said_of_means_that_are_known_well() -> None:
    data = {"m": [2, 3], "m_lower": [1.0, 1], "m_upper": [3.5, 3]}
    assert too_noisy_to_use(data, {"m": (0.0, 5.0)}, []) == ""
    data["m_upper"][0] = 3.6
    assert too_noisy_to_use(data, {"m": (0.0, 5.0)}, []).startswith("Too noisy to use: m (the")


def test_a_quantile_has_a_value_only_if_its_interval_excludes_some_of_the_bounds(private: Any) -> None:
    visits = private.table(unit="who").per_unit(max_groups=1, max_rows_per_group=1).bounds(age=(0, 5))
    measures = {"mid": ts.median("age"), "top": ts.quantile("age", 0.9), "mean": ts.mean("age")}
    made = visits.group_by("ward", keys=WARDS).agg(**measures).plan(rho=0.2).release(why="x")
    for name in ("mid", "top"):
        rows = made.rows
        hidden = [(row[f"{name}_lower"], row[f"{name}_upper"]) == (0, 5) for row in rows]
        assert 0 < sum(hidden) < len(WARDS)
        assert [row[name] is None for row in rows] == hidden
        assert None not in made.drawn()[name]  # the stored integers are as drawn
        wards = noisy_rows(rows, name)
        assert all((f"{name}_limited of {ward}" in made.noisy) for ward in wards[:1])
    assert json.loads(made.to_json())["rows"][0]["mid_limited"] is None
    assert made.bars()[0]["shown"][0] != made.drawn()["mid"][0]


def test_the_file_beside_a_table_says_which_values_are_too_noisy_to_use(private: Any, tmp_path: Path) -> None:
    visits = private.table(unit="who").per_unit(max_groups=1, max_rows_per_group=1).bounds(age=(0, 5))
    made = visits.group_by("ward", keys=WARDS).agg(n=ts.count(), age=ts.mean("age")).plan(rho=0.02).release(why="x")
    made.to_csv(tmp_path / "t.csv")
    about = {row["what"]: row["about"] for row in csv.DictReader(io.StringIO((tmp_path / "t.about.csv").read_text()))}
    assert made.noisy
    assert about["values too noisy to use"] == made.noisy
    asked = 'SELECT ward, AVG(age) AS years FROM "table" GROUP BY ward'
    answered = private.sql(asked, visits, rho=0.02, keys={"ward": WARDS}, why="x")
    assert "values too noisy to use" in answered.about_csv()


@pytest.mark.parametrize(("age", "share"), [(0.0, (0.5, 0.95)), (2.5, (0.97, 1.03)), (5.0, (1.2, 2.0))])
def test_the_predicted_error_of_a_mean_is_that_in_the_middle_of_the_bounds(
    tmp_path: Path, age: float, share: Any
) -> None:
    """Pages called it a worst case. A mean near the upper bound has a larger error, at most twice as large."""
    table = pa.table({"who": list(range(20_000)), "age": [age] * 20_000})
    account = ts.Ledger(tmp_path / "budget.db").open("clinic", budget=ts.zcdp(rho=10))
    private = ts.Private(table, account=account).table(unit="who")
    plan = private.per_unit(max_groups=1, max_rows_per_group=1).bounds(age=(0, 5)).agg(age=ts.mean("age")).plan(rho=0.5)
    assert "for values with a mean in the middle of the bounds)" in plan.explain()
    row = plan.release(why="x").rows[0]
    high = 2.0 * (row["age_upper"] - row["age"])
    low = 2.0 * (row["age"] - row["age_lower"])
    least, most = share
    predicted = 2.0 * plan.error_by_size([20_000])["age"][20_000]
    assert least < max(high, low) / predicted < most


def test_one_more_group_is_one_group() -> None:
    data = {"g": list("abcd"), "m": [2] * 4, "m_lower": [0] * 4, "m_upper": [4] * 4}
    assert "of a, b, c and 1 more group (the" in too_noisy_to_use(data, {"m": (0.0, 5.0)}, ["g"])
