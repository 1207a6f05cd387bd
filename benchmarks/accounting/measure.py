"""Time one call in this process: wall and CPU seconds, and how far the peak memory rose."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable


def measured(call: Callable[[], float], *, per: int = 1) -> None:
    """Print one JSON line: value, wall, cpu, megabytes (imports and warm-up are over by now)."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    wall = time.perf_counter()
    value = float(call())
    wall = time.perf_counter() - wall
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({
        "value": value, "wall": wall / per, "cpu": cpu / per, "megabytes": (after.ru_maxrss - before.ru_maxrss) / 1024,
    }))  # fmt: skip
