"""Vectors of numbers as they come from users: scores, answers, data columns.

Type and shape are public and refused when wrong. Content is data: refused when the caller asks for it (``strict``),
otherwise mapped by a fixed public rule, entry by entry: NaN becomes 0, infinities and numbers too large for exact
arithmetic become the largest allowed. Each map moves neighbouring inputs no further apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency
from tallystick.errors import InvalidInput
from tallystick.mechanisms.exact.weighted_choice import candidates

LARGEST = float(np.finfo(np.float64).max) / 4
_LARGEST_INTEGER = 1 << 53


def budget(epsilon: Any, sensitivity: Any) -> tuple[float, float]:
    """Epsilon and sensitivity as floats whose ratio, and its inverse, are far from overflow.

    >>> budget(1, 2)
    (1.0, 2.0)
    """
    price, step = check.positive("epsilon", epsilon), check.positive("sensitivity", sensitivity)
    if not 1e-100 < price < 1e100:
        raise InvalidInput("epsilon", epsilon, "a number between 1e-100 and 1e100")
    if not 1e-100 < step < 1e100:
        raise InvalidInput("sensitivity", sensitivity, "a number between 1e-100 and 1e100")
    return price, step


def monotone_scores(monotone: Any, adjacency: Adjacency) -> bool:
    """Whether half the noise is enough, which only ADD_REMOVE allows.

    >>> monotone_scores(True, Adjacency.ADD_REMOVE)
    True
    """
    if not isinstance(monotone, (bool, np.bool_)):
        raise InvalidInput("monotone", monotone, "True or False")
    if monotone and adjacency is not Adjacency.ADD_REMOVE:
        allowed = "False under REPLACE: replacing a unit may raise one score and lower another"
        raise InvalidInput("monotone", monotone, allowed)
    return bool(monotone)


def length(argument: str, value: Any, allowed: str) -> int:
    """How many entries a sequence or mapping has, read before anything else is.

    >>> length("scores", range(3), "numbers")
    3
    """
    try:
        return len(value)
    except TypeError:  # also an array of dimension 0
        raise InvalidInput(argument, f"a value of type {type(value).__name__}", allowed) from None


def vector(argument: str, value: Any, *, strict: bool, least: int = 1) -> NDArray[np.float64]:
    """A one-dimensional array of finite numbers, exactly as given.

    >>> vector("scores", [1, 2.5], strict=True)
    array([1. , 2.5])
    >>> vector("scores", [float("nan"), 1], strict=False)
    array([0., 1.])
    """
    allowed = f"a one-dimensional sequence of at least {least} finite numbers"
    size = length(argument, value, allowed)
    if size < least:
        raise InvalidInput(argument, f"{size} numbers", allowed)
    if size:
        candidates(argument, size)
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(argument, type(value).__name__, allowed) from None
    if array.ndim != 1 or array.size < least:
        raise InvalidInput(argument, f"array of shape {array.shape}", allowed)
    if array.size == 0:
        return np.zeros(0)
    if array.dtype.kind not in "biuf":
        raise InvalidInput(argument, f"array of {array.dtype}", allowed)
    if array.dtype.kind in "iu":
        return _whole(argument, array, strict=strict)
    numbers = array.astype(np.float64)
    if np.isfinite(numbers).all() and np.abs(numbers).max() <= LARGEST:
        return numbers
    if strict:
        raise InvalidInput(argument, "NaN, infinite or above 4e307", allowed)
    return np.clip(np.nan_to_num(numbers, nan=0.0, posinf=LARGEST, neginf=-LARGEST), -LARGEST, LARGEST)


def _whole(argument: str, array: NDArray[Any], *, strict: bool) -> NDArray[np.float64]:
    """Integers, which a float64 holds exactly only up to 2^53."""
    bounded = np.clip(
        array, max(-_LARGEST_INTEGER, np.iinfo(array.dtype).min), min(_LARGEST_INTEGER, np.iinfo(array.dtype).max)
    )
    if strict and not np.array_equal(bounded, array):
        raise InvalidInput(argument, "an integer beyond 2^53", "integers a float64 holds exactly")
    return np.asarray(bounded, dtype=np.float64)
