"""Seconds of a usual machine: a limit in a test is about our work, not about how busy or old the machine is."""

from __future__ import annotations

import math
import time

import numpy as np

USUAL = 0.013
"""Processor seconds that the reference job takes where the limits were chosen."""
SLOWEST = 4.0
"""No machine excuses more than this: otherwise a limit could not fail."""


def reference() -> float:
    """Processor seconds for a little of what the code under test does: loops of Python, and arrays."""
    started = time.process_time()
    total, numbers = 0.0, np.linspace(0.0, 1.0, 15_000)
    for k in range(60_000):
        total += math.exp(-k * 1e-4)
    for _ in range(30):
        total += float(np.log1p(np.exp(-numbers)).sum())
    return time.process_time() - started


def slower(*known: float) -> float:
    """How many times as long as on a usual machine things take here and now; one hiccup excuses nothing.

    >>> 1.0 <= slower() <= SLOWEST
    True
    """
    paces = sorted([*known, reference(), reference(), reference()])
    return min(SLOWEST, max(1.0, paces[len(paces) // 2] / USUAL))


class Clock:
    """Starts when it is made; ``seconds`` is the processor time since then, as a usual machine would have needed it.

    >>> Clock().seconds < 1.0
    True
    """

    def __init__(self) -> None:
        self.paces = [reference(), reference()]
        self.started = time.process_time()

    @property
    def seconds(self) -> float:
        spent = time.process_time() - self.started
        return spent / slower(*self.paces)
