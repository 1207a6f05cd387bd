"""How data become numbers: one rule, record by record, which no other record can change.

The container (its type, an array's dtype and shape, its length) is public and refused when wrong. What is inside is
data. A direct call (``strict``) refuses content that is not a finite number. After a charge every record counts, each
by itself, whatever the others are:

    an int, float, bool, Fraction, Decimal or NumPy number    itself, exactly
    infinite, or beyond 4e307                                 the largest number allowed, with its sign
    NaN, and anything that is not a number                    0, unless said otherwise

A map of one number that moves no two numbers further apart keeps every sensitivity. Where only the place of a record
among others matters (quantiles, means of rounded records) the nearest double stands for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency
from tallystick.errors import InvalidInput
from tallystick.mechanisms.exact.weighted_choice import MOST_CANDIDATES, Scores

LARGEST = float(np.finfo(np.float64).max) / 4
_EXACT = 1 << 53  # a double below this is not an integer that was rounded; 2^53 itself may have been 2^53 + 1
_MOST_DIGITS = 400  # decimals with more digits than doubles reach are infinite or nothing, before they are expanded

Number = int | float | Fraction


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers as given: ``near`` are the nearest doubles, ``given`` the numbers themselves where some is no double."""

    near: NDArray[np.float64]
    given: list[Number] | None = None

    def exact(self) -> list[Number]:
        """The numbers themselves."""
        return self.near.tolist() if self.given is None else self.given


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
    except Exception:  # no length, as an array of dimension 0, or one that cannot be told
        raise InvalidInput(argument, f"a value of type {type(value).__name__}", allowed) from None


def list_length(argument: str, value: Any, allowed: str, *, least: int = 1, most: int = MOST_CANDIDATES) -> int:
    """The length of a list of records: text, sets and mappings are not lists, however long."""
    size = length(argument, value, allowed)
    if type(value) not in (list, tuple, np.ndarray) and isinstance(value, (str, bytes, bytearray, Mapping, Set)):
        raise InvalidInput(argument, f"a value of type {type(value).__name__}", allowed)
    if not least <= size <= most:
        raise InvalidInput(argument, f"{size} entries", f"{allowed} and at most {most}")
    return size


def array_or_list(value: Any) -> Any:
    """A column of another library as the array it is, whose dtype and shape are public; anything else as given."""
    if type(value) in (list, tuple, np.ndarray) or not hasattr(value, "__array__"):
        return value
    try:
        return np.asarray(value)
    except Exception:
        return value


def number(entry: Any) -> Number | None:
    """One entry as the number it is, exactly; NaN and the infinities as floats; None for anything that is not a number.

    >>> number(np.int64(2**60 + 1)) - 2**60, number(Decimal("0.1")), number("0.1")
    (1, Fraction(1, 10), None)
    """
    if isinstance(entry, np.ndarray) and entry.ndim == 0:
        entry = entry[()]
    if isinstance(entry, (bool, np.bool_)):
        return int(entry)
    if isinstance(entry, np.floating):
        if entry.dtype.itemsize <= 8 or not np.isfinite(entry):
            return float(entry)
        return Fraction(*entry.as_integer_ratio())
    if isinstance(entry, float):
        return float(entry)
    if isinstance(entry, (int, np.integer)):
        return int(entry)
    if isinstance(entry, Decimal):
        return _decimal(entry)
    return entry if isinstance(entry, Fraction) else None


def _decimal(entry: Decimal) -> Number:
    if entry.is_nan():
        return math.nan
    if not entry or (entry.is_finite() and entry.adjusted() < -_MOST_DIGITS):
        return 0
    if entry.is_infinite() or entry.adjusted() > _MOST_DIGITS:
        return math.copysign(math.inf, entry)
    return Fraction(entry)


def double(exact: Number) -> float:
    """The nearest double, infinite where a number is too large.

    >>> double(10**400)
    inf
    """
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def scalar(argument: str, value: Any, *, strict: bool) -> Number:
    """One number, refused by its type when it is none; with ``strict`` it must be finite. Never shows the value.

    >>> scalar("value", np.float32(0.5), strict=True)
    0.5
    """
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return value
    exact = None if isinstance(value, (bool, np.bool_)) else number(value)
    if exact is None:
        raise InvalidInput(argument, f"a value of type {type(value).__name__}", "a single finite number")
    if strict and isinstance(exact, float) and not math.isfinite(exact):
        raise InvalidInput(argument, "a number that is not finite", "a single finite number")
    return exact


def numbers(
    argument: str,
    value: Any,
    *,
    strict: bool,
    least: int = 1,
    most: int = MOST_CANDIDATES,
    nothing: float = 0.0,
) -> Numbers:
    """A list or one-dimensional array as numbers, each by itself and exactly; ``nothing`` stands for NaN.

    >>> numbers("scores", [2**60 + 1, 0.5], strict=True).given
    [1152921504606846977, 0.5]
    >>> numbers("scores", [float("nan"), "text", 1], strict=False).near
    array([0., 0., 1.])
    """
    allowed = f"a one-dimensional sequence of at least {least} finite numbers"
    size = list_length(argument, value, allowed, least=least, most=most)
    value = array_or_list(value)
    if isinstance(value, np.ndarray) and (value.ndim != 1 or value.dtype.kind not in "biufO"):
        raise InvalidInput(argument, f"array of {value.dtype}, shape {value.shape}", allowed)
    array = _array(value, size)
    if array is None:
        return _one_by_one(argument, value, allowed, strict=strict, nothing=nothing)
    near = array.astype(np.float64, copy=False)
    if not size or (near.max() <= LARGEST and near.min() >= -LARGEST):  # False for NaN
        return Numbers(near)
    if strict:
        raise InvalidInput(argument, "NaN, infinite or above 4e307", allowed)
    return Numbers(np.clip(np.nan_to_num(near, nan=nothing, posinf=LARGEST, neginf=-LARGEST), -LARGEST, LARGEST))


def _array(value: Any, size: int) -> NDArray[Any] | None:
    """The list as an array of numbers, where doubles hold all of them exactly; None where each must be looked at."""
    try:
        array = np.asarray(value)
    except Exception:  # ragged, or an entry that refuses: what one entry is must not decide about the others
        return None
    if array.shape != (size,) or (size and array.dtype.kind not in "biuf") or array.dtype.itemsize > 8:
        return np.zeros(0) if size == 0 and array.size == 0 else None
    whole = array.dtype.kind in "iu" or (array.dtype.kind == "f" and not isinstance(value, np.ndarray))
    if whole and size and not (array.min().item() > -_EXACT and array.max().item() < _EXACT):
        return None  # NaN too; in a list a float may be an integer that was rounded
    return array


def _one_by_one(argument: str, value: Any, allowed: str, *, strict: bool, nothing: float) -> Numbers:
    try:
        entries = [number(entry) for entry in value]
    except Exception:  # of the container: what an entry is raises nothing
        raise InvalidInput(argument, f"a value of type {type(value).__name__}", allowed) from None
    if strict and not all(entry is not None and -LARGEST <= entry <= LARGEST for entry in entries):
        raise InvalidInput(argument, "something that is not a number, NaN, infinite or above 4e307", allowed)
    given = [nothing if entry is None or entry != entry else min(max(entry, -LARGEST), LARGEST) for entry in entries]
    near = np.array([float(entry) for entry in given], dtype=np.float64)
    exact = all(type(entry) is float or entry == float(entry) for entry in given)
    return Numbers(near, None if exact else given)


def scores(argument: str, value: Any, *, strict: bool, least: int = 1) -> Scores:
    """Scores as what they are behind the best one, exactly.

    >>> scores("scores", [2**60, 2**60 + 1], strict=True).behind
    array([1., 0.])
    """
    entries = numbers(argument, value, strict=strict, least=least)
    return Scores.of(entries.near) if entries.given is None else Scores.exactly(entries.given)


def records(argument: str, value: Any, *, strict: bool, least: int = 1) -> NDArray[np.float64]:
    """Records as the nearest doubles, each by itself.

    >>> records("data", [2**60 + 1, 0.5], strict=True)
    array([1.1529215e+18, 5.0000000e-01])
    """
    return numbers(argument, value, strict=strict, least=least).near
