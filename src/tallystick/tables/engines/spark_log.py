"""Spark's log of failed tasks, which is off while a release runs: an error of a task can quote a row."""

from __future__ import annotations

import threading
from typing import Any, Final

_LOGGERS: Final = (
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler",
    "org.apache.spark.sql.execution",
)
"""Loggers that write what failed in a task."""

_lock: Final = threading.Lock()
_before: Final[dict[str, Any]] = {}
"""Level of each logger before the first of the releases that run now. None stands for a logger without a level."""
_running: Final[set[int]] = set()
"""Releases that run now. The log belongs to the process, so the last of them switches it on again."""
_PAUSE: Final = 0.5
"""Seconds until it is asked again whether tasks still run."""


class QuietLog:
    """Spark's log in the driver without failed tasks, until ``close``."""

    def __init__(self, session: Any) -> None:
        self._java = session._jvm
        self._context = session.sparkContext._jsc.sc()
        with _lock:
            if not _running:
                _before.update(self._levels())
            _running.add(id(self))
            logging = self._java.org.apache.logging.log4j
            for name in _before:
                logging.core.config.Configurator.setLevel(name, logging.Level.OFF)

    def close(self) -> None:
        """Switch the log on again. Tasks of a failed release can fail later, so it stays off while tasks run."""
        if self._has_tasks():
            later = threading.Timer(_PAUSE, self.close)
            later.daemon = True
            later.start()
            return
        with _lock:
            _running.discard(id(self))
            if not _running:
                self._restore()

    def _has_tasks(self) -> bool:
        """True if a task of the application runs; False if the application has ended."""
        scheduler = self._context.taskScheduler()
        if scheduler is None:
            return False
        counts = scheduler.runningTasksByExecutors().values().toSeq()
        return any(counts.apply(place) > 0 for place in range(counts.size()))

    def _logs(self) -> Any:
        return self._java.org.apache.logging.log4j.core.LoggerContext.getContext(False)

    def _levels(self) -> dict[str, Any]:
        """Return the level of each logger of ``_LOGGERS``, and of each one below it that has its own level."""
        configured = self._logs().getConfiguration().getLoggers()
        below = tuple(f"{name}." for name in _LOGGERS)
        names = [str(name) for name in configured if name in _LOGGERS or name.startswith(below)]
        return dict.fromkeys(_LOGGERS) | {name: configured[name].getLevel() for name in names}

    def _restore(self) -> None:
        """Give each logger its level, or remove what was made for it."""
        logs = self._logs()
        for name, level in _before.items():
            if level is None:
                logs.getConfiguration().removeLogger(name)
            else:
                logs.getConfiguration().getLoggerConfig(name).setLevel(level)
        logs.updateLoggers()
        _before.clear()
