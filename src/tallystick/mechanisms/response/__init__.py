"""Local privacy: everybody randomizes their own answer, the collector never sees the truth (section 4.2).

Mechanisms here act on an array with one answer per person; the price is per person. The neighbouring relation is
REPLACE: the answer changes, the person stays.
"""

from __future__ import annotations

from typing import Any

from tallystick.errors import InvalidInput
from tallystick.mechanisms.response.choices import RandomizedResponse, UnaryEncoding, randomize, unary_encoding
from tallystick.mechanisms.response.estimates import Estimate
from tallystick.mechanisms.response.interactive import in_turn, protocol
from tallystick.mechanisms.response.numbers import LocalLaplace, laplace

__all__ = ["estimate", "in_turn", "laplace", "protocol", "randomize", "unary_encoding"]


def estimate(
    mechanism: RandomizedResponse | UnaryEncoding | LocalLaplace, reports: Any, *, confidence: float = 0.95
) -> Estimate:
    """Estimate shares from the reports of a local mechanism: ``mechanism.estimate``.

    >>> bool(estimate(randomize(epsilon=1.0), [0, 1, 1, 1]).values.sum().round(9) == 1)
    True
    """
    if not isinstance(mechanism, (RandomizedResponse, UnaryEncoding, LocalLaplace)):
        raise InvalidInput("mechanism", mechanism, "what randomize, unary_encoding or laplace returned")
    return mechanism.estimate(reports, confidence=confidence)
