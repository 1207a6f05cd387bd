"""Limits on how often a principal may ask: buckets that fill with time, kept by the keeper alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from tallystick.errors import Unavailable


class Rate(NamedTuple):
    """So many a second, and so many at once."""

    each_second: float
    at_once: float


PLANS: Final = Rate(10, 50)
RELEASES: Final = Rate(1, 20)
REPLAYS: Final = Rate(100, 200)
MOST_PRINCIPALS: Final = 10_000
"""Buckets that are remembered. A bucket that is forgotten is full."""


class Buckets:
    """The buckets of all principals for one rate.

    >>> buckets = Buckets(Rate(1, 2), clock=lambda: 0.0)
    >>> [buckets.take("ann"), buckets.take("ann")]
    [None, None]
    >>> buckets.take("ann")
    Traceback (most recent call last):
    tallystick.errors.Unavailable: too many requests. Ask again in 1 seconds
    """

    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = rate, clock
        self._lock = threading.Lock()
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, principal: str) -> None:
        """Take one from the bucket of a principal; refuse if it is empty."""
        rate, now = self._rate, self._clock()
        with self._lock:
            left, since = self._left.pop(principal, (rate.at_once, now))
            left = min(rate.at_once, left + (now - since) * rate.each_second)
            is_empty = left < 1
            self._left[principal] = (left if is_empty else left - 1, now)
            if len(self._left) > MOST_PRINCIPALS:
                del self._left[next(iter(self._left))]
        if is_empty:
            seconds = max(1, round((1 - left) / rate.each_second))
            raise Unavailable(f"too many requests. Ask again in {seconds} seconds", code="too_many_requests")
