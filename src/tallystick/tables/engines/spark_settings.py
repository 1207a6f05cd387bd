"""Settings of a Spark application that a release accepts.

A limit on memory, messages or time ends a release on large data alone, after the charge. Spark does not say who chose
a setting, so every setting must be known to be harmless, or have Spark's default. Settings of the session
(``spark.sql.*``) are not judged here: a release makes a new session, with Spark's defaults.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tallystick.errors import Refused

_LABEL = "It is a label, or a fact about the start of the application."
_PLACE = "It says where processes, pages and files of the application are."
_SIZE = "It says how many processes there are, and how large. The operator chooses the machines."
_CODE = "It loads code into the application, or chooses its virtual machine. That code is its operator's."
_LOG = "It says what Spark logs and shows. Errors of tasks are not logged during a release."
_SAFETY = "It says how processes prove who they are, or encrypt what they send."
_LEAVING = "It says what Spark does when a machine leaves the cluster."
_SPEED = "It changes the speed of a release, and the integers are the same."
_NOT_USED = "A release does not use it."
_OTHER_CHECK = "It is a setting of Hadoop, which is judged as one of these."
_OUTPUT = "It says how tables are written. A release writes none."
_METASTORE = "It says where the catalogue is. A table is recognised by its definition and its files."

HARMLESS: Final[Mapping[str, str]] = {
    "spark.app.": _LABEL,
    "spark.executor.id": _LABEL,
    "spark.home": _PLACE,
    "spark.master": _PLACE,
    "spark.submit.": _CODE,
    "spark.repl.": _CODE,
    "spark.jars": _CODE,
    "spark.jars.": _CODE,
    "spark.files": _CODE,
    "spark.archives": _CODE,
    "spark.plugins": _CODE,
    "spark.extraListeners": _CODE,
    "spark.pyspark.": _CODE,
    "spark.executorEnv.": _CODE,
    "spark.driver.extraClassPath": _CODE,
    "spark.driver.extraJavaOptions": _CODE,
    "spark.driver.defaultJavaOptions": _CODE,
    "spark.driver.extraLibraryPath": _CODE,
    "spark.executor.extraClassPath": _CODE,
    "spark.executor.extraJavaOptions": _CODE,
    "spark.executor.defaultJavaOptions": _CODE,
    "spark.executor.extraLibraryPath": _CODE,
    "spark.driver.appUIAddress": _PLACE,
    "spark.driver.bindAddress": _PLACE,
    "spark.driver.blockManager.port": _PLACE,
    "spark.driver.host": _PLACE,
    "spark.driver.port": _PLACE,
    "spark.driver.tempDirectory": _PLACE,
    "spark.executor.tempDirectory": _PLACE,
    "spark.blockManager.port": _PLACE,
    "spark.port.maxRetries": _PLACE,
    "spark.local.dir": _PLACE,
    "spark.cores.max": _SIZE,
    "spark.task.cpus": _SIZE,
    "spark.driver.cores": _SIZE,
    "spark.driver.memory": _SIZE,
    "spark.driver.memoryOverhead": _SIZE,
    "spark.driver.memoryOverheadFactor": _SIZE,
    "spark.executor.cores": _SIZE,
    "spark.executor.instances": _SIZE,
    "spark.executor.memory": _SIZE,
    "spark.executor.memoryOverhead": _SIZE,
    "spark.executor.memoryOverheadFactor": _SIZE,
    "spark.emr.default.executor.": _SIZE,
    "spark.dynamicAllocation.enabled": _SIZE,
    "spark.dynamicAllocation.minExecutors": _SIZE,
    "spark.dynamicAllocation.maxExecutors": _SIZE,
    "spark.dynamicAllocation.initialExecutors": _SIZE,
    "spark.dynamicAllocation.shuffleTracking.enabled": _SIZE,
    "spark.shuffle.service.enabled": "Another process keeps the same rows between stages.",
    "spark.shuffle.service.port": _PLACE,
    "spark.kubernetes.": _SIZE,
    "spark.yarn.": _SIZE,
    "spark.eventLog.": _LOG,
    "spark.history.": _LOG,
    "spark.log.": _LOG,
    "spark.logConf": _LOG,
    "spark.metrics.": _LOG,
    "spark.redaction.": _LOG,
    "spark.ui.": _LOG,
    "spark.sql.ui.": _LOG,
    "spark.sql.event.truncate.length": _LOG,
    "spark.org.apache.hadoop.yarn.server.webproxy.amfilter.AmIpFilter.param.": _LOG,
    "spark.acls.": _SAFETY,
    "spark.admin.": _SAFETY,
    "spark.modify.": _SAFETY,
    "spark.authenticate": _SAFETY,
    "spark.authenticate.": _SAFETY,
    "spark.kerberos.": _SAFETY,
    "spark.network.crypto.": _SAFETY,
    "spark.ssl.": _SAFETY,
    "spark.blacklist.decommissioning.": _LEAVING,
    "spark.decommissioning.timeout.threshold": _LEAVING,
    "spark.files.fetchFailure.unRegisterOutputOnHost": _LEAVING,
    "spark.resourceManager.cleanupExpiredHost": _LEAVING,
    "spark.stage.attempt.ignoreOnDecommissionFetchFailure": _LEAVING,
    "spark.default.parallelism": _SPEED,
    "spark.locality.wait": _SPEED,
    "spark.rdd.compress": _SPEED,
    "spark.scheduler.allocation.file": _SPEED,
    "spark.scheduler.mode": _SPEED,
    "spark.serializer.objectStreamReset": _SPEED,
    "spark.speculation": _SPEED,
    "spark.cleaner.referenceTracking.blocking": _SPEED,
    "spark.databricks.cloudProvider": _LABEL,
    "spark.databricks.clusterSource": _LABEL,
    "spark.databricks.clusterUsageTags.": _LABEL,
    "spark.databricks.workerNodeTypeId": _LABEL,
    "spark.r.": _NOT_USED,
    "spark.sparkr.": _NOT_USED,
    "spark.streaming.": _NOT_USED,
    "spark.sql.streaming.": _NOT_USED,
    "spark.sql.hive.thriftServer.": _NOT_USED,
    "spark.hadoop.": _OTHER_CHECK,
    "spark.hive.": _OTHER_CHECK,
    "spark.buffer.size": _OTHER_CHECK,
    "spark.sql.catalogImplementation": _METASTORE,
    "spark.sql.globalTempDatabase": _METASTORE,
    "spark.sql.hive.metastore.": _METASTORE,
    "spark.sql.hive.version": _METASTORE,
    "spark.sql.warehouse.dir": _METASTORE,
    "spark.sql.extensions": _CODE,
    "spark.sql.queryExecutionListeners": _CODE,
}
"""Settings of an application that a release accepts, each with the reason. A dot at the end stands for what follows."""

HARMLESS_OF_THREAD: Final[Mapping[str, str]] = {
    "__fetch_continuous_blocks_in_batch_enabled": "Spark leaves it behind, and sets it again for every shuffle.",
    "callSite.": _LABEL,
    "spark.job.description": _LABEL,
    "spark.job.tags": _LABEL,
    "spark.jobGroup.id": _LABEL,
    "spark.job.interruptOnCancel": "It is about jobs that code of the application cancels.",
    "spark.scheduler.pool": _SPEED,
}
"""Properties of the thread that a release accepts. Executors read all others as settings of the session."""

HARMLESS_OF_HADOOP: Final[Mapping[str, str]] = {
    "spark.": "It is a copy of a setting of Spark.",
    "fs.": "It is about a file system. One whose class is not known is refused, and a row is read before the charge.",
    "datanucleus.": _METASTORE,
    "javax.jdo.option.": _METASTORE,
    "hive.metastore.": _METASTORE,
    "dfs.nameservices": _PLACE,
    "dfs.ha.": _PLACE,
    "dfs.namenode.": _PLACE,
    "dfs.client.failover.proxy.provider.": _PLACE,
    "dfs.client.use.datanode.hostname": _PLACE,
    "yarn.": _PLACE,
    "google.cloud.auth.": _SAFETY,
    "hadoop.proxyuser.": _SAFETY,
    "hadoop.security.": _SAFETY,
    "io.compression.codecs": "Readers of text use it. Parquet and ORC name their own codecs.",
    "hive.exec.dynamic.partition": _OUTPUT,
    "hive.exec.dynamic.partition.mode": _OUTPUT,
    "mapreduce.fileoutputcommitter.": _OUTPUT,
    "mapreduce.output.": _OUTPUT,
    "mapreduce.outputcommitter.": _OUTPUT,
    "orc.bloom.filter.columns": _OUTPUT,
    "orc.bloom.filter.fpp": _OUTPUT,
    "orc.compress": _OUTPUT,
    "orc.create.index": _OUTPUT,
    "orc.row.index.stride": _OUTPUT,
    "orc.stripe.size": _OUTPUT,
    "parquet.block.size": _OUTPUT,
    "parquet.block.size.row.check.": _OUTPUT,
    "parquet.compression": _OUTPUT,
    "parquet.dictionary.page.size": _OUTPUT,
    "parquet.enable.dictionary": _OUTPUT,
    "parquet.enable.summary-metadata": _OUTPUT,
    "parquet.memory.": _OUTPUT,
    "parquet.page.row.count.limit": _OUTPUT,
    "parquet.page.size": _OUTPUT,
    "parquet.page.size.": _OUTPUT,
    "parquet.summary.metadata.level": _OUTPUT,
    "parquet.writer.version": _OUTPUT,
}
"""Settings of Hadoop that an application may change, each with the reason."""

MAY_BE_RAISED: Final = {"spark.network.timeout": "timeStringAsSec", "spark.rpc.message.maxSize": "byteStringAsMb"}
"""Limits that a release accepts if they are not below Spark's default, and the function of Spark that reads them."""

_MOST_COLLECTED: Final = "spark.driver.maxResultSize"
_BUFFER: Final = "io.file.buffer.size"
_LARGEST_BUFFER: Final = 1 << 24
"""Bytes. Spark's own setting is 65,536."""
_MOST_NAMED: Final = 20
"""Names of settings in one refusal."""


def check_application(session: Any) -> None:
    """Refuse settings of an application that could make a release fail because of its rows."""
    java = session._jvm
    context = session.sparkContext._jsc.sc()
    settings = {str(pair._1()): str(pair._2()) for pair in context.conf().getAll()}
    _check_collected(settings.pop(_MOST_COLLECTED, "1g"), java)
    _refuse(
        [name for name, value in sorted(settings.items()) if not _is_harmless(name, value, java)],
        "setting of this Spark application",
        "Remove it from the builder of the session, from spark-submit and from spark-defaults.conf, and start the "
        "application again",
    )
    of_thread = sorted(str(name) for name in context.getLocalProperties().stringPropertyNames())
    _refuse(
        [name for name in of_thread if not _is_listed(name, HARMLESS_OF_THREAD)],
        "local property of this thread",
        "Run spark.sparkContext.setLocalProperty(name, None)",
    )


def check_hadoop(session: Any) -> None:
    """Refuse settings of Hadoop that could do so. ``session`` is the one that reads."""
    changed, for_readers = _changed_in_hadoop(session)
    others = {name for name, value in (*changed, *for_readers) if not _is_listed(name, HARMLESS_OF_HADOOP)}
    _refuse(
        sorted(others - {_BUFFER}),
        "setting of Hadoop in this Spark application",
        "Remove it from the settings that begin with spark.hadoop., from sparkContext.hadoopConfiguration and from "
        "Hadoop's configuration files",
    )
    sizes = [int(value) for name, value in changed if name == _BUFFER]
    if not all(0 < size <= _LARGEST_BUFFER for size in sizes):
        raise Refused(f"Hadoop's setting {_BUFFER} must be from 1 to {_LARGEST_BUFFER}. Remove the setting")


def _refuse(names: list[str], kind: str, remedy: str) -> None:
    """Refuse settings by their names. A value can be a secret, so none is shown."""
    if not names:
        return
    more = "" if len(names) <= _MOST_NAMED else f" and {len(names) - _MOST_NAMED} more"
    raise Refused(
        f"{kind} that is not known to be harmless: {', '.join(names[:_MOST_NAMED])}{more}. A release could fail "
        f"because of its rows, after the charge. {remedy}"
    )


def _check_collected(text: str, java: Any) -> None:
    """Refuse a limit on what the driver may collect, if it is below the driver's memory."""
    limit = java.org.apache.spark.network.util.JavaUtils.byteStringAsBytes(text)
    if 0 < limit < java.java.lang.Runtime.getRuntime().maxMemory():
        raise Refused(
            f"{_MOST_COLLECTED} is {text}, so a release could fail because its data are large, after it was charged. "
            f'Start the Spark session with .config("{_MOST_COLLECTED}", "0")'
        )


def _is_harmless(name: str, value: str, java: Any) -> bool:
    """True if a setting of an application is on the list, belongs to sessions, or has Spark's default."""
    if not name.startswith("spark.") or _is_listed(name, HARMLESS):
        return True  # Spark reads no other names
    if name.startswith("spark.sql."):
        return not java.org.apache.spark.sql.internal.SQLConf.isStaticConfigKey(name)
    entry = java.org.apache.spark.internal.config.ConfigEntry.findEntry(name)
    return entry is not None and _is_default(name, value, str(entry.defaultValueString()), java)


def _is_default(name: str, value: str, default: str, java: Any) -> bool:
    """True if a setting has Spark's default, or is a limit above it."""
    if name not in MAY_BE_RAISED:
        return value == default
    read = getattr(java.org.apache.spark.network.util.JavaUtils, MAY_BE_RAISED[name])
    return bool(read(value) >= read(default))


def _is_listed(name: str, known: Mapping[str, str]) -> bool:
    """True if a list has a name, or its beginning up to a dot.

    >>> [_is_listed(name, HARMLESS) for name in ("spark.ui.port", "spark.local.dir", "spark.local.dirs")]
    [True, True, False]
    """
    return name in known or any(beginning in known for beginning in _beginnings(name))


def _beginnings(name: str) -> Iterator[str]:
    """Beginnings of a name, each with the dot at its end."""
    for place, letter in enumerate(name):
        if letter == ".":
            yield name[: place + 1]


_READERS: Final = ("avro.", "hive.exec.orc.", "io.", "orc.", "parquet.")
"""Beginnings of settings of Hadoop for the readers of files."""
_DEFAULTS: Final = ("core-default.xml", "hdfs-default.xml", "mapred-default.xml", "yarn-default.xml")
"""Resources with the defaults of Hadoop. They are parts of its libraries."""


def _changed_in_hadoop(session: Any) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the settings that differ from Hadoop's configuration files, and those for readers that differ from its
    defaults. The configuration files are chosen by the user who starts the application (HADOOP_CONF_DIR).
    """
    java = session._jvm
    written = java.java.io.StringWriter()
    configuration = session._jsparkSession.sessionState().newHadoopConf()
    java.org.apache.hadoop.conf.Configuration.dumpConfiguration(configuration, written)
    unchanged = java.org.apache.hadoop.conf.Configuration()
    found = [(each["key"], each["value"]) for each in json.loads(str(written.toString()))["properties"]]
    defaults = java.org.apache.hadoop.conf.Configuration(False)
    for resource in _DEFAULTS:
        defaults.addResource(resource)
    changed = [(name, value) for name, value in found if value != unchanged.get(name)]
    for_readers = [(name, value) for name, value in found if name.startswith(_READERS) and value != defaults.get(name)]
    return changed, for_readers
