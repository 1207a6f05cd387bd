"""Data frames of every make, in and out; moments; and tables that show themselves shortly."""

from __future__ import annotations

import datetime

import pandas
import polars
import pyarrow
import pyarrow.ipc
import pyarrow.parquet
import pytest

import tallystick as ts
from tallystick.errors import InvalidInput
from tallystick.tables.run import integers

ROWS = {"who": [1, 2, 3, 3], "ward": ["a", "b", "a", "b"], "at": [datetime.datetime(2013, 1, 1, 23, 59)] * 3 + [None]}
FLOORS = {"ward": ["a", "b"], "floor": [1, 2]}
MAKES = {"pandas": pandas.DataFrame, "polars": polars.DataFrame, "arrow": pyarrow.table}


def table(source, **options):
    return ts.Private(source).table(unit="who", **options).per_unit(max_groups=2, max_rows_per_group=2)


def exact(query):
    """The integers of one question before noise, in the order of its keys."""
    (values, *_) = integers(query.plan(rho=1, caps_share=0)).numbers.values()
    return values[:, 0].tolist()


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_frames_are_sources_joins_and_keys(make):
    rows = table(make(ROWS)).join(make(FLOORS), on="ward")
    assert rows.schema.type_of("floor") == "integer"
    by_ward = rows.group_by("ward", keys=make({"ward": ["b", "a"], "more": [1, 2]})).agg(n=ts.count())
    assert by_ward.keys.rows == (("b",), ("a",))
    assert exact(by_ward) == [2, 2]
    assert exact(rows.group_by("floor", keys=make(FLOORS)).agg(n=ts.count_units())) == [2, 2]


def test_a_frame_without_the_column_is_refused_as_keys():
    with pytest.raises(InvalidInput, match="with the columns ward"):
        table(pandas.DataFrame(ROWS)).group_by("ward", keys=pandas.DataFrame({"wards": ["a"]}))


def test_a_series_and_an_array_are_keys():
    rows = table(pandas.DataFrame(ROWS))
    assert rows.group_by("ward", keys=pandas.Series(["a"])).keys.rows == (("a",),)
    assert rows.group_by("who", keys=pandas.Series([1, 2]).to_numpy()).keys.rows == ((1,), (2,))
    days = pandas.Series(pandas.to_datetime(["2013-01-01"]))
    assert rows.group_by("at", keys=days).keys.rows == ((datetime.date(2013, 1, 1),),)


def test_public_tables_and_keys_are_read_from_files(tmp_path):
    pyarrow.parquet.write_table(pyarrow.table(FLOORS), tmp_path / "floors.parquet")
    (tmp_path / "floors.csv").write_text("ward,floor\na,1\nb,2\n")
    rows = table(pandas.DataFrame(ROWS))
    joins = [rows.join(tmp_path / name, on="ward") for name in ("floors.parquet", "floors.csv")]
    assert joins[0].steps == joins[1].steps
    assert rows.group_by("ward", keys=tmp_path / "floors.csv").keys.rows == (("a",), ("b",))
    for place in (tmp_path / "*.parquet", "https://example.org/floors.parquet"):
        with pytest.raises(InvalidInput, match="an existing file"):
            rows.join(place, on="ward")


@pytest.mark.parametrize("zone", [None, "America/New_York"])
def test_a_moment_counts_as_its_day_in_utc(tmp_path, zone):
    moments = pandas.to_datetime(["2013-01-01 23:30", "2013-01-02 00:30", None]).tz_localize(zone)
    frame = pandas.DataFrame({"who": [1, 2, 3], "at": moments, "day": [datetime.date(2013, 1, 1)] * 3})
    frame.to_parquet(tmp_path / "rows.parquet")
    days = [datetime.date(2013, 1, 1), datetime.date(2013, 1, 2)]
    for source in (frame, str(tmp_path / "rows.parquet")):
        rows = table(source)
        assert rows.schema.type_of("at") == rows.schema.type_of("day") == "date" or source is frame
        assert exact(rows.group_by("at", keys=days).agg(n=ts.count())) == ([1, 1] if zone is None else [0, 2])


def test_a_plan_made_when_moments_were_not_read_still_runs():
    frame = pyarrow.table({"who": [1], "at": [datetime.datetime(2013, 1, 1)]})
    old = ts.Private(frame).table(unit="who").to_json().replace('["at", "date"]', '["at", "unsupported"]')
    plan = type(table(frame)).from_json(old).agg(n=ts.count_units()).plan(rho=1).on(frame)
    assert integers(plan).numbers


def test_a_release_becomes_a_frame_or_a_file(account, tmp_path):
    query = ts.Private(pandas.DataFrame(ROWS), account=account).table(unit="who")
    capped = query.per_unit(max_groups=2, max_rows_per_group=2).group_by("ward", keys=["a", "b"])
    made = capped.agg(n=ts.count()).plan(rho=0.1).release(why="frames")
    assert made.to_pandas().to_dict("list") == made.to_polars().to_dict(as_series=False) == made.shown
    assert made.to_arrow().to_pydict() == made.shown
    assert pyarrow.parquet.read_table(made.to_parquet(tmp_path / "t.parquet")).to_pydict() == made.shown
    with pyarrow.ipc.open_file(str(made.to_arrow_file(tmp_path / "t.arrow"))) as file:
        assert file.read_all().to_pydict() == made.shown
    assert "ward" in str(made)


def test_tables_show_themselves_in_a_line_and_a_small_page():
    source = ts.Private(pandas.DataFrame(ROWS | {"<b>": [1, 2, 3, 4]}))
    rows = source.table(unit="who").per_unit(max_groups=2, max_rows_per_group=1).bounds(**{"<b>": (0, 2000)})
    grouped = rows.filter(ts.col("who") > 1).group_by("ward", keys=["a"])
    assert repr(rows) == "<Table memory: 4 columns; unit who, at most 2 groups and 1 row in each>"
    assert "1 filter; by ward (1 public)" in repr(grouped)
    assert "without limits" in repr(source.table(unit="who"))
    assert repr(source).startswith("<Private memory, no account pays yet")
    for shown in (rows, grouped, source):
        assert len(repr(shown)) < 160
        assert "<b>" not in shown._repr_html_()
    assert "0 to 2000" in rows._repr_html_()


def test_moments_of_parquet_are_days_in_utc_whatever_their_zone(tmp_path):
    late = datetime.datetime(2026, 1, 31, 23, 30, tzinfo=datetime.UTC)
    columns = {"who": [1]}
    for unit in ("us", "ns"):  # milliseconds are not read: test_extreme_values.py
        columns[unit] = pyarrow.array([late.replace(tzinfo=None)], pyarrow.timestamp(unit))
        columns[f"{unit} zone"] = pyarrow.array([late], pyarrow.timestamp(unit, "Asia/Tokyo"))
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "moments.parquet")
    table = ts.Private(str(tmp_path / "moments.parquet")).table(unit="who").per_unit(max_groups=1, max_rows_per_group=1)
    for name in list(columns)[1:]:
        assert table.schema.type_of(name) == "date"
        plan = table.group_by(name, keys=[late.date()]).agg(n=ts.count()).plan(rho=1, caps_share=0)
        [counts] = integers(plan).numbers.values()
        assert counts.tolist() == [[1]], name
