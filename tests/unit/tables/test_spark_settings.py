"""Settings of a Spark application: those that are not known to be harmless are refused before the charge."""

from __future__ import annotations

import importlib.util
import json
import logging
import resource
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tallystick as ts
from sweeps import share
from tallystick.errors import InvalidInput, Refused, Unavailable
from tallystick.ledger import Ledger
from tallystick.tables.engines import spark_settings
from tallystick.tables.reader import open_engine
from tallystick.tables.sources import source_of
from unit.tables.spark_sessions import shared_session

if importlib.util.find_spec("pyspark") is None:
    pytest.skip("pyspark is not installed", allow_module_level=True)

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    found = shared_session()
    found.catalog.dropTempView("visits")  # other tests of this session leave one behind
    found.range(9).toDF("who").write.saveAsTable("visits")
    yield found
    found.sql("DROP TABLE visits")


@contextmanager
def configured(spark: Any, settings: dict[str, str]) -> Iterator[None]:
    """Change settings of the running application, as if it had been started with them."""
    configuration = spark.sparkContext._jsc.sc().conf()
    before = {name: configuration.get(name, None) for name in settings}
    for name, value in settings.items():
        configuration.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            configuration.remove(name) if value is None else configuration.set(name, value)


def ask(spark: Any, tmp_path: Path) -> Any:
    """Release a count, and return the account that paid."""
    account = Ledger(tmp_path / "ledger.db").open("clinic", budget=ts.zcdp(rho=9), unit="person")
    asked_of = ts.Private(spark, account=account).table("visits", unit="who")
    plan = asked_of.per_unit(max_groups=1, max_rows_per_group=1).agg(n=ts.count()).plan(rho=0.1)
    try:
        plan.release(why="try")
    except Refused:
        assert account.used.a0 == 0
        raise
    return account


@pytest.mark.parametrize(
    "name",
    [
        "spark.memory.fraction",
        "spark.memory.storageFraction",
        "spark.kryoserializer.buffer.max",
        "spark.shuffle.spill.numElementsForceSpillThreshold",
        "spark.task.maxFailures",
        "spark.dynamicAllocation.cachedExecutorIdleTimeout",
        "spark.sql.codegen.cache.maxEntries",
        "spark.yarn.max.executor.failures",
        "spark.of.a.plugin",
    ],
)
def test_a_setting_that_is_not_known_to_be_harmless_is_refused(spark: Any, tmp_path: Path, name: str) -> None:
    with configured(spark, {name: "1s3cret"}), pytest.raises(Refused, match="harmless") as caught:
        ask(spark, tmp_path)
    assert name in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_kryo_and_a_small_limit_are_refused_and_defaults_and_larger_limits_are_not(spark: Any, tmp_path: Path) -> None:
    kryo = {"spark.serializer": "org.apache.spark.serializer.KryoSerializer", "spark.rpc.message.maxSize": "1"}
    with configured(spark, kryo), pytest.raises(Refused, match=r"spark\.rpc\.message\.maxSize, spark\.serializer"):
        ask(spark, tmp_path)
    usual = {
        "spark.serializer": "org.apache.spark.serializer.JavaSerializer",
        "spark.memory.fraction": "0.6",
        "spark.network.timeout": "800s",
        "spark.rpc.message.maxSize": "256",
        "spark.task.maxFailures": "8",
        "spark.executor.heartbeatInterval": "20s",
        "spark.rpc.askTimeout": "600s",
        "spark.io.compression.codec": "zstd",
    }
    with configured(spark, usual):
        assert ask(spark, tmp_path).used.a0 > 0


def test_a_limit_on_results_is_refused(spark: Any, tmp_path: Path) -> None:
    with configured(spark, {"spark.driver.maxResultSize": "6k"}), pytest.raises(Refused, match="is below 1 GB"):
        ask(spark, tmp_path)


def test_a_driver_with_more_memory_needs_no_setting() -> None:
    """Spark's default is 1 GB, and a driver with Spark's default memory has no more."""
    runtime = SimpleNamespace(getRuntime=lambda: SimpleNamespace(maxMemory=lambda: 4 << 30))
    reader = SimpleNamespace(byteStringAsBytes={"1g": 1 << 30, "0": 0, "900m": 900 << 20}.__getitem__)
    network = SimpleNamespace(util=SimpleNamespace(JavaUtils=reader))
    spark = SimpleNamespace(apache=SimpleNamespace(spark=SimpleNamespace(network=network)))
    java = SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(Runtime=runtime)), org=spark)
    for text in ("1g", "0"):
        spark_settings._check_collected(text, java)
    with pytest.raises(Refused):
        spark_settings._check_collected("900m", java)


@pytest.mark.parametrize("is_driver", [True, False])
def test_a_low_limit_on_open_files_is_refused(monkeypatch: pytest.MonkeyPatch, spark: Any, is_driver: bool) -> None:
    """A shuffle opens a file for each part that has a unit."""
    low = (200, 200)
    if is_driver:
        before = resource.prlimit
        monkeypatch.setattr(
            resource, "prlimit", lambda pid, kind: low if kind == resource.RLIMIT_NOFILE else before(pid, kind)
        )
    else:
        monkeypatch.setattr(resource, "getrlimit", lambda kind: low)
    with pytest.raises(Unavailable, match="RLIMIT_NOFILE"), open_engine(source_of(spark)):
        pass


CLUSTER = {
    "spark.authenticate": "true",
    "spark.blacklist.decommissioning.enabled": "true",
    "spark.databricks.clusterUsageTags.clusterName": "wards",
    "spark.databricks.delta.optimizeWrite.enabled": "true",
    "spark.openlineage.transport.type": "http",
    "spark.driver.extraClassPath": "/usr/lib/hadoop/*",
    "spark.dynamicAllocation.enabled": "true",
    "spark.emr.default.executor.memory": "4g",
    "spark.eventLog.dir": "hdfs:///var/log/spark/apps",
    "spark.executor.instances": "4",
    "spark.hadoop.fs.s3a.secret.key": "abc",
    "spark.hadoop.parquet.enable.summary-metadata": "false",
    "spark.history.ui.port": "18080",
    "spark.kubernetes.namespace": "wards",
    "spark.local.dir": "/mnt",
    "spark.shuffle.service.enabled": "true",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.hive.metastore.sharedPrefixes": "com.amazonaws.services.dynamodbv2",
    "spark.sql.parquet.output.committer.class": "com.amazon.emr.committer.EmrOptimizedSparkSqlParquetOutputCommitter",
    "spark.submit.deployMode": "client",
    "spark.yarn.historyServer.address": "master:18080",
    "eventLog.rolloverIntervalSeconds": "900",
}
"""Settings that clusters usually have."""


def test_the_usual_settings_of_clusters_are_accepted(spark: Any) -> None:
    with configured(spark, CLUSTER):
        spark_settings.check_application(spark)


def test_a_property_of_the_thread_does_not_reach_the_executors(spark: Any, tmp_path: Path) -> None:
    """Tasks read settings that our session leaves at their defaults from the properties of the thread."""
    context = spark.sparkContext
    context.setLocalProperty("spark.scheduler.pool", "slow")
    context.setJobGroup("wards", "counts")
    context.setLocalProperty("spark.sql.parquet.columnarReaderBatchSize", "2147483647")
    try:
        with pytest.raises(Refused, match=r"local property.*columnarReaderBatchSize.*setLocalProperty"):
            ask(spark, tmp_path)
        context.setLocalProperty("spark.sql.parquet.columnarReaderBatchSize", None)
        assert ask(spark, tmp_path).used.a0 > 0
    finally:
        context._jsc.sc().setLocalProperties(context._jvm.java.util.Properties())


@contextmanager
def hadoop(spark: Any, name: str, value: str) -> Iterator[None]:
    """Change a setting of Hadoop in the application."""
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    before = configuration.get(name)
    configuration.set(name, value)
    try:
        yield
    finally:
        configuration.unset(name) if before is None else configuration.set(name, before, "spark.buffer.size")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("io.file.buffer.size", "2147483647"),
        ("mapreduce.input.pathFilter.class", "org.apache.hadoop.mapred.OutputLogFilter"),
        ("io.file.buffer.size", "64k"),
        ("ipc.maximum.response.length", "1000"),
        ("parquet.page.verify-checksum.enabled", "true"),
        ("file.stream-buffer-size", "2147483647"),
        ("dfs.client.socket-timeout", "1"),
    ],
)
def test_a_setting_of_hadoop_that_changes_how_files_are_read_is_refused(
    spark: Any, tmp_path: Path, name: str, value: str
) -> None:
    with hadoop(spark, name, value), pytest.raises(Refused, match=name):
        ask(spark, tmp_path)


def test_a_setting_in_a_configuration_file_of_hadoop_is_judged() -> None:
    """An analyst can choose the files with HADOOP_CONF_DIR."""
    site = {"dfs.client.socket-timeout": "1", "dfs.replication": "2"}

    class Configuration(dict[str, str]):
        """The files are read unless this is called with False."""

        def __init__(self, defaults: bool = True) -> None:
            super().__init__(site if defaults else {})

        def addResource(self, name: str) -> None:
            pass

        @staticmethod
        def dumpConfiguration(found: dict[str, str], to: list[str]) -> None:
            to.append(json.dumps({"properties": [{"key": key, "value": value} for key, value in found.items()]}))

    class Writer(list[str]):
        def toString(self) -> str:
            return self[0]

    hadoop = SimpleNamespace(conf=SimpleNamespace(Configuration=Configuration))
    jvm = SimpleNamespace(
        java=SimpleNamespace(io=SimpleNamespace(StringWriter=Writer)),
        org=SimpleNamespace(apache=SimpleNamespace(hadoop=hadoop)),
    )
    state = SimpleNamespace(newHadoopConf=Configuration)
    session = SimpleNamespace(_jvm=jvm, _jsparkSession=SimpleNamespace(sessionState=lambda: state))
    with pytest.raises(Refused, match=r"harmless: dfs\.client\.socket-timeout\."):
        spark_settings.check_hadoop(session)


@pytest.mark.parametrize(
    ("name", "value"),
    share(
        [
            ("parquet.enable.summary-metadata", "false"),
            ("io.compression.codecs", "org.apache.hadoop.io.compress.GzipCodec"),
            ("mapreduce.fileoutputcommitter.algorithm.version", "2"),
            ("dfs.client.socket-timeout", "600000"),
        ],
        4,
    ),
)
def test_a_setting_of_hadoop_that_does_not_is_accepted(spark: Any, tmp_path: Path, name: str, value: str) -> None:
    with hadoop(spark, name, value):
        assert ask(spark, tmp_path).used.a0 > 0


def levels(spark: Any, names: list[str]) -> dict[str, str]:
    logging = spark._jvm.org.apache.logging.log4j
    return {name: str(logging.LogManager.getLogger(name).getLevel().toString()) for name in names}


def test_the_log_is_off_during_a_release_and_as_it_was_afterwards(spark: Any) -> None:
    """Also below a logger, with two releases at a time, and after an error."""
    own = {
        "org.apache.spark.executor.Executor": "INFO",
        "org.apache.spark.sql.execution.datasources.FileScanRDD": "ERROR",
        "org.apache.spark.storage": "ERROR",
        "of.the.application": "ERROR",
    }
    inherited = ["org.apache.spark.scheduler.DAGScheduler", "org.apache.spark.storage.BlockManager"]
    logging = spark._jvm.org.apache.logging.log4j
    configurator = logging.core.config.Configurator
    for name, level in own.items():
        configurator.setLevel(name, logging.Level.toLevel(level))
    names = [*own, *inherited]
    before = levels(spark, names)
    with open_engine(source_of(spark)) as first:
        with pytest.raises(InvalidInput), open_engine(source_of(spark)) as second:
            second.schema("no_table")
        first.schema("visits")
        during = levels(spark, names)
    after = levels(spark, names)
    configurator.setLevel("org.apache.spark.scheduler.DAGScheduler", logging.Level.WARN)
    changed = levels(spark, inherited)
    for name in own:
        logging.core.LoggerContext.getContext(False).getConfiguration().removeLogger(name)
    assert set(during.values()) == {"OFF"}
    assert after == before
    assert changed["org.apache.spark.scheduler.DAGScheduler"] == "WARN"


def test_a_filter_that_keeps_the_log_on_is_refused(spark: Any, tmp_path: Path) -> None:
    logging = spark._jvm.org.apache.logging.log4j
    result = spark._jvm.java.lang.Class.forName("org.apache.logging.log4j.core.Filter$Result").getEnumConstants()
    accept, neutral, _ = result
    kept = logging.core.filter.ThresholdFilter.createFilter(logging.Level.WARN, accept, neutral)
    configuration = logging.core.LoggerContext.getContext(False).getConfiguration()
    configuration.addFilter(kept)
    try:
        with pytest.raises(Refused, match="log cannot be switched off"):
            ask(spark, tmp_path)
    finally:
        configuration.removeFilter(kept)
    assert ask(spark, tmp_path).used.a0 > 0


def test_the_python_side_of_spark_logs_nothing_during_a_release(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Py4J logs all answers of Spark, with the text of an error and with settings that can be passwords."""
    raising = "SELECT who, IF(who = 8, raise_error('the row ' || who * 1111), 1) AS n FROM visits"
    spark.sql(raising).createOrReplaceTempView("raising")
    names = ("py4j.clientserver", "py4j.java_gateway")
    account = Ledger(tmp_path / "ledger.db").open("clinic", budget=ts.zcdp(rho=9), unit="person")
    asked_of = ts.Private(spark, account=account).table("raising", unit="who")
    plan = asked_of.per_unit(max_groups=1, max_rows_per_group=1).agg(n=ts.sum("n", 0, 1)).plan(rho=0.1)
    with ExitStack() as levels_of_python, hadoop(spark, "fs.s3a.secret.key", "CANARY"):
        for name in names:
            levels_of_python.enter_context(caplog.at_level(logging.DEBUG, name))
        caplog.clear()
        with pytest.raises(Unavailable):
            plan.release(why="try")
        logged = caplog.text
        is_on_again = all(logging.getLogger(name).isEnabledFor(logging.DEBUG) for name in names)
    spark.catalog.dropTempView("raising")
    assert account.used.a0 > 0
    assert "the row" not in logged
    assert "CANARY" not in logged
    assert is_on_again


def test_the_java_side_of_py4j_logs_nothing_during_a_release(spark: Any, tmp_path: Path) -> None:
    """It logs the same texts, through the library of Java and not through Log4j."""
    raising = "SELECT who, IF(who = 8, raise_error('the row ' || who * 1111), 1) AS n FROM visits"
    spark.sql(raising).createOrReplaceTempView("raising")
    library = spark._jvm.java.util.logging
    kept = [library.Logger.getLogger(name) for name in ("py4j", "py4j.commands.AbstractCommand")]
    handler = library.FileHandler(str(tmp_path / "log"))
    handler.setLevel(library.Level.ALL)
    kept[0].addHandler(handler)
    account = Ledger(tmp_path / "ledger.db").open("clinic", budget=ts.zcdp(rho=9), unit="person")
    asked_of = ts.Private(spark, account=account).table("raising", unit="who")
    plan = asked_of.per_unit(max_groups=1, max_rows_per_group=1).agg(n=ts.sum("n", 0, 1)).plan(rho=0.1)
    try:
        with hadoop(spark, "fs.s3a.secret.key", "CANARY"):
            for logger in kept:
                logger.setLevel(library.Level.FINEST)
            with pytest.raises(Unavailable):
                plan.release(why="try")
            levels_after = [logger.getLevel() for logger in kept]
            for logger in kept:
                logger.setLevel(None)
    finally:
        kept[0].removeHandler(handler)
        handler.close()
        spark.catalog.dropTempView("raising")
    logged = (tmp_path / "log").read_text()
    assert account.used.a0 > 0
    assert "the row" not in logged
    assert "CANARY" not in logged
    assert [str(level.getName()) for level in levels_after] == ["FINEST", "FINEST"]


def test_a_log_whose_configuration_is_read_again_is_refused(spark: Any, tmp_path: Path) -> None:
    """The levels would come back during a release."""
    (tmp_path / "log4j2.properties").write_text("monitorInterval=30\nrootLogger.level=off\n")
    context = spark._jvm.org.apache.logging.log4j.core.LoggerContext.getContext(False)
    before = context.getConfigLocation()
    context.setConfigLocation(spark._jvm.java.io.File(str(tmp_path / "log4j2.properties")).toURI())
    try:
        with pytest.raises(Refused, match="monitorInterval"):
            ask(spark, tmp_path)
    finally:
        context.setConfigLocation(before)
        spark.sparkContext.setLogLevel("OFF")
    assert ask(spark, tmp_path).used.a0 > 0


def test_the_log_stays_off_while_tasks_of_a_failed_release_run(spark: Any) -> None:
    name = "org.apache.spark.executor.Executor"
    logging = spark._jvm.org.apache.logging.log4j
    logging.core.config.Configurator.setLevel(name, logging.Level.ERROR)
    with open_engine(source_of(spark)) as engine:
        engine.log._has_tasks = iter([True, True, False]).__next__  # type: ignore[attr-defined]
    assert levels(spark, [name]) == {name: "OFF"}
    waited = time.monotonic()
    while levels(spark, [name]) == {name: "OFF"} and time.monotonic() < waited + 10:
        time.sleep(0.1)
    found = levels(spark, [name])
    logging.core.LoggerContext.getContext(False).getConfiguration().removeLogger(name)
    assert found == {name: "ERROR"}
