"""Events an attacker may bet on: learned from one half of the draws, and never from the half that certifies.

An output becomes columns of numbers (whether the function failed, its values, their binary digits, sum, extremes and
differences, how many there are) and one name (the output itself, where outputs repeat). Dates count as seconds, texts
as numbers where they are some, else in their order. Every column, every name by its likelihood ratio, and one
linear score of all columns is a score; every score with a threshold is an event. Scores are learned from every other
draw, and compared on the rest: a score that has learned its draws by heart is worth nothing there.
"""

from __future__ import annotations

import datetime
import math
import numbers
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Event = Callable[[Sequence[Any]], NDArray[np.bool_]]
"""Which of these outputs are in the event."""

MOST_COLUMNS = 64
MOST_COMPARED = 6
"""Of so many values every two are compared."""
_LARGEST = 1e300
THRESHOLDS = 200
_STEPS, _RIDGE = 60, 1e-3


Score = Callable[[Floats, Sequence[Any]], Floats]
"""One number per output, from its columns and from the output itself."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An event with a name that says what it looks at: a score that is large, or small."""

    name: str
    width: int
    score_of: Score
    threshold: float
    above: bool

    def score(self, outputs: Sequence[Any]) -> Floats:
        return self.score_of(columns_of(outputs, self.width), outputs)

    def __call__(self, outputs: Sequence[Any]) -> NDArray[np.bool_]:
        values = self.score(outputs)
        return values >= self.threshold if self.above else values < self.threshold

    def __str__(self) -> str:
        return f"{self.name} {'>=' if self.above else '<'} {self.threshold:.6g}"


@dataclass(frozen=True, slots=True)
class Failed:
    """What is released when a function fails: that it did, and how. A failure that depends on the data is an output."""

    kind: str


def numbers_of(output: Any) -> list[float]:
    """The numbers in an output, in order; None and other things that have no order are left out.

    >>> numbers_of({"count": 3, "mean": None, "spread": [1.5, float("nan")], "text": "-2.5"})
    [3.0, 1.5, nan, -2.5]
    """
    if isinstance(output, numbers.Real | Decimal | np.bool_):
        return [_double(output)]
    if isinstance(output, numbers.Complex):
        return [float(output.real), float(output.imag)]
    if isinstance(output, str | bytes | bytearray):
        return _text(output)
    if isinstance(output, datetime.date | datetime.timedelta | np.datetime64 | np.timedelta64):
        return [_moment(output)]
    if isinstance(output, np.ndarray) and output.dtype.kind in "biuf":
        return [float(x) for x in output.ravel()[:MOST_COLUMNS]]
    if isinstance(output, dict):
        output = [output[key] for key in sorted(output, key=repr)]
    if isinstance(output, list | tuple | set | frozenset | np.ndarray):
        parts = sorted(output, key=repr) if isinstance(output, set | frozenset) else output
        return [x for part in parts for x in numbers_of(part)][:MOST_COLUMNS]
    return []


def _double(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # in the order of their size, beyond nearly all others
        return (_LARGEST if value > 0 else -_LARGEST) * (1.0 - 1.0 / math.log2(abs(int(value))))
    except ValueError:  # a signalling NaN
        return math.nan


def _text(value: str | bytes | bytearray) -> list[float]:
    """A number, if it is one; else its first six bytes, by which texts are ordered, and its length."""
    try:
        return [float(value)]
    except ValueError:
        raw = value.encode(errors="replace") if isinstance(value, str) else bytes(value)
        return [float(int.from_bytes(raw[:6].ljust(6, b"\0"), "big")), float(len(raw))]


def _moment(value: Any) -> float:
    """Seconds since 1970, or of a span; every date of a calendar in one order."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        return math.nan if np.isnat(value) else float(value.astype(np.int64))
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, datetime.datetime):
        return (value.replace(tzinfo=None) - (value.utcoffset() or datetime.timedelta()) - _EPOCH).total_seconds()
    return float(value.toordinal())


_EPOCH = datetime.datetime(1970, 1, 1)


def name_of(output: Any) -> str:
    """A text that two outputs share exactly if they are equal: doubles to their last bit.

    >>> name_of([0.1, {"a": None}]) == name_of([0.1, {"a": None}]), name_of(0.1) == name_of(0.1 + 2**-56)
    (True, False)
    """
    if isinstance(output, np.ndarray):
        return f"{output.shape} {output.tolist()!r}"
    if isinstance(output, set | frozenset):
        return repr(sorted(map(name_of, output)))
    return repr(output)


def columns_of(outputs: Sequence[Any], width: int) -> Floats:
    """One row per output: what :func:`column_names` says of its first numbers (missing: 0)."""
    rows = np.zeros((len(outputs), width))
    sizes = np.zeros(len(outputs))
    failed = np.array([isinstance(output, Failed) for output in outputs], dtype=np.float64)
    for index, output in enumerate(outputs):
        numbers = numbers_of(output)
        sizes[index] = len(numbers)
        rows[index, : min(width, len(numbers))] = numbers[:width]
    missing = ~np.isfinite(rows)
    rows = np.clip(np.where(missing, 0.0, rows), -_LARGEST, _LARGEST)
    # Of columns that tell as much the first is named, so the plainest reason comes first.
    parts = [failed[:, None], sizes[:, None], missing.sum(axis=1)[:, None], rows, low_bits(rows)]
    if width > 1:
        parts += [rows.sum(axis=1)[:, None], rows.max(axis=1)[:, None], rows.min(axis=1)[:, None]]
    if 1 < width <= MOST_COMPARED:
        parts += [(rows[:, j] - rows[:, i])[:, None] for i in range(width) for j in range(i + 1, width)]
    return np.column_stack(parts)


def column_names(width: int) -> list[str]:
    """What the columns are.

    >>> column_names(1)
    ['the function fails', 'how many', 'how many are not numbers', 'value 1', 'binary digits of value 1']
    """
    names = ["the function fails", "how many", "how many are not numbers"]
    names += [f"{what}value {i + 1}" for what in ("", "binary digits of ") for i in range(width)]
    if width > 1:
        names += ["the sum", "the largest", "the smallest"]
    if 1 < width <= MOST_COMPARED:
        names += [f"value {j + 1} less value {i + 1}" for i in range(width) for j in range(i + 1, width)]
    return names


def low_bits(values: Floats) -> Floats:
    """How many binary digits of each number are used, 0 to 53: noise on a lattice uses few, naive noise shows its data.

    >>> low_bits(np.array([0.0, 1.0, 0.75, 0.1])).tolist()
    [0.0, 1.0, 2.0, 52.0]
    """
    whole = np.ldexp(np.frexp(values)[0], 53).astype(np.int64)
    trailing = whole & -whole
    used: Floats = np.where(whole == 0, 0.0, 53.0 - np.log2(np.maximum(trailing, 1).astype(np.float64)))
    return used


def best_event(
    first: Sequence[Any], second: Sequence[Any], worth: Callable[[Floats, Floats, int], Floats]
) -> tuple[float, Candidate, bool] | None:
    """The event that is worth most on these draws, its worth, and whether it is more likely under ``second``.

    ``worth`` takes the numbers of draws of the likelier and of the other side that are in each of many events, and of
    how many.
    """
    width = min(MOST_COLUMNS, max((len(numbers_of(x)) for x in [*first, *second]), default=0))
    held = [outputs[1::2] for outputs in (first, second)]
    columns = [columns_of(outputs, width) for outputs in held]
    if width == 0 and len({name_of(x) for x in [*first, *second]}) == len(first) + len(second):
        return None  # all different, and nothing in them has an order
    best: tuple[float, Candidate, bool] | None = None
    for name, score in _scores(first[::2], second[::2], width):
        one, two = (np.sort(score(*each)) for each in zip(columns, held, strict=True))
        values = np.unique(np.concatenate([one, two]))
        spread = np.quantile(values, np.linspace(0, 1, THRESHOLDS), method="nearest")
        cuts = np.unique(np.concatenate([spread, values[:20], values[-20:]]))
        below = [np.searchsorted(side, cuts).astype(np.float64) for side in (one, two)]
        above = [float(side.size) - count for side, count in zip((one, two), below, strict=True)]
        for counts, is_above in ((above, True), (below, False)):
            for swapped in (False, True):
                likely, other = counts[::-1] if swapped else counts
                values_of = worth(likely, other, min(one.size, two.size))
                at = int(np.argmax(values_of))
                if best is None or values_of[at] > best[0]:
                    event = Candidate(name, width, score, float(cuts[at]), above=is_above)
                    best = (float(values_of[at]), event, swapped)
    return best


def _scores(first: Sequence[Any], second: Sequence[Any], width: int) -> Iterator[tuple[str, Score]]:
    def column(index: int) -> Score:
        return lambda columns, outputs: np.asarray(columns[:, index])

    for index, name in enumerate(column_names(width)):
        yield name, column(index)
    counts = [Counter(map(name_of, outputs)) for outputs in (first, second)]
    if any(count > 1 for seen in counts for count in seen.values()):
        yield "likelihood ratio of the output", _ratio(counts[0], counts[1], len(first), len(second))
    if width > 0:
        yield _linear(columns_of(first, width), columns_of(second, width), column_names(width))


def _ratio(one: Counter[str], two: Counter[str], ones: int, twos: int) -> Score:
    """log of smoothed relative frequencies; outputs that were not seen are worth nothing."""
    worth = {
        name: math.log((one[name] + 0.5) / (ones + 1)) - math.log((two[name] + 0.5) / (twos + 1))
        for name in {*one, *two}
    }
    return lambda columns, outputs: np.array([worth.get(name_of(x), 0.0) for x in outputs])


def _linear(first: Floats, second: Floats, names: Sequence[str]) -> tuple[str, Score]:
    """Logistic regression on ranked columns, their squares and signs: scale-free, so heavy tails do no harm."""
    pooled = np.sort(np.concatenate([first, second]), axis=0)

    def features(columns: Floats) -> Floats:
        ranks = np.column_stack(
            [np.searchsorted(pooled[:, j], columns[:, j]) / len(pooled) - 0.5 for j in range(columns.shape[1])]
        )
        return np.column_stack([ranks, np.abs(ranks), np.ones(len(columns))])

    x = features(np.concatenate([first, second]))
    y = np.concatenate([np.ones(len(first)), np.zeros(len(second))])
    weights = np.zeros(x.shape[1])
    for _ in range(_STEPS):
        p = 1.0 / (1.0 + np.exp(-np.clip(x @ weights, -30, 30)))
        curve = (x * (p * (1 - p))[:, None]).T @ x + _RIDGE * len(y) * np.eye(x.shape[1])
        step = np.linalg.solve(curve, x.T @ (y - p) - _RIDGE * len(y) * weights)
        weights = weights + step
        if float(np.abs(step).max()) < 1e-9:
            break
    effects = (np.abs(weights) * x.std(axis=0))[:-1].reshape(2, -1).sum(axis=0)
    digits = float(effects[[name.startswith("binary digits") for name in names]].sum())
    name = "linear score with binary digits" if digits > 0.1 * float(effects.sum()) else "linear score"
    return name, lambda columns, outputs: np.asarray(features(columns) @ weights)
