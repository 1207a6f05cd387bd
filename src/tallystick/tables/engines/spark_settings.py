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
_LOG = "It says what Spark logs and shows. The driver logs nothing during a release."
_SAFETY = "It says how processes prove who they are, or encrypt what they send."
_LEAVING = "It says what Spark does when a machine leaves the cluster."
_SPEED = "It changes the speed of a release, and the integers are the same."
_NOT_USED = "A release does not use it."
_OTHER_CHECK = "It is a setting of Hadoop, which is judged as one of these."
_OUTPUT = "It says how tables are written. A release writes none."
_OTHER_CODE = "Spark does not read it. It is for a library or a service beside Spark."
_DAEMON = "Other processes than the driver and its executors read it."
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
    "spark.dynamicAllocation.enabled": _SIZE,
    "spark.dynamicAllocation.minExecutors": _SIZE,
    "spark.dynamicAllocation.maxExecutors": _SIZE,
    "spark.dynamicAllocation.initialExecutors": _SIZE,
    "spark.dynamicAllocation.shuffleTracking.enabled": _SIZE,
    "spark.dynamicAllocation.executorAllocationRatio": _SIZE,
    "spark.dynamicAllocation.schedulerBacklogTimeout": _SIZE,
    "spark.dynamicAllocation.sustainedSchedulerBacklogTimeout": _SIZE,
    "spark.driver.resource.": _SIZE,
    "spark.executor.resource.": _SIZE,
    "spark.task.resource.": _SIZE,
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
    "spark.locality.wait.": _SPEED,
    "spark.broadcast.compress": _SPEED,
    "spark.checkpoint.compress": _SPEED,
    "spark.cleaner.periodicGC.interval": _SPEED,
    "spark.cleaner.referenceTracking.cleanCheckpoints": _SPEED,
    "spark.resultGetter.threads": _SPEED,
    "spark.scheduler.maxRegisteredResourcesWaitingTime": _SPEED,
    "spark.scheduler.minRegisteredResourcesRatio": _SPEED,
    "spark.shuffle.compress": _SPEED,
    "spark.shuffle.spill.compress": _SPEED,
    "spark.speculation.": _SPEED,
    "spark.rdd.compress": _SPEED,
    "spark.scheduler.allocation.file": _SPEED,
    "spark.scheduler.mode": _SPEED,
    "spark.serializer.objectStreamReset": _SPEED,
    "spark.speculation": _SPEED,
    "spark.cleaner.referenceTracking.blocking": _SPEED,
    "spark.decommission.": _LEAVING,
    "spark.storage.decommission.": _LEAVING,
    "spark.deploy.": _DAEMON,
    "spark.standalone.": _DAEMON,
    "spark.worker.": _DAEMON,
    "spark.cassandra.": _OTHER_CODE,
    "spark.databricks.": _OTHER_CODE,
    "spark.datahub.": _OTHER_CODE,
    "spark.dataproc.": _OTHER_CODE,
    "spark.delta.": _OTHER_CODE,
    "spark.emr-containers.": _OTHER_CODE,
    "spark.emr-serverless.": _OTHER_CODE,
    "spark.emr.": _OTHER_CODE,
    "spark.es.": _OTHER_CODE,
    "spark.glue.": _OTHER_CODE,
    "spark.mongodb.": _OTHER_CODE,
    "spark.neo4j.": _OTHER_CODE,
    "spark.openlineage.": _OTHER_CODE,
    "spark.redis.": _OTHER_CODE,
    "spark.snowflake.": _OTHER_CODE,
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

NOT_HARMLESS: Final[Mapping[str, str]] = {
    "spark.yarn.max.executor.failures": "It ends the application after some failures, and large data cause failures.",
    "mapred.input.pathFilter.class": "It leaves out files of a table when Spark lists them.",
    "mapreduce.input.pathFilter.class": "It leaves out files of a table when Spark lists them.",
}
"""Settings of Spark or Hadoop that a beginning on one of the lists would accept, each with the reason to refuse it."""

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
    "dfs.nameservices": _PLACE,
    "dfs.ha.": _PLACE,
    "dfs.namenode.": _PLACE,
    "dfs.client.failover.proxy.provider.": _PLACE,
    "dfs.client.use.datanode.hostname": _PLACE,
    "dfs.client.read.shortcircuit": "The driver and executors read the same bytes without the server of their machine.",
    "dfs.client.read.shortcircuit.skip.checksum": _SPEED,
    "dfs.domain.socket.path": _PLACE,
    "dfs.internal.nameservices": _PLACE,
    "dfs.balancer.": _DAEMON,
    "dfs.block.": _DAEMON,
    "dfs.cluster.administrators": _DAEMON,
    "dfs.datanode.": _DAEMON,
    "dfs.disk.balancer.": _DAEMON,
    "dfs.hosts": _DAEMON,
    "dfs.hosts.": _DAEMON,
    "dfs.http.": _DAEMON,
    "dfs.https.": _DAEMON,
    "dfs.journalnode.": _DAEMON,
    "dfs.permissions.": _DAEMON,
    "dfs.qjournal.": _DAEMON,
    "dfs.storage.policy.": _DAEMON,
    "dfs.web.": _DAEMON,
    "dfs.webhdfs.": _DAEMON,
    "ha.": _DAEMON,
    "httpfs.": _DAEMON,
    "mapred.": _NOT_USED,
    "mapreduce.": _NOT_USED,
    "yarn.": _DAEMON,
    "dfs.blocksize": _OUTPUT,
    "dfs.replication": _OUTPUT,
    "dfs.replication.max": _OUTPUT,
    "dfs.data.transfer.protection": _SAFETY,
    "dfs.encrypt.data.transfer": _SAFETY,
    "dfs.encrypt.data.transfer.": _SAFETY,
    "google.cloud.auth.": _SAFETY,
    "hadoop.http.": _SAFETY,
    "hadoop.kms.": _SAFETY,
    "hadoop.proxyuser.": _SAFETY,
    "hadoop.rpc.protection": _SAFETY,
    "hadoop.security.": _SAFETY,
    "hadoop.ssl.": _SAFETY,
    "hadoop.user.group.": _SAFETY,
    "hadoop.tmp.dir": _PLACE,
    "net.topology.": _PLACE,
    "io.compression.codecs": "Readers of text use it. Parquet names its own codecs.",
    "avro.": "Files of Avro are refused.",
    "orc.": "Files of ORC are refused.",
    "delta.": _OTHER_CODE,
    "iceberg.": _OTHER_CODE,
    "aws.glue.": _METASTORE,
    "hive.": "Hive's readers are not used, and a table is recognised by its definition and its files.",
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

_SECONDS: Final = "timeStringAsSec"
_MILLISECONDS: Final = "timeStringAsMs"
_NUMBER: Final = ""
MAY_BE_RAISED: Final[Mapping[str, tuple[str, str]]] = {
    "spark.dynamicAllocation.executorIdleTimeout": (_SECONDS, "60s"),
    "spark.executor.heartbeatInterval": (_MILLISECONDS, "10s"),
    "spark.network.timeout": (_SECONDS, "120s"),
    "spark.rpc.askTimeout": (_SECONDS, "120s"),
    "spark.rpc.lookupTimeout": (_SECONDS, "120s"),
    "spark.rpc.message.maxSize": ("byteStringAsMb", "128"),
    "spark.rpc.numRetries": (_NUMBER, "3"),
    "spark.scheduler.listenerbus.eventqueue.capacity": (_NUMBER, "10000"),
    "spark.shuffle.io.connectionTimeout": (_SECONDS, "120s"),
    "spark.shuffle.io.maxRetries": (_NUMBER, "3"),
    "spark.shuffle.io.retryWait": (_SECONDS, "5s"),
    "spark.shuffle.registration.maxAttempts": (_NUMBER, "3"),
    "spark.shuffle.registration.timeout": (_MILLISECONDS, "5s"),
    "spark.stage.maxConsecutiveAttempts": (_NUMBER, "4"),
    "spark.storage.blockManagerHeartbeatTimeoutMs": (_MILLISECONDS, "120s"),
    "spark.task.maxFailures": (_NUMBER, "4"),
}
"""Limits that a release accepts if they are not below Spark's default: the function of Spark that reads each, and the
default.
"""

_CODECS: Final = ("spark.io.compression.codec", "spark.shuffle.mapStatus.compression.codec")
_BUILT_IN: Final = frozenset({"lz4", "lzf", "snappy", "zstd"})
"""Names of the codecs that are part of Spark. Another name is a class."""

RAISED_OF_HADOOP: Final = {
    "dfs.client.failover.max.attempts": 15,
    "dfs.client.max.block.acquire.failures": 3,
    "dfs.client.retry.max.attempts": 10,
    "dfs.client.socket-timeout": 60_000,
    "ipc.client.connect.max.retries": 10,
    "ipc.client.connect.max.retries.on.timeouts": 45,
    "ipc.client.connect.timeout": 20_000,
    "ipc.maximum.data.length": 128 << 20,
    "ipc.maximum.response.length": 128 << 20,
}
"""Limits of Hadoop that a release accepts if they are whole numbers and not below these, which are its defaults."""

_MOST_COLLECTED: Final = "spark.driver.maxResultSize"
_BUFFER: Final = "io.file.buffer.size"
_LARGEST_BUFFER: Final = 1 << 24
"""Bytes. Spark's own setting is 65,536."""
_LEAST_COLLECTED: Final = 1 << 30
"""Bytes. Spark's own limit on what a driver collects, and its own memory of a driver."""
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
    changed = _changed_in_hadoop(session)
    others = [name for name, value in changed if not _is_harmless_in_hadoop(name, value)]
    _refuse(
        sorted(others),
        "setting of Hadoop in this Spark application",
        "Remove it from the settings that begin with spark.hadoop., from sparkContext.hadoopConfiguration and from "
        "Hadoop's configuration files",
    )
    sizes = [value for name, value in changed if name == _BUFFER]
    if not all(size.isdecimal() and 0 < int(size) <= _LARGEST_BUFFER for size in sizes):
        raise Refused(
            f"Hadoop's setting {_BUFFER} must be a whole number of bytes from 1 to {_LARGEST_BUFFER}, without a unit. "
            "Remove the setting"
        )


def _is_harmless_in_hadoop(name: str, value: str) -> bool:
    """True if a setting of Hadoop is on the list, or is a limit above its default."""
    if name == _BUFFER or _is_listed(name, HARMLESS_OF_HADOOP):
        return True
    return name in RAISED_OF_HADOOP and value.isdecimal() and int(value) >= RAISED_OF_HADOOP[name]


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
    """Refuse a limit on what the driver may collect, if it is below both the driver's memory and Spark's default.

    A driver with Spark's default memory holds no more than the default limit.
    """
    limit = java.org.apache.spark.network.util.JavaUtils.byteStringAsBytes(text)
    if 0 < limit < min(_LEAST_COLLECTED, java.java.lang.Runtime.getRuntime().maxMemory()):
        raise Refused(
            f"{_MOST_COLLECTED} is below 1 GB, so a release could fail because its data are large, after it was "
            f'charged. Start the Spark session with .config("{_MOST_COLLECTED}", "0")'
        )


def _is_harmless(name: str, value: str, java: Any) -> bool:
    """True if a setting of an application is on the list, belongs to sessions, or has Spark's default."""
    if not name.startswith("spark.") or _is_listed(name, HARMLESS):
        return True  # Spark reads no other names
    if name.startswith("spark.sql."):
        return not java.org.apache.spark.sql.internal.SQLConf.isStaticConfigKey(name)
    if name in _CODECS:
        return value in _BUILT_IN
    if name in MAY_BE_RAISED:
        return _is_raised(value, *MAY_BE_RAISED[name], java)
    entry = java.org.apache.spark.internal.config.ConfigEntry.findEntry(name)
    return entry is not None and value == str(entry.defaultValueString())


def _is_raised(value: str, reader: str, default: str, java: Any) -> bool:
    """True if a limit is not below Spark's default. Spark reads a number without a unit by each limit's own rule."""
    if reader == _NUMBER:
        return value.isdecimal() and int(value) >= int(default)
    read = getattr(java.org.apache.spark.network.util.JavaUtils, reader)
    try:
        return bool(read(value) >= read(default))
    except Exception:  # an error of Java: not a time or a size
        return False


def _is_listed(name: str, known: Mapping[str, str]) -> bool:
    """True if a list has a name, or its beginning up to a dot.

    >>> [_is_listed(name, HARMLESS) for name in ("spark.ui.port", "spark.local.dir", "spark.local.dirs")]
    [True, True, False]
    """
    if name in NOT_HARMLESS:
        return False
    return name in known or any(beginning in known for beginning in _beginnings(name))


def _beginnings(name: str) -> Iterator[str]:
    """Beginnings of a name, each with the dot at its end."""
    for place, letter in enumerate(name):
        if letter == ".":
            yield name[: place + 1]


_DEFAULTS: Final = ("core-default.xml", "hdfs-default.xml", "mapred-default.xml", "yarn-default.xml")
"""Resources with the defaults of Hadoop. They are parts of its libraries."""


def _changed_in_hadoop(session: Any) -> list[tuple[str, str]]:
    """Return the settings that differ from Hadoop's defaults: of the application, of calls and of configuration files.

    An analyst can choose the files (HADOOP_CONF_DIR).
    """
    java = session._jvm
    written = java.java.io.StringWriter()
    configuration = session._jsparkSession.sessionState().newHadoopConf()
    java.org.apache.hadoop.conf.Configuration.dumpConfiguration(configuration, written)
    defaults = java.org.apache.hadoop.conf.Configuration(False)
    for resource in _DEFAULTS:
        defaults.addResource(resource)
    plain = java.java.io.StringWriter()
    java.org.apache.hadoop.conf.Configuration.dumpConfiguration(defaults, plain)
    usual = _properties(str(plain.toString()))
    found = _properties(str(written.toString()))
    return [(name, value) for name, value in found.items() if value != usual.get(name)]


def _properties(text: str) -> dict[str, str]:
    return {each["key"]: each["value"] for each in json.loads(text)["properties"]}
