"""Cells made by sorting are those of the stated rules and of SQL, whatever fits into a word."""

from __future__ import annotations

import gc
import inspect
import weakref
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tallystick as ts
from tallystick.tables import run, sorting
from tallystick.tables.dialects import LONGEST_TEXT, DuckWords, name, whole
from tallystick.tables.expressions import LONGEST_MADE
from tallystick.tables.fixed_point import FixedPoint
from tallystick.tables.parts import (
    Binned,
    Caps,
    Outside,
    Part,
    Present,
    Rows,
    RowsOver,
    Squares,
    Total,
    Units,
    UnitsOver,
)
from tallystick.tables.plan import Plan
from tallystick.tables.reporting.rows import CellRowsOver, CellsOver
from tallystick.tables.reporting.totals import RowsCounted, UnitsBeyond, UnitsSeen
from tallystick.tables.run import Exact
from tallystick.tables.sorted_cells import cells_of
from tallystick.tables.units_with import UnitsWith
from unit.tables.test_rules import agrees

FAR = 1 << 63


def visits(seed: int, ids: str) -> pa.Table:
    """Few units with many rows in few groups; identifiers side by side, or as far apart as whole numbers can be."""
    rng = np.random.default_rng(seed)
    units, groups = rng.integers(0, 12, 400), rng.integers(0, 5, 400)
    if ids == "far apart":
        units = np.array([-FAR, FAR - 1, *rng.integers(-FAR, FAR - 1, 10)])[units]
    if ids == "all far apart":
        units, groups = (np.array([-FAR, FAR - 1, *rng.integers(-FAR, FAR - 1, 10)])[c] for c in (units, groups))
    who, where = pa.array(units, pa.int64(), mask=rng.random(400) < 0.02), pa.array(groups, pa.int64())
    if ids == "texts":
        who, where = who.cast(pa.string()), pa.array([["", ":", "é:1", "1:é", "e\u0301:1"][g] for g in groups])
    cost = rng.normal(50, 60, 400)
    stay = rng.integers(-3, 60, 400)
    return pa.table(
        {
            "who": who,
            "where": pc.if_else(rng.random(400) < 0.02, None, where),
            "kind": pa.array(rng.integers(-2, 2, 400), pa.int64()),
            "cost": pa.array(cost, pa.float64(), mask=rng.random(400) < 0.1),
            "stay": pa.array(stay, pa.int64(), mask=rng.random(400) < 0.1),
        }
    )


def questions(table: pa.Table) -> list[Plan]:
    """Both caps bite; the last one adds up more than a word has room for."""
    narrow = ts.Private(table).table(unit="who").per_unit(max_groups=2, max_rows_per_group=4)
    keys = ts.private_keys(delta=1e-6)
    cost = {"n": ts.count(), "cost": ts.sum("cost", 0, 100), "mean": ts.mean("cost", 0, 100)}
    places = table["where"].drop_null().unique().to_pylist()
    return [
        narrow.group_by("where", keys=keys).agg(**cost).plan(rho=1),
        narrow.group_by("where", "kind", keys=keys).agg(**cost, people=ts.count_units()).plan(rho=1),
        narrow.group_by("where", keys=places[1:]).agg(**cost).plan(rho=1),
        narrow.per_unit(max_rows_per_group=4).agg(**cost).plan(rho=1),
        narrow.group_by("where", keys=keys)
        .agg(**cost, stay=ts.variance("stay", 0, 50), over=ts.units_over_cap(), told=ts.count_units("stay"))
        .plan(rho=1),
    ]


def full(*_: Any) -> Any:
    raise MemoryError


def sorted_or_not(monkeypatch: pytest.MonkeyPatch, plan: Plan) -> tuple[Exact, list[bool]]:
    """The integers, and of each attempt whether cells could be sorted."""
    could: list[bool] = []
    real = sorting.sums_of

    def watched(*given: Any) -> Any:
        could.append(False)
        made = real(*given)
        could[-1] = True
        return made

    monkeypatch.setattr(run, "sums_of", watched)
    return run.integers(plan), could


@pytest.mark.parametrize("ids", ["side by side", "far apart", "texts", "all far apart"])
def test_sorted_cells_give_the_integers_of_the_rules(ids: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = visits(1, ids)
    plans = questions(table)
    for number, plan in enumerate(plans):
        exact, tried = sorted_or_not(monkeypatch, plan)
        agrees(plan, exact, table.to_pylist())
        assert tried == [True], number


@pytest.mark.parametrize("ids", ["side by side", "far apart", "all far apart"])
def test_shares_of_units_that_are_sorted_add_up(ids: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = visits(2, ids)
    monkeypatch.setattr(run, "MOST_BYTES", 2400)
    for plan in questions(table):
        exact, tried = sorted_or_not(monkeypatch, plan)
        assert len(tried) > 2
        assert all(tried)
        agrees(plan, exact, table.to_pylist())


def test_where_a_later_share_cannot_be_sorted_all_are_made_by_sql_and_nobody_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = visits(3, "side by side")
    plan = questions(table)[0]
    monkeypatch.setattr(run, "MOST_BYTES", 2400)
    usual: list[str] = []
    run.integers(plan, usual.append)
    real, calls = sorting.sums_of, iter([True, True, False])
    monkeypatch.setattr(run, "sums_of", lambda *given: real(*given) if next(calls) else full())
    told: list[str] = []
    agrees(plan, run.integers(plan, told.append), table.to_pylist())
    assert next(calls, "used up") == "used up"
    assert told == usual == ["cells", "totals", "limits and bounds"]


def test_ties_between_places_are_broken_as_in_sql(monkeypatch: pytest.MonkeyPatch) -> None:
    table = visits(4, "side by side")
    for module in ("capping", "sorted_cells"):
        monkeypatch.setattr(f"tallystick.tables.{module}.PRIME", 5)
    monkeypatch.setattr("tallystick.tables.run._programs", {})
    for plan in questions(table)[:2]:
        one = run.integers(plan)
        with monkeypatch.context() as patched:
            patched.setattr(run, "sums_of", full)
            other = run.integers(plan)
        assert as_numbers(one) == as_numbers(other)


def as_numbers(exact: Exact) -> Any:
    keys = exact.keys or [()]
    held = {part: dict(zip(keys, numbers[:, 0].tolist(), strict=True)) for part, numbers in exact.numbers.items()}
    return held, {part: numbers.tolist() for part, numbers in exact.removed.items()}


def every_part() -> list[Part]:
    """One of every kind that a cell adds to."""
    grid = FixedPoint.of(-7, 100, integer=False)
    found = [Rows(), Units(), Present("x"), Total("x", None, grid), Squares("x", None, grid), UnitsWith("x")]
    return [*found, CellsOver(), CellRowsOver(3), Outside("x", None, -7, 100)]


def test_every_kind_of_part_is_known_here() -> None:
    def below(kind: type) -> set[type]:
        return {kind, *(deeper for each in kind.__subclasses__() for deeper in below(each))}

    # by name: a dataclass with slots leaves the class that it was made of behind
    added = {kind for kind in below(Part) if not inspect.isabstract(kind) and not issubclass(kind, Binned)}
    known = {type(part) for part in every_part()} | {UnitsOver, RowsOver, UnitsSeen, UnitsBeyond, RowsCounted}
    ours = {kind.__name__ for kind in added if kind.__module__.startswith("tallystick.")}
    assert ours - {"Fine", "OfTable"} == {kind.__name__ for kind in known}


@pytest.mark.parametrize("part", every_part(), ids=lambda part: part.kind)
@pytest.mark.parametrize("most", [1, 4, 1024])
def test_a_cell_adds_here_what_it_adds_in_sql_and_no_more_than_is_paid_for(part: Part, most: int) -> None:
    rng = np.random.default_rng(most)
    rows = np.concatenate([np.arange(1, 40), rng.integers(1, 3000, 300)])
    largest = getattr(part, "most", 1)
    value = np.array([int(rng.integers(0, int(largest) * int(count), endpoint=True)) for count in rows])
    connection = duckdb.connect()
    connection.register("cells", {"i": np.arange(len(rows)), "value": value, "rows": rows})
    words = DuckWords()
    sql = words.render(part.contribution(words, name("value"), name("rows"), whole(most)))
    wanted = [n for _, n in connection.execute(f"SELECT i, {sql} FROM cells ORDER BY i").fetchall()]
    found = part.counted(value, rows, np.full_like(rows, most))
    assert found.tolist() == wanted
    assert 0 <= found.min() <= found.max() <= part.peak(Caps(1, most))


def test_no_rows_are_no_cells() -> None:
    table = visits(5, "side by side").slice(0, 0)
    for plan in questions(visits(5, "side by side")):
        empty = run.integers(plan.on(table))
        assert not any(numbers.any() for numbers in (*empty.numbers.values(), *empty.removed.values()))


def test_large_random_tables_agree_with_plain_counting() -> None:
    rng = np.random.default_rng(6)
    for fields in ([3], [24, 1, 1, 1], [24, 24, 14]):
        count = 200_000
        unit, group = rng.integers(-500, 500, count), rng.integers(0, 40, count)
        numbers = [rng.integers(0, 1 << bits, count) for bits in fields]
        added = np.zeros(count, dtype=np.int64)
        for bits, values in zip(reversed(fields), reversed(numbers), strict=True):
            added = (added << bits) | values
        cells = cells_of([unit.copy(), group.copy()], added, fields)
        places = np.unique(np.stack([unit, group]), axis=1, return_inverse=True)
        assert cells.columns[0].decoded(cells.words).tolist() == places[0][0].tolist()
        assert cells.columns[1].decoded(cells.words).tolist() == places[0][1].tolist()
        assert cells.rows.tolist() == np.bincount(places[1]).tolist()
        for found, values in zip(cells.sums, numbers, strict=True):
            sums = np.zeros(len(cells.rows), dtype=np.int64)
            np.add.at(sums, places[1], values)
            assert found.tolist() == sums.tolist()


def test_what_does_not_fit_its_bits_is_no_other_units() -> None:
    unit, group = np.arange(3), np.zeros(3, dtype=np.int64)
    cells = cells_of([unit, group], np.array([-1, 3, 400]), [2])
    assert cells.columns[0].decoded(cells.words).tolist() == [0, 1, 2]
    assert cells.sums[0].tolist() == [0, 3, 3]


@pytest.mark.parametrize("columns", [2, 4])
def test_cells_of_keys_as_far_apart_as_can_be_are_those_of_plain_counting(columns: int) -> None:
    rng = np.random.default_rng(columns)
    ends = np.array([-FAR, FAR - 1, 0, *rng.integers(-FAR, FAR - 1, 3)])
    keys = [ends[rng.integers(0, 6, 3000)] for _ in range(columns)]
    added = rng.integers(0, 1 << 50, 3000)
    wanted: dict[Any, list[int]] = {}
    for row in zip(*(key.tolist() for key in keys), added.tolist(), strict=True):
        wanted.setdefault(row[:-1], []).append(row[-1])
    cells = cells_of([key.copy() for key in keys], added.copy(), [50])
    made = zip(*(column.decoded(cells.words).tolist() for column in cells.columns), strict=True)
    found = dict(zip(made, zip(cells.rows.tolist(), cells.sums[0].tolist(), strict=True), strict=True))
    assert found == {key: (len(values), sum(values)) for key, values in wanted.items()}


def test_nothing_of_the_rows_outlives_a_release(monkeypatch: pytest.MonkeyPatch) -> None:
    lent: list[weakref.ref[Any]] = []
    from tallystick.tables.engines.duckdb import DuckEngine

    real = DuckEngine.lend

    def watched(engine: DuckEngine, name: str, columns: Any) -> None:
        lent.extend(weakref.ref(column) for column in columns.values())
        real(engine, name, columns)

    monkeypatch.setattr(DuckEngine, "lend", watched)
    run.integers(questions(visits(7, "side by side"))[0])
    gc.collect()
    assert len(lent) == 4
    assert not [each for each in lent if each() is not None]


def test_the_order_in_which_an_engine_hands_rows_over_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    from tallystick.tables.engines.duckdb import DuckEngine

    table, rng, real = visits(8, "side by side"), np.random.default_rng(9), DuckEngine.arrays

    def shuffled(engine: DuckEngine, sql: str) -> list[Any]:
        columns = real(engine, sql)
        order = rng.permutation(len(columns[0]))
        return [column[order] for column in columns]

    monkeypatch.setattr(DuckEngine, "arrays", shuffled)
    for plan in questions(table):
        agrees(plan, run.integers(plan), table.to_pylist())


def watching(monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[str]]:
    """The queries whose arrays are asked for, and what is kept."""
    from tallystick.tables.engines.duckdb import DuckEngine

    arrays, keep = DuckEngine.arrays, DuckEngine.keep
    asked: list[str] = []
    kept: list[str] = []
    monkeypatch.setattr(DuckEngine, "arrays", lambda engine, sql: (asked.append(sql), arrays(engine, sql))[1])
    monkeypatch.setattr(DuckEngine, "keep", lambda engine, to, sql: (kept.append(to), keep(engine, to, sql))[1])
    return asked, kept


def test_rows_that_weigh_too_much_are_never_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """One person can have any number of rows, all in one share: arrays would fail on them."""
    from tallystick.tables.engines.duckdb import DuckEngine

    lengths, real = [0], DuckEngine.arrays

    def watched(engine: DuckEngine, sql: str) -> list[Any]:
        columns = real(engine, sql)
        lengths.append(len(columns[0]))
        return columns

    monkeypatch.setattr(DuckEngine, "arrays", watched)
    monkeypatch.setattr(run, "MOST_BYTES", 24 * 200)
    table = visits(10, "side by side")
    many = pa.concat_tables([table, table.set_column(0, "who", pa.array([3] * 400))])
    for plan in questions(many)[:2]:
        agrees(plan, run.integers(plan), many.to_pylist())
        assert max(lengths) <= 300


@pytest.mark.parametrize("kind", ["csv", "parquet", "memory"])
@pytest.mark.parametrize("derived", [False, True])
def test_texts_are_sorted_or_not_by_the_number_of_rows_alone(
    kind: str, derived: bool, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept first and weighed then, one person's long texts took 2 GB of a file of 222 KB."""
    asked, kept = watching(monkeypatch)
    rows, longest = 3000, LONGEST_MADE if derived else LONGEST_TEXT
    weight = rows * 4 * (longest + LONGEST_TEXT)
    for long in ("x", "x" * 4092 + "\U0001f600"):
        who, where = [f"p{i % 1000}" for i in range(rows)], [*"abc" * (rows // 3 - 1), long, long, long]
        narrow = ts.Private(written(pa.table({"who": who, "w": where}), kind, tmp_path)).table(unit="who")
        narrow = narrow.derive(made=ts.col("w").concat("!")).per_unit(max_groups=2, max_rows_per_group=4)
        grouped = narrow.group_by("made" if derived else "w", keys=ts.private_keys(delta=1e-6))
        plan = grouped.agg(n=ts.count()).plan(rho=1)
        for most, sorts in ((run.MOST_BYTES, True), (weight, False)):
            asked.clear()
            with monkeypatch.context() as patched:
                patched.setattr(run, "MOST_BYTES", most)
                assert len(run.integers(plan).keys or ()) == 4
            assert any('"_added"' in sql for sql in asked) == sorts
            assert "_taken" not in kept


def written(table: pa.Table, kind: str, folder: Any) -> Any:
    import pyarrow.csv
    import pyarrow.parquet

    if kind == "memory":
        return table
    file = folder / f"visits.{kind}"
    {"csv": pyarrow.csv.write_csv, "parquet": pyarrow.parquet.write_table}[kind](table, file)
    return str(file)


def test_what_memory_has_no_room_for_is_left_to_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    table = visits(11, "side by side")
    monkeypatch.setattr(sorting, "cells_of", full)
    for plan in questions(table):
        agrees(plan, run.integers(plan), table.to_pylist())


@pytest.mark.parametrize("kind", ["csv", "parquet", "memory"])
def test_rows_are_counted_from_what_is_read(kind: str, tmp_path: Any) -> None:
    from tallystick.tables.reader import open_engine

    for table in (visits(12, "side by side"), pa.table({"w": [7] * 1000})):
        with open_engine(ts.Private(written(table, kind, tmp_path)).source) as engine:
            assert engine.stored_rows("table") == len(table)  # type: ignore[attr-defined]


@pytest.mark.parametrize("ids", ["side by side", "far apart", "all far apart", "texts"])
def test_the_source_is_read_once_whether_cells_can_be_sorted_or_not(ids: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """That it is read again would tell that identifiers do not fit, and fail where the file is gone by then."""
    from tallystick.tables.engines.duckdb import DuckEngine

    read: list[str] = []

    def watched(method: str) -> Any:
        real = getattr(DuckEngine, method)

        def call(engine: DuckEngine, *given: Any, **named: Any) -> Any:
            found = real(engine, *given, **named)
            if given[0] in ("_taken", "_cells") or '"_added"' in given[0]:
                read.append(method)
                engine.connection.execute("CREATE OR REPLACE TEMP VIEW \"_stored0\" AS SELECT error('read again')")
            return found

        return call

    for method in ("keep", "arrays"):
        monkeypatch.setattr(DuckEngine, method, watched(method))
    table = visits(1, ids)
    for plan in questions(table):
        read.clear()
        agrees(plan, run.integers(plan), table.to_pylist())
        assert read == ["arrays"]


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.uint8, np.uint32])
def test_keys_of_fewer_bits_are_those_of_plain_counting(kind: type) -> None:
    """Engines hold small constants in few bits; shifted there, they would be nothing, or another unit's."""
    ends = np.array([np.iinfo(kind).min, np.iinfo(kind).max], dtype=kind)
    unit, group = ends[np.arange(8) % 2], ends[np.arange(8) // 4]
    far = np.array([1 << 40, 0] * 4)
    cells = cells_of([unit, group, far], np.ones(8, dtype=np.int64), [1])
    found = [column.decoded(cells.words).tolist() for column in cells.columns]
    assert list(zip(*found, strict=True)) == sorted({*zip(unit.tolist(), group.tolist(), far.tolist(), strict=True)})
    assert cells.rows.tolist() == [2, 2, 2, 2]
    with pytest.raises(TypeError):
        cells_of([unit, np.linspace(0, 1, 8)], np.ones(8, dtype=np.int64), [1])


FEW = {
    "when": (ts.when(ts.col("kind") >= 0, 1, 0), lambda row: int(row["kind"] >= 0)),
    "ends of 32 bits": (
        ts.when(ts.col("kind") >= 0, 2**31 - 1, -(2**31)),
        lambda row: 2**31 - 1 if row["kind"] >= 0 else -(2**31),
    ),
    "column or constant": (
        ts.when(ts.col("kind") >= 0, ts.col("kind"), 7),
        lambda row: row["kind"] if row["kind"] >= 0 else 7,
    ),
    "filled": (ts.col("stay").fill_missing(3), lambda row: 3 if row["stay"] is None else row["stay"]),
    "size": (abs(ts.col("kind")), lambda row: abs(row["kind"])),
    "least": (ts.col("kind").least(0), lambda row: min(row["kind"], 0)),
    "cast": (ts.when(ts.col("kind") >= 0, "1", "0").cast("integer"), lambda row: int(row["kind"] >= 0)),
}


@pytest.mark.parametrize(("made", "meant"), FEW.values(), ids=FEW.keys())
def test_derived_whole_numbers_are_keys_like_stored_ones(
    made: Any, meant: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tallystick.tables.engines.duckdb import DuckEngine

    real, kinds = DuckEngine.arrays, set()

    def watched(engine: DuckEngine, sql: str) -> list[Any]:
        columns = real(engine, sql)
        kinds.update(column.dtype for column in columns if '"_added"' in sql)
        return columns

    monkeypatch.setattr(DuckEngine, "arrays", watched)
    table = visits(13, "all far apart")
    narrow = ts.Private(table).table(unit="who").per_unit(max_groups=2, max_rows_per_group=4).derive(made=made)
    rows = [row | {"made": meant(row)} for row in table.to_pylist()]
    for columns in (["made"], ["made", "where"], ["where", "made"]):
        plan = narrow.group_by(*columns, keys=ts.private_keys(delta=1e-6)).agg(n=ts.count()).plan(rho=1)
        exact, tried = sorted_or_not(monkeypatch, plan)
        assert tried == [True]
        agrees(plan, exact, rows)
    assert kinds == {np.dtype(np.int64)}


@pytest.mark.parametrize("adds", [-5, 10**9])
def test_a_part_that_adds_what_is_not_paid_for_adds_no_less_than_nothing_and_no_more_than_its_peak(
    adds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = questions(visits(14, "side by side"))[0]
    right = run.integers(plan).numbers[Rows()]
    monkeypatch.setattr(Rows, "counted", lambda part, values, rows, most: np.full(len(rows), adds))
    wrong = run.integers(plan).numbers[Rows()]
    assert wrong.min() >= 0
    assert wrong.max() <= 12 * Rows().peak(plan.query.caps)  # there are twelve people
    assert wrong.shape == right.shape
