"""Spark data are recognised under every name: after USE, as files, as a temporary view and as a data frame."""

from __future__ import annotations

import contextlib
import datetime
import importlib.util
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tallystick as ts
from sweeps import share
from tallystick.errors import Refused, TallystickError, Unavailable
from tallystick.ledger import Ledger
from tallystick.publish.datasets import identified
from tallystick.tables import identity
from tallystick.tables.engines import spark_local, spark_plan
from tallystick.tables.reader import Reader, open_engine
from tallystick.tables.sources import source_of
from unit.tables.spark_sessions import shared_session

if importlib.util.find_spec("pyspark") is None:
    pytest.skip("pyspark is not installed", allow_module_level=True)

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("identity")


@pytest.fixture(scope="module")
def spark(folder: Path) -> Iterator[Any]:
    found = shared_session()
    found.catalog.dropTempView("visits")  # other tests of this session leave one behind
    found.sql("CREATE DATABASE clinic")
    found.range(3).toDF("who").write.saveAsTable("clinic.visits")
    found.range(4).toDF("who").write.saveAsTable("default.visits")
    found.range(5).toDF("who").write.parquet(str(folder / "files"))
    found.sql("CREATE VIEW clinic.seen AS SELECT who FROM clinic.visits WHERE who IN (SELECT who FROM default.visits)")
    yield found
    found.sql("DROP DATABASE clinic CASCADE")
    found.sql("DROP TABLE default.visits")


@pytest.fixture(autouse=True)
def default_database(spark: Any) -> Iterator[None]:
    yield
    spark.sql("USE default")


def asked(source: Any, table: str) -> identity.Identity:
    """The identity of a table or a data frame."""
    with open_engine(source_of(source)) as engine:
        return engine.identify(table)


def test_a_table_is_the_same_after_use_in_any_case_and_with_its_catalogue(spark: Any) -> None:
    here = asked(spark, "clinic.visits")
    other = asked(spark, "visits")
    assert "spark spark_catalog.clinic.visits" in here.marks
    assert here.marks.isdisjoint(other.marks)
    assert (here.name, other.name) == ("spark clinic.visits", "spark visits")
    assert here.plain
    spark.sql("USE clinic")
    for name in ("visits", "clinic.VISITS", "spark_catalog.clinic.visits"):
        assert asked(spark, name) == here
    assert asked(spark, "default.visits") == other
    assert asked(spark.table("clinic.visits"), "table") == here


def test_files_and_new_files_are_the_table_that_stores_them(spark: Any, folder: Path) -> None:
    """Files that are written after the registration have other names and other inodes."""
    spark.sql(f"CREATE TABLE outside USING parquet LOCATION '{folder / 'files'}'")
    before = asked(spark, "outside").marks
    spark.sql("DROP TABLE outside")
    assert f"file {os.path.realpath(folder / 'files')}" in before
    [part, *_] = sorted((folder / "files").glob("part-*.parquet"))
    assert f"file {os.path.realpath(part)}" in before
    os.link(part, folder / "hard.parquet")
    spark.range(5).toDF("who").coalesce(1).write.mode("append").parquet(str(folder / "files"))
    [new] = [path for path in (folder / "files").glob("part-*.parquet") if f"file {path}" not in before]
    for path in (folder / "files", part, folder / "hard.parquet", new):
        spark.sql(f"CREATE TABLE again (who BIGINT) USING parquet LOCATION '{path}'")
        again = asked(spark, "again")
        spark.sql("DROP TABLE again")
        assert not again.marks.isdisjoint(before), path
    assert asked(spark, "visits").marks.isdisjoint(before)


def test_views_and_frames_that_read_files_are_unknown(spark: Any, folder: Path) -> None:
    spark.table("clinic.visits").filter("who > 1").createOrReplaceTempView("some")
    spark.sql("SELECT * FROM some WHERE EXISTS (SELECT 1 FROM default.visits)").createOrReplaceGlobalTempView("all")
    spark.sql("SELECT 1 AS who WHERE EXISTS (SELECT 1 FROM visits)").createOrReplaceTempView("inside")
    common = "WITH c AS (SELECT who FROM clinic.visits) SELECT a.who FROM c a JOIN c b USING (who)"
    spark.sql(common).createOrReplaceTempView("c")
    found = {name: asked(spark, name) for name in ("some", "global_temp.all", "inside", "c", "clinic.seen")}
    found["frame"] = asked(spark.read.parquet(f"{folder}/files"), "table")
    found["join"] = asked(spark.table("clinic.visits").join(spark.range(3).toDF("who"), "who"), "table")
    for name, own in found.items():
        assert (own.marks, own.near, own.plain) == (frozenset(), {identity.UNKNOWN}, False), name
    assert found["clinic.seen"].name == "spark clinic.seen"


def test_rows_in_memory_have_no_mark_and_other_sources_are_unknown(spark: Any, folder: Path) -> None:
    spark._jvm.java.lang.System.setProperty("derby.system.home", str(folder))  # Derby writes its log there
    for frame in (spark.range(3), spark.createDataFrame([(1,)], "who int"), spark.sql("SELECT 1 AS who")):
        own = asked(frame, "table")
        assert (own.marks, own.near, own.plain) == (frozenset(), frozenset(), True)
    options = {"url": "jdbc:derby:memory:identity;create=true", "dbtable": "SYS.SYSSCHEMAS"}
    remote = spark.read.format("jdbc").options(**options).load()
    for frame in (spark.sql("SHOW TABLES"), remote, remote.crossJoin(spark.table("clinic.visits"))):
        own = asked(frame, "table")
        assert (own.near, own.plain) == ({identity.UNKNOWN}, False)


def test_files_of_the_second_reader_of_spark_are_not_recognised(spark: Any, folder: Path) -> None:
    before = spark.conf.get("spark.sql.sources.useV1SourceList")
    spark.conf.set("spark.sql.sources.useV1SourceList", "")
    try:
        second = spark.read.parquet(f"{folder}/files")
        assert "RelationV2" in str(second._jdf.queryExecution().analyzed())
        assert identity.UNKNOWN in asked(second, "table").near
    finally:
        spark.conf.set("spark.sql.sources.useV1SourceList", before)


def test_a_path_with_awkward_letters_is_the_path_of_its_files(spark: Any, folder: Path) -> None:
    place = folder / "a b%20c"
    spark.range(2).write.parquet(str(place))
    spark.sql(f"CREATE TABLE awkward USING parquet LOCATION '{place}'")
    marks = asked(spark, "awkward").marks
    spark.sql("DROP TABLE awkward")
    assert f"file {os.path.realpath(place)}" in marks
    [part, *_] = sorted(place.glob("part-*.parquet"))
    assert f"file {os.path.realpath(part)}" in marks


def test_what_was_identified_is_what_is_read(spark: Any) -> None:
    """Another session may replace a view or a table between the identification and the reading."""
    spark.range(7).toDF("who").createOrReplaceTempView("mine")
    spark.range(7).toDF("who").write.saveAsTable("mine_too")
    with open_engine(source_of(spark)) as engine:
        schema = engine.schema("mine")
        found = engine.identify("mine"), engine.identify("mine_too")
        spark.table("clinic.visits").createOrReplaceTempView("mine")
        spark.sql("DROP TABLE mine_too")
        spark.range(2).toDF("who").write.saveAsTable("mine_too")
        counted = engine.words.render(engine.stored("mine", schema))
        assert engine.collect(f"SELECT COUNT(*) FROM ({counted})") == [[7]]
        assert (engine.identify("mine"), engine.identify("mine_too")) == found
        counted = engine.words.render(engine.stored("mine_too", schema))
        assert engine.collect(f"SELECT COUNT(*) FROM ({counted})") == [[7]]  # files are read as they were opened
    spark.sql("DROP TABLE mine_too")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """A ledger with one registered file, which no source of these tests names."""
    (tmp_path / "registered.csv").write_text("who\n1\n2\n3\n")
    with Ledger(tmp_path / "budget.db") as found:
        owner = found.open("owner", budget=ts.zcdp(rho=1), unit="who")
        owner.register("registered", source=str(tmp_path / "registered.csv"))
        yield found


def recognised(ledger: Ledger, own: identity.Identity) -> identity.Recognised:
    """What the ledger knows of one table."""
    [found] = identity.recognise(ledger, [own])
    return found


def is_refused(ledger: Ledger, source: Any, table: str = "table") -> bool:
    """True if a release from this source is refused because of the registered file."""
    try:
        found = recognised(ledger, asked(source, table))
    except Refused:
        return True
    assert found.names == ()
    return False


def test_a_link_that_changes_after_the_identification_gives_no_answer(
    spark: Any, ledger: Ledger, tmp_path: Path
) -> None:
    link = tmp_path / "link.csv"
    (tmp_path / "own.csv").write_text("who\n7\n8\n9\n")
    link.symlink_to("own.csv")
    frame = spark.read.csv(str(link), header=True, schema="who int")
    account = ledger.open("analyst", budget=ts.zcdp(rho=1), unit="who")
    table = ts.Private(frame, account=account).table(unit="who")
    plan = table.per_unit(max_groups=1, max_rows_per_group=1).agg(n=ts.count()).plan(rho=0.1)
    link.unlink()
    link.symlink_to("registered.csv")
    with pytest.raises(Refused):
        plan.release(why="test")
    link.unlink()
    link.symlink_to("own.csv")
    with pytest.raises(Refused, match="cannot be identified"):
        plan.release(why="test")
    assert account.history() == []


def test_a_local_path_is_refused_beside_registered_data_and_a_table_is_not(
    spark: Any, ledger: Ledger, folder: Path
) -> None:
    frame = spark.read.parquet(f"{folder}/files")
    frame.createOrReplaceTempView("over_a_path")
    spark.sql(f"CREATE VIEW shows_a_path AS SELECT * FROM parquet.`{folder}/files`")
    assert is_refused(ledger, frame)
    assert is_refused(ledger, spark, "over_a_path")
    assert is_refused(ledger, spark, "shows_a_path")
    assert not is_refused(ledger, spark, "clinic.visits")
    assert is_refused(ledger, spark.table("clinic.visits").filter("who > 1"))  # it may be read again
    spark.sql("DROP VIEW shows_a_path")


def test_a_local_path_is_allowed_while_nothing_is_registered(spark: Any, folder: Path, tmp_path: Path) -> None:
    with Ledger(tmp_path / "budget.db") as empty:
        assert not is_refused(empty, spark.read.parquet(f"{folder}/files"))


def test_a_table_whose_path_has_a_symbolic_link_is_unknown(spark: Any, ledger: Ledger, tmp_path: Path) -> None:
    spark.range(2).toDF("who").write.parquet(str(tmp_path / "real" / "rows"))
    (tmp_path / "alias").symlink_to(tmp_path / "real")
    (tmp_path / "mixed").mkdir()
    [part, *_] = sorted((tmp_path / "real" / "rows").glob("part-*.parquet"))
    (tmp_path / "mixed" / "linked.parquet").symlink_to(part)
    places = {"direct": "real/rows", "linked_folder": "alias/rows", "linked_file": "mixed"}
    for name, place in places.items():
        spark.sql(f"CREATE TABLE {name} (who BIGINT) USING parquet LOCATION '{tmp_path / place}'")
    refused = {name: is_refused(ledger, spark, name) for name in places}
    for name in places:
        spark.sql(f"DROP TABLE {name}")
    assert refused == {"direct": False, "linked_folder": True, "linked_file": True}


def test_an_rdd_that_reads_elsewhere_is_unknown(spark: Any, ledger: Ledger, folder: Path, tmp_path: Path) -> None:
    from pyspark.sql import DataFrame

    files = spark.read.parquet(f"{folder}/files")
    text = spark.sparkContext.textFile(str(tmp_path / "registered.csv"))
    rows = files._jdf.toJavaRDD()
    lists = spark.createDataFrame([(1,)], "who long")
    frames = {
        "text": spark.read.csv(text, header=True, schema="who int"),
        "rows": files.rdd.toDF("who long"),
        "mapped": spark.createDataFrame(files.rdd.map(tuple), "who long"),
        "union": spark.createDataFrame(lists.rdd.union(files.rdd), "who long"),
        "shuffled": files.repartition(2).rdd.toDF("who long"),
        "lazy checkpoint": files.localCheckpoint(eager=False),
        "Java": DataFrame(spark._jsparkSession.createDataFrame(rows, files._jdf.schema()), spark),
    }
    for name, frame in frames.items():
        assert is_refused(ledger, frame), name


def test_rows_from_python_and_checkpoints_are_in_memory(spark: Any, ledger: Ledger, folder: Path) -> None:
    pandas = pytest.importorskip("pandas")
    listed = spark.createDataFrame([(1,)], "who int")
    frames = {
        "list": listed,
        "empty list": spark.createDataFrame([], "who int"),
        "list as an RDD": listed.rdd.toDF("who int"),
        "parallelized": spark.sparkContext.parallelize([(1,)]).toDF("who int"),
        "union": spark.createDataFrame(listed.rdd.union(listed.rdd), "who int"),
        "checkpoint": spark.read.parquet(f"{folder}/files").localCheckpoint(),
    }
    for arrow in ("false", "true"):
        spark.conf.set("spark.sql.execution.arrow.pyspark.enabled", arrow)
        frames[f"pandas, Arrow {arrow}"] = spark.createDataFrame(pandas.DataFrame({"who": [1, 2]}))
    spark.conf.unset("spark.sql.execution.arrow.pyspark.enabled")
    for name, frame in frames.items():
        own = asked(frame, "table")
        assert own.plain, name
        assert recognised(ledger, own).names == (), name


def test_a_table_of_more_files_than_are_listed_shares_each_of_its_files(
    spark: Any, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its registration keeps the folder alone, but a registered file in the folder is still found."""
    monkeypatch.setattr(spark_plan, "MOST_LISTED", 1)
    (tmp_path / "rows").mkdir()
    for name in ("a.csv", "b.csv", "c.csv"):
        (tmp_path / "rows" / name).write_text("1\n")
    spark.sql(f"CREATE TABLE long_one (who INT) USING csv LOCATION '{tmp_path / 'rows'}'")
    found = asked(spark, "long_one")
    before = is_refused(ledger, spark, "long_one")
    os.link(tmp_path / "registered.csv", tmp_path / "rows" / "d.csv")
    spark.sql("REFRESH TABLE long_one")
    after = is_refused(ledger, spark, "long_one")
    spark.sql("DROP TABLE long_one")
    assert (found.plain, before, after) == (True, False, True)
    folder_marks = spark_plan.place_marks("file", "", str(tmp_path / "rows"))
    lasting = {mark for mark in found.marks if not mark.startswith(identity.DEFINITION)}
    assert lasting == folder_marks | {"spark spark_catalog.default.long_one"}


def registered(ledger: Ledger, spark: Any, table: str) -> None:
    """Register a table of the catalogue, as ``tallystick dataset add`` does."""
    own = asked(spark, table)
    ledger.open("owner").register(table, source=own.name, marks=own.all_marks)


def is_known(ledger: Ledger, spark: Any, table: str) -> bool:
    """True if a table is recognised as registered data, or refused as a part of them."""
    try:
        return bool(recognised(ledger, asked(spark, table)).names)
    except Refused:
        return True


@pytest.mark.parametrize("most", share([1, 1000], 2))
def test_every_file_below_a_registered_folder_is_part_of_its_table(
    spark: Any, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Also files that no registration lists: of long tables, with names of other writers, and new ones."""
    monkeypatch.setattr(spark_plan, "MOST_LISTED", most)
    rows = tmp_path / "rows"
    (rows / "deep").mkdir(parents=True)
    for name in ("a.csv", "b.csv"):
        (rows / name).write_text("1\n")
    spark.sql(f"CREATE TABLE long_one (who INT) USING csv LOCATION '{rows}'")
    registered(ledger, spark, "long_one")
    for name in ("new.csv", "deep/new.csv"):
        (rows / name).write_text("2\n")
    places = {
        "one_file": f"LOCATION '{rows / 'a.csv'}'",
        "new_file": f"LOCATION '{rows / 'new.csv'}'",
        "deep_file": f"LOCATION '{rows / 'deep'}'",
        "from_above": f"OPTIONS (recursiveFileLookup 'true', pathGlobFilter 'new*') LOCATION '{tmp_path}'",
    }
    known = {}
    for name, place in places.items():
        spark.sql(f"CREATE TABLE {name} (who INT) USING csv {place}")
        known[name] = is_known(ledger, spark, name)
        spark.sql(f"DROP TABLE {name}")
    spark.sql("DROP TABLE long_one")
    assert known == dict.fromkeys(places, True)
    (tmp_path / "beside.csv").write_text("who\n1\n")
    for path, names in {rows / "new.csv": ("long_one",), tmp_path / "beside.csv": ()}.items():
        with Reader(source_of(str(path))) as reader:
            assert recognised(ledger, reader.identity("table")).names == names


@pytest.mark.parametrize("most", share([1, 1000], 2))
def test_a_hard_link_elsewhere_to_a_file_of_a_registered_folder_is_recognised(
    spark: Any, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Also to a file that was written to, or added, after the registration, and to one of a long table."""
    monkeypatch.setattr(spark_plan, "MOST_LISTED", most)
    rows = tmp_path / "rows"
    (rows / "deep").mkdir(parents=True)
    for name in ("a.csv", "b.csv"):
        (rows / name).write_text("who\n1\n")
    spark.sql(f"CREATE TABLE linked_to (who INT) USING csv LOCATION '{rows}'")
    registered(ledger, spark, "linked_to")
    with open(rows / "a.csv", "a") as file:
        file.write("2\n")
    for name in ("new.csv", "deep/new.csv"):
        (rows / name).write_text("who\n3\n")
    known = {}
    for number, name in enumerate(("a.csv", "b.csv", "new.csv", "deep/new.csv")):
        place = tmp_path / str(number)
        place.mkdir()
        os.link(rows / name, place / "mine.csv")
        spark.sql(f"CREATE TABLE over_a_link (who INT) USING csv LOCATION '{place}'")
        known[name, "Spark"] = is_known(ledger, spark, "over_a_link")
        spark.sql("DROP TABLE over_a_link")
        with Reader(source_of(str(place / "mine.csv"))) as reader:
            known[name, "file"] = recognised(ledger, reader.identity("table")).names == ("linked_to",)
    spark.sql("DROP TABLE linked_to")
    assert known == dict.fromkeys(known, True)


def test_a_partition_that_is_added_after_the_identification_is_not_read(spark: Any, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE grows (who INT, year INT) USING parquet PARTITIONED BY (year)")
    spark.sql("INSERT INTO grows PARTITION (year = 1) VALUES (1)")
    spark.range(5).selectExpr("CAST(id AS INT) AS who").write.parquet(str(tmp_path / "other"))
    spark.sql("CREATE VIEW over_grows AS SELECT who FROM grows")
    inside = spark.sql("SELECT who FROM visits WHERE who IN (SELECT who FROM grows)")
    names = ("grows", "over_grows")
    with open_engine(source_of(spark)) as engine:
        found = [engine.identify(name) for name in names]
        spark.sql(f"ALTER TABLE grows ADD PARTITION (year = 2) LOCATION '{tmp_path / 'other'}'")
        rows = []
        for name in names:
            stored = engine.stored(name, engine.schema(name))
            rows.append(engine.collect(engine.words.render(stored))[0])
    again = asked(spark, "grows")
    hidden = asked(inside, "table")
    spark.sql("DROP VIEW over_grows")
    spark.sql("DROP TABLE grows")
    assert rows == [[1], [1]]
    assert identity.UNKNOWN not in found[0].near
    assert identity.UNKNOWN in again.near  # the folder of the new partition does not have its values in its name
    assert identity.UNKNOWN in hidden.near  # a list inside a subquery is not kept


def test_rows_come_from_files_and_not_from_the_cache_of_spark(spark: Any, tmp_path: Path) -> None:
    """Spark reads the rows that it has in its cache, also after the files of the table were replaced."""
    place = tmp_path / "kept"
    spark.range(30).toDF("who").write.parquet(str(place))
    spark.sql(f"CREATE TABLE kept USING parquet LOCATION '{place}'")
    account = Ledger(tmp_path / "ledger.db").open("clinic", budget=ts.zcdp(rho=9), unit="person")
    try:
        assert spark.table("kept").cache().count() == 30
        for old in place.glob("part-*"):
            old.unlink()
        spark.range(90).toDF("who").write.parquet(str(tmp_path / "newer"))
        for new in (tmp_path / "newer").glob("part-*"):
            new.rename(place / new.name)
        assert spark.table("kept").count() == 30
        table = (
            ts.Private(spark, account=account).table("kept", unit="who").per_unit(max_groups=1, max_rows_per_group=1)
        )
        released = table.agg(n=ts.count()).plan(rho=9).release(why="try")
        assert 80 < released.rows[0]["n"] < 100
    finally:
        spark.sql("UNCACHE TABLE kept")
        spark.sql("DROP TABLE kept")


OVERLOADED = "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme"
LOCAL = "org.apache.hadoop.fs.LocalFileSystem"
PROXY = "org.apache.hadoop.fs.ProxyLocalFileSystem"
"""A class of Hive: the local file system under another scheme."""


@pytest.fixture
def kept_folder(spark: Any, ledger: Ledger, tmp_path: Path) -> Path:
    """The folder of a registered table of three rows."""
    rows = tmp_path / "store" / "rows"
    spark.range(3).toDF("who").write.parquet(str(rows))
    spark.sql(f"CREATE TABLE kept_rows USING parquet LOCATION '{rows}'")
    registered(ledger, spark, "kept_rows")
    spark.sql("DROP TABLE kept_rows")
    return rows


@pytest.mark.parametrize("reader", share(["first", "second"], 2))
def test_a_second_name_by_options_of_a_reader_is_unknown(
    spark: Any, ledger: Ledger, kept_folder: Path, reader: str
) -> None:
    """Options of one reader are settings of Hadoop for that reader alone."""
    mount = {"fs.viewfs.mounttable.clinic.link./own": f"file://{kept_folder.parent}"}
    proxy = {"fs.pfile.impl": PROXY}
    before = spark.conf.get("spark.sql.sources.useV1SourceList")
    if reader == "second":
        spark.conf.set("spark.sql.sources.useV1SourceList", "")
    try:
        frames = {
            "viewfs": spark.read.options(**mount).parquet("viewfs://clinic/own/rows"),
            "pfile": spark.read.options(**proxy).parquet(f"pfile://{kept_folder}"),
        }
        for name, frame in frames.items():
            assert frame.count() == 3, name
            found = asked(frame, "table")
            assert identity.UNKNOWN in found.near, name
            with pytest.raises(Refused):
                recognised(ledger, found)
    finally:
        spark.conf.set("spark.sql.sources.useV1SourceList", before)


def test_a_second_name_of_a_table_of_the_catalogue_is_unknown(spark: Any, ledger: Ledger, kept_folder: Path) -> None:
    option = f"'fs.viewfs.mounttable.ward.link./own' 'file://{kept_folder.parent}'"
    spark.sql(f"CREATE TABLE beside USING parquet OPTIONS ({option}) LOCATION 'viewfs://ward/own/rows'")
    try:
        assert spark.table("beside").count() == 3
        assert is_refused(ledger, spark, "beside")
    finally:
        spark.sql("DROP TABLE beside")


def test_another_class_for_local_files_is_unknown(spark: Any, ledger: Ledger, kept_folder: Path) -> None:
    """Settings of a session are settings of Hadoop. Here a path of the analyst leads to registered files."""
    own = kept_folder.parent.parent / "own"
    settings = {
        "fs.file.impl": OVERLOADED,
        "fs.viewfs.overload.scheme.target.file.impl": LOCAL,
        "fs.viewfs.mounttable.default.name.key": "analyst",
        f"fs.viewfs.mounttable.analyst.link.{own}": f"file://{kept_folder.parent}",
        "fs.file.impl.disable.cache": "true",
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        spark.sql(f"CREATE TABLE beside USING parquet LOCATION 'file://{own}/rows'")
        assert spark.table("beside").count() == 3
        assert is_refused(ledger, spark, "beside")
    finally:
        for name in settings:
            spark.conf.unset(name)
        spark.sql("DROP TABLE IF EXISTS beside")


def test_the_kept_object_and_the_configured_class_are_both_asked(spark: Any, ledger: Ledger, folder: Path) -> None:
    """Hadoop keeps an object per store. Another process makes one of the configured class."""
    place = f"file://{folder}/files"
    spark.sql(f"CREATE TABLE beside USING parquet OPTIONS ('fs.file.impl' '{PROXY}') LOCATION '{place}'")
    spark.sql(f"CREATE TABLE plain USING parquet LOCATION '{place}'")
    try:
        assert not is_refused(ledger, spark, "plain")
        assert is_refused(ledger, spark, "beside")
    finally:
        spark.sql("DROP TABLE beside")
        spark.sql("DROP TABLE plain")


def test_the_object_that_hadoop_keeps_is_asked(spark: Any, ledger: Ledger, kept_folder: Path) -> None:
    """The object was made under settings that are gone."""
    mount = {"fs.viewfs.mounttable.gone.link./own": f"file://{kept_folder.parent}"}
    spark.read.options(**mount).parquet("viewfs://gone/own/rows")
    frame = spark.read.parquet("viewfs://gone/own/rows")
    assert frame.count() == 3
    assert is_refused(ledger, frame)


def test_a_name_of_the_catalogue_does_not_stand_for_unknown_rows(spark: Any, ledger: Ledger, kept_folder: Path) -> None:
    """Another application has another catalogue: there the name of one dataset can lead to the rows of another."""
    registered(ledger, spark, "visits")
    assert recognised(ledger, asked(spark, "visits")).names == ("visits",)
    spark.sql("ALTER TABLE visits RENAME TO away")
    option = f"'fs.viewfs.mounttable.else.link./own' 'file://{kept_folder.parent}'"
    spark.sql(f"CREATE TABLE visits USING parquet OPTIONS ({option}) LOCATION 'viewfs://else/own/rows'")
    try:
        with pytest.raises(Refused, match="may read its rows from another place"):
            recognised(ledger, asked(spark, "visits"))
    finally:
        spark.sql("DROP TABLE visits")
        spark.sql("ALTER TABLE away RENAME TO visits")


def test_cached_rows_of_another_place_are_not_the_dataset_of_that_name(
    spark: Any, ledger: Ledger, tmp_path: Path
) -> None:
    registered(ledger, spark, "visits")
    spark.table("visits").cache().count()
    assert recognised(ledger, asked(spark, "visits")).names == ("visits",)
    spark.sql("UNCACHE TABLE visits")
    spark.sql("ALTER TABLE visits RENAME TO away")
    spark.range(2).toDF("who").write.parquet(str(tmp_path / "own"))
    spark.sql(f"CREATE TABLE visits USING parquet LOCATION '{tmp_path / 'own'}'")
    spark.table("visits").cache().count()
    try:
        with pytest.raises(Refused, match="leads to another table"):
            recognised(ledger, asked(spark, "visits"))
    finally:
        spark.sql("DROP TABLE visits")
        spark.sql("ALTER TABLE away RENAME TO visits")


def account_with(ledger: Ledger, spark: Any, table: str, unit: str, least: float) -> Any:
    """An account for whose population a table of Spark is registered."""
    account = ledger.open("clinic", budget=ts.zcdp(rho=9, delta=1e-6), unit="person")
    own = identified(ts.Private(spark).table(table, unit=unit))
    fixed = {"unit": unit, "adjacency": "add_remove"}
    account.register(table, source=own.name, fixed=fixed, least_price=ts.zcdp(rho=least), marks=own.all_marks)
    return account


def test_a_view_under_a_registered_name_does_not_borrow_the_registration(spark: Any, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE paid (who BIGINT, pay BIGINT) USING parquet")
    spark.sql("CREATE TABLE cared (who BIGINT) USING parquet")
    ledger = Ledger(tmp_path / "ledger.db")
    account_with(ledger, spark, "paid", "pay", 1.0)
    account = account_with(ledger, spark, "cared", "who", 0.01)

    def ask(session: Any) -> Any:
        table = ts.Private(session, account=account).table("cared", unit="who")
        return table.per_unit(max_groups=1, max_rows_per_group=1).agg(n=ts.count()).plan(rho=0.02).release(why="try")

    assert ask(spark).receipt is not None
    for rows in ("SELECT monotonically_increasing_id() AS who FROM cared", "SELECT who FROM paid"):
        mine = spark.newSession()
        mine.sql(f"CREATE TEMPORARY VIEW cared AS {rows.replace('FROM ', 'FROM spark_catalog.default.')}")
        with pytest.raises(Refused, match="this name is registered as dataset"):
            ask(mine)
    spark.sql("ALTER TABLE cared RENAME TO moved")
    spark.sql("CREATE VIEW cared AS SELECT monotonically_increasing_id() AS who FROM moved")
    with pytest.raises(Refused):
        ask(spark)
    for kind, name in (("VIEW", "cared"), ("TABLE", "moved"), ("TABLE", "paid")):
        spark.sql(f"DROP {kind} {name}")


def test_files_that_are_not_parquet_are_refused_before_the_charge(spark: Any, tmp_path: Path) -> None:
    account = Ledger(tmp_path / "ledger.db").open("clinic", budget=ts.zcdp(rho=9), unit="person")

    def ask(table: str) -> Any:
        asked_of = ts.Private(spark, account=account).table(table, unit="who")
        return asked_of.per_unit(max_groups=1, max_rows_per_group=1).agg(n=ts.count()).plan(rho=0.1).release(why="try")

    for kind in ("csv", "json", "orc"):
        spark.sql(f"CREATE TABLE texts (who BIGINT) USING {kind}")
        with pytest.raises(Refused, match="Write the table as Parquet"):
            ask("texts")
        spark.sql("DROP TABLE texts")
    assert account.used.a0 == 0


def test_another_definition_over_registered_files_is_not_the_registered_table(
    spark: Any, folder: Path, tmp_path: Path
) -> None:
    place = folder / "defined"
    spark.range(9).selectExpr("id AS who", "id AS cost").write.option("path", str(place)).saveAsTable("defined")
    account = account_with(Ledger(tmp_path / "ledger.db"), spark, "defined", "who", 0.01)

    def ask(given: Any, table: str) -> Any:
        asked_of = ts.Private(given, account=account).table(table, unit="who")
        return asked_of.per_unit(max_groups=1, max_rows_per_group=1).agg(n=ts.count()).plan(rho=0.02).release(why="try")

    assert ask(spark, "defined").receipt is not None
    spark.sql(f"CREATE TABLE second (cost BIGINT, who BIGINT) USING parquet LOCATION '{place}'")
    with pytest.raises(Refused, match="under another name"):
        ask(spark, "second")
    spark.sql(f"CREATE TABLE narrow (who INT) USING parquet LOCATION '{place}'")
    with pytest.raises(Refused, match="under another name"):
        ask(spark, "narrow")
    with pytest.raises(Refused):
        ask(spark.newSession().read.option("mergeSchema", "true").table("defined"), "table")
    spark.sql("ALTER TABLE defined ADD COLUMN more BIGINT")
    with pytest.raises(Refused, match="register it again"):
        ask(spark, "defined")
    for name in ("second", "narrow", "defined"):
        spark.sql(f"DROP TABLE {name}")


def test_an_old_day_fails_no_release_whatever_options_and_settings_say(
    spark: Any, folder: Path, tmp_path: Path
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    (folder / "days").mkdir()
    days = pa.table({"who": [1, 2], "day": [datetime.date(1500, 1, 1), datetime.date(2024, 1, 1)]})
    pq.write_table(days, folder / "days" / "part-0.parquet")  # most Parquet files are not written by Spark
    spark.sql(f"CREATE TABLE days (who BIGINT, day DATE) USING parquet LOCATION '{folder / 'days'}'")
    account = Ledger(tmp_path / "ledger.db").open("clinic", budget=ts.zcdp(rho=9), unit="person")
    strict = spark.newSession().read.option("datetimeRebaseMode", "EXCEPTION").table("days")

    def changed(stage: str) -> None:
        strict.sparkSession.conf.set("spark.sql.parquet.datetimeRebaseModeInRead", "EXCEPTION")

    table = (
        ts.Private(strict, account=account).table("table", unit="who").filter(ts.col("day") > datetime.date(1, 1, 2))
    )
    plan = table.per_unit(max_groups=1, max_rows_per_group=1).agg(n=ts.count()).plan(rho=0.5)
    assert plan.release(why="try", progress=changed).receipt is not None
    spark.sql("DROP TABLE days")


def people_counted(account: Any, spark: Any, table: str) -> int:
    """How many persons a release counts, nearly without noise."""
    asked_of = ts.Private(spark, account=account).table(table, unit="who")
    counted = asked_of.per_unit(max_groups=1, max_rows_per_group=1).agg(n=ts.count())
    return int(counted.plan(rho=1000).release(why="try").data["n"][0])


def test_declared_buckets_do_not_part_the_rows_of_a_person(spark: Any, folder: Path, tmp_path: Path) -> None:
    place = folder / "bucketed"
    rows = spark.range(64).selectExpr("0L AS who", "id AS ward")
    rows.write.bucketBy(8, "ward").option("path", str(place)).saveAsTable("bucketed")
    account = Ledger(tmp_path / "ledger.db").open("clinic", budget=ts.zcdp(rho=9000), unit="person")
    assert people_counted(account, spark, "bucketed") == 1
    spark.sql("DROP TABLE bucketed")
    columns = "who BIGINT, ward BIGINT"
    buckets = "CLUSTERED BY (who) INTO 8 BUCKETS"
    spark.sql(f"CREATE TABLE bucketed ({columns}) USING parquet {buckets} LOCATION '{place}'")
    spark.conf.set("spark.sql.sources.bucketing.autoBucketedScan.enabled", "false")
    try:
        assert people_counted(account, spark, "bucketed") == 1
        spark.table("bucketed").localCheckpoint().hint("broadcast").createOrReplaceTempView("checkpoint")
        assert people_counted(account, spark, "checkpoint") == 1
    finally:
        spark.conf.unset("spark.sql.sources.bucketing.autoBucketedScan.enabled")
        spark.catalog.dropTempView("checkpoint")
        spark.sql("DROP TABLE bucketed")


def test_a_registered_file_is_not_a_table_of_spark(spark: Any, tmp_path: Path) -> None:
    """A table could read the file many times, or call its rows by names of folders."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"who": [7] * 9, "cost": [1] * 9}), tmp_path / "visits.parquet")
    ledger = Ledger(tmp_path / "ledger.db")
    account = ledger.open("clinic", budget=ts.zcdp(rho=9000), unit="person")
    account.register(
        "a file", source=str(tmp_path / "visits.parquet"), fixed={"unit": "who", "adjacency": "add_remove"}
    )
    for number in range(2):
        (tmp_path / "parts" / f"who={number}").mkdir(parents=True)
        os.link(tmp_path / "visits.parquet", tmp_path / "parts" / f"who={number}" / "a.parquet")
    pq.write_table(pa.table({"who": [1, 2]}), tmp_path / "parts" / "other.parquet")
    (tmp_path / "once").mkdir()
    os.link(tmp_path / "visits.parquet", tmp_path / "once" / "a.parquet")
    (tmp_path / "twice").mkdir()
    for name in ("a", "b"):
        os.link(tmp_path / "parts" / "other.parquet", tmp_path / "twice" / f"{name}.parquet")
    tables = {
        "direct": (f"LOCATION '{tmp_path / 'visits.parquet'}'", "under another name"),
        "once": (f"LOCATION '{tmp_path / 'once'}'", "under another name"),
        "parts": (f"PARTITIONED BY (who) LOCATION '{tmp_path / 'parts'}'", "one file twice"),
        "twice": (f"LOCATION '{tmp_path / 'twice'}'", "one file twice"),
    }
    try:
        for name, (place, reason) in tables.items():
            spark.sql(f"CREATE TABLE {name} (cost BIGINT, who BIGINT) USING parquet {place}")
            if name == "parts":
                spark.sql("MSCK REPAIR TABLE parts")
            with pytest.raises(Refused, match=reason):
                people_counted(account, spark, name)
    finally:
        for name in tables:
            spark.sql(f"DROP TABLE IF EXISTS {name}")
    assert account.history() == []


def test_columns_that_differ_only_by_case_are_refused(spark: Any) -> None:
    frame = spark.createDataFrame([(1, 2)], "who long, other long").toDF("who", "WHO")
    with pytest.raises(Refused, match="only by case"):
        ts.Private(frame).table(unit="who")


def test_what_spark_would_not_read_is_refused_with_what_to_do(spark: Any, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    account = Ledger(tmp_path / "ledger.db").open("clinic", budget=ts.zcdp(rho=9000), unit="person")
    for place, rows in {"who=1": 1, "who=1/deep": 2}.items():
        (tmp_path / "nest" / place).mkdir(parents=True)
        pq.write_table(pa.table({"cost": [1] * rows}), tmp_path / "nest" / place / "a.parquet")
    (tmp_path / "mixed").mkdir()
    moments = pa.array([datetime.datetime(2020, 1, 1)] * 9, pa.timestamp("ns"))
    for number, codec in enumerate(("snappy", "zstd")):
        rows = pa.table({"who": range(9 * number, 9 * number + 9), "at": moments})
        pq.write_table(rows, tmp_path / "mixed" / f"{number}.parquet", compression=codec)
    nested = f"USING parquet PARTITIONED BY (who) LOCATION '{tmp_path / 'nest'}'"
    mixed = f"USING parquet LOCATION '{tmp_path / 'mixed'}'"
    tables = {
        f"(cost BIGINT, who BIGINT) {nested}": "folders inside it",
        "(who BIGINT, code CHAR(5)) USING parquet": r"CHAR\(n\)",
        f"(who BIGINT, at TIMESTAMP) {mixed}": "microseconds",
    }
    for table, reason in tables.items():
        spark.sql(f"CREATE TABLE odd {table}")
        if "PARTITIONED" in table:
            spark.sql("MSCK REPAIR TABLE odd")
        try:
            with pytest.raises(Refused, match=reason):
                people_counted(account, spark, "odd")
        finally:
            spark.sql("DROP TABLE odd")
    assert account.history() == []
    spark.sql(f"CREATE TABLE odd (who BIGINT) {mixed}")  # a column that is not declared is not read
    try:
        assert people_counted(account, spark, "odd") == 18
        pq.write_table(pa.table({"who": [99]}), tmp_path / "mixed" / "last.parquet", compression="brotli")
        spark.sql("REFRESH TABLE odd")
        with pytest.raises(Refused, match="codec"):
            people_counted(account, spark, "odd")
    finally:
        spark.sql("DROP TABLE odd")
    assert len(account.history()) == 1


def test_a_folder_has_the_values_in_its_name(spark: Any, folder: Path, tmp_path: Path) -> None:
    place = folder / "parted"
    made = "CREATE TABLE parted (cost BIGINT, who BIGINT, day DATE, kind STRING) USING parquet"
    spark.sql(f"{made} PARTITIONED BY (who, day, kind) LOCATION '{place}'")
    spark.sql("INSERT INTO parted SELECT id, 7, DATE'2024-02-03', 'a/b=c %' FROM range(9)")
    spark.sql("INSERT INTO parted VALUES (1, NULL, DATE'2024-02-03', NULL)")
    assert identity.UNKNOWN not in asked(spark, "parted").near
    account = account_with(Ledger(tmp_path / "ledger.db"), spark, "parted", "who", 0.01)
    [folder_of_7] = place.glob("who=7/*/*")
    spark.sql(f"ALTER TABLE parted ADD PARTITION (who=8, day='2024-02-03', kind='a') LOCATION '{folder_of_7}'")
    assert identity.UNKNOWN in asked(spark, "parted").near
    with pytest.raises(Refused):
        people_counted(account, spark, "parted")
    spark.sql("DROP TABLE parted")


def test_a_declared_size_is_not_believed(spark: Any) -> None:
    spark.sql("CREATE TABLE sized USING parquet AS SELECT id AS who FROM range(1000)")
    spark.sql("ANALYZE TABLE sized COMPUTE STATISTICS")
    with open_engine(source_of(spark)) as engine:
        engine.stored("sized", engine.schema("sized"))
        [size] = engine.sizes.values()  # type: ignore[attr-defined]
        [frame] = engine.kept.values()  # type: ignore[attr-defined]
        leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    spark.sql("DROP TABLE sized")
    assert size > 0
    assert leaves.apply(0).catalogTable().isEmpty()


def test_a_constant_is_not_replaced_by_a_setting(spark: Any, tmp_path: Path) -> None:
    account = Ledger(tmp_path / "ledger.db").open("clinic", budget=ts.zcdp(rho=9000), unit="person")
    spark.sql("CREATE TABLE worded USING parquet AS SELECT id AS who, 'a' AS ward FROM range(9)")
    spark._jvm.java.lang.System.setProperty("injected", "a' OR 'b' = 'b")
    try:
        asked_of = ts.Private(spark, account=account).table("worded", unit="who")
        rows = asked_of.filter(ts.col("ward") == "${system:injected}").per_unit(max_groups=1, max_rows_per_group=1)
        counted = rows.agg(n=ts.count()).plan(rho=1000).release(why="try")
    finally:
        spark._jvm.java.lang.System.clearProperty("injected")
        spark.sql("DROP TABLE worded")
    assert counted.data["n"] == [0]


def test_settings_of_the_users_session_do_not_reach_the_reader(spark: Any, tmp_path: Path) -> None:
    account = Ledger(tmp_path / "ledger.db").open("clinic", budget=ts.zcdp(rho=9000), unit="person")
    spark.sql("CREATE TABLE held USING parquet AS SELECT id AS who FROM range(9)")
    settings = {"spark.sql.parquet.columnarReaderBatchSize": "2147483647", "spark.sql.ansi.enabled": "true"}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        assert people_counted(account, spark, "held") == 9
        with open_engine(source_of(spark)) as engine:
            kept = engine.session.conf  # type: ignore[attr-defined]
            assert kept.get("spark.sql.parquet.columnarReaderBatchSize") == "4096"
            assert kept.get("spark.sql.parquet.enableVectorizedReader") == "false"
    finally:
        for name in settings:
            spark.conf.unset(name)
    spark.sql("DROP TABLE held")


def test_a_view_is_not_registered_and_does_not_fail_by_its_settings(spark: Any, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE coded USING parquet AS SELECT id AS who, 'x' AS code FROM range(9)")
    spark.sql("CREATE VIEW cast_codes AS SELECT who, CAST(code AS INT) AS code FROM coded")
    account = Ledger(tmp_path / "ledger.db").open("clinic", budget=ts.zcdp(rho=9000), unit="person")
    spark.conf.set("spark.sql.ansi.enabled", "true")
    spark.conf.set("spark.sql.legacy.useCurrentConfigsForView", "true")
    try:
        assert people_counted(account, spark, "cast_codes") == 9
        with pytest.raises(Refused, match="cannot be registered"):
            identified(ts.Private(spark).table("cast_codes", unit="who"))
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
        spark.conf.unset("spark.sql.legacy.useCurrentConfigsForView")
        spark.sql("DROP VIEW cast_codes")
        spark.sql("DROP TABLE coded")


def test_a_local_file_that_is_exchanged_before_spark_reads_it_is_not_read(spark: Any, tmp_path: Path) -> None:
    """The link is made when progress is first reported: after the identification, and before the rows are read."""
    spark.sql("CREATE TABLE theirs USING parquet AS SELECT id AS who FROM range(1000)")
    ledger = Ledger(tmp_path / "ledger.db")
    account_with(ledger, spark, "theirs", "who", 5.0)
    spark.range(10).toDF("who").coalesce(1).write.parquet(str(tmp_path / "own"))
    spark.sql(f"CREATE TABLE own (who BIGINT) USING parquet LOCATION '{tmp_path / 'own'}'")
    account = ledger.open("own", budget=ts.zcdp(rho=9000), unit="person")
    [mine] = (tmp_path / "own").glob("part-*.parquet")
    theirs = Path(spark.table("theirs").inputFiles()[0].removeprefix("file://"))

    def exchange(_: str) -> None:
        if not mine.is_symlink():
            mine.unlink()
            mine.symlink_to(theirs)

    asked_of = ts.Private(spark, account=account).table("own", unit="who")
    counted = asked_of.per_unit(max_groups=1, max_rows_per_group=1).agg(n=ts.count()).plan(rho=1000)
    made = counted.release(why="try", progress=exchange)
    spark.sql("DROP TABLE own")
    spark.sql("DROP TABLE theirs")
    assert mine.is_symlink()
    assert made.data["n"] == [10]


def test_an_option_does_not_lead_a_table_elsewhere(spark: Any, folder: Path) -> None:
    options = {"Path": f"{folder}/files", "datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED"}
    options |= {"serialization.format": "1"}
    frame = spark.newSession().read.options(**options).table("clinic.visits")
    with open_engine(source_of(frame)) as engine:
        counted = engine.words.render(engine.stored("table", engine.schema("table")))
        read = engine.collect(f"SELECT COUNT(*) FROM ({counted})")
        is_table = engine.identify("table").plain
    assert read == [[3]] or not is_table


def test_a_table_inside_a_subquery_is_not_exchanged_for_registered_rows(spark: Any, tmp_path: Path) -> None:
    """Its files would be opened when Spark reads them, so beside registered data such a frame is refused."""
    spark.sql("CREATE TABLE their_rows USING parquet AS SELECT id AS who FROM range(1000)")
    ledger = Ledger(tmp_path / "ledger.db")
    account_with(ledger, spark, "their_rows", "who", 5.0)
    spark.sql(f"CREATE TABLE own_rows USING parquet LOCATION '{tmp_path / 'own'}' AS SELECT id AS who FROM range(2000)")
    spark.sql("CREATE TABLE none_yet (who BIGINT) USING parquet")
    frames = {
        "subquery": spark.sql("SELECT id AS who FROM range(9) WHERE id IN (SELECT who FROM own_rows)"),
        "filter": spark.table("own_rows").filter("who > 1"),
        "files": spark.read.parquet(str(tmp_path / "own")),
    }
    frames["subquery"].createOrReplaceTempView("over_own")
    for name, frame in frames.items():
        assert is_refused(ledger, frame), name
    assert is_refused(ledger, spark, "over_own")
    assert not is_refused(ledger, spark.table("own_rows"))
    empty = spark.table("none_yet")
    with open_engine(source_of(empty)) as engine:
        engine.identify("table")
        stored = engine.stored("table", engine.schema("table"))
        spark.sql("INSERT INTO none_yet VALUES (1)")
        spark.sql("REFRESH TABLE none_yet")
        assert engine.collect(engine.words.render(stored)) == [[]]
    spark.catalog.dropTempView("over_own")
    for name in ("their_rows", "own_rows", "none_yet"):
        spark.sql(f"DROP TABLE {name}")


def test_the_marks_of_a_file_are_those_of_the_file_that_was_opened(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link that is there while the file is opened, and gone when its path is looked at."""
    spark.range(1000).toDF("who").coalesce(1).write.parquet(str(tmp_path / "theirs"))
    spark.range(2000).toDF("who").coalesce(1).write.parquet(str(tmp_path / "own"))
    spark.sql(f"CREATE TABLE swapped (who BIGINT) USING parquet LOCATION '{tmp_path / 'own'}'")
    [mine], [theirs] = ((tmp_path / name).glob("part-*.parquet") for name in ("own", "theirs"))
    kept = spark_local.LocalFiles._keep

    def keep(self: Any, path: str, *others: Any) -> None:
        mine.rename(tmp_path / "aside")
        mine.symlink_to(theirs)
        kept(self, path, *others)
        mine.unlink()
        (tmp_path / "aside").rename(mine)

    monkeypatch.setattr(spark_local.LocalFiles, "_keep", keep)
    found = asked(spark, "swapped")
    spark.sql("DROP TABLE swapped")
    assert f"file {tmp_path / 'theirs'}" in found.marks | found.near
    assert identity.UNKNOWN in found.near


def test_files_are_read_as_spark_reads_them_or_refused_before_the_charge(spark: Any, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    account = Ledger(tmp_path / "ledger.db").open("clinic", budget=ts.zcdp(rho=9000), unit="person")
    place = tmp_path / "rows"
    place.mkdir()
    pq.write_table(pa.table({"WHO": list(range(9))}), place / "a b%25.parquet")
    pq.write_table(pa.table({"WHO": list(range(100, 103))}), place / "part-1.parquet")
    (place / "_common_metadata").write_bytes(b"not data")
    spark.sql(f"CREATE TABLE cased (who BIGINT) USING parquet LOCATION '{place}'")
    assert people_counted(account, spark, "cased") == 12
    pq.write_table(pa.table({"WHO": pa.array([200], pa.int32())}), place / "part-2.parquet")
    spark.sql("REFRESH TABLE cased")
    with pytest.raises(TallystickError):
        people_counted(account, spark, "cased")
    spark.sql("DROP TABLE cased")
    assert len(account.history()) == 1
    assert account.history()[0].state == "COMMITTED"


def test_nothing_before_the_charge_depends_on_a_row(spark: Any, tmp_path: Path) -> None:
    """An error of a view or data frame is charged, so that it is no free answer. Columns inside others are not read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "deep_times").mkdir()
    far = pa.array([{"at": 1 << 62}, {"at": 0}], pa.struct([("at", pa.timestamp("ms"))]))
    pq.write_table(pa.table({"who": [1, 2], "visit": far}), tmp_path / "deep_times" / "part-0.parquet")
    columns = "who BIGINT, visit STRUCT<at: TIMESTAMP>"
    spark.sql(f"CREATE TABLE deep_times ({columns}) USING parquet LOCATION '{tmp_path / 'deep_times'}'")
    raising = "SELECT IF(who = 2, raise_error('a row'), who) AS who FROM"
    spark.sql(f"CREATE TEMPORARY VIEW a_view AS {raising} deep_times")
    spark.sql(f"CREATE TEMPORARY VIEW of_values AS {raising} VALUES (1L), (2L) AS t(who)")
    ledger = Ledger(tmp_path / "ledger.db")
    try:
        for name, state in {"deep_times": "COMMITTED", "a_view": "CLOSED", "of_values": "CLOSED"}.items():
            account = ledger.open(name, budget=ts.zcdp(rho=9000), unit="person")
            with contextlib.suppress(Unavailable):
                people_counted(account, spark, name)
            assert [charge.state for charge in account.history()] == [state], name
    finally:
        for view in ("a_view", "of_values"):
            spark.catalog.dropTempView(view)
        spark.sql("DROP TABLE deep_times")


def test_a_file_that_spark_cannot_read_is_refused_before_the_charge(spark: Any, tmp_path: Path) -> None:
    """Spark reads a column of local times from no file that says UTC. It reads the smallest file last."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    place = tmp_path / "local times"
    place.mkdir()
    moment = datetime.datetime(2020, 1, 1)
    for number in range(20):
        rows = pa.table({"who": range(99), "at": pa.array([moment] * 99, pa.timestamp("us"))})
        pq.write_table(rows, place / f"{number}.parquet", compression="none")
    odd = pa.table({"who": [1], "at": pa.array([moment], pa.timestamp("us", tz="UTC"))})
    pq.write_table(odd, place / "odd.parquet", use_dictionary=False, store_schema=False)
    spark.sql(f"CREATE TABLE local_times (who BIGINT, at TIMESTAMP_NTZ) USING parquet LOCATION '{place}'")
    account = Ledger(tmp_path / "ledger.db").open("clinic", budget=ts.zcdp(rho=9000), unit="person")
    days = ts.Private(spark, account=account).table("local_times", unit="who")
    rows_of_2020 = days.filter(ts.col("at") > datetime.date(2019, 1, 1)).per_unit(max_groups=1, max_rows_per_group=1)
    plan = rows_of_2020.agg(n=ts.count()).plan(rho=1000)
    with pytest.raises(Refused, match="cannot read a file"):
        plan.release(why="try")
    assert account.history() == []
    (place / "odd.parquet").unlink()
    spark.sql("REFRESH TABLE local_times")
    assert plan.release(why="try").data["n"] == [99]
    spark.sql("DROP TABLE local_times")


def test_snapshots_are_found_below_a_folder_of_any_name(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark reads no rows where it finds no folder. So a folder that it does not find is refused."""
    place = tmp_path / "a b%20[c]{d}é"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    account = Ledger(tmp_path / "ledger.db").open("clinic", budget=ts.zcdp(rho=9000), unit="person")
    assert people_counted(account, spark, "clinic.visits") == 3
    made = spark_local.index_at

    def elsewhere(root: Any, *others: Any) -> Any:
        return made(root.suffix("-not-there"), *others)

    monkeypatch.setattr(spark_local, "index_at", elsewhere)
    with pytest.raises(Refused, match="private copies"):
        people_counted(account, spark, "clinic.visits")
    assert len(account.history()) == 1
