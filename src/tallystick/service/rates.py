"""Limits on how often a principal may ask: buckets that fill with time, kept by the keeper alone."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from tallystick.errors import Unavailable


class Rate(NamedTuple):
    """So many a second, and so many at once."""

    each_second: float
    at_once: float


PLANS: Final = Rate(10, 50)
RELEASES: Final = Rate(1, 20)
REPLAYS: Final = Rate(100, 200)
WORK: Final = Rate(0.5, 30)
"""Seconds of processor time, of the keeper and of planners."""
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
        with self._lock:
            left = self._filled(principal)
            is_empty = left < 1
            self._set(principal, left if is_empty else left - 1)
        if is_empty:
            raise self._too_many(1 - left)

    def _filled(self, principal: str) -> float:
        """Return what is in the bucket of a principal now."""
        left, since = self._left.get(principal, (self._rate.at_once, self._clock()))
        return min(self._rate.at_once, left + (self._clock() - since) * self._rate.each_second)

    def _set(self, principal: str, left: float) -> None:
        self._left.pop(principal, None)  # the newest is last
        self._left[principal] = (left, self._clock())
        if len(self._left) > MOST_PRINCIPALS:
            del self._left[next(iter(self._left))]

    def _too_many(self, missing: float) -> Unavailable:
        seconds = max(1, round(missing / self._rate.each_second))
        return Unavailable(f"too many requests. Ask again in {seconds} seconds", code="too_many_requests")


class Metered(Buckets):
    """Buckets of processor time, which is known only afterwards: a bucket can become less than empty.

    >>> meter = Metered(Rate(0.5, 1), clock=lambda: 0.0)
    >>> meter.bill("ann", 3)
    >>> with meter.metered("ann"):
    ...     pass
    Traceback (most recent call last):
    tallystick.errors.Unavailable: too many requests. Ask again in 4 seconds
    """

    @contextlib.contextmanager
    def metered(self, principal: str) -> Iterator[None]:
        """Refuse if the bucket of a principal is empty; bill the processor time of this block."""
        with self._lock:
            left = self._filled(principal)
        if left <= 0:
            raise self._too_many(-left)
        with self.billed(principal):
            yield

    @contextlib.contextmanager
    def billed(self, principal: str) -> Iterator[None]:
        """Bill the processor time of this block in this thread, however it ends."""
        began = time.thread_time()
        try:
            yield
        finally:
            self.bill(principal, time.thread_time() - began)

    def bill(self, principal: str, seconds: float) -> None:
        """Take processor time from the bucket of a principal."""
        with self._lock:
            self._set(principal, self._filled(principal) - seconds)
