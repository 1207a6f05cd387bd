"""Checks of the theorems on their arguments, beyond the checks shared by the whole of accounting."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting import check
from tallystick.errors import InvalidInput

Floats = NDArray[np.float64]


def order(name: str, value: float) -> float:
    """A Renyi order in (1, inf).

    >>> order("order", 2)
    2.0
    """
    number = check.positive(name, value)
    if number <= 1.0:
        raise InvalidInput(name, value, "a Renyi order > 1")
    return number


def order_or_limit(name: str, value: float) -> float:
    """A Renyi order in [1, inf], both limits included.

    >>> order_or_limit("order", math.inf)
    inf
    """
    number = math.inf if isinstance(value, float) and value == math.inf else check.positive(name, value)
    if number < 1.0:
        raise InvalidInput(name, value, "a Renyi order >= 1, infinity included")
    return number


def steps(name: str, value: int, *, most: int = check.MAX_COUNT) -> int:
    """Return a number of repetitions: at least once, and at most as often as can be waited for.

    >>> steps("steps", 10)
    10
    """
    return check.count(name, value, least=1, most=most)


def numbers(name: str, values: Iterable[float]) -> tuple[float, ...]:
    """A non-empty list of finite non-negative numbers.

    >>> numbers("epsilons", [1, 2.5])
    (1.0, 2.5)
    """
    try:
        checked = tuple(check.nonnegative(name, value) for value in values)
    except TypeError:
        raise InvalidInput(name, values, "a list of finite numbers >= 0") from None
    if not checked:
        raise InvalidInput(name, values, "a list of at least one number")
    return checked


def distribution(name: str, masses: Sequence[float] | Floats) -> Floats:
    """A probability vector; a defect of the total below 1e-9 is put right by dividing.

    >>> distribution("p", [0.25, 0.75])
    array([0.25, 0.75])
    """
    allowed = "non-negative numbers that sum to one"
    try:
        vector = np.asarray(masses, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(name, masses, allowed) from None
    if vector.ndim != 1 or vector.size == 0 or not np.all(np.isfinite(vector)) or bool(np.any(vector < 0.0)):
        raise InvalidInput(name, masses, allowed)
    total = math.fsum(vector.tolist())
    if abs(total - 1.0) > 1e-9:
        raise InvalidInput(name, masses, allowed)
    return vector / total


def pair(p: Sequence[float] | Floats, q: Sequence[float] | Floats) -> tuple[Floats, Floats]:
    """Two probability vectors over one finite space.

    >>> pair([1.0, 0.0], [0.5, 0.5])[1]
    array([0.5, 0.5])
    """
    first, second = distribution("p", p), distribution("q", q)
    if first.size != second.size:
        raise InvalidInput("q", q, f"as many masses as p ({first.size})")
    return first, second
