"""Runs the package without noise, so that a test knows the value that noise was added to.

Only tests can do this: they replace the sampler of every integer noise. No option, environment
variable or argument of the package has this effect (``test_noise_cannot_repeat.py``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Draw = Callable[..., Any]


@contextlib.contextmanager
def scaled_noise(factor: int) -> Iterator[None]:
    """Multiply every draw of integer noise by a factor: 0 leaves no noise."""
    from tallystick.mechanisms.exact.integer_noise import Ladder

    draw, one = Ladder.draw, Ladder.one

    def scaled_draw(self: Ladder, size: int, source: Any) -> Any:
        if factor == 0:
            return np.zeros(size, dtype=np.int64)
        return factor * draw(self, size, source)

    def scaled_one(self: Ladder, source: Any) -> int:
        return factor * one(self, source)

    Ladder.draw, Ladder.one = scaled_draw, scaled_one  # type: ignore[method-assign]
    try:
        yield
    finally:
        Ladder.draw, Ladder.one = draw, one  # type: ignore[method-assign]
