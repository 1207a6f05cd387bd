"""Public facts about a table: its column names, their types, and the constants that go with them."""

from __future__ import annotations

import datetime
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tallystick.errors import InvalidInput, Remedy
from tallystick.printing import columns_of, is_visible

TYPES = ("integer", "number", "text", "boolean", "date")
UNSUPPORTED = "unsupported"
MILLISECONDS = "timestamp in milliseconds"
"""Type of a column of a Parquet file that is not supported: the engine would fail at a value that is far away."""

UNREADABLE = "stored in a way that the engine cannot read"
"""Type of a column of a Parquet file that is not supported: the engine would fail at its first value."""

_LONGEST_NAME = 200
_LONGEST_TEXT = 10_000

_FAMILIES = {
    "integer": ("tinyint", "smallint", "integer", "bigint", "int", "int2", "int4", "int8", "long", "short", "byte",
                "utinyint", "usmallint", "uinteger", "ubigint", "hugeint"),
    "number": ("float", "double", "real", "double precision", "float4", "float8", "decimal", "numeric"),
    "text": ("varchar", "text", "string", "char", "character varying", "character", "bpchar", "uuid"),
    "boolean": ("boolean", "bool"),
    # a moment counts as its day, in UTC
    "date": ("date", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamp with time zone",
             "timestamp without time zone", "timestamptz", "timestamptz_ns", "timestamp_ntz", "timestamp_ltz",
             "datetime"),
}  # fmt: skip
_OF_NAME = {name: family for family, names in _FAMILIES.items() for name in names}


@dataclass(frozen=True, slots=True)
class Schema:
    """Column names and types, in order; declared public and read once.

    >>> Schema.of({"age": "integer"}).type_of("age")
    'integer'
    """

    columns: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, types: Mapping[str, str] | Iterable[tuple[str, str]]) -> Schema:
        """A schema from names and types; names are kept as they are, types are one of ``TYPES``."""
        pairs = tuple(types.items() if isinstance(types, Mapping) else types)
        for number, (name, kind) in enumerate(pairs, start=1):
            _check_column(name, number)
            if kind not in (*TYPES, UNSUPPORTED):
                raise InvalidInput(f"types[{name!r}]", kind, f"one of {', '.join(TYPES)}")
        if not all_different(name for name, _ in pairs):
            raise InvalidInput("columns", f"{len(pairs)} names", "names that differ in more than case or look")
        return cls(pairs)

    @property
    def names(self) -> tuple[str, ...]:
        """The column names, in order."""
        return tuple(name for name, _ in self.columns)

    def type_of(self, name: str) -> str:
        """The type of a column, or an error that names close ones."""
        for known, kind in self.columns:
            if known == name:
                return kind
        raise InvalidInput("column", name, f"a column of the table: {columns_of(name, self.names)}")

    def numeric(self, name: str, measure: str = "measure", *, is_bounded: bool = False) -> str:
        """The type of a column that can be added up, or an error that says that the column cannot be.

        ``is_bounded``: the caller named bounds. Otherwise the offered type has an example of bounds beside it.
        """
        kind = self.type_of(name)
        if kind not in ("integer", "number"):
            remedies = [declared_number(name, is_bounded=is_bounded)] if kind == "text" else []
            problem = f"{name} is {said(kind)}. A {measure} needs a number"
            raise InvalidInput("column", name, "", remedies=remedies, problem=problem)
        return kind

    def place_of(self, name: str) -> int:
        """Position of a column; its name in SQL is made from this, never from what it is called."""
        self.type_of(name)
        return self.names.index(name)

    def with_column(self, name: str, kind: str) -> Schema:
        """This schema and one more column."""
        if not all_different((*self.names, new_name(name))):
            raise InvalidInput("column", name, "a new name; the table has this column already (case does not count)")
        return Schema((*self.columns, (name, kind)))


def said(kind: str) -> str:
    """Return a type in words; of a type that is not read, with the reason.

    >>> said("text")
    'text'
    """
    if kind != UNSUPPORTED:
        return kind
    return (
        "unsupported: bytes, times of day and nested values are not read. Of a Parquet file, encrypted columns and "
        "decimals in the encoding BYTE_STREAM_SPLIT are not read, nor are timestamps in milliseconds; "
        "write those in microseconds"
    )


def declared_number(name: str, *, is_bounded: bool = True) -> Remedy:
    """The remedy for a column of numbers that is text: a column of a CSV file is text until its type is declared.

    Without bounds it offers an example of them, too.
    """
    bounds = {} if is_bounded else {"lower": 0, "upper": 100}
    return Remedy("declare_type", column=name, type="number", **bounds)


def column_name(name: Any) -> str:
    """A name as a source may have it: printable text of modest length.

    >>> column_name('weight "kg"')
    'weight "kg"'
    """
    allowed = f"a name of 1 to {_LONGEST_NAME} characters"
    if not isinstance(name, str):  # a list, for example, could hold rows of private data
        raise InvalidInput("column", type(name).__name__, allowed)
    if not 0 < len(name) <= _LONGEST_NAME:
        raise InvalidInput("column", name, allowed)
    if not is_visible(name):
        raise InvalidInput("column", name, "a name of printable characters: no control, zero-width or odd space")
    return name


def _check_column(name: Any, number: int) -> None:
    """Refuse the name of a column of a source, by its place: a file that is not a table may hold a secret there."""
    try:
        column_name(name)
    except InvalidInput as problem:
        allowed = problem.allowed
    else:
        return
    raise InvalidInput("columns", f"column {number}", allowed)


def new_name(name: Any) -> str:
    """A name that an analyst makes up: as ``column_name``, and spelled plainly, so that it looks like no other.

    >>> new_name("ｗａｒｄ")
    Traceback (most recent call last):
    ...
    tallystick.errors.InvalidInput: column = 'ｗａｒｄ' is not allowed; give its plain spelling, 'ward'
    """
    plain = unicodedata.normalize("NFKC", column_name(name))
    if plain != name:
        raise InvalidInput("column", name, f"its plain spelling, {plain!r}")
    return plain


def all_different(names: Iterable[str]) -> bool:
    """True if names differ in more than case and look: engines and eyes do not tell those apart.

    >>> all_different(["age", "Age"])
    False
    """
    folded = [unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()) for name in names]
    return len(set(folded)) == len(folded)


def family(engine_type: str) -> str:
    """Our type for a type of an engine.

    >>> family("DECIMAL(18,3)"), family("VARCHAR"), family("TIMESTAMP WITH TIME ZONE"), family("STRUCT(a INTEGER)")
    ('number', 'text', 'date', 'unsupported')
    """
    plain = re.sub(r"\(\d+\)(?= with)", "", engine_type.strip().lower())  # PostgreSQL's precision of a moment
    if plain.startswith("enum"):
        return "text"
    if "[" in plain or plain.startswith(("struct", "map", "array", "list", "union")):
        return UNSUPPORTED
    return _OF_NAME.get(plain.split("(")[0].strip(), UNSUPPORTED)


_CONSTANTS = {bool: "boolean", int: "integer", float: "number", str: "text", datetime.date: "date"}


def constant(value: Any) -> Any:
    """A public constant itself, when it is a number, text, boolean or date that every engine can hold."""
    if type(value) not in _CONSTANTS:  # subclasses can compare and print as they like
        allowed = "a column expression or a public constant (number, text, boolean or date)"
        raise InvalidInput("constant", value, allowed)
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput("constant", value, "a finite number")
    if isinstance(value, int) and abs(value) >= 1 << 63:
        raise InvalidInput("constant", value, "a number below 2^63")
    if isinstance(value, str) and (len(value) > _LONGEST_TEXT or "\0" in value or not _encodable(value)):
        raise InvalidInput("constant", f"text of {len(value)} characters", f"valid text up to {_LONGEST_TEXT}")
    return value


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def type_of_constant(value: Any) -> str:
    """The type of a constant.

    >>> type_of_constant(True), type_of_constant(3), type_of_constant("a")
    ('boolean', 'integer', 'text')
    """
    return _CONSTANTS[type(value)]


def day(text: Any) -> datetime.date:
    """The date that ISO text names.

    >>> day("2026-02-28")
    datetime.date(2026, 2, 28)
    """
    try:
        date = datetime.date.fromisoformat(text)
    except (TypeError, ValueError):
        raise InvalidInput("date", text, "a date such as 2026-02-28") from None
    if date.isoformat() != text:
        raise InvalidInput("date", text, f"{date.isoformat()}")
    return date
