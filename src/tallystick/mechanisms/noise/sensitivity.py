"""How far one unit can move a statistic, under either adjacency, and the clamping that makes it true.

    statistic        ADD_REMOVE                      REPLACE
    count            1                               1
    sum in [a, b]    max(|a|, |b|)                   b - a
    mean in [a, b]   refused: n is private           (b - a) / n, n public
    histogram        L1 1, L2 1                      L1 2, L2 sqrt 2

(one row per unit; with ``rows`` rows per unit counts and sums scale by ``rows``.) Errata 19: bounded is REPLACE.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency
from tallystick.errors import InvalidInput, Refused
from tallystick.mechanisms.exact.lattice import rounded_up
from tallystick.mechanisms.inputs import LARGEST, Numbers, numbers, scalar

_MOST = 1 << 40


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Largest change by one unit: L1 and L2 norms, the most in one coordinate, and in how many coordinates.

    >>> sensitivity_of("histogram", adjacency="replace").l1
    2.0
    """

    l1: float
    l2: float
    each: float
    changed: int
    adjacency: Adjacency


@dataclass(frozen=True, slots=True)
class Clamp:
    """Pulls values into [lower, upper]; NaN, or anything that is not a number, becomes ``lower``.

    A fixed public rule for each value by itself, so nothing depends on the data.

    >>> clamp(0, 10)([-3.0, 4.0, float("nan"), float("inf")]).tolist()
    [0.0, 4.0, 0.0, 10.0]
    """

    lower: float
    upper: float

    def __call__(self, values: ArrayLike) -> NDArray[np.float64]:
        entries, shape = _flat(values, self.lower)
        return np.clip(entries.near, self.lower, self.upper).reshape(shape)


def clamp(lower: float, upper: float) -> Clamp:
    """Public clamping to [lower, upper].

    >>> clamp(0, 1)(7.0).item()
    1.0
    """
    low, high = check.finite("lower", lower), check.finite("upper", upper)
    if low > high:
        raise InvalidInput("upper", upper, f"a bound >= lower = {lower}")
    return Clamp(low, high)


def exact_sum(values: ArrayLike, *, lower: float, upper: float) -> Fraction:
    """The sum of the clamped values with no rounding at all, so that its sensitivity is what it should be.

    A floating-point sum can move by more than one value does, by order and by rounding (Casacuberta et al. 2022);
    this one is the real number. Mechanisms round it to their lattice, exactly.

    >>> exact_sum([1e16, 1.0, -1e16], lower=-1e16, upper=1e16)
    Fraction(1, 1)
    """
    bounds = clamp(lower, upper)
    if max(abs(bounds.lower), abs(bounds.upper)) > LARGEST:
        raise InvalidInput("bounds", (lower, upper), "bounds from -4e307 to 4e307: beyond, rounding hides records")
    entries, _ = _flat(values, bounds.lower)
    if entries.given is not None:  # integers beyond 2^53 and fractions, one by one
        ends = Fraction(bounds.lower), Fraction(bounds.upper)
        return sum((min(max(Fraction(entry), ends[0]), ends[1]) for entry in entries.given), start=Fraction(0))
    mantissas, exponents = np.frexp(np.clip(entries.near, bounds.lower, bounds.upper))
    whole = np.ldexp(mantissas, 53).astype(np.int64)
    total = Fraction(0)
    for exponent in np.unique(exponents).tolist():
        total += whole_sum(whole[exponents == exponent]) * Fraction(2) ** (exponent - 53)
    return total


def _flat(values: Any, nothing: float) -> tuple[Numbers, tuple[int, ...]]:
    """One number, a list or an array of any shape as numbers in a row, and the shape to give back."""
    if not hasattr(values, "__len__") or (isinstance(values, np.ndarray) and values.ndim == 0):
        return numbers("values", [scalar("values", values, strict=False)], strict=False, nothing=nothing), ()
    try:
        array = np.asarray(values)
    except Exception:  # a list that is not an array: each entry counts by itself
        array = np.empty(0, dtype=object)
    if array.ndim > 1 and array.dtype.kind in "biuf":
        flat = array.ravel() if isinstance(values, np.ndarray) else np.array(values, dtype=object).ravel()  # as given
        return numbers("values", flat, strict=False, least=0, most=_MOST, nothing=nothing), array.shape
    entries = numbers("values", values, strict=False, least=0, most=_MOST, nothing=nothing)
    return entries, entries.near.shape


def whole_sum(values: NDArray[np.int64]) -> int:
    """The sum of integers of at most 53 bits, which could overflow int64.

    >>> whole_sum(np.full(4096, 1 << 53)) == 1 << 65
    True
    """
    # Halves of 27 and 26 bits, so that int64 sums of up to 2^35 of them are exact.
    return (int(np.sum(values >> 26)) << 26) + int(np.sum(values & ((1 << 26) - 1)))


def sensitivity_of(
    statistic: str,
    *,
    lower: float | None = None,
    upper: float | None = None,
    n: int | None = None,
    rows: int = 1,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
) -> Sensitivity:
    """Sensitivity of a count, sum, mean or histogram when one unit owns at most ``rows`` rows. Never too small.

    >>> sensitivity_of("sum", lower=-1, upper=3).l1, sensitivity_of("sum", lower=-1, upper=3, adjacency="replace").l1
    (3.0, 4.0)
    """
    relation = check.adjacency(adjacency)
    owned = check.count("rows", rows, least=1)
    rule = _RULES.get(statistic) if isinstance(statistic, str) else None
    if rule is None:
        raise InvalidInput("statistic", statistic, "one of " + ", ".join(sorted(_RULES)))
    return rule(relation, owned, _Range(lower, upper), n)


@dataclass(frozen=True, slots=True)
class _Range:
    lower: Any
    upper: Any

    def exact(self) -> tuple[Fraction, Fraction]:
        bounds = clamp(self.lower, self.upper)
        return Fraction(bounds.lower), Fraction(bounds.upper)


def _scalar(amount: Fraction, adjacency: Adjacency) -> Sensitivity:
    size = rounded_up(amount)
    return Sensitivity(size, size, size, 1, adjacency)


def _count(adjacency: Adjacency, rows: int, bounds: _Range, n: int | None) -> Sensitivity:
    return _scalar(Fraction(rows), adjacency)


def _sum(adjacency: Adjacency, rows: int, bounds: _Range, n: int | None) -> Sensitivity:
    lower, upper = bounds.exact()
    largest = max(abs(lower), abs(upper))
    if adjacency is Adjacency.ADD_REMOVE:
        return _scalar(rows * largest, adjacency)
    # One row is exchanged for one row; owners of several rows may also have fewer, which counts as zero.
    spread = upper - lower if rows == 1 else max(upper, Fraction(0)) - min(lower, Fraction(0))
    return _scalar(rows * spread, adjacency)


def _mean(adjacency: Adjacency, rows: int, bounds: _Range, n: int | None) -> Sensitivity:
    if adjacency is Adjacency.ADD_REMOVE:
        raise Refused(
            "a mean has no fixed sensitivity when units come and go, because n is private: release a noisy sum and a "
            "noisy count and divide, or use adjacency='replace' with a public n"
        )
    size = check.count("n", n, least=1)
    lower, upper = bounds.exact()
    return _scalar(min(Fraction(rows, size), Fraction(1)) * (upper - lower), adjacency)


def _histogram(adjacency: Adjacency, rows: int, bounds: _Range, n: int | None) -> Sensitivity:
    if adjacency is Adjacency.ADD_REMOVE:
        # All rows in one bin is the worst case for L2.
        return Sensitivity(float(rows), float(rows), float(rows), rows, adjacency)
    l2 = math.nextafter(math.sqrt(2.0) * rows, math.inf)
    return Sensitivity(2.0 * rows, l2, float(rows), 2 * rows, adjacency)


_RULES: dict[str, Callable[[Adjacency, int, _Range, int | None], Sensitivity]] = {
    "count": _count,
    "sum": _sum,
    "mean": _mean,
    "histogram": _histogram,
}
