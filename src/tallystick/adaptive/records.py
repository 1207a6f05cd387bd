"""Records as a question sees them: one by one or in rows, under the names that their columns have.

How many there are, their dtype and the names of columns are public. So a question can be tried on made-up records of
the same shape before anything is paid or read, and one that can never work is refused there instead of being counted
as a failure of every record. What is in a list is not public: there only an ``example`` can be tried.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tallystick.adaptive.values import single
from tallystick.errors import InvalidInput
from tallystick.mechanisms.inputs import array_or_list, list_length, number

TRIED = 3  # made-up rows, so that their number is not that of anything else


class NoSuchColumn(KeyError):
    """A record was asked for a column that the data do not have."""


class Record(dict[Any, Any]):
    """One row of a data frame: its values by the names of their columns."""

    def __missing__(self, name: object) -> Any:
        raise NoSuchColumn(name)


@dataclass(frozen=True, slots=True)
class MadeUp:
    """Zeros in the shape of the records, or an example of the caller's, who answers for it.

    ``known`` says that every value has the type it has in the data.
    """

    one: Any
    rows: Any
    known: bool
    example: bool = False

    def fatal(self, *, vectorized: bool) -> tuple[type[BaseException], ...]:
        """With what a question fails for every record if it fails so for these."""
        if self.example:
            return (Exception,)
        return PUBLIC + OF_A_TYPE * self.known + (KeyError,) * vectorized


@dataclass(frozen=True, slots=True)
class Records:
    """A list, an array that cannot be written to, or a data frame of pandas or polars with its columns by name."""

    data: Any
    size: int
    columns: dict[Any, Any] | None = None

    @classmethod
    def of(cls, argument: str, given: Any) -> Records:
        """The records; refused where columns would lose their names.

        >>> Records.of("records", [{"age": 40}]).one(0)
        {'age': 40}
        """
        allowed = "a list or an array of records, or a data frame of pandas or polars"
        if hasattr(given, "columns") or hasattr(given, "column_names"):
            if not hasattr(given, "iloc") and not hasattr(given, "to_series"):
                raise InvalidInput(argument, f"a table of type {type(given).__name__}", allowed)
            names = list(given.columns)
            if len(set(names)) != len(names):
                raise InvalidInput(argument, "two columns of one name", allowed)
            size = list_length(argument, given, allowed)
            return cls(given, size, {name: _column(given, j).to_numpy() for j, name in enumerate(names)})
        held = array_or_list(given)
        size = list_length(argument, held, allowed)
        if isinstance(held, np.ndarray):
            held = held.view()
            held.flags.writeable = False  # a question that writes would change what the next one is asked about
        return cls(held, size)

    def one(self, i: int) -> Any:
        """Record i by itself."""
        if self.columns is not None:
            return Record((name, column[i]) for name, column in self.columns.items())
        record = self.data[i]
        return record.copy() if type(record) in (dict, list, set, np.ndarray) else record

    def rows(self, first: int, last: int) -> Any:
        """Some neighbours together, as the kind of data they are."""
        part = self.data.iloc[first:last] if hasattr(self.data, "iloc") else self.data[first:last]
        return part.copy() if hasattr(self.data, "iloc") else part

    def made_up(self) -> MadeUp | None:
        """Made-up records; None where nothing is known of them."""
        if self.columns is not None:
            return self._made_up_frame()
        if not isinstance(self.data, np.ndarray) or self.data.dtype.hasobject:
            return None
        rows = np.zeros((TRIED, *self.data.shape[1:]), self.data.dtype)
        rows.flags.writeable = False
        return MadeUp(rows[0].copy(), rows, known=True)

    def _made_up_frame(self) -> MadeUp | None:
        try:
            if hasattr(self.data, "iloc"):
                columns = {name: _blank(_column(self.data, j)) for j, name in enumerate(self.data.columns)}
                rows, known = type(self.data)(columns), all(isinstance(one, np.ndarray) for one in columns.values())
            else:
                rows, known = self.data.clear(TRIED), False
            return MadeUp(Records.of("records", rows).one(0), rows, known)
        except Exception:  # of a data frame that cannot be made up: nothing is tried
            return None


def _column(frame: Any, j: int) -> Any:
    return frame.iloc[:, j] if hasattr(frame, "iloc") else frame.to_series(j)


def _blank(column: Any) -> Any:
    """Zeros of a numpy type; missing values of any other."""
    if isinstance(column.dtype, np.dtype) and not column.dtype.hasobject:
        return np.zeros(TRIED, column.dtype)
    return column.iloc[:0].reset_index(drop=True).reindex(range(TRIED))


def example_of(example: Any) -> MadeUp:
    """A made-up record of the caller's."""
    return MadeUp(example, [example] * TRIED, known=True, example=True)


PUBLIC = (NoSuchColumn, NameError)
"""Errors with which a question fails for all records."""
OF_A_TYPE = (IndexError, TypeError, AttributeError)
"""Errors with which a question fails for every record of the same types."""


def tried(
    argument: str, call: Callable[[Any], Any], given: Any, *, allowed: str, fatal: tuple[type[BaseException], ...]
) -> Any:
    """The answer to made-up records; None where it fails for a reason that may be theirs, refused where it is not."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call(given)
    except fatal as problem:
        said = f"it fails on made-up records with {type(problem).__name__}: {str(problem)[:200]}"
        raise InvalidInput(argument, said, allowed) from None
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        if "read-only" in str(problem):  # numpy's ValueError for writing into records
            raise InvalidInput(argument, "it writes into the records", f"{allowed}; copy them first") from None
        return None


QUERY = "a function of one record with a number in [0, 1]; records of a data frame have its columns by name"
QUERIES = "a function of all records that gives one number in [0, 1] for each of them"


def check_query(query: Any, made_up: MadeUp | None, *, vectorized: bool) -> None:
    """Refuse a question that no record could answer, before anything is paid."""
    allowed = QUERIES if vectorized else QUERY
    if not callable(query):
        raise InvalidInput("query", type(query).__name__, allowed)
    try:
        inspect.signature(query).bind(None)
    except TypeError:
        raise InvalidInput("query", "a function that does not take one argument", allowed) from None
    except ValueError:  # functions of C libraries say nothing about their arguments
        pass
    if made_up is None:
        return
    given, fatal = made_up.rows if vectorized else made_up.one, made_up.fatal(vectorized=vectorized)
    answer = tried("query", query, given, allowed=allowed, fatal=fatal)
    if answer is None:
        return
    if vectorized and np.shape(answer) != (TRIED,):
        raise InvalidInput("query", f"its answer to {TRIED} records has shape {np.shape(answer)}", allowed)
    if not vectorized and made_up.known and number(single(answer)) is None:
        raise InvalidInput("query", f"its answer to one record is of type {type(answer).__name__}", allowed)
