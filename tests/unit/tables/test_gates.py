"""What outsiders broke in version 0.1.0: nothing about one row may multiply, fail, or change what another row means."""

from __future__ import annotations

import contextlib
import datetime
import functools
import json
import math
import os
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallystick as ts
from sweeps import ALL, share
from tallystick.errors import InvalidInput, Refused, TallystickError
from tallystick.ledger import Account
from tallystick.tables import expressions, run
from tallystick.tables.engines.duckdb import DuckEngine
from tallystick.tables.files import OpenFile
from tallystick.tables.keyset import PublicTable, read_public
from tallystick.tables.parts import Rows, Total
from tallystick.tables.plan import Plan
from tallystick.tables.scratch import Scratch
from tallystick.tables.table import Table
from unit.tables.tables import awkward


def totals(plan: Plan) -> dict[str, list[int]]:
    """The integers of every flat part by its kind, after the look that comes before a charge."""
    run.preflight(plan)
    return {part.kind: held[:, 0].tolist() for part, held in run.integers(plan).numbers.items()}


def counts(table: Table, keys: list[Any], column: str = "g") -> list[int]:
    capped = table.per_unit(max_groups=1, max_rows_per_group=1)
    return totals(capped.group_by(column, keys=keys).agg(n=ts.count()).plan(rho=1))["rows"]


# ---- a row counts once


def test_where_rows_are_the_unit_a_join_may_not_multiply_them() -> None:
    rows = ts.Private(pa.table({"g": ["a", "b"]})).table(unit=ts.each_row)
    with pytest.raises(Refused, match="repeats"):
        rows.join([{"g": "a", "x": i} for i in range(100)], on="g")
    joined = rows.join([{"g": "a", "x": 1}, {"g": "b", "x": 2}], on="g")
    assert totals(joined.group_by("x", keys=[1, 2]).agg(n=ts.count()).plan(rho=1))["rows"] == [1, 1]


def test_a_folder_says_nothing_about_the_rows_of_a_file(tmp_path: Path) -> None:
    """A link in a folder called g=a made every row one of block a, and one in p=7 every person number 7."""
    pq.write_table(pa.table({"p": [1, 1, 2], "g": ["a", "b", "b"]}), tmp_path / "visits.parquet")
    for folder in ("g=a", "p=7", "new=1"):
        (tmp_path / folder).mkdir()
        link = tmp_path / folder / "visits.parquet"
        link.symlink_to(tmp_path / "visits.parquet")
        table = ts.Private(str(link)).table(unit="p")
        assert table.schema.names == ("p", "g")
        assert counts(table, ["a", "b"]) == counts(
            ts.Private(str(tmp_path / "visits.parquet")).table(unit="p"), ["a", "b"]
        )
        assert read_public(OpenFile(link)).rows == ((1, "a"), (1, "b"), (2, "b"))


@pytest.mark.parametrize("folder", ["g=a", "p=7", "new=1", "a[bc]"])
def test_nor_does_the_folder_of_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    (tmp_path / "visits.csv").write_text("p,g\n1,a\n1,b\n2,b\n")
    table = ts.Private(tmp_path / "visits.csv").table(unit="p")
    usual = counts(table, ["a", "b"])
    (tmp_path / folder).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / folder))
    assert counts(table, ["a", "b"]) == usual


def test_public_keys_are_unique_and_typed_wherever_they_come_from() -> None:
    visits = ts.Private(awkward(100)).table(unit="pid").per_unit(max_groups=2, max_rows_per_group=2)
    doubled = PublicTable((("ward", "text"),), (("a",), ("a",)))
    with pytest.raises(InvalidInput, match="each key once"):
        visits.group_by("ward", keys=doubled)
    with pytest.raises(InvalidInput, match="types of the columns"):
        visits.group_by("ward", keys=PublicTable((("ward", "integer"),), ((1,),)))
    for values in ((1,), (None,), (True,), (float("nan"),), ("a", "b"), ["a"]):
        with pytest.raises(InvalidInput):
            PublicTable((("ward", "text"),), (values,))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        PublicTable((("ward", "text"),), ())
    told = json.loads(visits.group_by("ward", keys=["a", "b"]).agg(n=ts.count()).plan(rho=0.1).to_json())
    for rows in ([["a"], ["a"]], [[1], [2]], [["a", "b"]], [[None]], [[["a"]]], [], "ab", 3, None):
        told["query"]["keys"]["public"]["rows"] = rows
        with pytest.raises(InvalidInput):
            Plan.from_json(json.dumps(told))


def test_a_collation_of_duckdb_merges_no_texts(tmp_path: Path) -> None:
    import duckdb

    place = str(tmp_path / "clinic.duckdb")
    with duckdb.connect(place) as connection:
        connection.execute("create table visits (who varchar collate nocase, g varchar collate nocase)")
        connection.execute("insert into visits values ('x', 'a'), ('X', 'A'), ('y', 'A')")
    visits = ts.Private(place).table("visits", unit="who")
    assert counts(visits, ["a", "A"]) == [1, 2]
    rows = ts.Private(place).table("visits", unit=ts.each_row)
    assert counts(rows, ["a", "A"]) == [1, 2]
    assert totals(rows.filter(ts.col("g") == "a").agg(n=ts.count()).plan(rho=1))["rows"] == [1]


def test_text_of_arrow_that_is_no_text_is_missing() -> None:
    ends, letters = pa.py_buffer(bytes([0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0])), pa.py_buffer(b"\xff\xfea")
    table = pa.table({"u": [1, 2], "g": pa.StringArray.from_buffers(2, ends, letters)})
    visits = ts.Private(table).table(unit="u").per_unit(max_groups=1, max_rows_per_group=1)
    plan = visits.group_by("g", keys=ts.private_keys(delta=0.1)).agg(n=ts.count()).plan(rho=1)
    assert run.integers(plan).keys == [("a",)]


def test_no_text_in_parquet_fails_the_scan_after_the_charge(tmp_path: Path, account: Account) -> None:
    """A byte that is no UTF-8 reads as a question mark, however the column is encoded; what is text stays as it is."""
    import pyarrow.parquet

    odd = [b"\xff", b"\xc3", b"a\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", b"\xf0\x9f", b"x" * 20 + b"\x80"]
    fine = ["a", "", "\0", "é€😀", "x" * 20]
    whole = pa.array([*odd, *(text.encode() for text in fine)], pa.binary())
    text = pa.StringArray.from_buffers(len(whole), *whole.buffers()[1:])
    table = pa.table({"u": range(len(whole)), "who": text})
    for encoding in ("PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY", None):
        path = tmp_path / f"{encoding}.parquet"
        pyarrow.parquet.write_table(
            table, path, use_dictionary=encoding is None, column_encoding={"who": encoding} if encoding else None
        )
        visits = ts.Private(path).table(unit="u").per_unit(max_groups=1, max_rows_per_group=1)
        plan = visits.group_by("who", keys=ts.private_keys(delta=0.1)).agg(n=ts.count()).plan(rho=1)
        found = [key for (key,) in run.integers(plan).keys or ()]
        assert set(fine) <= set(found)
        assert all("?" in key for key in set(found) - set(fine))
        by_text = ts.Private(path, account=account).table(unit="who").per_unit(max_rows_per_group=1)
        by_text.agg(n=ts.count()).plan(rho=0.01).release(why="a unit, and paid for")
    assert {event.state for event in account.history()} == {"COMMITTED"}


def test_no_object_in_a_frame_fails_the_scan_after_the_charge_or_changes_the_type() -> None:
    """DuckDB took the type of such a column from a sample of the rows, and failed at the one that did not fit."""
    pandas = pytest.importorskip("pandas")
    day = datetime.date(2020, 1, 2)
    pairs = [(1, "bob"), (1, 2**70), (1, 10**5000), ("a", "\ud800"), ("a", b"\xff"), (True, "x"), (day, [])]
    pairs += [(Decimal(1), Decimal("sNaN")), (Decimal(1), Decimal("1e500")), (None, "x"), (None, 1)]
    for usual, odd in pairs:
        for values in ([usual] * 3000, [usual] * 2999 + [odd]):
            frame = pandas.DataFrame({"u": range(3000), "v": pandas.Series(values, dtype=object)})
            visits = ts.Private(frame).table(unit="u").per_unit(max_groups=1, max_rows_per_group=1)
            assert visits.schema.type_of("v") == "text"
            plan = visits.group_by("v", keys=ts.private_keys(delta=0.1)).agg(n=ts.count()).plan(rho=1)
            run.preflight(plan)
            exact = run.integers(plan)
            counted = {key: int(n) for (key,), n in zip(exact.keys or (), exact.numbers[Rows()][:, 0], strict=True)}
            assert counted.get(str(usual), 0) >= 2999 or usual is None
            assert frame["v"].dtype == object  # the user's own frame is left alone


def test_objects_of_a_frame_may_be_declared_to_be_days() -> None:
    pandas = pytest.importorskip("pandas")
    days = [datetime.date(2020, 1, 2), datetime.date(2021, 1, 2), None, "soon"]
    held = pandas.DataFrame({"u": range(4), "day": pandas.Series(days, dtype=object), "c": list("aabb")})
    held["c"] = held["c"].astype("category")
    visits = ts.Private(held).table(unit="u", types={"day": "date"}).per_unit(max_groups=1, max_rows_per_group=1)
    plan = visits.group_by("day", keys=days[:2]).agg(n=ts.count()).plan(rho=1)
    run.preflight(plan)
    assert totals(plan)["rows"] == [1, 1]
    assert counts(visits, ["a", "b"], column="c") == [2, 2]
    with pytest.raises(InvalidInput, match="what the source says"):
        ts.Private(held).table(unit="u", types={"u": "date"})


def test_a_url_cannot_make_text_or_time_fail_a_release(postgres: str, database: Callable[..., str]) -> None:
    """A text that the client's encoding does not have failed on its way back, after the charge."""
    name = database("who int, g text", "1, 'a'", "2, '€'")
    mark = "&" if "?" in postgres else "?"
    for option in (
        "client_encoding=latin1",
        "options=-cclient_encoding%3DSQL_ASCII",
        "options=-cstatement_timeout%3D1",
    ):
        visits = ts.Private(f"{postgres}{mark}{option}").table(name, unit="who")
        asked = visits.per_unit(max_groups=1, max_rows_per_group=1).group_by("g", keys=ts.private_keys(delta=0.1))
        plan = asked.agg(n=ts.count()).plan(rho=1)
        run.preflight(plan)
        assert sorted(run.integers(plan).keys or ()) == [("a",), ("€",)]


def test_a_file_is_the_one_of_that_name_and_no_other(tmp_path: Path) -> None:
    import pyarrow.parquet

    for name, group in (("v[1].parquet", "a"), ("v1.parquet", "b"), ("v?.parquet", "c"), ("v*.parquet", "d")):
        pyarrow.parquet.write_table(pa.table({"u": [1], "g": [group]}), tmp_path / name)
    for name, found in (("v[1].parquet", [1, 0, 0, 0]), ("v?.parquet", [0, 0, 1, 0]), ("v*.parquet", [0, 0, 0, 1])):
        assert counts(ts.Private(tmp_path / name).table(unit="u"), ["a", "b", "c", "d"]) == found


def stored(url: str, columns: str, *rows: str, before: str = "") -> str:
    """Make a table on the server; its name is new every time."""
    psycopg = pytest.importorskip("psycopg")
    name = f"t{time.monotonic_ns()}"
    with psycopg.connect(url) as connection:
        if before:
            connection.execute(before)
        connection.execute(f"create table {name} ({columns})")
        for row in rows:
            connection.execute(f"insert into {name} values ({row})")
    return name


@pytest.fixture
def database(postgres: str) -> Callable[..., str]:
    return functools.partial(stored, postgres)


def test_a_collation_of_postgresql_merges_no_texts(postgres_with_icu: str) -> None:
    loose = "create collation if not exists loose (provider = icu, locale = 'und-u-ks-level1', deterministic = false)"
    columns = 'who int, g text collate "loose"'
    name = stored(postgres_with_icu, columns, "1, 'a'", "2, 'A'", "3, 'á'", before=loose)
    for unit in (ts.each_row, "who"):
        rows = ts.Private(postgres_with_icu).table(name, unit=unit)
        assert counts(rows, ["a", "A", "á", "Á"]) == [1, 1, 1, 0]


def test_a_text_that_engines_fail_on_is_missing(postgres: str, database: Callable[..., str], tmp_path: Path) -> None:
    """The lower case of 256 MiB ended a release on PostgreSQL after its charge; 300 MB take 3 MB there."""
    longest = 1 << 12
    name = database("who bigint, w text", "1, 'Ab'", f"2, repeat('a', {longest})", "3, repeat('a', 300000000)")
    short = {"who": [1, 2, 3], "w": ["Ab", "a" * longest, "a" * (longest + 1)]}
    pq.write_table(pa.table(short), tmp_path / "t.parquet")
    for here in (ts.Private(postgres).table(name, unit="who"), ts.Private(tmp_path / "t.parquet").table(unit="who")):
        table = here.derive(low=ts.col("w").lower(), number=ts.col("w").cast("integer"), none=ts.col("w").is_missing())
        assert counts(table, [False, True], "none") == [2, 1]
        assert counts(table.filter(ts.col("number").is_missing()), ["ab"], "low") == [1]


@pytest.mark.parametrize(("domain", "kind", "value"), [("double", "numeric", "1e400"), ("tinyint", "text", "'x'")])
def test_a_domain_of_postgresql_is_not_taken_for_the_type_it_is_named_after(
    postgres: str, database: Callable[..., str], domain: str, kind: str, value: str
) -> None:
    """Reading it as that type would raise at the value and pass without it."""
    name = database(f"who int, v {domain}", f"1, {value}", before=f"create domain {domain} as {kind}")
    table = ts.Private(postgres).table(name, unit="who")
    assert table.schema.type_of("v") == "unsupported"
    with pytest.raises(InvalidInput):
        table.filter(ts.col("v") > 0)
    assert run.integers(table.per_unit(max_rows_per_group=1).agg(n=ts.count()).plan(rho=1)).numbers


# ---- names


def test_names_that_differ_in_case_or_look_are_the_same_name() -> None:
    visits = ts.Private(pa.table({"u": [1], "name": ["Ann"], "v": [1.0]})).table(unit="u")
    for name in ("NAME", "Name", "ｎａｍｅ", "na\u200bme", "name\u00a0", "U"):
        with pytest.raises(InvalidInput):
            visits.derive(**{name: ts.col("v") * 2})
        with pytest.raises(InvalidInput):
            visits.join([{"v2": 1, "name": "Ann", name: "x"}], on="name")
    capped = visits.per_unit(max_groups=1, max_rows_per_group=1).group_by("name", keys=["Ann"])
    for names in (["n", "N"], ["Name"], ["n", "n_lower"], ["n\x1b[2J"], ["ﬁ"]):
        with pytest.raises(InvalidInput):
            capped.agg(**dict.fromkeys(names, ts.count()))
    with pytest.raises(InvalidInput):
        ts.Private(pa.table({"u": [1], "a\x1b[2J": [1]})).table(unit="u")


def test_a_derived_column_is_never_a_stored_one() -> None:
    # DuckDB takes NAME for name: the sum cast the private text and failed if and only if it was no number
    told = json.loads(
        ts.Private(pa.table({"u": [1], "name": ["Ann"]}))
        .table(unit="u")
        .derive(other=ts.when(ts.col("name") == "Ann", 1, 0))
        .per_unit(max_rows_per_group=1)
        .agg(s=ts.sum("other", 0, 1))
        .plan(rho=1)
        .to_json()
    )
    text = json.dumps(told).replace('"other"', '"NAME"')
    with pytest.raises(InvalidInput, match="new name"):
        Plan.from_json(text)


def test_no_name_of_a_user_reaches_the_compiled_stages() -> None:
    plan = (
        ts.Private(pa.table({"u": [1], "zebra": [1.0]}))
        .table(unit="u")
        .derive(okapi=ts.col("zebra") * 2 + 1)
        .join([{"u": 1, "gnu": "x"}], on="u")
        .per_unit(max_groups=1, max_rows_per_group=1)
        .group_by("gnu", keys=["x"])
        .agg(lion=ts.median("okapi", 0, 8))
        .plan(rho=1)
    )
    for dialect in ("duckdb", "spark", "postgres"):
        text = "\n".join(line for line in plan.sql(dialect=dialect).splitlines() if not line.startswith("--"))
        assert not any(word in text for word in ("okapi", "gnu", "lion"))
        assert text.count("zebra") == text.split(" AS _t)")[0].count("zebra")  # only where the stored column is read


# ---- expressions are total


EXTREMES = {
    "hugeint": ["170141183460469231731687303715884105727", "-170141183460469231731687303715884105727", "3", "null"],
    "ubigint": ["18446744073709551615", "0", "3", "null"],
    "bigint": ["9223372036854775807", "-9223372036854775808", "3", "null"],
    "decimal(38,30)": ["12345678.123456789012345678901234567890", "-99999999", "3", "null"],
    "decimal(38,0)": ["99999999999999999999999999999999999999", "3", "null"],
    "double": ["1.7e308", "-1.7e308", "5e-324", "'nan'", "'inf'", "'-inf'", "-0.0", "3", "null"],
    "float": ["3.4e38", "1e-45", "'nan'", "'inf'", "3", "null"],
}


def conditions(a: str, b: str) -> list[expressions.Expression]:
    """Every function of numbers once."""
    x, y = ts.col(a), ts.col(b)
    huge = 9223372036854775807
    return [
        x == y,
        x < y,
        x >= huge,
        x != -huge,
        x > 1e308,
        x < 0.1234567890123456789,
        x.isin([3, huge, -huge]),
        x.isin([3, 0.5, 1e308]),
        x.between(-1, 1e300),
        ts.when(x > y, x, y) > 2,
        ts.when(x > 1, x, 0.5) == 3,
        ts.when(x.is_missing(), 1, 0) == 1,
        x.cut([-1e308, 0, 2.5, 1e308]) == 3,
        x + y > 0,
        x * y / (x - y) > 0,
        ((x * x) * (y * y)) * ((x * y) * (x * y)) > 1,
        x / (y - y) > 1,
    ]


def held(table: Table, a: str, b: str, every: int = 1) -> list[int]:
    """How many rows each condition, or a share, holds for; it is also asked as a filter that keeps all rows."""
    asked = share(conditions(a, b), every)
    both = [ts.when(condition, 1, 0) for condition in asked]
    plan = (
        table.filter(both[0] + both[-1] >= 0)
        .derive(**{f"x{i}": found for i, found in enumerate(both)})
        .per_unit(max_rows_per_group=1)
        .agg(**{f"s{i}": ts.sum(f"x{i}", 0, 1) for i in range(len(both))}, v=ts.variance(a, 0, 4))
        .plan(rho=1)
    )
    if ALL or every == 1:
        run.preflight(plan)
    found = run.integers(plan).numbers
    return [int(held[0, 0]) for part, held in found.items() if part.kind == "total"]


def test_every_expression_is_total_on_every_number_duckdb_has(tmp_path: Path) -> None:
    import duckdb

    place = str(tmp_path / "numbers.duckdb")
    types = list(EXTREMES)
    longest = max(len(values) for values in EXTREMES.values())
    with duckdb.connect(place) as connection:
        connection.execute(f"create table t (u integer, {', '.join(f'c{i} {t}' for i, t in enumerate(types))})")
        for i in range(longest):
            for j in range(longest):
                row = [EXTREMES[t][(i if k % 2 else j) % len(EXTREMES[t])] for k, t in enumerate(types)]
                connection.execute(f"insert into t values ({i * longest + j}, {', '.join(row)})")
    numbers = ts.Private(place).table("t", unit="u")
    for i in (0, 2, 4):
        a, b = f"c{i}", f"c{(i + 1) % len(types)}"
        held(numbers, a, b)
    for unit in ("c0", "c1", "c2"):  # an integer beyond 64 bits identifies nobody: it is missing
        plan = ts.Private(place).table("t", unit=unit).per_unit(max_rows_per_group=1).agg(n=ts.count_units())
        assert totals(plan.plan(rho=1))["units"][0] in (1, 2, 3)


def test_expressions_mean_the_same_on_postgresql(postgres: str, database: Callable[..., str]) -> None:
    values = ["1e400", "-1e400", "1e-400", "'NaN'", "3", "0.1", "null", "12345678901234567890.5"]
    doubles = ["1.7e308", "-1.7e308", "5e-324", "'NaN'", "'Infinity'", "3", "-0.0", "null"]
    rows = [
        f"{8 * i + j}, {v}, {d}, {float(3 + i)}, {2**63 - 1 if i % 2 else -j}"
        for i, v in enumerate(values)
        for j, d in enumerate(doubles)
    ]
    name = database("u int, c0 numeric, c1 float8, c2 real, c3 bigint", *rows)
    here = ts.Private(postgres).table(name, unit="u")
    table = {
        "u": pa.array([8 * i + j for i in range(8) for j in range(8)], pa.int64()),
        "c0": pa.array(
            [v for v in (1e308, -1e308, 0.0, None, 3.0, 0.1, None, 12345678901234567890.5) for _ in range(8)]
        ),
        "c1": pa.array([1.7e308, -1.7e308, 5e-324, math.nan, math.inf, 3.0, -0.0, None] * 8, pa.float64()),
        "c2": pa.array([float(3 + i) for i in range(8) for _ in range(8)], pa.float32()),
        "c3": pa.array([2**63 - 1 if i % 2 else -j for i in range(8) for j in range(8)], pa.int64()),
    }
    there = ts.Private({name: pa.table(table)}).table(name, unit="u")
    for a, b in (("c0", "c1"), ("c2", "c3")):
        assert held(here, a, b) == held(there, a, b)
    for column in ("c0", "c1", "c2", "c3"):  # a quantile of a real column always failed
        plan = here.per_unit(max_rows_per_group=1).agg(q=ts.median(column, 0, 8), v=ts.variance(column, -1, 1))
        run.preflight(plan.plan(rho=1))
        run.integers(plan.plan(rho=1))


def test_long_expressions_stay_short_in_sql_or_are_refused() -> None:
    visits = ts.Private(pa.table({"u": [1], "v": [2.0]})).table(unit="u")
    total: Any = ts.col("v")
    for _ in range(30):
        total = total * 0.5 + 1
    plan = visits.derive(x=total).per_unit(max_rows_per_group=1).agg(s=ts.sum("x", 0, 4)).plan(rho=1)
    assert len(plan.sql()) < 200_000
    step = next(part.grid.step for part in plan.query.parts if isinstance(part, Total))
    assert totals(plan)["total"][0] * step == pytest.approx(2.0)
    for _ in range(3):
        total = total + total
    for _ in range(20):  # every step doubles it
        with contextlib.suppress(InvalidInput):
            total = total + total
    assert total.calls <= 500


def test_constants_are_exactly_what_was_written() -> None:
    values = [0.1, 1 / 3, 123456789.12345679, 9007199254740993.0, 1e-7, 4.35]
    table = pa.table({"u": list(range(len(values))), "v": values})
    visits = ts.Private(table).table(unit="u").per_unit(max_rows_per_group=1)
    for value in values:
        assert totals(visits.filter(ts.col("v") == value).agg(n=ts.count()).plan(rho=1))["rows"] == [1]


def test_public_date_keys_work_on_duckdb() -> None:
    days = [datetime.date(2026, 1, 31), datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]
    visits = ts.Private(pa.table({"u": [1, 2, 3], "day": days})).table(unit="u")
    assert counts(visits, [*days, datetime.date(2026, 2, 1)], "day") == [1, 1, 1, 0]
    joined = visits.join([{"day": days[0], "g": "x"}], on="day")
    assert counts(joined, ["x"]) == [1]


# ---- a plan from a file is an analyst's word


def plan_data() -> dict[str, Any]:
    visits = ts.Private(awkward(100)).table(unit="pid").per_unit(max_groups=2, max_rows_per_group=2)
    plan = (
        visits.filter(ts.col("day") >= datetime.date(2024, 1, 1))
        .derive(x=ts.when(ts.col("days").isin([1, 2]), 1, 0))
        .join([{"ward": "a", "floor": 1}], on="ward")
        .bounds(cost=(0, 10))
        .group_by("floor", keys=ts.private_keys(delta=1e-6))
        .agg(n=ts.count(), q=ts.quantile("cost", 0.9), h=ts.histogram("days", [0, 1, 2]), s=ts.variance("days", 0, 9))
        .plan(rho=0.1)
    )
    found: dict[str, Any] = json.loads(plan.to_json())
    return found


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a JSON document."""
    inside = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path, *(found for key, value in inside for found in places(value, (*path, key)))]


def test_whatever_is_written_into_a_plan_is_refused_or_means_what_it_says() -> None:
    whole = json.dumps(plan_data())
    honest = Plan.from_json(whole).hash
    values: list[Any] = [None, [], {}, "", "x", -1, 0, 1.5, True, 10**30, [[[]]], {"kind": 1}, "9" * 5000, "a\x1b"]
    for path in places(plan_data())[1:]:
        for value in values:
            data = json.loads(whole)
            place = data
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = value
            try:
                found = Plan.from_json(json.dumps(data))
            except TallystickError:
                continue
            assert found.hash == honest or found.hash == data["hash"], path


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("query", "table", "unit"), "cost"),  # a unit of doubles
        (("query", "table", "unit"), "x"),  # a unit that is made up
        (("query", "keys", "private"), 0),
        (("query", "keys", "private"), 1e-400),
        (("query", "measures", 1, 1, "p"), 7.5),
        (("query", "measures", 1, 1, "bins"), 10**9),
        (("query", "measures", 3, 1, "root"), "yes"),
        (("query", "table", "max_groups"), 0),
        (("query", "table", "steps", 2, "public", "rows"), [[1, 1]]),
    ],
)
def test_a_plan_is_checked_by_the_rules_of_the_python_surface(path: tuple[Any, ...], value: Any) -> None:
    data = plan_data()
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises((InvalidInput, Refused)) as refused:
        Plan.from_json(json.dumps(data))
    assert "edited" not in str(refused.value)


def test_odd_texts_are_no_plans_and_raise_nothing_raw() -> None:
    for text in ("[" * 100_000, "1e999", "9" * 10_000, '{"format": NaN}', "nul", '"\\ud800"'):
        with pytest.raises(TallystickError):
            Plan.from_json(text)
        with pytest.raises(TallystickError):
            Table.from_json(text)


# ---- files


def csv_counts(path: Path, keys: list[str], types: dict[str, str] | None = None) -> list[int]:
    return counts(ts.Private(path).table(unit="who", types=types), keys)


def test_a_long_quoted_cell_adds_no_rows(tmp_path: Path) -> None:
    # DuckDB's threads begin in the middle of a file and take lines inside a quoted cell for rows
    path = tmp_path / "visits.csv"
    filler = "x" * 1000
    with path.open("w") as file:
        file.write("who,g,v\n")
        file.writelines(f"u{i},a,{filler}\n" for i in range(64_000))
        file.write('x,"' + "".join(f"\nevil{i},evil,1" for i in range(1_000_000))[:15_500_000] + '",1\n')
        file.writelines(f"w{i},b,1\n" for i in range(1000))
    assert csv_counts(path, ["a", "b", "evil"]) == [64_000, 1000, 0]


def test_an_unclosed_quote_and_an_endless_line_cost_their_own_line(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    long = "y" * (2 << 20)
    path.write_text(
        'who,g,v\n1,a,"open\n2,a,1\n3,a,"shut"tail\n4,a,2\n5,a,5" pipe\n'
        f'6,a,{long}\n7,a,"{long}\n66,a,1\n"\n8,a,1\n9,a,"\n10,a,1\n11,a,1\n'
    )
    assert csv_counts(path, ["a"]) == [6]  # 2, 4, 5, 8, 10 and 11: nobody but the owners of bad lines is left out


def test_lines_in_a_quoted_cell_are_part_of_the_cell(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_bytes(b'who,g,v\r\n1,"a\n2,b,1\n",1\r\n3,"b ""q"", \r\n x",1\r\n4,b,\xff\r\n5,b,\0\r\n6,b,1')
    assert csv_counts(path, ["a\n2,b,1\n", 'b "q", \r\n x', "b"]) == [1, 1, 1]


def test_a_byte_order_mark_is_data_wherever_a_record_stands(tmp_path: Path) -> None:
    # DuckDB leaves one out at the start of what it reads: who is first would change what bob's line says
    path = tmp_path / "visits.csv"
    bob = "\ufeffbob,x\nbob,x\n"
    for start in ("", "\ufeff"):
        path.write_text(f"{start}who,g\nalice,x\n{bob}", encoding="utf-8")
        assert csv_counts(path, ["x"]) == [3]
        path.write_text(f"{start}who,g\n{bob}", encoding="utf-8")
        assert csv_counts(path, ["x"]) == [2]


def test_columns_of_a_csv_file_go_by_name_when_they_have_moved(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_text("who,g\n1,a\n1,a\n1,b\n")
    visits = ts.Private(path).table(unit="who").per_unit(max_groups=2, max_rows_per_group=2)
    plan = visits.group_by("g", keys=["a", "b", "1"]).agg(n=ts.count(), people=ts.count_units()).plan(rho=1)
    path.write_text("new,g,who\nx,a,1\nx,a,1\nx,b,1\n")
    assert totals(plan) == {"rows": [2, 1, 0], "units": [1, 1, 0]}
    for gone in ("who,h\n1,a\n", "who\n1\n", "who,g,G\n1,a,b\n", "", '"\n'):
        path.write_text(gone)
        with pytest.raises(InvalidInput):
            run.preflight(plan)


def test_random_csv_files_have_the_records_that_pythons_reader_finds(tmp_path: Path) -> None:
    import csv
    import random

    path = tmp_path / "visits.csv"
    draw = random.Random(7)
    for _ in range(8):
        cells = [
            "".join(draw.choices(['"', ",", "\n", "\r", "a", "é", " ", "9,b"], k=draw.randint(0, 6))) for _ in range(40)
        ]
        with path.open("w", newline="") as file:
            ending, quoting = draw.choice([("\r\n", csv.QUOTE_MINIMAL), ("\n", csv.QUOTE_ALL)])
            writer = csv.writer(file, lineterminator=ending, quoting=quoting)
            writer.writerow(["who", "g"])
            writer.writerows((f"u{i}", f"k{cell}") for i, cell in enumerate(cells))
        keys = sorted({f"k{cell}" for cell in cells})
        assert csv_counts(path, [*keys, "b"]) == [*(sum(f"k{c}" == key for c in cells) for key in keys), 0]


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_all_stages_of_a_release_see_the_same_rows(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow.csv
    import pyarrow.parquet

    write = {"parquet": pyarrow.parquet.write_table, "csv": pyarrow.csv.write_csv}[suffix]
    path = tmp_path / f"visits.{suffix}"
    write(pa.table({"u": [1, 2], "v": [1, 1]}), path)
    types = {"v": "integer"} if suffix == "csv" else None
    visits = ts.Private(path).table(unit="u", types=types).per_unit(max_rows_per_group=1000)
    plan = visits.agg(n=ts.count(), h=ts.histogram("v", [0, 1, 2])).plan(rho=1)
    keep = DuckEngine.keep

    def and_then_the_file_grows(self: DuckEngine, name: str, query: Any) -> None:
        keep(self, name, query)
        if name == "_cells":
            write(pa.table({"u": [1] * 1000, "v": [1] * 1000}), tmp_path / "new")
            os.replace(tmp_path / "new", path)

    monkeypatch.setattr(DuckEngine, "keep", and_then_the_file_grows)
    held = {part.kind: found.sum() for part, found in run.integers(plan).numbers.items()}
    assert held == {"rows": 2, "bins": 2 * 2**16}


def test_what_a_release_writes_down_on_the_way_is_for_this_user_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "visits.csv"
    path.write_text("who,g\n1,a\n")
    seen: list[int] = []
    keep = DuckEngine.keep

    def look(self: DuckEngine, name: str, query: Any) -> None:
        keep(self, name, query)
        folder = self.scratch.path
        seen.extend(place.stat().st_mode & 0o077 for place in (folder, *folder.rglob("*")))

    monkeypatch.setattr(DuckEngine, "keep", look)
    assert csv_counts(path, ["a"]) == [1]
    assert len(seen) > 3
    assert not any(seen)


def test_what_a_killed_release_left_goes_with_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = tmp_path / "visits.csv"
    path.write_text("who,g\n1,a\n")
    left = tmp_path / "tallystick-killed"
    for folder in (left, tmp_path / "tallystick-of-somebody-else"):
        folder.mkdir()
        (folder / "rows.csv").write_text("1,a\n")
    (left / "alive").touch()  # and nobody holds its lock
    at_work = Scratch()
    assert csv_counts(path, ["a"]) == [1]
    assert sorted(place.name for place in tmp_path.glob("tallystick-*")) == sorted(
        ["tallystick-of-somebody-else", at_work.path.parent.name]
    )
    at_work.close()
    assert not at_work.path.exists()


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    import os

    for name in ("visits.csv", "visits.parquet", "visits.duckdb"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(InvalidInput, match="an existing file"):
            ts.Private(tmp_path / name).table("visits" if name.endswith("duckdb") else None, unit="who")


# ---- what always fails costs nothing


def test_every_stage_runs_on_an_empty_table_before_anything_is_charged(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"u": [1, 2], "g": ["a", "b"], "v": [1.0, 2.0]})
    visits = ts.Private(table, account=account).table(unit="u").per_unit(max_groups=1, max_rows_per_group=1)
    plan = (
        visits.group_by("g", keys=ts.private_keys(delta=1e-8)).agg(n=ts.count(), q=ts.median("v", 0, 4)).plan(rho=0.1)
    )
    keep, collect, made = DuckEngine.keep, DuckEngine.collect, []

    def counted(method: Any) -> Any:
        def told(self: DuckEngine, *arguments: Any) -> Any:
            made.append(arguments)
            if len(made) == broken:
                raise ValueError("always")
            return method(self, *arguments)

        return told

    monkeypatch.setattr(DuckEngine, "keep", counted(keep))
    monkeypatch.setattr(DuckEngine, "collect", counted(collect))
    broken = 0
    run.preflight(plan)
    stages = len(made)
    assert stages > 8
    for i in range(stages):
        made.clear()
        broken = i + 1
        monkeypatch.setattr(run, "_rehearsed", {})  # as in a new process
        with pytest.raises(TallystickError):
            plan.release(why="report")
    assert {event.state for event in account.history()} <= {"RELEASED"}


# ---- found by the attacker of the second round


def test_public_joins_make_no_more_than_a_hundred_rows_of_one() -> None:
    people = ts.Private(pa.table({"p": ["1"], "name": ["john"]})).table(unit="p")
    ten = [{"name": "john", "a": i} for i in range(10)]
    twice = people.join(ten, on="name").join([{"name": "john", "b": i} for i in range(10)], on="name")
    with pytest.raises(Refused, match="can make 1000 rows of one"):
        twice.join([{"name": "john", "c": i} for i in range(10)], on="name")
    told = json.loads(twice.to_json())
    told["steps"].append({**told["steps"][-1], "public": {**told["steps"][-1]["public"]}})
    told["steps"][-1]["public"]["columns"] = [["name", "text"], ["d", "integer"]]
    with pytest.raises(Refused, match="rows of one"):
        Table.from_json(json.dumps(told))


def test_no_password_of_a_url_is_written_down() -> None:
    from tallystick.tables.sources import source_of

    for url in ("postgresql://u:secret@h/db", "postgresql://h/db?user=u&password=secret&sslpassword=secret&passfile=x"):
        assert "secret" not in json.dumps(source_of(url).to_data())
    kept = source_of("postgresql://h:5433/db?sslmode=require&options=-csearch_path%3Da").to_data()["place"]
    assert kept == "postgresql://h:5433/db?sslmode=require&options=-csearch_path%3Da"


def test_a_stream_that_is_gone_after_one_look_is_refused() -> None:
    table = pa.table({"p": [1, 2]})
    with pytest.raises(InvalidInput, match="source"):
        ts.Private(table.to_reader())


def test_a_table_called_like_one_of_ours_is_read(postgres: str) -> None:
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute('CREATE TABLE IF NOT EXISTS "_keys" (pid int, w text)')
        connection.execute('TRUNCATE "_keys"')
        connection.execute("INSERT INTO \"_keys\" VALUES (1, 'a'), (2, 'a')")
    assert counts(ts.Private(postgres).table("_keys", unit="pid"), ["a"], "w") == [2]


def test_functions_of_other_users_are_not_called_with_data(postgres: str, database: Callable[..., str]) -> None:
    """Found from outside: div(bigint, bigint) of a schema in the path fits better than the server's own."""
    psycopg = pytest.importorskip("psycopg")
    name = database("who int, x float8", *["1, 3"] * 50)
    for path in ("mallory,public", "mallory,pg_catalog,public"):
        url = f"{postgres}{'&' if '?' in postgres else '?'}options=-csearch_path%3D{path.replace(',', '%2C')}"
        asked = ts.Private(url).table(name, unit="who").per_unit(max_groups=1, max_rows_per_group=2)
        plan = asked.agg(s=ts.sum("x", lower=0, upper=10)).plan(rho=1)
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute("create schema mallory")
            for name_and_type in ("div(bigint, bigint) returns bigint", "abs(float8) returns float8"):
                connection.execute(f"create function mallory.{name_and_type} language sql as 'select $1 * 1000'")
        try:
            [[[total]]] = run.integers(plan).numbers.values()
        finally:
            with psycopg.connect(postgres, autocommit=True) as connection:
                connection.execute("drop schema mallory cascade")
        assert total == 2 * 3 * 2**20


def test_a_pattern_is_no_second_name_of_a_file(tmp_path: Path) -> None:
    """Found from outside: ab*.parquet was another source than ab.parquet, with a population of its own."""
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"p": [1]}), tmp_path / "ab.parquet")
    with pytest.raises(InvalidInput, match="patterns"):
        ts.Private(str(tmp_path / "a*.parquet")).table(unit="p")


def test_a_file_registered_by_its_path_belongs_to_its_population(tmp_path: Path) -> None:
    """Found by a newcomer: the ledger guide's own line bound nothing."""
    file = tmp_path / "visits.csv"
    file.write_text("p\n1\n2\n")
    with ts.Ledger(tmp_path / "l.db", config=tmp_path) as ledger:
        ledger.open("clinic", budget=ts.zcdp(rho=1), unit="p").register("visits", source=str(file))
        other = ledger.open("others", budget=ts.zcdp(rho=1), unit="p")
        with pytest.raises(Refused, match="belongs to"):
            other.register("again", source=str(tmp_path / "." / "visits.csv"))
        asked = ts.Private(str(file), account=other).table(unit="p").per_unit(max_rows_per_group=1).agg(n=ts.count())
        with pytest.raises(Refused, match="belongs to population 'clinic'"):
            asked.plan(rho=0.1).release(why="x")


def test_moments_of_postgresql_are_days_in_utc_whatever_the_url_says(
    postgres: str, database: Callable[..., str]
) -> None:
    rows = ("1, '2013-01-01 23:30+00', '2013-01-01 23:30'", "2, '2013-01-02 00:30+00', 'infinity'", "3, NULL, NULL")
    name = database("who bigint, at timestamptz, there timestamp(3)", *rows)
    mark = "&" if "?" in postgres else "?"
    table = ts.Private(f"{postgres}{mark}options=-c%20timezone%3DAsia/Tokyo").table(name, unit="who")
    assert (table.schema.type_of("at"), table.schema.type_of("there")) == ("date", "date")
    days = [datetime.date(2013, 1, 1), datetime.date(2013, 1, 2)]
    for column, wanted in (("at", [1, 1]), ("there", [1, 0])):
        grouped = table.per_unit(max_groups=1, max_rows_per_group=1).group_by(column, keys=days)
        (counts,) = run.integers(grouped.agg(n=ts.count()).plan(rho=1, caps_share=0)).numbers.values()
        assert counts[:, 0].tolist() == wanted
