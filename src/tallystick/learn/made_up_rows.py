"""Made-up rows: functions, models and losses are tried on them before a charge, and nothing in them comes from data.

    numbers(width)     tables of numbers: ordinary, missing, infinite, large, repeated
    tables(like)       tables with the columns and types of ``like``, in families of text
    examples(shape)    numbers or tokens for a model, in several tries

A table holds one difficulty at a time, because a table of everything hides much: the mean of a column with an infinite
number is not a number, with other rows and without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

COUNT = 8
"""Rows of a table: a function gets them together, and one at a time."""
WORDS = ("a", "b", "a", "f", "m", "yes", "", "B")
DIGITS = ("1", "2", "1", "0", "-3.5", "40", "1e6", "7")
DATES = ("2020-01-31", "1999-12-01", "2020-01-31", "2024-02-29", "1970-01-01", "2001-06-15", "2000-01-01", "2020-02-01")
TEXTS = {"words": WORDS, "digits": DIGITS, "dates": DATES}
"""Families of text. A function may need one of them, such as dates."""
NUMBERS = "numbers"
"""The family in which a column without a type holds numbers."""
DIFFICULT = 5
"""Rows of a table that have a difficulty in some column; the others are ordinary, however wide the table is."""
LARGE = (1e3, -1e6, 1e9, -1e12, 1e15)
WHOLE = 100.0
"""Columns of whole numbers hold numbers up to this size, which every type of integer has."""
HUGE = (np.nan, np.inf, -np.inf, 1e308, -1e308)


def numbers(width: int) -> list[Array]:
    """Tables of numbers, each with one difficulty: none, missing, infinite, large, repeated.

    >>> [table.shape for table in numbers(2)]
    [(8, 2), (8, 2), (8, 2), (8, 2), (8, 2)]
    """
    random = np.random.default_rng(0)
    ordinary = random.normal(size=(COUNT, width))
    missing, infinite, large = ordinary.copy(), ordinary.copy(), 10 * ordinary
    repeated = np.zeros((COUNT, width))
    for column in range(width):
        places = (np.arange(DIFFICULT) + column) % DIFFICULT
        missing[places[:2], column] = np.nan
        infinite[places[:2], column] = (np.inf, -np.inf)
        large[places, column] = LARGE
        repeated[places, column] = (0.0, 1.0, 1.0, -1.0, 5.0)
    return [ordinary, missing, infinite, large, repeated]


def extremes(width: int) -> Array:
    """Rows that have one missing, infinite or huge number each.

    >>> extremes(1).ravel().tolist()
    [nan, inf, -inf, 1e+308, -1e+308]
    """
    rows = np.zeros((len(HUGE) * width, width))
    for place, entry in enumerate(HUGE):
        np.fill_diagonal(rows[place * width :], entry)
    return rows


def tables(like: Any) -> dict[str, list[Any]]:
    """Tables with the columns and types of ``like``, by family; empty if the types are not known here.

    Only types and names are read. A table of one type, such as an array of doubles, has one family. Text, objects and
    lists have several, because their type does not say what they hold.

    >>> {family: len(made) for family, made in tables(np.zeros((3, 2))).items()}
    {'numbers': 5}
    """
    try:
        if hasattr(like, "columns") and hasattr(like, "dtypes"):
            return _frames(like)
        if hasattr(like, "toarray"):
            return {NUMBERS: [type(like)(table) for table in numbers(like.shape[1])]}
        if hasattr(like, "dtype"):
            return _arrays(like)
        lists = _arrays(np.empty((1, len(like[0])), dtype=object))
    except Exception:  # a container that is not known here
        return {}
    return {family: [table.tolist() for table in made] for family, made in lists.items()}


TRIES = (((2, 10), "normal"), ((1, 5), "uniform"), ((0, 2), "normal"), ((0, 2), "uniform"))
"""Ranges of whole numbers, and the law of other numbers. A model gets the first try on which it runs.

A token of padding may be any number, so the ranges differ. A model with few tokens has 0 and 1.
"""


def examples(shape: tuple[int, ...], attempt: int, *, is_whole: bool) -> NDArray[Any]:
    """Made-up examples of a try: tokens if the numbers are whole, else normal ones or ones between 0 and 1.

    >>> examples((2, 3), 0, is_whole=True).min() >= 2, examples((2,), 2, is_whole=True).max() <= 1
    (np.True_, np.True_)
    """
    random = np.random.default_rng(attempt)
    tokens, law = TRIES[attempt]
    if is_whole:
        return random.integers(*tokens, size=shape)
    return random.normal(size=shape) if law == "normal" else random.uniform(size=shape)


def _arrays(like: Any) -> dict[str, list[Any]]:
    """Arrays as wide as ``like`` and of its type."""
    width, dtype = like.shape[1], like.dtype
    made = {}
    for family in _families([_kind(dtype)]):
        columns = [_columns([_kind(dtype)] * width, family, table) for table in numbers(width)]
        made[family] = [np.array(values, dtype=object).T.astype(dtype) for values in columns]
    return made


def _frames(like: Any) -> dict[str, list[Any]]:
    """Data frames of pandas or polars with the columns and types of ``like``."""
    names, types = list(like.columns), list(like.dtypes)
    kinds = [_kind(dtype) for dtype in types]
    made: dict[str, list[Any]] = {}
    for family in _families(kinds):
        made[family] = []
        for table in numbers(len(names)):
            columns = _columns(kinds, family, table)
            made[family].append(_framed(like, names, types, columns))
    return made


def _framed(like: Any, names: list[Any], types: list[Any], columns: list[list[Any]]) -> Any:
    """One data frame of columns, in the library of ``like``."""
    if type(like).__module__.startswith("polars"):
        import polars

        typed = zip(names, columns, types, strict=True)
        return polars.DataFrame([polars.Series(name, values, strict=False).cast(kind) for name, values, kind in typed])
    import pandas

    series = [_series(values, dtype) for values, dtype in zip(columns, types, strict=True)]
    frame = pandas.concat(series, axis=1)
    frame.columns = like.columns
    return frame


def _series(values: list[Any], dtype: Any) -> Any:
    """One column of pandas; a categorical one has the made-up categories, because its own may come from rows."""
    import pandas

    if isinstance(dtype, pandas.CategoricalDtype):
        return pandas.Series(pandas.Categorical(values, categories=sorted(set(WORDS))))
    if isinstance(dtype, pandas.DatetimeTZDtype):
        return pandas.to_datetime(pandas.Series(values)).dt.tz_localize(dtype.tz)
    return pandas.Series(values).astype(dtype)


def _families(kinds: Sequence[str]) -> list[str]:
    if "object" in kinds:
        return [*TEXTS, NUMBERS]
    return list(TEXTS) if {"text", "string"} & set(kinds) else [NUMBERS]


def _kind(dtype: Any) -> str:
    """Kind of values that a type holds; raises ``KeyError`` for a type that is not known here."""
    name = str(dtype).lower()
    for start, kind in KINDS.items():
        if name.startswith(start):
            return kind
    raise KeyError(name)


KINDS = {
    "float": "float",
    "double": "float",
    "uint": "positive",
    "int": "whole",
    "bool": "bool",
    "datetime": "date",
    "date": "date",
    "category": "category",
    "categorical": "category",
    "object": "object",
    "str": "string",
    "utf8": "string",
    "<u": "text",
}
"""Kinds of columns, by how the name of a type begins: in numpy, pandas and polars."""


def _columns(kinds: list[str], family: str, table: Array) -> list[list[Any]]:
    """Columns of these kinds, whose numbers are those of a table."""
    return [_column(kind, family, numbers_of_it) for kind, numbers_of_it in zip(kinds, table.T, strict=True)]


def _column(kind: str, family: str, values: Array) -> list[Any]:
    """Entries of a column; text is missing where numbers are."""
    if kind == "float" or (kind == "object" and family == NUMBERS):
        return [float(value) for value in values]
    if kind in ("whole", "positive", "bool"):
        return _whole_numbers(kind, values)
    texts = {"category": WORDS, "date": DATES}.get(kind) or TEXTS[family]
    if kind == "text":  # an array of text has no missing entries
        return list(texts)
    return [None if np.isnan(value) else text for text, value in zip(texts, values, strict=True)]


def _whole_numbers(kind: str, values: Array) -> list[Any]:
    finite = np.rint(np.nan_to_num(10 * values, posinf=WHOLE, neginf=-WHOLE).clip(-WHOLE, WHOLE))
    if kind == "bool":
        return [bool(value > 0) for value in finite]
    return [int(abs(value)) if kind == "positive" else int(value) for value in finite]


def differ(together: Any, alone: Sequence[Any]) -> bool:
    """True if the results of rows one at a time are not those of all rows together.

    >>> differ([[1.0], [2.0]], [[[1.0]], [[2.0]]]), differ([[1.5], [2.0]], [[[1.0]], [[2.0]]])
    (False, True)
    """
    if any(_names(part) != _names(together) for part in alone):
        return True
    whole, parts = cells(together), [cells(part) for part in alone]
    if any(part.shape[1:] != whole.shape[1:] for part in parts):
        return True
    joined = np.concatenate(parts)
    return joined.shape != whole.shape or not _close(whole, joined)


def cells(made: Any) -> NDArray[Any]:
    """Cells of a result as numbers, or as objects if some of them are not numbers."""
    array = np.asarray(made.toarray() if hasattr(made, "toarray") else made)
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        return array.astype(object)


def _names(made: Any) -> list[Any]:
    """Names of the columns of a result, or nothing."""
    return list(getattr(made, "columns", []))


def _close(left: NDArray[Any], right: NDArray[Any]) -> bool:
    if left.dtype != object and right.dtype != object:
        return bool(np.allclose(left, right, rtol=1e-6, atol=1e-9, equal_nan=True))
    return all(_same_cell(*pair) for pair in zip(left.ravel(), right.ravel(), strict=True))


def _same_cell(left: Any, right: Any) -> bool:
    """True for equal cells, and for two missing ones."""
    try:
        return bool(np.isclose(float(left), float(right), rtol=1e-6, atol=1e-9, equal_nan=True))
    except (TypeError, ValueError):
        return str(left) == str(right)
