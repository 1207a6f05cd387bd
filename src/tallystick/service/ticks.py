"""When the outcome of a job may be seen: 1, 2, 4, ... seconds after it began.

How long a release takes depends on the data. So neither an answer nor a failure is recorded or shown when it is there,
but at the first of these times that is not past. The time tells the logarithm of the duration, and no more.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def next_tick(seconds: float) -> float:
    """Return the first tick that is not past, in seconds after the beginning.

    >>> [next_tick(seconds) for seconds in (0, 0.2, 1.0, 1.1, 5, 3600)]
    [1.0, 1.0, 1.0, 2.0, 8.0, 4096.0]
    """
    tick = 1.0
    while tick < seconds:
        tick *= 2
    return tick


def wait_for_tick(begun: float, stopping: threading.Event, clock: Callable[[], float] = time.monotonic) -> None:
    """Wait for the tick of a job that began at ``begun``, or for the end of the service if that comes first."""
    left = begun + next_tick(clock() - begun) - clock()
    stopping.wait(max(0.0, left))
