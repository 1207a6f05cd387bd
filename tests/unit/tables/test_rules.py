"""The integers before noise are those of the stated rules, on DuckDB and on PostgreSQL."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp

import tallystick as ts
from tallystick.tables import run
from tallystick.tables.dialects import SATURATED_TOTAL, DuckWords
from tallystick.tables.parts import Binned, Rows, Total, Tree
from tallystick.tables.plan import Plan
from tallystick.tables.reader import open_engine
from tallystick.tables.run import Exact
from tallystick.tables.table import Table
from unit.tables.tables import STEPS, WARDS, awkward, expected, removed


def questions(visits: Table) -> Iterator[Plan]:
    """Plans in which both caps bite, over all kinds of parts, keys and steps."""
    narrow = visits.per_unit(max_groups=2, max_rows_per_group=2)
    yield (
        narrow.group_by("ward", "day", "ok", keys=ts.private_keys(delta=1e-6))
        .agg(
            n=ts.count(),
            people=ts.count_units(),
            over=ts.units_over_cap(),
            more=ts.rows_over_cap(2),
            cost=ts.sum("cost", -7, 5000.5),
            stay=ts.mean("days", 0, 50),
            spread=ts.variance("days", 0, 50),
            middle=ts.median("cost", 0, 3072, bins=64),
            tenth=ts.quantile("days", 0.1, 0, 50),
            bars=ts.histogram("cost", [0, 100.5, 1000, 4000]),
        )
        .plan(rho=1)
    )
    yield (
        narrow.group_by("ward", keys=ts.private_keys(delta=1e-6))
        .agg(n=ts.count(), over=ts.units_over_cap(), spread=ts.variance("days", 0, 50), told=ts.count_units("days"))
        .plan(rho=1)
    )
    yield (
        narrow.group_by("ward", keys=[*WARDS[1:], "no data"])
        .agg(n=ts.count(), cost=ts.sum("cost", 0, 100, missing=50))
        .plan(rho=1)
    )
    few = visits.per_unit(max_groups=12, max_rows_per_group=3, max_rows=8)
    yield (
        few.group_by("ward", "day", "ok", keys=ts.private_keys(delta=1e-6))
        .agg(
            n=ts.count(),
            people=ts.count_units(),
            over=ts.units_over_cap(),
            more=ts.rows_over_cap(2),
            cost=ts.sum("cost", -7, 5000.5),
            told=ts.count_units("days"),
            middle=ts.median("cost", 0, 3072, bins=64),
            spread=ts.variance("days", 0, 50),
        )
        .plan(rho=1)
    )
    yield (
        visits.per_unit(max_rows=7)
        .group_by("ward", "ok", keys=[(ward, ok) for ward in WARDS for ok in (True, False)])
        .agg(n=ts.count(), stay=ts.mean("days", 0, 50))
        .plan(rho=1)
    )
    yield visits.per_unit(max_rows_per_group=4).agg(n=ts.count(), cost=ts.mean("cost", 0, 10)).plan(rho=1)


def agrees(plan: Plan, exact: Exact, rows: list[dict[str, Any]]) -> None:
    assert {part: numbers[0].tolist() for part, numbers in exact.removed.items()} == removed(plan, rows)
    wanted = expected(plan, rows)
    listed = getattr(plan.query.keys, "rows", None)
    groups = exact.keys if exact.keys is not None else list(listed or [()])
    if exact.keys is not None:
        assert set(groups) == {group for held in wanted.values() for group in held}
    for part, held in exact.numbers.items():
        for group, numbers in zip(groups, held.tolist(), strict=True):
            want = wanted[part].get(group, {} if isinstance(part, Binned) else 0)
            if not isinstance(part, Binned):
                assert numbers == [want], (part, group)
                continue
            leaves = numbers[-(1 << part.bins.height) :] if isinstance(part, Tree) else numbers
            assert {i: n for i, n in enumerate(leaves) if n} == {i: n for i, n in want.items() if n}, (part, group)


@pytest.mark.parametrize("sorts", [True, False])
def test_duckdb_computes_the_integers_of_the_rules(sorts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DuckWords, "sorts", sorts)
    monkeypatch.setattr("tallystick.tables.run._programs", {})
    table = awkward()
    plans = list(questions(ts.Private(table).table(unit="pid")))
    assert len(plans) == 6
    for plan in plans:
        agrees(plan, run.integers(plan), table.to_pylist())


@pytest.mark.parametrize("prime", [(1 << 31) - 1, 5], ids=["as it is", "with ties"])
def test_the_program_for_engines_where_queries_are_dear_computes_the_same_integers(
    prime: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's way to the same cells and totals, on DuckDB, where it takes no time to see."""
    table = ts.Private(awkward()).table(unit="pid")
    monkeypatch.setattr("tallystick.tables.capping.PRIME", prime)
    found = []
    for dear in (False, True):
        monkeypatch.setattr("tallystick.tables.run._programs", {})
        monkeypatch.setattr("tallystick.tables.dialects.DuckWords.dear", dear)
        monkeypatch.setattr("tallystick.tables.dialects.DuckWords.sorts", False)
        found.append([run.integers(plan) for plan in questions(table)])
    for plan, one, other in zip(questions(table), *found, strict=True):
        if prime > 5:  # the rules know of no ties
            agrees(plan, other, awkward().to_pylist())
        order = range(len(next(iter(one.numbers.values()))))
        places = {key: i for i, key in enumerate(other.keys or ())}
        same = [places[key] for key in one.keys] if one.keys is not None else list(order)
        assert len(places) == len(one.keys or ())
        for part, numbers in one.numbers.items():
            assert numbers.tolist() == other.numbers[part][same].tolist(), part
        assert {part: n.tolist() for part, n in one.removed.items()} == {
            part: n.tolist() for part, n in other.removed.items()
        }


def test_a_large_table_is_worked_through_in_shares_of_units(monkeypatch: pytest.MonkeyPatch) -> None:
    table = awkward()
    monkeypatch.setattr("tallystick.tables.run.ROWS_PER_SHARE", 400)
    monkeypatch.setattr("tallystick.tables.engines.duckdb._SMALL", 0)
    for plan in questions(ts.Private(table).table(unit="pid")):
        told: list[str] = []
        agrees(plan, run.integers(plan, told.append), table.to_pylist())
        assert len(set(told)) == len(told)  # how many shares there are would tell how many rows there are


def test_totals_of_shares_stop_where_one_sum_would() -> None:
    part = Rows()
    most = SATURATED_TOTAL
    one = Exact([("a",), ("b",)], {part: np.array([[most], [1]])})
    other = Exact([("c",), ("a",), ("b",)], {part: np.array([[5], [most], [2]])})
    both = run.together(one, other)
    assert dict(zip(both.keys or [], both.numbers[part][:, 0].tolist(), strict=True)) == {
        ("a",): most,
        ("b",): 3,
        ("c",): 5,
    }


def test_text_units_are_capped_like_numbers() -> None:
    table = pa.table({"who": ["é:1", "é:1", "é:1", "x"], "g": [1, 2, 3, 1]})
    plan = (
        ts.Private(table)
        .table(unit="who")
        .per_unit(max_groups=2, max_rows_per_group=1)
        .group_by("g", keys=ts.private_keys(delta=0.1))
        .agg(n=ts.count())
        .plan(rho=1)
    )
    agrees(plan, run.integers(plan), table.to_pylist())


def test_filters_derived_columns_and_public_joins_see_one_row_at_a_time() -> None:
    table = awkward(400)
    floors = [{"ward": "a", "floor": 1}, {"ward": "a", "floor": 2}, {"ward": "b'x", "floor": 1}]
    visits = ts.Private(table).table(unit="pid")
    asked = (
        visits.filter((ts.col("days") >= 0) & ~ts.col("ok"))
        .derive(rate=ts.col("cost") / (ts.col("days") - 3), late=ts.col("days").cut([10, 20.5]))
        .join(floors, on="ward")
        .per_unit(max_groups=2, max_rows_per_group=2)
        .group_by("floor", "late", keys=[(f, s) for f in (1, 2) for s in (0, 1, 2)])
        .agg(n=ts.count(), rate=ts.sum("rate", 0, 16))
        .plan(rho=1)
    )
    rows = []
    for row in table.to_pylist():
        if row["days"] < 0 or row["ok"]:
            continue
        cost, gap = row["cost"], row["days"] - 3
        known = cost is not None and not math.isnan(cost) and gap != 0
        row["rate"] = min(max(cost, -1e100), 1e100) / gap if known else None
        row["late"] = sum(row["days"] >= edge for edge in (10, 20.5))
        rows += [{**row, "floor": f["floor"]} for f in floors if f["ward"] == row["ward"]]
    agrees(asked, run.integers(asked), rows)


def test_each_row_counts_once_where_rows_are_the_unit() -> None:
    table = pa.table({"g": ["a", "a", "b", None], "v": [1.0, None, 3.0, 4.0]})
    plan = (
        ts.Private(table)
        .table(unit=ts.each_row)
        .group_by("g", keys=["a", "b", "c"])
        .agg(n=ts.count(), v=ts.mean("v", 0, 4), med=ts.median("v", 0, 4, bins=4))
        .plan(rho=1)
    )
    exact = run.integers(plan)
    by_kind = {part.kind: held for part, held in exact.numbers.items()}
    assert by_kind["rows"][:, 0].tolist() == [2, 1, 0]
    assert by_kind["present"][:, 0].tolist() == [STEPS, STEPS, 0]
    assert (by_kind["total"][:, 0] / by_kind["total"][0, 0]).tolist() == [1, 3, 0]
    assert by_kind["tree"][:, -4:].tolist() == [[0, STEPS, 0, 0], [0, 0, 0, STEPS], [0, 0, 0, 0]]
    assert "single rows are protected, not the people" in plan.explain()


def test_csv_cells_that_do_not_fit_are_missing_and_short_lines_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_text('who,g,v\n1,a,5\n1,a,"not a number"\n2,a\n3,b,7,8\n,a,9\n4,"a ""q""",2\n5,a,1e999\n')
    visits = ts.Private(path).table(unit="who", types={"v": "number"})
    assert visits.schema.type_of("who") == "text"
    plan = (
        visits.per_unit(max_groups=1, max_rows_per_group=4)
        .group_by("g", keys=["a", "b", 'a "q"'])
        .agg(n=ts.count(), v=ts.sum("v", 0, 16))
        .plan(rho=1)
    )
    numbers = {part.kind: held[:, 0].tolist() for part, held in run.integers(plan).numbers.items()}
    assert numbers["rows"] == [3, 1, 1]  # the line with a cell too many counts without it
    step = next(part.grid.step for part in plan.query.parts if isinstance(part, Total))
    assert [n * step for n in numbers["total"]] in ([21.0, 7.0, 2.0], [5.0, 7.0, 2.0])  # 1e999: infinite or no number


def test_nothing_but_the_first_line_of_a_csv_file_decides_whether_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    rng = np.random.default_rng(3)
    bodies = [bytes(rng.choice(list(b'\n\r",\0\xff\xc3A1\\'), 30).tolist()) for _ in range(60)]
    for body in [b"", b"\xff\xfe", b"2,\xff\xfe,2", b"\r\r\n", b'2,"a,2', b"\0", *bodies]:
        path.write_bytes(b"who,g,v\n1,a,5\n" + body + b"\n3,a,7\n")
        visits = ts.Private(path).table(unit="who", types={"v": "number"})
        plan = visits.per_unit(max_groups=1, max_rows_per_group=4)
        private = plan.group_by("g", keys=ts.private_keys(delta=0.1)).agg(n=ts.count(), v=ts.sum("v", 0, 8)).plan(rho=1)
        assert ("a",) in (run.integers(private).keys or [])


def test_dates_that_only_the_engine_knows_are_missing(tmp_path: Path) -> None:
    import duckdb

    place = str(tmp_path / "clinic.duckdb")
    with duckdb.connect(place) as connection:
        connection.execute("create table visits (who integer, day date)")
        connection.execute(
            "insert into visits values (1, '2020-02-29'), (2, 'infinity'), (3, '-infinity'), (4, '12345-01-01'), "
            "(5, '0044-03-15 (BC)'), (6, '0001-01-01'), (7, '9999-12-31'), (8, null)"
        )
    visits = ts.Private(place).table("visits", unit="who").per_unit(max_groups=1, max_rows_per_group=1)
    plan = visits.group_by("day", keys=ts.private_keys(delta=0.1)).agg(n=ts.count()).plan(rho=1)
    assert sorted(run.integers(plan).keys or []) == [
        (datetime.date(1, 1, 1),),
        (datetime.date(2020, 2, 29),),
        (datetime.date(9999, 12, 31),),
    ]


def test_removing_a_unit_moves_every_part_by_no_more_than_its_sensitivity() -> None:
    table = awkward(600, seed=3)
    for plan in questions(ts.Private(table).table(unit="pid")):
        whole = run.integers(plan)
        for unit in (0, 7, 41):
            mask = [value != unit for value in table.column("pid").to_pylist()]
            less = run.integers(plan.on(table.filter(pa.array(mask))))
            for part in plan.query.parts:
                moved = _difference(whole, less, part)
                assert np.abs(moved).sum() <= part.l1(plan.query.caps, plan.query.table.adjacency)
                assert (moved**2).sum() <= part.l2_squared(plan.query.caps, plan.query.table.adjacency)


def _difference(whole: Exact, less: Exact, part: Any) -> Any:
    if whole.keys is None:
        return whole.numbers[part] - less.numbers[part]
    held = dict(zip(less.keys or [], less.numbers[part], strict=True))
    return np.array([row - held.get(key, 0) for key, row in zip(whole.keys, whole.numbers[part], strict=True)])


def test_with_the_caps_switched_off_the_same_test_fails() -> None:
    table = awkward(600, seed=3)
    plan = next(questions(ts.Private(table).table(unit="pid")))
    loose = replace(plan, query=replace(plan.query, caps=replace(plan.query.caps, max_groups=10_000, max_rows=1024)))
    gone = table.filter(pa.array([value != 7 for value in table.column("pid").to_pylist()]))
    moved = _difference(run.integers(loose), run.integers(loose.on(gone)), plan.query.parts[0])
    assert np.abs(moved).sum() > plan.query.parts[0].l1(plan.query.caps, plan.query.table.adjacency)


def test_groups_with_equal_hashes_never_exceed_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    # The cut is strict at the (K+1)-th smallest place, so crafted collisions lose groups rather than gain them.
    monkeypatch.setattr(DuckWords, "digest", lambda self, salt, pieces: exp.Literal.string("5a" * 16))
    monkeypatch.setattr(run, "_programs", {})  # SQL is written once for a question, and this one is another's
    table = pa.table({"who": [1, 1, 1, 2], "g": [1, 2, 3, 1]})
    plan = (
        ts.Private(table)
        .table(unit="who")
        .per_unit(max_groups=2, max_rows_per_group=1)
        .group_by("g", keys=[1, 2, 3])
        .agg(n=ts.count())
        .plan(rho=1)
    )
    (rows,) = run.integers(plan).numbers.values()
    assert rows[:, 0].tolist() == [1, 0, 0]


def test_enumerations_and_uuids_read_as_text(tmp_path: Path) -> None:
    import duckdb

    place = str(tmp_path / "clinic.duckdb")
    with duckdb.connect(place) as connection:
        connection.execute("create type ward as enum ('a', 'b')")
        connection.execute("create table visits (who uuid, ward ward)")
        connection.execute("insert into visits values (uuid(), 'a'), (uuid(), 'a'), (uuid(), 'b')")
    visits = ts.Private(place).table("visits", unit="who").per_unit(max_groups=1, max_rows_per_group=1)
    plan = visits.group_by("ward", keys=["a", "not in the enumeration"]).agg(n=ts.count()).plan(rho=1)
    (rows,) = run.integers(plan).numbers.values()
    assert rows[:, 0].tolist() == [2, 0]


def test_postgresql_computes_the_same_integers(postgres: str) -> None:
    psycopg = pytest.importorskip("psycopg")
    table = awkward(500)
    with psycopg.connect(postgres) as connection:
        connection.execute('create table "table" (pid bigint, ward text, day date, ok boolean, cost float8, days int)')
        with connection.cursor() as cursor, cursor.copy('copy "table" from stdin') as copy:
            for row in table.to_pylist():
                copy.write_row(tuple(row.values()))
    for plan in questions(ts.Private(table).table(unit="pid")):
        moved = plan.on(postgres)
        run.preflight(moved)
        assert moved.hash == plan.hash
        agrees(plan, run.integers(moved), table.to_pylist())
    asked = ts.Private(table).table(unit="pid").per_unit(max_rows_per_group=2).bounds(days=(0, 15), cost=(-7, 5000.5))
    sums = ts.linear_regression(asked, target="cost", features=["days"]).plan(rho=1).plan
    here, there = run.integers(sums).numbers, run.integers(sums.on(postgres)).numbers
    assert {part: held.tolist() for part, held in here.items()} == {part: held.tolist() for part, held in there.items()}
    with open_engine(sums.query.table.source) as engine:
        units, columns = run.rows(sums, engine)
    with open_engine(sums.on(postgres).query.table.source) as engine:
        same_units, same_columns = run.rows(sums.on(postgres), engine)
    assert sorted(zip(units, *columns, strict=True)) == sorted(zip(same_units, *same_columns, strict=True))
