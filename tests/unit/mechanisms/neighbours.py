"""Privacy by enumeration: exact output laws on neighbouring inputs against what a mechanism claims."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallystick.errors import TallystickError
from tallystick.mechanisms.exact.randomness import Source

Law = NDArray[np.float64]
LEVELS = np.array([0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 1.5, 2.0])
FEW = np.array([0.2, 0.8])  # for losses whose read-out is a numerical convolution


class Untouched(Source):
    """A source that must not be read: bad input is refused before any randomness is drawn."""

    private = True

    def read(self, count: int) -> memoryview:
        raise AssertionError("randomness was drawn")


def profile(left: Law, right: Law, epsilons: Law) -> Law:
    """delta(epsilon) of one ordered pair of discrete laws."""
    return np.maximum(left[None, :] - np.exp(epsilons)[:, None] * right[None, :], 0.0).sum(axis=1)


def worst_profile(pairs: Iterable[tuple[Law, Law]], epsilons: Law) -> Law:
    """The largest delta at each epsilon, over pairs in both orders."""
    worst = np.zeros(epsilons.size)
    for left, right in pairs:
        worst = np.maximum(worst, np.maximum(profile(left, right, epsilons), profile(right, left, epsilons)))
    return worst


def holds(claim: Any, pairs: Iterable[tuple[Law, Law]], *, scale: float = 1.0, levels: Law = LEVELS) -> bool:
    """No pair exceeds the claimed profile at any level (levels are multiples of ``scale``)."""
    epsilons = levels * scale
    claimed = np.asarray(claim.delta(epsilon=epsilons))
    return bool((worst_profile(pairs, epsilons) <= claimed + 1e-9).all())


def log_ratio(pairs: Iterable[tuple[Law, Law]]) -> float:
    """The largest log ratio of probabilities in either direction."""
    return max(float(np.abs(np.log(left) - np.log(right)).max()) for left, right in pairs)


def refuses(mechanism: Any, value: Any) -> bool:
    """Direct call with bad input: an InvalidInput, and nothing drawn."""
    try:
        mechanism(value, source=Untouched())
    except TallystickError:
        return True
    return False
