"""Spark runs the same plan and finds the same integers: in this process, and on a master with two workers."""

from __future__ import annotations

import datetime
import importlib.util
import math
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallystick as ts
from sweeps import ALL, campaign_only, share
from tallystick.ledger import Account
from tallystick.tables import run
from tallystick.tables.parts import Rows
from tallystick.tables.plan import Plan
from tallystick.tables.reader import open_engine
from unit.tables import test_functions, test_local
from unit.tables.spark_sessions import session, shared_session
from unit.tables.tables import awkward
from unit.tables.test_each_unit import asked as one_of_each
from unit.tables.test_each_unit import one_row_each
from unit.tables.test_gates import held
from unit.tables.test_rules import agrees

if importlib.util.find_spec("pyspark") is None:
    pytest.skip("pyspark is not installed", allow_module_level=True)

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(scope="module")
def spark() -> Any:
    return shared_session()


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("spark") / "visits.parquet"
    pq.write_table(awkward(400), path)
    return path


def plans(path: Path, account: Account | None = None) -> list[Plan]:
    """Both caps bite, with public and with private keys, every kind of part and step once."""
    visits = ts.Private(path, account=account).table(unit="pid").per_unit(max_groups=2, max_rows_per_group=2)
    private = visits.group_by("ward", "day", "ok", keys=ts.private_keys(delta=1e-6)).agg(
        n=ts.count(), cost=ts.sum("cost", -7, 5000.5), mid=ts.median("days", 0, 15)
    )
    public = visits.group_by("ward", keys=["a", "b'x", "c\\d", "ü;--", "none"]).agg(
        n=ts.count(), people=ts.count_units()
    )
    return [private.plan(rho=1), public.plan(rho=0.1)]


def check(spark: Any, path: Path, asked: list[Plan]) -> None:
    spark.read.parquet(str(path)).createOrReplaceTempView("table")
    for plan in asked:
        moved = plan.on(spark)
        assert moved.hash == plan.hash
        run.preflight(moved)
        agrees(plan, run.integers(moved), pq.read_table(path).to_pylist())


def test_a_data_frame_is_asked_and_lists_keys_and_its_moments_are_days(spark: Any) -> None:
    moment = datetime.datetime(2013, 1, 1, 12, tzinfo=datetime.UTC)
    rows_of = [(1, "a", moment), (2, "b", moment), (3, "a", None)]
    frame = spark.createDataFrame(rows_of, "who long, ward string, at timestamp")
    rows = ts.Private(frame).table(unit="who").per_unit(max_groups=1, max_rows_per_group=1)
    assert rows.schema.type_of("at") == "date"
    keys = spark.createDataFrame([("a",), ("b",)], "ward string")
    plan = rows.filter(ts.col("at") == datetime.date(2013, 1, 1)).group_by("ward", keys=keys).agg(n=ts.count())
    (counts,) = run.integers(plan.plan(rho=1, caps_share=0)).numbers.values()
    assert counts[:, 0].tolist() == [1, 1]


def test_functions_of_extreme_numbers_mean_on_spark_what_they_mean_on_duckdb(spark: Any, tmp_path: Path) -> None:
    values = [1.7e308, -1.7e308, 5e-324, math.nan, math.inf, -0.0, 3.0, None]
    wide = [Decimal(text) for text in ("12345678.123456789012345678901234567890", "-99999999", "3", "0")]
    table = pa.table(
        {
            "u": pa.array(range(64), pa.int64()),
            "c0": pa.array([values[i // 8] for i in range(64)], pa.float64()),
            "c1": pa.array([wide[i % 4] for i in range(64)], pa.decimal128(38, 30)),
        }
    )
    path = tmp_path / "numbers.parquet"
    pq.write_table(table, path)
    spark.read.parquet(str(path)).createOrReplaceTempView("numbers")
    here, there = ts.Private(path).table(unit="u"), ts.Private(spark).table("numbers", unit="u")
    assert held(here, "c0", "c1", 4) == held(there, "c0", "c1", 4)


def test_functions_mean_what_python_says(spark: Any, tmp_path: Path) -> None:
    pq.write_table(test_functions.table(), tmp_path / "functions.parquet")
    spark.read.parquet(str(tmp_path / "functions.parquet")).createOrReplaceTempView("functions")
    test_functions.functions_mean(ts.Private(spark).table("functions", unit="u"))


def test_steps_that_see_all_rows_of_a_unit_make_the_same_rows(spark: Any, tmp_path: Path) -> None:
    """Each is a job of Spark, so ``make test`` runs a few: "many" uses most kinds of steps at once."""
    pair = test_local.hostile()
    for name, rows, kinds in zip(("visits", "cases"), pair, (test_local.VISITS, test_local.CASES), strict=True):
        pq.write_table(pa.Table.from_pylist(rows, pa.schema(kinds)), tmp_path / f"{name}.parquet")
        spark.read.parquet(str(tmp_path / f"{name}.parquet")).createOrReplaceTempView(name)
    source = ts.Private(spark)
    tables = source.table("visits", unit="u"), source.table("cases", unit="who")
    test_local.steps_agree(tables, pair, share(test_local.STEPS, 99, always=["full join also", "totals", "many"]))


def test_a_question_is_rehearsed_once_until_something_of_the_session_is_another(spark: Any, parquet: Path) -> None:
    spark.read.parquet(str(parquet)).createOrReplaceTempView("table")
    moved = plans(parquet)[1].on(spark)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "_rehearsed", {})
        run.preflight(moved)
        assert len(run._rehearsed) == 1
        patch.setattr(run, "_collected", None)
        run.preflight(moved)
    with open_engine(moved.query.table.source) as engine:
        here = engine.like(["table"])
        assert engine.like(["table"]) == here != engine.like(["table", "table"])
        engine.session.conf.set("spark.sql.optimizer.maxIterations", "99")  # type: ignore[attr-defined]
        assert engine.like(["table"]) != here
        engine.show("empty", engine.words.render(engine.stored("table", moved.query.table.base, rows=False)))
        plan_of = engine.session.sql("select c0, count(*) from empty where c0 > 1 group by c0")  # type: ignore[attr-defined]
        assert "LocalTableScan" not in str(plan_of._jdf.queryExecution().executedPlan())
        assert plan_of.collect() == []


def test_a_day_before_15_october_1582_in_a_parquet_file_is_a_day(spark: Any, tmp_path: Path) -> None:
    """By default Spark raises at it, and so tells of it."""
    days = [datetime.date(1582, 10, 10), datetime.date(1, 1, 1), datetime.date(2024, 1, 1)]
    path = tmp_path / "days.parquet"
    pq.write_table(pa.table({"u": [1, 2, 3], "day": days}), path)
    spark.read.parquet(str(path)).createOrReplaceTempView("days")
    table = ts.Private(spark).table("days", unit="u").per_unit(max_groups=1, max_rows_per_group=1)
    plan = table.group_by("day", keys=days).agg(n=ts.count()).plan(rho=1)
    with pytest.MonkeyPatch.context() as patch:
        for most in (3, 0):  # keys that are written into the query, and such as are handed over
            patch.setattr("tallystick.tables.engines.spark._MOST_WRITTEN", most)
            assert [int(n) for n in run.integers(plan).numbers[Rows()][:, 0]] == [1, 1, 1]


def test_texts_whose_bytes_are_not_utf_8_are_missing(spark: Any, tmp_path: Path) -> None:
    """Spark tells them apart, and then hands them out as one."""
    path = tmp_path / "text.parquet"
    held = pa.array([b"a", b"\xff", b"\xfe", "é\ufffd".encode()], pa.binary())
    pq.write_table(pa.table({"u": [1, 2, 3, 4], "g": pa.StringArray.from_buffers(4, *held.buffers()[1:])}), path)
    spark.read.parquet(str(path)).createOrReplaceTempView("text")
    table = ts.Private(spark).table("text", unit="u").per_unit(max_groups=1, max_rows_per_group=1)
    plan = table.group_by("g", keys=ts.private_keys(delta=0.1)).agg(n=ts.count()).plan(rho=1)
    assert sorted(run.integers(plan).keys or ()) == [("a",), ("é\ufffd",)]


def test_sums_of_products_are_the_same_integers_and_a_fit_reads_the_same_rows(spark: Any, parquet: Path) -> None:
    spark.read.parquet(str(parquet)).createOrReplaceTempView("table")
    visits = ts.Private(parquet).table(unit="pid").per_unit(max_rows_per_group=2)
    bounds = {"days": (0, 15), "cost": (-7, 5000.5)}
    plan = ts.linear_regression(visits, target="cost", features=["days"], bounds=bounds).plan(rho=1).plan
    moved = plan.on(spark)
    assert {p: n.tolist() for p, n in run.integers(moved).numbers.items()} == {
        p: n.tolist() for p, n in run.integers(plan).numbers.items()
    }
    with open_engine(plan.query.table.source) as engine:
        here, numbers = run.rows(plan, engine)
    with open_engine(moved.query.table.source) as engine:
        there, others = run.rows(moved, engine)
    assert sorted(zip(here or (), *numbers, strict=True)) == sorted(zip(there or (), *others, strict=True))


def test_one_row_for_each_unit_is_the_same_row(spark: Any, parquet: Path) -> None:
    spark.read.parquet(str(parquet)).createOrReplaceTempView("table")
    plan = one_of_each(ts.Private(parquet).table(unit="pid"))
    moved = plan.on(spark)
    if ALL:
        run.preflight(moved)
    agrees(plan, run.integers(moved), one_row_each(plan, pq.read_table(parquet).to_pylist()))


def test_a_path_is_not_a_second_name_of_a_file(spark: Any, tmp_path: Path) -> None:
    """Spark reads parquet.`/data/people`."""
    pq.write_table(pa.table({"pid": [1]}), tmp_path / "people")
    spark.read.parquet(str(tmp_path / "people")).createOrReplaceGlobalTempView("people")
    assert ts.Private(spark).table("global_temp.people", unit="pid").schema.names == ("pid",)
    for name in ("no such view", f"parquet.{tmp_path / 'people'}"):
        assert "." not in str(tmp_path)
        with pytest.raises(ts.errors.InvalidInput, match="a table or temporary view"):
            ts.Private(spark).table(name, unit="pid")


def test_spark_in_this_process_computes_the_same_integers(spark: Any, parquet: Path) -> None:
    check(spark, parquet, plans(parquet))


def test_an_answer_of_spark_is_stored_and_given_again(spark: Any, parquet: Path, account: Account) -> None:
    spark.read.parquet(str(parquet)).createOrReplaceTempView("table")
    plan = plans(parquet, account)[1].on(spark)
    assert plan.release(why="report", key="k").to_csv() == plan.release(why="report", key="k").to_csv()


@campaign_only
def test_a_master_with_two_workers_computes_the_same_integers(
    parquet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A standalone master and its workers in one process, and an executor of each worker in a process of its own."""
    import pyspark

    home = Path(pyspark.__file__).parent
    monkeypatch.setenv("SPARK_HOME", str(home))
    with session("local-cluster[2,1,1024]", tmp_path) as spark:
        application = spark.sparkContext.applicationId
        try:
            check(spark, parquet, plans(parquet)[1:])
            workers = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1  # the driver is listed too
            assert workers == 2
        finally:
            shutil.rmtree(home / "work" / application, ignore_errors=True)  # workers of this kind write nowhere else


def test_shuffles_have_as_many_partitions_as_tables_are_large() -> None:
    from types import SimpleNamespace

    from tallystick.tables.engines.spark import SparkEngine

    engine, settings = object.__new__(SparkEngine), dict[str, str]()
    conf = SimpleNamespace(set=settings.__setitem__)
    engine.session = SimpleNamespace(conf=conf, sparkContext=SimpleNamespace(defaultParallelism=4))
    found = []
    for most, sizes in ((200, [0]), (200, [1 << 30]), (200, [1 << 30, 1 << 29]), (200, [1 << 63]), (2, [0]), (1, [9])):
        engine.most_partitions, engine.sizes = most, {}
        for i, size in enumerate(sizes):
            engine._partition(f"table{i}", size)
        found.append(int(settings["spark.sql.shuffle.partitions"]))
    assert found == [4, 64, 96, 200, 2, 1]  # never more than the session says, which small clusters rely on
