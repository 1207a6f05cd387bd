"""The log of Spark's driver, which is off while a release runs.

Messages show exact numbers of rows and blocks, and an error of a task can quote a row. So no message of the virtual
machine is logged until the release has ended. The same holds for Py4J, which connects Python and Spark and has loggers
on both sides: at the level DEBUG or FINE it logs everything that it sends and receives, errors and settings with
passwords included.
"""

from __future__ import annotations

import logging
import threading
from typing import Any, Final

from tallystick.errors import Refused

_ASKED: Final = (
    "ROOT",
    "org.apache.hadoop.fs.FileSystem",
    "org.apache.parquet.hadoop.ParquetFileReader",
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.storage.BlockManager",
)
"""Loggers that are asked whether they are off."""

_IN_PYTHON: Final = ("py4j", "pyspark")
"""First parts of the names of Spark's loggers in Python."""

_PY4J: Final = "py4j"
"""Name above all of Py4J's loggers in Java. They belong to Java's own library, and not to Log4j."""

_lock: Final = threading.Lock()
_before: Final[dict[str, Any]] = {}
"""Level of each configured logger before the first of the releases that run now."""
_before_in_py4j: Final[dict[str, tuple[Any, Any]]] = {}
"""Loggers of Py4J in Java, each with its own level or None. Java forgets a logger to which nothing refers."""
_on_in_python: Final[set[str]] = set()
"""Loggers in Python that the releases that run now have disabled."""
_running: Final[set[int]] = set()
"""Releases that run now. The log belongs to the process, so the last of them switches it on again."""
_PAUSE: Final = 0.5
"""Seconds until it is asked again whether tasks still run."""


class QuietLog:
    """The driver's log, off from ``start`` to ``close``."""

    def __init__(self, session: Any) -> None:
        self._java = session._jvm
        self._context = session.sparkContext._jsc.sc()

    def start(self) -> None:
        """Switch off every logger. Refuse a log that stays on."""
        with _lock:
            if not _running:
                _before.clear()
                _before_in_py4j.clear()
            _running.add(id(self))
            _disable_in_python()
            self._switch_off()
            self._switch_off_py4j()
            is_on = self._is_on()
        if is_on:
            self._end()
            raise Refused(
                "Spark's log cannot be switched off during a release, and it can quote rows. Remove the filter and "
                "monitorInterval from the configuration of Log4j 2, or use Spark's own logging library, and start the "
                "application again"
            )

    def close(self) -> None:
        """Switch the log on again. Tasks of a failed release can fail later, so it stays off while tasks run."""
        if self._has_tasks():
            later = threading.Timer(_PAUSE, self.close)
            later.daemon = True
            later.start()
            return
        self._end()

    def _end(self) -> None:
        with _lock:
            _running.discard(id(self))
            if not _running:
                try:
                    self._restore()
                finally:
                    _enable_in_python()

    def _has_tasks(self) -> bool:
        """True if a task of the application runs, or if its result is not handled; False if the application has ended.

        The driver logs a failure when it handles the result of the task.
        """
        scheduler = self._context.taskScheduler()
        if scheduler is None:
            return False
        counts = scheduler.runningTasksByExecutors().values().toSeq()
        results = scheduler.taskResultGetter().getTaskResultExecutor()
        is_handling = results.getActiveCount() > 0 or not results.getQueue().isEmpty()
        return is_handling or any(counts.apply(place) > 0 for place in range(counts.size()))

    def _logs(self) -> Any:
        return self._java.org.apache.logging.log4j.core.LoggerContext.getContext(False)

    def _switch_off(self) -> None:
        """Give every configured logger the level OFF. All other loggers have the level of one of these."""
        logs = self._logs()
        off = self._java.org.apache.logging.log4j.Level.OFF
        configured = logs.getConfiguration().getLoggers()
        levels = {str(name): configured[name].getLevel() for name in configured}  # first all: a logger can inherit one
        for name, level in levels.items():
            _before.setdefault(name, level)
            configured[name].setLevel(off)
        logs.updateLoggers()

    def _switch_off_py4j(self) -> None:
        """Switch off every logger of Py4J in Java that has a level, and the one above all."""
        library = self._java.java.util.logging
        off = library.Level.OFF
        names = self._java.java.util.Collections.list(library.LogManager.getLogManager().getLoggerNames())
        known = [name for name in names.toString()[1:-1].split(", ") if name.startswith(f"{_PY4J}.")]
        for name in (_PY4J, *known):
            logger = library.Logger.getLogger(name)
            level = logger.getLevel()
            if name == _PY4J or level is not None:
                _before_in_py4j.setdefault(name, (logger, level))
                logger.setLevel(off)

    def _is_on(self) -> bool:
        """True if a message could be logged all the same.

        A filter of the whole log comes before the levels. A configuration that is watched is read again when its file
        changes, and the levels with it.
        """
        configuration = self._logs().getConfiguration()
        if configuration.getFilter() is not None or configuration.getWatchManager().getIntervalSeconds() > 0:
            return True
        find = self._java.org.slf4j.LoggerFactory.getLogger  # Spark's own way, whichever library is behind it
        return any(find(name).isErrorEnabled() for name in _ASKED)

    def _restore(self) -> None:
        """Give each logger its level."""
        logs = self._logs()
        configured = logs.getConfiguration().getLoggers()
        for name, level in _before.items():
            if name in configured:
                configured[name].setLevel(level)
        logs.updateLoggers()
        _before.clear()
        for logger, level in _before_in_py4j.values():
            logger.setLevel(level)
        _before_in_py4j.clear()


def _disable_in_python() -> None:
    """Disable every logger of Spark in Python: a logger that is disabled also ignores its own level."""
    for name, logger in list(logging.Logger.manager.loggerDict.items()):
        is_of_spark = name.partition(".")[0] in _IN_PYTHON
        if is_of_spark and isinstance(logger, logging.Logger) and not logger.disabled:
            _on_in_python.add(name)
            logger.disabled = True


def _enable_in_python() -> None:
    """Enable the loggers that were disabled."""
    while _on_in_python:
        logging.getLogger(_on_in_python.pop()).disabled = False
