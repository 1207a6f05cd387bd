"""Turn an argument into a plain number or say what is allowed; nothing is computed from bad input."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np

from tallystick.accounting.adjacency import read_adjacency, read_unit
from tallystick.digits import ACCOUNTANT, nearest, typed
from tallystick.errors import InvalidInput, Remedy
from tallystick.numerics.law import Array

MAX_COUNT = 10**9
LARGEST_EPSILON = 1e6
LARGEST_DIVERGENCE = 1e250
"""Of a Renyi curve, and the largest order: products with counts and orders are still doubles."""
SMALLEST_SCALE = 1e-6
LARGEST_SCALE = 1e15
SMALLEST_RATE = 1e-300

adjacency, unit = read_adjacency, read_unit


def finite(name: str, value: Any, allowed: str = "a finite number") -> float:
    """``value`` as a float, if it is a finite real number.

    >>> finite("epsilon", 2)
    2.0
    """
    if type(value) is float and math.isfinite(value):
        return value
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (numbers.Real, np.floating, np.integer)):
        raise InvalidInput(name, value, allowed)
    try:
        number = float(value)
    except (OverflowError, ValueError):
        raise InvalidInput(name, value, allowed) from None
    if not math.isfinite(number):
        raise InvalidInput(name, value, allowed)
    if number != value:  # to the nearest is to neither side, and which one is safe is not known here
        raise InvalidInput(
            name, value, f"{allowed} that a double holds: float(...) of it, or the next one towards less"
        )
    return number


def positive(name: str, value: Any, allowed: str = "a finite number > 0") -> float:
    """A finite number above zero."""
    number = finite(name, value, allowed)
    if number <= 0:
        raise InvalidInput(name, value, allowed)
    return number


def nonnegative(name: str, value: Any, allowed: str = "a finite number >= 0") -> float:
    """A finite number that is not negative."""
    number = finite(name, value, allowed)
    if number < 0:
        raise InvalidInput(name, value, allowed)
    return number


def probability(name: str, value: Any, allowed: str = "a number between 0 and 1") -> float:
    """A number in [0, 1]."""
    number = finite(name, value, allowed)
    if not 0 <= number <= 1:
        raise InvalidInput(name, value, allowed)
    return number


def inside(name: str, value: Any, allowed: str = "a number strictly between 0 and 1") -> float:
    """A number strictly between 0 and 1, such as a confidence.

    >>> inside("confidence", 0.95)
    0.95
    """
    number = finite(name, value, allowed)
    if not 0 < number < 1:
        raise InvalidInput(name, value, allowed)
    return number


def _shown(limit: float) -> str:
    """A limit of a range as people write it."""
    return typed(limit) if abs(limit) < 1e7 else nearest(limit, ACCOUNTANT)


def between(name: str, value: Any, low: float, high: float) -> float:
    """A number in [low, high].

    >>> between("mu", 2, 0, 1e6)
    2.0
    """
    if type(value) is float and low <= value <= high:
        return value
    allowed = f"a number from {_shown(low)} to {_shown(high)}"
    number = finite(name, value, allowed)
    if not low <= number <= high:
        raise InvalidInput(name, value, allowed)
    return number


def strict_rate(value: Any) -> float:
    """A sampling rate strictly between 0 and 1, and large enough to divide by."""
    number = probability("rate", value)
    if not SMALLEST_RATE <= number < 1.0:
        raise InvalidInput("rate", value, f"a number from {typed(SMALLEST_RATE)} to below 1")
    return number


def epsilon(value: Any) -> float:
    """The epsilon of a leaf."""
    return between("epsilon", value, 0.0, LARGEST_EPSILON)


def scale(name: str, value: Any) -> float:
    """A noise scale in units of the sensitivity."""
    return between(name, value, SMALLEST_SCALE, LARGEST_SCALE)


def keep(leaf: Any, **values: Any) -> None:
    """Store checked parameters in a frozen dataclass; only for ``__post_init__``."""
    for name, value in values.items():
        object.__setattr__(leaf, name, value)


def count(name: str, value: Any, *, least: int = 0, most: int = MAX_COUNT) -> int:
    """A whole number in the allowed range.

    >>> count("steps", 3.5)
    Traceback (most recent call last):
    ...
    tallystick.errors.InvalidInput: steps = 3.5 is not allowed; give a whole number from 0 to 1000000000
    """
    if type(value) is int and least <= value <= most:
        return value
    allowed = f"a whole number from {least} to {most}"
    number = finite(name, value, allowed)
    if number != int(number) or not least <= number <= most:
        # A composition of one step more costs more, so up is the side that may be reported.
        is_between = name == "count" and least < number < most
        remedies = [Remedy("round_up", value=math.ceil(number))] if is_between else []
        raise InvalidInput(name, value, allowed, remedies=remedies)
    return int(number)


def floats(name: str, values: Any, allowed: str) -> Array:
    """Anything that NumPy can read as numbers; what is too large for a double is infinite or refused.

    >>> floats("alpha", ["0.1"], "numbers")
    Traceback (most recent call last):
    ...
    tallystick.errors.InvalidInput: alpha = ['0.1'] is not allowed; give numbers
    """
    try:
        given = np.asarray(values)
        if given.dtype == np.float64:
            return given
        if given.dtype.kind == "O":  # fractions and whole numbers of any length
            return np.array([finite(name, value, allowed) for value in given.ravel()]).reshape(given.shape)
        if given.dtype.kind not in "iuf":
            raise TypeError
        with np.errstate(over="ignore"):
            found = given.astype(np.float64)
        some = np.isfinite(found)
        if not np.array_equal(found[some].astype(given.dtype), given[some]):
            raise InvalidInput(name, values, f"{allowed} that doubles hold")  # as in ``finite``
        return found
    except InvalidInput:
        raise
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(name, values, allowed) from None


def numbers_in(name: str, values: Any, low: float, high: float, allowed: str) -> Array:
    """A float array of any shape whose entries all lie in ``[low, high]``."""
    array = floats(name, values, allowed)
    if array.size == 0 or np.any(np.isnan(array)) or np.any(array < low) or np.any(array > high):
        raise InvalidInput(name, values, allowed)
    return array


def vector(name: str, values: Iterable[Any], allowed: str) -> Array:
    """A one-dimensional finite float array with at least one entry."""
    try:
        listed = list(values)
    except TypeError:
        raise InvalidInput(name, values, allowed) from None
    array = floats(name, listed, allowed)
    if array.ndim != 1 or array.size == 0 or not np.all(np.isfinite(array)):
        raise InvalidInput(name, values, allowed)
    return array
