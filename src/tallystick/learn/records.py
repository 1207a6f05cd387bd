"""Rows as an estimator may see them: one public rule per row, which no other row can change.

The container is public: two dimensions, a numeric dtype, as many labels as rows. What is inside is data, is never
counted and never raises:

    a row with an entry that is missing or no finite number   is left out
    a row longer than the declared norm                       is scaled down to it (the constant column included)
    an undeclared label, a target that is not a number        leaves its row out; a target beyond its bounds is clamped
    rows of one unit beyond the declared number               are left out, the first ones in the given order stay

Each rule looks at one row, or at the rows of one unit, so neighbouring data stay neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from tallystick.errors import InvalidInput

Array = NDArray[np.float64]

WITHIN = 1.0 - 2.0**-40
"""A scaled row ends below its norm by this factor, so that rounding does not lift it above."""
NAMES = (str, bytes, int, float, Decimal, date, time, timedelta, UUID, Enum)
"""What names a unit; a ``bool`` is an ``int``, a ``datetime`` a ``date``."""


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """Data as they were handed to ``fit``, after the checks of what is public: an array, targets, and units or None."""

    rows: Array
    targets: NDArray[Any] | None
    units: Sequence[Any] | None
    kind: str | None = None
    """Of the targets: "text" or "numbers", where their container says it."""
    names: tuple[str, ...] | None = None
    """Of the columns, where they have names."""

    @property
    def width(self) -> int:
        """Number of columns, which is public."""
        return int(self.rows.shape[1])

    def usable(self, rows_per_unit: int) -> Given:
        """Without the rows that hold no numbers, and with the first rows of each unit only."""
        kept = np.isfinite(self.rows).all(axis=1)
        if self.units is not None:
            kept &= first_of_each(self.units, rows_per_unit)
        return Given(self.rows[kept], None if self.targets is None else self.targets[kept], None)


def given(X: Any, y: Any, units: Any = None) -> Given:
    """Check containers only: dimensions, dtypes and lengths.

    >>> given([[1, 2], [3, 4]], [0, 1]).width
    2
    """
    rows = matrix("X", X)
    targets = None if y is None else column("y", y, len(rows))
    return Given(
        rows, targets, None if units is None else identifiers(units, len(rows)), kind=kind_of(y), names=column_names(X)
    )


def column_names(X: Any) -> tuple[str, ...] | None:
    """The names of a data frame's columns, if all of them are text.

    >>> column_names([[1.0]]) is None
    True
    """
    names = tuple(getattr(X, "column_names", getattr(X, "columns", ())))
    return names if names and all(isinstance(name, str) for name in names) else None


def kind_of(y: Any) -> str | None:
    """ "text" or "numbers" as the type of a container says, which is public; None where it says neither.

    >>> kind_of(np.array(["a"])), kind_of(np.array([1.0])), kind_of(["a"])
    ('text', 'numbers', None)
    """
    dtype = getattr(y, "dtype", None)
    if getattr(dtype, "kind", None) in ("U", "S") or str(dtype).lower().startswith(("str", "utf8", "large_string")):
        return "text"
    numeric = getattr(dtype, "kind", None) in ("b", "u", "i", "f") or getattr(dtype, "is_numeric", lambda: False)()
    return "numbers" if numeric else None


def matrix(name: str, X: Any) -> Array:
    """A two-dimensional numeric array of doubles; a data frame counts if all its columns are numeric.

    >>> matrix("X", [[1, 2]]).shape
    (1, 2)
    """
    allowed = "a table of numbers with two dimensions (rows, features); text and categories are encoded first"
    if hasattr(X, "toarray") and not isinstance(X, np.ndarray):
        raise InvalidInput(
            name,
            "a sparse matrix",
            "a dense array, such as X.toarray(); in a pipeline OneHotEncoder(sparse_output=False)",
        )
    array = _numeric(name, X, allowed)
    if array.ndim == 1:
        raise InvalidInput(name, f"shape {array.shape}", f"{allowed}. Reshape your data: reshape(-1, 1) is one feature")
    if array.ndim != 2 or array.shape[1] == 0:
        raise InvalidInput(name, f"shape {array.shape}", allowed)
    return array


def _numeric(name: str, value: Any, allowed: str) -> Array:
    """A container as doubles. Its dtype is public; a list has none, so its entries are data and read one by one."""
    if hasattr(value, "to_numpy") and hasattr(value, "dtypes"):  # pandas, polars: missing values become NaN
        kinds = [value.dtypes] if getattr(value, "ndim", 2) == 1 else list(value.dtypes)
        value = _frame(value, kinds, name, allowed)
    elif hasattr(value, "to_pydict") and hasattr(value, "schema"):
        value = _arrow(name, value, allowed)
    elif isinstance(value, np.ma.MaskedArray) and value.dtype.kind in "buif":
        value = np.where(np.ma.getmaskarray(value), np.nan, np.ma.getdata(value))
    array = _listed(name, value, allowed) if isinstance(value, (list, tuple)) else _array(name, value, allowed)
    if array.dtype.kind == "c":
        raise InvalidInput(name, f"dtype {array.dtype}", f"{allowed}. Complex data not supported")
    if array.dtype.kind not in "buif":
        raise InvalidInput(name, f"dtype {array.dtype}", allowed)
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(array, dtype=np.float64)


def _arrow(name: str, table: Any, allowed: str) -> Array:
    """Return an Arrow table by its schema, even if rows lack entries."""
    kinds = dict.fromkeys(str(field.type) for field in table.schema)
    if not all(kind.startswith(("int", "uint", "float", "double", "halffloat", "bool", "null")) for kind in kinds):
        raise InvalidInput(name, f"columns of type {', '.join(kinds)}", allowed)
    return np.array([[_double(entry) for entry in column.to_pylist()] for column in table.columns], dtype=np.float64).T


def _array(name: str, value: Any, allowed: str) -> NDArray[Any]:
    try:
        return np.asarray(value)
    except Exception:
        raise InvalidInput(name, f"a value of type {type(value).__name__}", allowed) from None


def _listed(name: str, rows: Any, allowed: str) -> NDArray[Any]:
    """Rows of a list: None, in a row or for all of it, and what is not a number is NaN, in every row.

    NumPy would choose one type for all entries by looking at everybody. Where it finds numbers only it reads each of
    them as here, and faster.
    """
    try:
        array = np.asarray(rows)
    except ValueError:  # rows of different lengths, or with a row that is None
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "buif":
        rows = [row.tolist() if isinstance(row, np.ndarray) and row.ndim == 1 else row for row in rows]
    if array.dtype.kind in "buif" or not all(row is None or isinstance(row, (list, tuple)) for row in rows):
        return array if array.size else _array(name, rows, allowed)
    lengths = {len(row) for row in rows if row is not None}
    if len(lengths) != 1:
        raise InvalidInput(name, "rows of no or of different lengths", allowed)
    missing = [None] * lengths.pop()
    return np.array([[_double(entry) for entry in (missing if row is None else row)] for row in rows], dtype=np.float64)


def _frame(frame: Any, kinds: list[Any], name: str, allowed: str) -> Any:
    numeric = all(
        getattr(kind, "kind", None) in ("b", "u", "i", "f") or getattr(kind, "is_numeric", lambda: False)()
        or str(kind) in ("Boolean", "Null")  # polars: a column of missing values only has no type of its own
        for kind in kinds
    )  # fmt: skip
    if not numeric:
        raise InvalidInput(name, f"columns of type {', '.join(dict.fromkeys(map(str, kinds)))}", allowed)
    if type(frame).__module__.startswith("pandas"):
        return frame.to_numpy(dtype="float64", na_value=np.nan)
    return (frame.cast(float) if hasattr(frame, "cast") else frame).to_numpy()


def column(name: str, y: Any, length: int) -> NDArray[Any]:
    """One column of as many entries as there are rows, of any dtype.

    >>> labelled(column("y", [0, 1, "unknown"], 3), [0, 1]).tolist()
    [0, 1, -1]
    """
    allowed = f"a list with one entry per row of X ({length})"
    try:
        array = _entries(y)
    except Exception:
        raise InvalidInput(name, f"a value of type {type(y).__name__}", allowed) from None
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or len(array) != length:
        raise InvalidInput(name, f"shape {array.shape}", allowed)
    return array


def _entries(y: Any) -> NDArray[Any]:
    """An array with the dtype it has, which is public. A list has none: NumPy would choose it by looking at everybody,
    and one text among numbers, or one missing integer, would change how all others are read.
    """
    if hasattr(y, "to_pylist"):  # Arrow, where a missing entry would change the type of all
        y = y.to_pylist()
    elif isinstance(y, np.ma.MaskedArray):
        y = y.tolist()
    elif hasattr(y, "to_list") and not isinstance(getattr(y, "dtype", None), np.dtype):  # a column that may be missing
        y = y.to_list()
    if not isinstance(y, (list, tuple)):
        return np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    found = np.empty(len(y), dtype=object)
    for i, entry in enumerate(y):
        # Entry by entry: were lists of one opened only where all are, one missing target would hide everybody's.
        found[i] = entry[0] if isinstance(entry, (list, tuple)) and len(entry) == 1 else entry
    return found


def identifiers(units: Any, length: int) -> list[Any]:
    """Who each row is about, as plain Python values: one list, array, tensor or column, as long as the rows.

    Its shape is public and checked. An entry of a tensor, which is hashed by its address, would make every row a person
    of its own, so containers are opened by their own ``tolist``.

    >>> identifiers(np.array(["ann", "bob"]), 2)
    ['ann', 'bob']
    """
    allowed = f"a list with one identifier per row of X ({length})"
    shape = getattr(units, "shape", None)
    if shape is not None and len(shape) != 1:
        raise InvalidInput("units", f"shape {tuple(shape)}", f"{allowed}, of one dimension")
    if isinstance(units, (str, bytes, bytearray, Mapping, Set)):
        raise InvalidInput("units", f"a value of type {type(units).__name__}", allowed)
    try:
        open_ = next((way for name in ("to_list", "to_pylist", "tolist") if (way := getattr(units, name, None))), None)
        listed = list(units if open_ is None else open_())
    except Exception:
        raise InvalidInput("units", f"a value of type {type(units).__name__}", allowed) from None
    if len(listed) != length:
        raise InvalidInput("units", f"{len(listed)} entries", allowed)
    return listed


def first_of_each(units: Sequence[Any], most: int) -> NDArray[np.bool_]:
    """Which rows stay when every unit keeps its first ``most``; a row without a unit is left out.

    Names are text, bytes, numbers, dates, times, UUIDs, members of an Enum, and tuples or lists of them; equal ones are
    one unit, so 1, 1.0 and True are.

    >>> first_of_each(["a", "b", "a", "a", None], 2).tolist()
    [True, True, True, False, False]
    """
    kept = np.zeros(len(units), dtype=bool)
    seen: dict[Any, int] = {}
    for i, unit in enumerate(units):
        try:
            if not _is_name(name := _read(unit)):
                continue
            count = seen.get(name, 0)
            seen[name] = count + 1
        except Exception:  # an identifier that cannot be compared is no identifier
            continue
        kept[i] = count < most
    return kept


def _read(unit: Any) -> Any:
    """A number of an array or tensor as Python's, and a list, as a frame of several columns gives it, as a tuple."""
    if isinstance(unit, (tuple, list)):
        return tuple(_read(part) for part in unit)
    return unit.item() if getattr(unit, "shape", None) == () else unit


def _is_name(unit: Any) -> bool:
    """Of a type whose equal values have equal hashes, and equal to itself: NaN and missing dates are not."""
    if isinstance(unit, tuple):
        return all(_is_name(part) for part in unit)
    return isinstance(unit, NAMES) and bool(unit == unit)


def scaled(rows: Array, norm: float, *, constant: float = 0.0) -> Array:
    """Rows, with a constant column if ``constant`` is not 0, scaled down to the Euclidean norm; free and public.

    >>> scaled(np.array([[3.0, 4.0]]), 1.0).round(3).tolist()
    [[0.6, 0.8]]
    """
    wide = np.column_stack([rows, np.full(len(rows), constant)]) if constant else np.array(rows)
    largest = np.abs(wide).max(axis=1, initial=0.0, keepdims=True)
    unit = np.where(largest > 0.0, largest, 1.0)
    shape = wide / unit  # in units of the largest entry, so that nothing overflows
    # Column by column: a sum over the whole array could round one row differently when another is gone.
    squares = np.zeros_like(unit)
    for column in shape.T:
        squares[:, 0] += column * column
    room = norm * WITHIN / np.sqrt(squares.clip(min=1.0))
    return np.ascontiguousarray(np.where(unit > room, shape * room, wide))


def along(rows: Array, weights: Array) -> Array:
    """``rows @ weights``, column by column: a matrix product may round a row differently when another one is gone.

    >>> along(np.array([[1.0, 2.0]]), np.array([3.0, 0.5])).tolist()
    [4.0]
    """
    found = np.zeros((len(rows), *weights.shape[1:]))
    with np.errstate(all="ignore"):  # a row may be as long as doubles are
        for column, weight in zip(rows.T, weights, strict=True):
            found += np.multiply.outer(column, weight)
    return found


def labelled(targets: NDArray[Any], classes: Sequence[Any]) -> NDArray[np.int64]:
    """The place of each label among the declared classes, -1 where it is none of them.

    >>> labelled(np.array(["a", "c"]), ["a", "b"]).tolist()
    [0, -1]
    """
    places = {_plain(label): i for i, label in enumerate(classes)}
    return np.array([_place(places, entry) for entry in targets.tolist()], dtype=np.int64)


def _place(places: dict[Any, int], entry: Any) -> int:
    try:
        return places.get(entry, -1)
    except Exception:  # an entry that has no hash is no label
        return -1


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def numbers(targets: NDArray[Any], low: float, high: float) -> Array:
    """Targets as doubles clamped to the declared bounds, NaN where there is no number.

    >>> numbers(np.array([0.0, 9.0]), -1.0, 1.0).tolist()
    [0.0, 1.0]
    """
    if targets.dtype.kind in "buif":
        with np.errstate(all="ignore"):  # a long double may be beyond all doubles
            values = targets.astype(np.float64)
    else:
        values = np.array([_double(entry) for entry in targets.tolist()], dtype=np.float64)
    return np.where(np.isnan(values), np.nan, np.clip(values, low, high))


def _double(entry: Any) -> float:
    try:
        return float(entry) if isinstance(entry, (int, float, np.number, np.bool_)) else np.nan
    except Exception:
        return np.nan
