"""No value that a column type can hold makes a release fail: neighbours, one with the value, have the same outcome."""

from __future__ import annotations

import datetime
import itertools
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallystick as ts
from sweeps import share
from tallystick.errors import TallystickError
from tallystick.tables import run

INT64 = (-(2**63), -(2**63) + 1, -(2**62), -(10**16), 10**16, 2**62, 2**63 - 2, 2**63 - 1)
INT32 = (-(2**31), -(2**31) + 1, -(10**9), 10**9, 2**31 - 2, 2**31 - 1)


def raw(kind: pa.DataType, values: tuple[int, ...], dtype: type) -> pa.Array:
    """An array of any bits: casts and constructors refuse some values that files and programs can hold."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.array(values, dtype=dtype).tobytes())])


def moments() -> dict[str, pa.Array]:
    found = {}
    for unit in ("s", "ms", "us", "ns"):
        for zone in share((None, "UTC", "Europe/Berlin", "+05:00"), 2):
            found[f"timestamp {unit} {zone}"] = raw(pa.timestamp(unit, tz=zone), (0, 1, *INT64), np.int64)
        found[f"duration {unit}"] = raw(pa.duration(unit), (0, 1, *INT64), np.int64)
    return found


ARRAYS: dict[str, pa.Array] = {
    **moments(),
    "date32": raw(pa.date32(), (0, 1, *INT32), np.int32),
    "date64": raw(pa.date64(), (0, 86_400_000, *INT64), np.int64),
    "time32 s": raw(pa.time32("s"), (0, 1, *INT32), np.int32),
    "time32 ms": raw(pa.time32("ms"), (0, 1, *INT32), np.int32),
    "time64 us": raw(pa.time64("us"), (0, 1, *INT64), np.int64),
    "time64 ns": raw(pa.time64("ns"), (0, 1, *INT64), np.int64),
    "int64": raw(pa.int64(), (0, 1, *INT64), np.int64),
    "uint64": pa.array([0, 1, 2**63, 2**64 - 1], pa.uint64()),
    "float16": pa.array(np.array([0, 1, 65504, -65504, np.inf, -np.inf, np.nan, 6e-8], np.float16)),
    "float32": pa.array([0, 1, 3.4e38, -3.4e38, np.inf, -np.inf, np.nan, 1e-45], pa.float32()),
    "float64": pa.array([0, 1, 1.7e308, -1.7e308, np.inf, -np.inf, np.nan, 5e-324], pa.float64()),
    "decimal 9": pa.array([Decimal(0), Decimal(1), Decimal("9999999.99"), Decimal("-9999999.99")], pa.decimal128(9, 2)),
    "decimal 38": pa.array([Decimal(0), Decimal(1), Decimal(10**38 - 1), Decimal(1 - 10**38)], pa.decimal128(38, 0)),
    "decimal 76": pa.array([Decimal(0), Decimal(1), Decimal(10**76 - 1), Decimal(1 - 10**76)], pa.decimal256(76, 0)),
    "text": pa.array(["a", "b", "", "\0", "x" * 100_000, "\U0010ffff", "NaN", "infinity"]),
    "large text": pa.array(["a", "b", "", "\0", "x" * 100_000], pa.large_string()),
    "text view": pa.array(["a", "b", "", "x" * 100_000], pa.string_view()),
    "dictionary": pa.array(["a", "b", "", "x" * 100_000]).dictionary_encode(),
    "dictionary of moments": pa.array([0, 1, 10**16], pa.int64()).cast(pa.timestamp("ms")).dictionary_encode(),
    "binary": pa.array([b"a", b"b", b"\xff\xfe", b""]),
    "boolean": pa.array([True, True, False]),
    "list of moments": pa.array([[0], [1], [10**16]], pa.list_(pa.timestamp("ms", tz="UTC"))),
    "record of moments": pa.array([{"t": each} for each in (0, 1, 10**16)], pa.struct([("t", pa.timestamp("ms"))])),
    "months and days": pa.array([(0, 0, 0), (1, 1, 1), (2**31 - 1, -(2**31), 2**63 - 1)], pa.month_day_nano_interval()),
}  # fmt: skip


def arrow(table: pa.Table, path: Path) -> Any:
    return table


def pandas(table: pa.Table, path: Path) -> Any:
    return table.to_pandas(timestamp_as_object=False)


def pandas_of_arrow(table: pa.Table, path: Path) -> Any:
    import pandas as pd

    return table.to_pandas(types_mapper=pd.ArrowDtype)


def polars(table: pa.Table, path: Path) -> Any:
    import polars as pl

    if pa.types.is_decimal256(table.schema.field("x").type):
        pytest.skip("Polars has no such decimals")
    return pl.from_arrow(table)


def parquet(table: pa.Table, path: Path) -> Any:
    pq.write_table(table, path / f"{table.num_rows}.parquet")
    return path / f"{table.num_rows}.parquet"


def parquet_of_spark(table: pa.Table, path: Path) -> Any:
    pq.write_table(table, path / f"{table.num_rows}.parquet", flavor="spark", use_deprecated_int96_timestamps=True)
    return path / f"{table.num_rows}.parquet"


def database(table: pa.Table, path: Path) -> Any:
    place = path / f"{table.num_rows}.duckdb"
    with duckdb.connect(place) as connection:
        connection.register("given", table)
        connection.execute('create table "table" as select * from given')
    return place


IN_FULL = (parquet,)
AS_SHARES = (arrow, database, pandas, pandas_of_arrow, polars, parquet_of_spark)
CASES = [*itertools.product(ARRAYS, IN_FULL), *share(itertools.product(ARRAYS, AS_SHARES), 11)]
"""A share of the kinds, another one for each form; ``make campaign-sweeps`` runs every kind in every form."""


def outcome(source: Any, *, used: bool, table: str = "table") -> str:
    """What a release would do: the error before the charge, or what happens after it."""
    try:
        rows = ts.Private(source).table(table, unit="who").per_unit(max_groups=1, max_rows_per_group=1)
        plan = question(rows, rows.schema.type_of("x") if used else "none").plan(rho=1)
        run.preflight(plan)
    except TallystickError as problem:
        return f"refused: {type(problem).__name__}"
    run.integers(plan)
    return f"answers about {rows.schema.type_of('x')}"


def question(table: Any, kind: str) -> Any:
    if kind in ("integer", "number"):
        return table.agg(total=ts.sum("x", 0, 10))
    if kind == "date":
        return table.filter(ts.col("x") > datetime.date(2020, 1, 1)).agg(n=ts.count())
    if kind == "none":
        return table.agg(n=ts.count())
    keys = [True, False] if kind == "boolean" else ["a"]
    return table.group_by("x", keys=keys).agg(n=ts.count())


@pytest.mark.parametrize(("kind", "form"), CASES, ids=lambda each: getattr(each, "__name__", each))
def test_neighbours_that_differ_in_an_extreme_value_have_the_same_outcome(kind: str, form: Any, tmp_path: Path) -> None:
    values = ARRAYS[kind]
    sources = []
    for rows in (2, len(values)):
        table = pa.table({"who": list(range(rows)), "x": values.slice(0, rows)})
        try:
            sources.append(form(table, tmp_path))
        except Exception as problem:  # of the writer: such data cannot come in this form
            if not sources:
                pytest.skip(f"not written: {type(problem).__name__}")
    if len(sources) < 2:
        pytest.skip("the extreme value is not written")
    for used in (True, False):
        plain, extreme = (outcome(source, used=used) for source in sources)
        assert plain == extreme


def test_moments_in_milliseconds_of_a_parquet_file_are_refused_with_the_remedy(tmp_path: Path) -> None:
    far = pa.array([0, 1, 10**16], pa.int64()).cast(pa.timestamp("ms"))
    source = parquet(pa.table({"who": [1, 2, 3], "x": far}), tmp_path)
    table = ts.Private(source).table(unit="who").per_unit(max_groups=1, max_rows_per_group=1)
    assert table.schema.type_of("x") == "unsupported"
    with pytest.raises(TallystickError, match="write those in microseconds"):
        table.filter(ts.col("x") > datetime.date(2020, 1, 1))
    with pytest.raises(TallystickError, match="write those in microseconds"):
        table.group_by("x", keys=["a"])


def test_a_plan_for_microseconds_is_refused_on_a_file_in_milliseconds(tmp_path: Path) -> None:
    """Before the charge, and whatever is in the file: a registered file may be replaced by such a one."""
    moments = pa.array([0, 1, 2], pa.int64())
    source = parquet(pa.table({"who": [1, 2, 3], "x": moments.cast(pa.timestamp("us"))}), tmp_path)
    table = ts.Private(source).table(unit="who").per_unit(max_groups=1, max_rows_per_group=1)
    plan = question(table, "date").plan(rho=1)
    run.preflight(plan)
    parquet(pa.table({"who": [1, 2, 3], "x": moments.cast(pa.timestamp("ms"))}), tmp_path)
    with pytest.raises(TallystickError, match="write those in microseconds"):
        run.preflight(plan)


def test_a_second_column_of_the_same_name_is_looked_at_by_its_place(tmp_path: Path) -> None:
    """DuckDB calls it x_1, and the file calls it x."""
    near = pa.array([0, 1, 2], pa.int64()).cast(pa.timestamp("us"))
    far = pa.array([0, 1, 10**16], pa.int64()).cast(pa.timestamp("ms"))
    nested = pa.array([{"x": 0}] * 3, pa.struct([("x", pa.timestamp("ms"))]))
    table = pa.Table.from_arrays([pa.array([1, 2, 3]), nested, near, far], ["who", "n", "x", "x"])
    source = parquet(table, tmp_path)
    kinds = dict(ts.Private(source).table(unit="who").schema.columns)
    assert kinds == {"who": "integer", "n": "unsupported", "x": "date", "x_1": "unsupported"}
    assert outcome(source, used=True) == "answers about date"


@pytest.mark.parametrize("nanoseconds", [0, -1, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("day", [0, -1, 2440588, 2**31 - 1, -(2**31)])
def test_no_moment_of_96_bits_fails(nanoseconds: int, day: int, tmp_path: Path) -> None:
    """Spark wrote such moments for years. No writer makes the far ones, so their bits are put into a file."""
    near = datetime.datetime(1970, 1, 1)
    table = pa.table({"who": [1, 2], "x": pa.array([near, near], pa.timestamp("ns"))})
    options = {"use_dictionary": False, "compression": "none", "write_statistics": False}
    pq.write_table(table, tmp_path / "near.parquet", use_deprecated_int96_timestamps=True, **options)
    content = (tmp_path / "near.parquet").read_bytes()
    assert content.count(INT96.pack(0, 2440588)) == 2
    content = content.replace(INT96.pack(0, 2440588), INT96.pack(nanoseconds, day), 1)
    (tmp_path / "far.parquet").write_bytes(content)
    plain, extreme = (outcome(tmp_path / f"{name}.parquet", used=True) for name in ("near", "far"))
    assert plain == extreme == "answers about date"


INT96 = struct.Struct("<qi")

POSTGRES = {
    "date": ("'2020-01-01'", "'infinity'", "'-infinity'", "'4713-01-01 BC'", "'5874897-12-31'"),
    "timestamp": ("'2020-01-01'", "'infinity'", "'-infinity'", "'4713-01-01 BC'", "'294276-12-31 23:59:59.999999'"),
    "timestamptz": ("'2020-01-01'", "'infinity'", "'-infinity'", "'4713-01-02 BC'", "'294276-12-31 00:00:00+00'"),
    "numeric": ("1", "'NaN'", "'Infinity'", "'-Infinity'", "1e1000", "-1e1000", "1e-1000"),
    "float8": ("1", "'NaN'", "'Infinity'", "'-Infinity'", "1.7e308", "5e-324"),
    "float4": ("1", "'NaN'", "'Infinity'", "'-Infinity'", "3.4e38", "1e-45"),
    "int8": ("1", "9223372036854775807", "-9223372036854775808"),
    "interval": ("'1 day'", "'178000000 years'", "'-178000000 years'"),
    "time": ("'01:00'", "'24:00'"),
    "uuid": ("'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"),
    "text": ("'a'", "''", "repeat('x', 100000)"),
    "bytea": ("'a'", r"'\xfffe'"),
    "json": ("'1'", "'1e1000'"),
    "timestamp[]": ("'{2020-01-01}'", "'{infinity}'"),
}


@pytest.mark.parametrize("kind", POSTGRES)
def test_no_value_of_a_postgres_table_fails(kind: str, postgres: str) -> None:
    from unit.tables import servers

    first, *others = POSTGRES[kind]
    with servers.schema(postgres) as name:
        servers.run(postgres, f"CREATE TABLE {name}.t (who bigint, x {kind})")
        servers.run(postgres, f"INSERT INTO {name}.t VALUES (1, {first})")
        plain = [outcome(postgres, table=f"{name}.t", used=used) for used in (True, False)]
        for value in others:
            servers.run(postgres, f"INSERT INTO {name}.t VALUES (2, {value})")
        assert [outcome(postgres, table=f"{name}.t", used=used) for used in (True, False)] == plain


def test_moments_in_memory_with_a_time_zone_count_as_their_day_in_utc() -> None:
    """The last hour of the year 2019 in UTC is in 2020 in Berlin."""
    late = int(datetime.datetime(2019, 12, 31, 23, 30, tzinfo=datetime.UTC).timestamp())
    for unit, factor in (("s", 1), ("ms", 1_000), ("us", 1_000_000)):
        moments = pa.array([late * factor, (late + 3600) * factor]).cast(pa.timestamp(unit, tz="Europe/Berlin"))
        for form in (arrow, pandas, pandas_of_arrow, polars):
            if (unit, form) == ("s", polars):
                continue  # Polars has no seconds
            source = form(pa.table({"who": [1, 2], "x": moments}), Path())
            table = ts.Private(source).table("table", unit="who").per_unit(max_groups=1, max_rows_per_group=1)
            plan = table.filter(ts.col("x") >= datetime.date(2020, 1, 1)).agg(n=ts.count()).plan(rho=1)
            assert [held[0, 0] for held in run.integers(plan).numbers.values()] == [1], (unit, form.__name__)
