"""The footer of a Parquet file: its columns, and how each of their chunks is stored.

An engine that cannot read an encoding, a codec or a type finds out when it meets the first value of a chunk, after the
charge; a page of missing values passes, and so does a part of the file that a filter skips. So one person's value would
decide whether a release succeeds. The footer is read before the charge, with no engine: DuckDB's ``parquet_metadata``
also reads statistics, and fails at some values, and Spark believes texts in the footer that can say anything.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

_MAGIC: Final = b"PAR1"
END: Final = 8
"""Bytes behind the footer: its length and the magic."""

# Types of Thrift's compact protocol.
_TRUE, _FALSE, _BYTE, _SHORT, _INT, _LONG, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT, _UUID = range(1, 14)
_WIDEST: Final = 63
"""Bits of the longest whole number."""
_FIXED: Final = {_TRUE: 0, _FALSE: 0, _BYTE: 1, _DOUBLE: 8, _UUID: 16}
"""Bytes of the types whose length is fixed. As a field, a truth value is in the header of the field."""

_Wanted = Mapping[int, Any]
"""Fields of a structure that are read, each with the fields inside it. All others are skipped."""

# Numbers of fields in parquet.thrift.
_SCHEMA, _ROW_GROUPS, _ENCRYPTION = 2, 4, 8
_TYPE_OF, _LENGTH, _REPETITION, _NAME, _CHILDREN, _CONVERTED, _SCALE, _PRECISION, _LOGICAL = 1, 2, 3, 4, 5, 6, 7, 8, 10
_COLUMNS: Final = 1
_ELSEWHERE, _METADATA, _CRYPTO, _ENCRYPTED = 1, 3, 8, 9
_TYPE, _ENCODINGS, _CODEC = 1, 2, 4
_MOMENT, _OF_DECIMAL, _WHOLE = 8, 5, 10
_TWO: Final[_Wanted] = MappingProxyType({1: {}, 2: {1: {}, 2: {}, 3: {}}})
"""The facts of a moment, a decimal or a whole number: two fields, one of which can hold a unit of time."""
_NOTHING: Final[_Wanted] = MappingProxyType({})
_ELEMENT: Final[_Wanted] = {
    **dict.fromkeys((_TYPE_OF, _LENGTH, _REPETITION, _NAME, _CHILDREN, _CONVERTED, _SCALE, _PRECISION), _NOTHING),
    _LOGICAL: dict.fromkeys(range(1, 32), _TWO),
}
_CHUNK: Final[_Wanted] = {
    _ELSEWHERE: {},
    _METADATA: {_TYPE: {}, _ENCODINGS: {}, _CODEC: {}},
    _CRYPTO: {},
    _ENCRYPTED: {},
}
_WANTED: Final[_Wanted] = {_SCHEMA: _ELEMENT, _ROW_GROUPS: {_COLUMNS: _CHUNK}, _ENCRYPTION: {}}

BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTES, FIXED_BYTES = range(8)
"""Physical types."""
_ANY: Final = frozenset(range(8))
_READABLE: Final = {
    0: _ANY,  # PLAIN
    2: _ANY,  # PLAIN_DICTIONARY
    3: _ANY,  # RLE, also of levels
    4: _ANY,  # BIT_PACKED, of levels
    5: frozenset({INT32, INT64}),  # DELTA_BINARY_PACKED
    6: frozenset({BYTES}),  # DELTA_LENGTH_BYTE_ARRAY
    7: frozenset({BYTES, FIXED_BYTES}),  # DELTA_BYTE_ARRAY
    8: _ANY,  # RLE_DICTIONARY
}
"""The physical types that engines read in each encoding."""
_SPLIT: Final = 9
_READABLE_BY_DUCKDB: Final = {**_READABLE, _SPLIT: frozenset({INT32, INT64, FLOAT, DOUBLE})}
"""DuckDB also reads BYTE_STREAM_SPLIT. Versions of Spark differ in it."""

_CODECS: Final = frozenset({0, 1, 2, 6, 7})
"""Codecs that are part of every engine: none, Snappy, gzip, Zstandard and LZ4_RAW; not LZO and not the older LZ4."""
_BROTLI: Final = 4
_CODECS_OF_DUCKDB: Final = _CODECS | {_BROTLI}

_CONVERTED_KINDS: Final = {
    0: "text",
    4: "text",
    5: "decimal",
    6: "date",
    9: "milliseconds",
    10: "microseconds",
    11: "uint8",
    12: "uint16",
    13: "uint32",
    14: "uint64",
    15: "int8",
    16: "int16",
    17: "int32",
    18: "int64",
    19: "text",
}
"""Meanings of a column in the older way to write them. Enumerations and JSON are text."""
_PLAIN_KINDS: Final = {1: "text", 4: "text", 6: "date", 12: "text"}
_UNITS: Final = {1: "milliseconds", 2: "microseconds", 3: "nanoseconds"}
_OTHER: Final = "other"


class Chunk(NamedTuple):
    """One column of one row group: how its values are stored. ``is_plain`` is False if they are encrypted or absent."""

    physical: int
    encodings: tuple[int, ...]
    codec: int
    is_plain: bool

    @property
    def is_common(self) -> bool:
        """True if every engine reads it."""
        return self._is_in(_READABLE, _CODECS)

    @property
    def is_for_duckdb(self) -> bool:
        """True if DuckDB reads it."""
        return self._is_in(_READABLE_BY_DUCKDB, _CODECS_OF_DUCKDB)

    def _is_in(self, readable: Mapping[int, frozenset[int]], codecs: frozenset[int]) -> bool:
        nothing: frozenset[int] = frozenset()
        is_known = all(self.physical in readable.get(each, nothing) for each in self.encodings)
        return self.is_plain and self.codec in codecs and is_known


class Column(NamedTuple):
    """A column of a file. A column with parts, or with several values in a row, has no physical type (-1).

    ``meaning`` is how the values are to be read: ``text``, ``date``, ``microseconds``, ``decimal(9,2)``, ``int8``; it
    is empty if the physical type says all.
    """

    name: str
    physical: int
    meaning: str
    chunks: list[Chunk]


class Footer(NamedTuple):
    """The columns of a file, and whether a part of it is encrypted.

    ``schema`` is a digest of all that the footer says about names and types: an engine that reads one file reads the
    types of every file with the same digest.
    """

    columns: list[Column]
    is_encrypted: bool
    schema: str = ""


def unreadable_columns(path: Path) -> list[bool]:
    """For each column of a Parquet file: is some part of it stored in a way that DuckDB cannot read?

    Raise ``ValueError`` if the file is damaged.
    """
    columns = footer_of(path).columns
    return [not all(chunk.is_for_duckdb for chunk in column.chunks) for column in columns]


def footer_of(path: Path) -> Footer:
    """Return the footer of a file. Raise ``ValueError`` if the file is damaged."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - END, 0))
        length = length_of(file.read(END), size)
        file.seek(size - END - length)
        return read_footer(file.read(length))


def length_of(end: bytes, size: int) -> int:
    """Bytes of the footer, from the last bytes of a file with ``size`` bytes."""
    length = int.from_bytes(end[:4], "little")
    if end[4:] != _MAGIC or length > size - END:
        raise ValueError("not a Parquet file")
    return length


def read_footer(data: bytes) -> Footer:
    """Return what the bytes of a footer say. Raise ``ValueError`` if they are damaged."""
    try:
        found = _Thrift(data).structure(_WANTED)
    except (IndexError, RecursionError):
        raise ValueError("the footer is damaged") from None
    elements = [_typed(each, dict) for each in _typed(found.get(_SCHEMA, []), list)]
    owners = _owners([_typed(each.get(_CHILDREN, 0), int) for each in elements])
    columns = [_column(element) for element in _tops(elements)]
    for group in _typed(found.get(_ROW_GROUPS, []), list):
        chunks = _typed(_typed(group, dict).get(_COLUMNS, []), list)
        if len(chunks) != len(owners):
            raise ValueError("the footer is damaged")
        for owner, chunk in zip(owners, chunks, strict=True):
            columns[owner].chunks.append(_chunk(_typed(chunk, dict)))
    has_keys = any(not chunk.is_plain for column in columns for chunk in column.chunks)
    schema = hashlib.sha256(repr(elements).encode()).hexdigest()
    return Footer(columns, _ENCRYPTION in found or has_keys, schema)


_T = TypeVar("_T")


def _typed(value: Any, kind: type[_T]) -> _T:
    """Return a value of the footer, if it has the type that its field has in parquet.thrift."""
    if not isinstance(value, kind):
        raise ValueError("the footer is damaged")
    return value


def _tops(elements: list[dict[int, Any]]) -> Iterator[dict[int, Any]]:
    """The elements of the schema that are columns of the table."""
    left = 0
    for element in elements[1:]:  # the first is the whole table
        if left == 0:
            yield element
            left = 1
        left += _typed(element.get(_CHILDREN, 0), int) - 1


def _column(element: Mapping[int, Any]) -> Column:
    """A column from its element of the schema."""
    name = _typed(element.get(_NAME, b""), bytes).decode(errors="replace")
    is_single = _typed(element.get(_CHILDREN, 0), int) == 0 and element.get(_REPETITION, 1) in (0, 1)
    physical = _typed(element.get(_TYPE_OF, -1), int) if is_single else -1
    return Column(name, physical, _meaning(element), [])


def _meaning(element: Mapping[int, Any]) -> str:
    """Return how the values of a column are to be read. The newer way to write it counts, if both are there."""
    if _LOGICAL in element:
        return _logical(_typed(element[_LOGICAL], dict))
    if _CONVERTED not in element:
        return ""
    kind = _CONVERTED_KINDS.get(_typed(element[_CONVERTED], int), _OTHER)
    return _decimal(element.get(_PRECISION), element.get(_SCALE, 0)) if kind == "decimal" else kind


def _logical(union: Mapping[int, Any]) -> str:
    if len(union) != 1:
        return _OTHER
    [(kind, inside)] = union.items()
    facts = _typed(inside, dict)
    if kind == _OF_DECIMAL:
        return _decimal(facts.get(2), facts.get(1, 0))
    if kind == _MOMENT:
        return next((_UNITS.get(unit, _OTHER) for unit in _typed(facts.get(2, {}), dict)), _OTHER)
    if kind == _WHOLE:
        return f"{'' if facts.get(2) is True else 'u'}int{facts.get(1)}"
    return _PLAIN_KINDS.get(kind, _OTHER)


def _decimal(precision: Any, scale: Any) -> str:
    return f"decimal({precision},{scale})"


def _chunk(found: Mapping[int, Any]) -> Chunk:
    """A chunk from its structure."""
    metadata = found.get(_METADATA)
    is_plain = metadata is not None and not any(field in found for field in (_CRYPTO, _ENCRYPTED, _ELSEWHERE))
    facts = _typed(metadata or {}, dict)
    encodings = tuple(_typed(each, int) for each in _typed(facts.get(_ENCODINGS, []), list))
    return Chunk(_typed(facts.get(_TYPE, -1), int), encodings, _typed(facts.get(_CODEC, -1), int), is_plain)


class _Thrift:
    """A reader of Thrift's compact protocol, from front to back."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def structure(self, wanted: _Wanted) -> dict[int, Any]:
        """The wanted fields of a structure."""
        found = {}
        for field, kind in self.fields():
            if field in wanted:
                found[field] = self.value(kind, wanted[field])
            else:
                self.skip(kind)
        return found

    def value(self, kind: int, wanted: _Wanted) -> Any:
        """A value of one type. Types that no wanted field has are skipped."""
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind == _BYTE:
            self.at += 1
            return self.data[self.at - 1]
        if kind in (_SHORT, _INT, _LONG):
            return self.integer()
        if kind == _BINARY:
            length = self.varint()
            self.at += length
            return self.data[self.at - length : self.at]
        if kind in (_LIST, _SET):
            size, element = self.list_header()
            kind = _BYTE if element in (_TRUE, _FALSE) else element
            return [self.value(kind, wanted) for _ in range(size)]
        if kind == _STRUCT:
            return self.structure(wanted)
        self.skip(kind)
        return None

    def fields(self) -> Iterator[tuple[int, int]]:
        """Number and type of each field of a structure; the caller reads or skips the value."""
        number = 0
        while True:
            header = self.data[self.at]
            self.at += 1
            if header == 0:
                return
            number = number + (header >> 4) if header >> 4 else self.integer()
            yield number, header & 15

    def list_header(self) -> tuple[int, int]:
        header = self.data[self.at]
        self.at += 1
        size = header >> 4
        return self.room_for(self.varint() if size == 15 else size), header & 15

    def room_for(self, size: int) -> int:
        """A number of elements, each of which has a byte at least: a damaged footer can name any number."""
        if size > len(self.data) - self.at:
            raise ValueError("the footer is damaged")
        return size

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > _WIDEST:
                raise ValueError("the footer is damaged")

    def integer(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def skip(self, kind: int) -> None:
        """Go behind a value."""
        if kind in _FIXED:
            self.at += _FIXED[kind]
        elif kind in (_SHORT, _INT, _LONG):
            self.varint()
        elif kind == _BINARY:
            length = self.varint()
            self.at += length
        elif kind in (_LIST, _SET):
            size, element = self.list_header()
            self.skip_all([element] * size)
        elif kind == _MAP:
            self.skip_map()
        elif kind == _STRUCT:
            for _, field in self.fields():
                self.skip(field)
        else:
            raise ValueError("an unknown type")

    def skip_map(self) -> None:
        size = self.room_for(self.varint())
        if size == 0:
            return
        kinds = self.data[self.at]
        self.at += 1
        self.skip_all([kinds >> 4, kinds & 15] * size)

    def skip_all(self, kinds: list[int]) -> None:
        """Go behind elements of a list. There a truth value is a byte."""
        for kind in kinds:
            self.skip(_BYTE if kind in (_TRUE, _FALSE) else kind)


def _owners(children: list[int]) -> list[int]:
    """The column of each leaf, from the number of parts of every element of the schema.

    >>> _owners([2, 1, 0, 0])
    [0, 1]
    """
    owners = []
    column, left = -1, 0
    for parts in children[1:]:  # the first is the whole table
        if left == 0:
            column += 1
            left = 1
        if parts == 0:
            owners.append(column)
        left += parts - 1
    return owners
